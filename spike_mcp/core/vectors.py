"""Hidden vectors: calls made inside the sandbox, values compared outside it (spec 4, judge.md).

A file is TOML:

    path = ["src"]                        # import roots below the tree, optional

    [[vector]]
    call = "invoice:round_money"          # module:attribute[.attribute]
    args = [{ decimal = "2.675" }]
    expect = { decimal = "2.68" }         # or: raises = "ValueError"

A table with exactly one of these keys is a typed value: decimal, fraction, int, float, bytes (hex),
none, tuple, set, frozenset, dict, path, ref; `{ call = ..., args = [...] }` is what a call gives,
`{ object = "Point", fields = {...} }` (only expected) an instance by its fields. Any other table is
a dict with string keys. `let = [{ name = "s", call = ... }]` makes objects first; `call = "$s.add"`
and `{ ref = "s" }` use them. Types must agree exactly (1 is not true, a str subclass is no str),
values as `==` has it (0.0 is -0.0, Decimal("1.00") is Decimal("1"): an honest fix may give either);
`tolerance` allows floats to differ.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from spike_mcp.core.codes import Problem, Usage

_KEYS = frozenset(
    {"call", "args", "kwargs", "expect", "raises", "message", "tolerance", "let", "name"}
)
_CALL = re.compile(r"(\$[A-Za-z_]\w*|[A-Za-z_][\w.]*:[A-Za-z_]\w*)(\.[A-Za-z_]\w*)*$")
_MOST = 10_000
_LONGEST_NUMBER = 10_000
Encoded = list[Any]  # [tag, ...], plain JSON; host/evidence/inside/vectors_run.py is the other half


@dataclass(frozen=True, slots=True)
class Vector:
    """One call and what it must give. `expect` is encoded; None if `raises` is set."""

    name: str
    job: Mapping[str, Any]
    expect: Encoded | None
    raises: str
    message: str
    tolerance: float


@dataclass(frozen=True, slots=True)
class VectorSet:
    """A parsed file: import roots and vectors."""

    path: tuple[str, ...]
    vectors: tuple[Vector, ...]


def parse(text: str) -> VectorSet:
    """Read a vectors file. Problem(INVALID_CONTRACT) names the vector and the key."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid("the vectors file is no TOML", str(error)) from error
    rows, path = raw.get("vector"), raw.get("path", [])
    if set(raw) - {"vector", "path"} or not isinstance(rows, list) or not rows:
        raise _invalid("a vectors file holds [[vector]] tables and an optional path")
    if not isinstance(path, list) or not all(_inner(item) for item in path):
        raise _invalid("path lists directories below the tree")
    if len(rows) > _MOST:
        raise _invalid(f"a vectors file holds at most {_MOST} vectors")
    vectors = tuple(_vector(index, row) for index, row in enumerate(rows))
    return VectorSet(tuple(path), vectors)


def _invalid(message: str, hint: str = "") -> Problem:
    return Problem(Usage.INVALID_CONTRACT, message, hint)


def _inner(item: object) -> bool:
    return isinstance(item, str) and not item.startswith("/") and ".." not in item.split("/")


def _vector(index: int, row: object) -> Vector:
    label = f"vector {index + 1}"
    if not isinstance(row, dict) or set(row) - _KEYS:
        raise _invalid(f"{label} has an unknown key", f"known: {', '.join(sorted(_KEYS))}")
    if ("expect" in row) == ("raises" in row):
        raise _invalid(f"{label} needs either expect or raises")
    try:
        lets = [[_word(let, "name"), _call(let)] for let in row.get("let", [])]
        job = {**_call(row), "lets": lets, "index": index}
        expect = encode(row["expect"]) if "expect" in row else None
        return Vector(
            name=str(row.get("name", f"{label}: {row['call']}")),
            job=job,
            expect=expect,
            raises=_word(row, "raises") if "raises" in row else "",
            message=_word(row, "message") if "message" in row else "",
            tolerance=float(row.get("tolerance", 0.0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _invalid(f"{label} can't be read: {error}") from error


def _word(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} must be a text")
    return value


def _call(row: Mapping[str, Any]) -> dict[str, Any]:
    call = _word(row, "call")
    if not _CALL.match(call):
        raise ValueError(f"call {call!r} is not module:function or $name.method")
    args, kwargs = row.get("args", []), row.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ValueError("args is a list and kwargs a table")
    return {
        "call": call,
        "args": [encode(item) for item in args],
        "kwargs": [[name, encode(item)] for name, item in kwargs.items()],
    }


def encode(value: object) -> Encoded:
    """A TOML value as the encoded value that the same Python value gives inside."""
    if isinstance(value, dict):
        return _encode_table(value)
    if isinstance(value, list):
        return ["l", [encode(item) for item in value]]
    if isinstance(value, bool):
        return ["b", value]
    if isinstance(value, int):
        return ["i", hex(value)]
    if isinstance(value, float):
        return ["f", value.hex()]
    if isinstance(value, str):
        return ["s", value]
    if isinstance(value, datetime):
        return ["dt", value.isoformat()]
    if isinstance(value, date):
        return ["da", value.isoformat()]
    if isinstance(value, time):
        return ["ti", value.isoformat()]
    raise ValueError(f"no way to write {value!r}")


def _encode_table(table: Mapping[str, Any]) -> Encoded:
    keys = set(table)
    if "call" in keys and keys <= {"call", "args", "kwargs"}:
        return ["x", _call(table)]
    if "object" in keys and keys <= {"object", "fields"}:
        rows = [[name, encode(item)] for name, item in table.get("fields", {}).items()]
        return ["o", [_word(table, "object"), rows]]
    if len(keys) == 1 and (key := next(iter(keys))) in _TYPED:
        made: Encoded = _TYPED[key](table[key])
        return made
    return _dict(table)


def _dict(value: object) -> Encoded:
    if isinstance(value, dict):
        return ["d", [[["s", key], encode(item)] for key, item in value.items()]]
    if isinstance(value, list):
        return ["d", [[encode(key), encode(item)] for key, item in value]]
    raise ValueError("dict is a table or a list of pairs")


def _items(value: object) -> list[Encoded]:
    if not isinstance(value, list):
        raise ValueError("a list was due")
    return [encode(item) for item in value]


_TYPED: Mapping[str, Any] = {
    "decimal": lambda value: ["D", str(value)],
    "fraction": lambda value: ["F", str(value)],
    "int": lambda value: ["i", hex(int(value))],
    "float": lambda value: ["f", float(value).hex()],
    "bytes": lambda value: ["y", bytes.fromhex(value).hex()],
    "none": lambda _: ["n"],
    "tuple": lambda value: ["t", _items(value)],
    "set": lambda value: ["e", _items(value)],
    "frozenset": lambda value: ["fe", _items(value)],
    "dict": _dict,
    "path": lambda value: ["p", str(value)],
    "ref": lambda value: ["r", str(value)],
}


def same(want: Encoded, got: object, tolerance: float = 0.0) -> bool:
    """Do two encoded values agree? Sets and dicts without order, floats within `tolerance`."""
    if not isinstance(got, list) or not got or got[0] != want[0]:
        return False
    tag = want[0]
    if tag == "n":
        return True
    if len(got) != 2 or type(got[1]) is not type(want[1]):
        return False
    if tag == "f":
        return _same_float(want[1], got[1], tolerance)
    if tag == "D":
        return _same_decimal(want[1], got[1])
    if tag in ("l", "t"):
        return _same_row(want[1], got[1], tolerance)
    if tag in ("e", "fe"):
        return _same_bag(want[1], got[1], tolerance)
    if tag == "d":
        return _same_bag([["t", row] for row in want[1]], [["t", row] for row in got[1]], tolerance)
    if tag == "o":
        return _same_object(want[1], got[1], tolerance)
    return bool(want[1] == got[1])


def _same_float(want: str, got: str, tolerance: float) -> bool:
    try:
        left, right = float.fromhex(want), float.fromhex(got)
    except ValueError:
        return False
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    if tolerance and math.isfinite(left) and math.isfinite(right):
        return abs(left - right) <= tolerance
    return left == right


def _same_decimal(want: str, got: str) -> bool:
    if want == got:
        return True
    try:
        return len(got) <= _LONGEST_NUMBER and Decimal(want) == Decimal(got)
    except ArithmeticError:  # no number, or a signalling NaN
        return False


def _same_row(want: Sequence[Encoded], got: Sequence[object], tolerance: float) -> bool:
    pairs = zip(want, got, strict=False)
    return len(want) == len(got) and all(same(left, right, tolerance) for left, right in pairs)


def _same_bag(want: Sequence[Encoded], got: Sequence[object], tolerance: float) -> bool:
    left = list(got)
    for item in want:
        at = next((n for n, other in enumerate(left) if same(item, other, tolerance)), None)
        if at is None:
            return False
        del left[at]
    return not left


def _same_object(want: list[Any], got: list[Any], tolerance: float) -> bool:
    if len(got) != 2 or got[0] != want[0] or not isinstance(got[1], list):
        return False
    fields = {row[0]: row[1] for row in got[1] if isinstance(row, list) and len(row) == 2}
    return len(fields) == len(want[1]) and all(
        name in fields and same(item, fields[name], tolerance) for name, item in want[1]
    )


def why_not(vector: Vector, answer: Mapping[str, Any] | None) -> str:
    """'' if the vector holds, else what went wrong (no expected value in it)."""
    if answer is None:
        return "no answer"
    raised = answer.get("raised")
    if vector.expect is not None:
        if raised is not None:
            return f"raised {_first(raised)}"
        good = same(vector.expect, answer.get("value"), vector.tolerance)
        return "" if good else "another value"
    if not isinstance(raised, list):
        return "did not raise"
    names = {str(kind) for kind in raised} | {str(kind).rpartition(".")[2] for kind in raised}
    if vector.raises not in names:
        return f"raised {_first(raised)}"
    return "" if vector.message in str(answer.get("text", "")) else "raised with another message"


def _first(raised: object) -> str:
    return str(raised[0])[:100] if isinstance(raised, list) and raised else "something"
