"""One ledger row as bytes and as a value: the codec and the chain (spec 10).

A line is one JSON object, ASCII (so that `cat` of a ledger can't drive a terminal and any cut or
flipped byte stays visible), keys in the order `seq, event, at, epoch, boot_ms, boot, mono_ms,
actor, prev, <fields of the event>, [spill,] schema`. `prev` is the SHA-256 of the previous line
without its newline; the first row's is 64 zeros. Reading is strict: what this module would not
write is damage.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from spike_mcp.core.clock import Reading
from spike_mcp.core.codes import Actor

GENESIS = "0" * 64
"""`prev` of the first row."""

SCHEMA = 1
"""Version of the rows that this code writes; a reader takes any, the schema only grows."""

MAX_ROW = 16 * 1024
"""Bytes a line with its newline stays below (spec 10)."""

SPILL = "spill"
RESERVED = frozenset(
    ("seq", "event", "at", "epoch", "boot_ms", "boot", "mono_ms", "actor", "prev", SPILL, "schema")
)

_DIGEST = re.compile("[0-9a-f]{64}")
_NO_SPILL: dict[str, str] = {}
_ACTORS = {actor.value: actor for actor in Actor}


class BadRow(ValueError):  # noqa: N818  (what it is, not what went wrong here)
    """Bytes that are no row in this place; the text says why."""


class Row(NamedTuple):
    """A row: the envelope, and the event's own `fields` as plain JSON values.

    A named tuple, for it is made a thousand times at each start and is twice as quick to make.

    `raw_sha256` is the SHA-256 of its line without the newline, the next row's `prev`.
    """

    seq: int
    event: str
    at: str
    epoch: float
    boot_ms: int
    boot: str
    mono_ms: int | None
    actor: Actor
    prev: str
    fields: dict[str, Any]
    schema: int
    raw_sha256: str

    @property
    def reading(self) -> Reading:
        """The clocks when the row was written."""
        return Reading(self.epoch, self.boot_ms, self.boot, self.mono_ms)


def encode(
    seq: int,
    event: str,
    at: str,
    reading: Reading,
    actor: Actor,
    prev: str,
    fields: Mapping[str, Any],
    spill: Mapping[str, str] | None = None,
) -> bytes:
    """The line of a row, without its newline. `ValueError` for what JSON or a row can't hold."""
    clash = RESERVED & fields.keys()
    if clash:
        raise ValueError(f"fields of {event!r} use reserved names: {sorted(clash)}")
    value: dict[str, Any] = {
        "seq": seq,
        "event": event,
        "at": at,
        "epoch": reading.epoch,
        "boot_ms": reading.boot_ms,
        "boot": reading.boot_id,
    }
    if reading.mono_ms is not None:
        value["mono_ms"] = reading.mono_ms
    value |= {"actor": actor.value, "prev": prev, **fields}
    if spill:
        value[SPILL] = dict(sorted(spill.items()))
    value["schema"] = SCHEMA
    return dump(value)


def fits(line: bytes) -> bool:
    """Whether a line (without its newline) is short enough for the ledger."""
    return len(line) + 1 < MAX_ROW


def dump(value: object) -> bytes:
    """Compact ASCII JSON; `ValueError` for NaN and infinities."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def decode(line: bytes, seq: int, prev: str) -> tuple[Row, dict[str, str]]:
    """The row that must stand at `seq` after the line with hash `prev`, and what it spilled.

    Raises `BadRow` for anything else.
    """
    if not fits(line):
        raise BadRow(f"the line has {len(line)} bytes")
    value = load(line)
    if type(value) is not dict:
        raise BadRow("not a JSON object")
    digest = hashlib.sha256(line).hexdigest()
    try:
        row, spill = _row(value, digest)
    except KeyError as missing:
        raise BadRow(f"no {missing.args[0]!r}") from None
    if row.seq != seq:
        raise BadRow(f"seq is {row.seq} where {seq} must follow")
    if row.prev != prev:
        raise BadRow("prev is not the hash of the row before: the chain is broken")
    return row, spill


def load(text: bytes) -> Any:
    """Strict JSON: UTF-8, no key twice, no NaN. Raises `BadRow`."""
    try:
        string = text.decode("utf-8")
        value, end = _DECODER.raw_decode(string)
    except RecursionError:
        raise BadRow("nested too deeply") from None
    except BadRow:
        raise
    except ValueError as error:
        raise BadRow(f"not strict JSON: {error}") from None
    if end != len(string):
        raise BadRow("more than one JSON value")
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadRow("a key stands twice")
    return value


def _constant(text: str) -> NoReturn:
    raise BadRow(f"{text} is no number")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadRow(f"{text} is out of range")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)


def _row(value: dict[str, Any], digest: str) -> tuple[Row, dict[str, str]]:
    take = value.pop
    seq, event, at = take("seq"), take("event"), take("at")
    epoch, boot_ms, boot = take("epoch"), take("boot_ms"), take("boot")
    mono_ms, actor, prev = take("mono_ms", None), take("actor"), take("prev")
    schema, spill = take("schema"), take(SPILL, _NO_SPILL)
    if not (
        type(seq) is int
        and type(schema) is int
        and schema >= SCHEMA
        and type(event) is type(at) is type(boot) is type(prev) is str
        and event
    ):
        raise BadRow("an envelope field has the wrong type")
    _check_clocks(epoch, boot_ms, mono_ms)
    if spill is not _NO_SPILL:
        _check_spill(spill, value)
    known = _ACTORS.get(actor) if type(actor) is str else None
    if known is None:
        raise BadRow("the actor is unknown")
    row = Row(
        seq, event, at, float(epoch), boot_ms, boot, mono_ms, known, prev, value, schema, digest
    )
    return row, spill


def _check_clocks(epoch: object, boot_ms: object, mono_ms: object) -> None:
    good = (
        (type(epoch) is float or type(epoch) is int)
        and type(boot_ms) is int
        and (mono_ms is None or type(mono_ms) is int)
    )
    if not good:
        raise BadRow("a clock is no number")


def _check_spill(spill: object, fields: Mapping[str, Any]) -> None:
    if type(spill) is not dict:
        raise BadRow("spill is no object")
    for name, digest in spill.items():
        # The digest becomes a file name in blobs/, so its form is checked here.
        good = type(digest) is str and _DIGEST.fullmatch(digest)
        if not good or name in fields or name in RESERVED:
            raise BadRow("spill names a field that is there, or no digest")
