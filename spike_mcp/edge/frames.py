"""One line of the wire -> one message, or the protocol's own answer (spec 6 and 7; pure).

The SDK drops a line that it can't read, so its sender waits for ever; here every line that asks
for something gets an answer, with the line's id wherever that can be made out.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

MAX_DEPTH = 64
"""Nesting of one message; the protocol needs about ten."""
MAX_ID = 1024
"""Characters of a string id."""
MAX_BATCH_ANSWERS = 64
"""Answers to one array of requests (batches left the protocol in 2025-06-18)."""
EDGE = 4096
"""Bytes kept from either end of a line that is too long to keep."""

Id = str | int | float | None


@dataclass(frozen=True, slots=True)
class BadFrame:
    """A line that is no message: the JSON-RPC error and the ids it answers (`None` = unknown)."""

    code: int
    message: str
    ids: tuple[Id, ...] = (None,)

    def lines(self) -> bytes:
        """Return the answers as lines of the wire."""
        error = {"code": self.code, "message": self.message}
        answers = ({"jsonrpc": "2.0", "id": each, "error": error} for each in self.ids)
        return b"".join(json.dumps(answer).encode() + b"\n" for answer in answers)


@dataclass(frozen=True, slots=True)
class Oversized:
    """What is left of a line longer than the limit: its ends, up to `EDGE` bytes each."""

    head: bytes
    tail: bytes


class LineSplitter:
    """Cuts a byte stream at `\\n`; a line above `max_line` bytes is skipped, not collected."""

    def __init__(self, max_line: int) -> None:
        self._max = max_line
        self._line = bytearray()
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes | Oversized]:
        """Yield the lines that `chunk` completes, without their newline."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._take(piece)
            yield self._end()
        self._take(rest)

    def close(self) -> Iterator[bytes | Oversized]:
        """Yield a last line that had no newline."""
        if self._line or self._head is not None:
            yield self._end()

    def _take(self, piece: bytes) -> None:
        self._line += piece
        if self._head is not None:
            self._head += piece[: EDGE - len(self._head)]
        elif len(self._line) > self._max:
            self._head = bytes(self._line[:EDGE])
        if self._head is not None:
            del self._line[:-EDGE]

    def _end(self) -> bytes | Oversized:
        line, head = bytes(self._line), self._head
        self._line.clear()
        self._head = None
        return line if head is None else Oversized(head, line)


def parse(line: bytes | Oversized, max_line: int) -> JSONRPCMessage | BadFrame | None:
    """Read one line; `None` for what neither asks nor tells (a blank line, a broken response)."""
    if isinstance(line, Oversized):
        message = f"line longer than {max_line} bytes"
        return BadFrame(INVALID_REQUEST, message, (_guess_id(line.head, line.tail),))
    if not line.strip():
        return None
    try:
        value = _decode(line)
    except _UnreadableError as problem:
        return BadFrame(PARSE_ERROR, str(problem), (_guess_id(line[:EDGE], line[-EDGE:]),))
    return _message(value)


def encode(message: JSONRPCMessage) -> bytes:
    """Write one message as a line; never fails on a lone surrogate, never leaks an exception.

    The separators that some line readers also split on are escaped.
    """
    if isinstance(message, JSONRPCError) and message.error.code == 0:
        # The SDK's handshake era sends the text of an unplanned exception with code 0.
        hidden = ErrorData(code=INTERNAL_ERROR, message="internal error")
        message = JSONRPCError(jsonrpc="2.0", id=message.id, error=hidden)
    try:
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:  # pydantic's serialization error for text that is no Unicode
        plain = message.model_dump(by_alias=True, exclude_unset=True)
        line = json.dumps(plain, ensure_ascii=False, allow_nan=False).encode(errors="replace")
    for raw, escaped in _SEPARATORS:
        if raw in line:
            line = line.replace(raw, escaped)
    return line + b"\n"


_SEPARATORS = tuple((c.encode(), f"\\u{ord(c):04x}".encode()) for c in "\u0085\u2028\u2029")


class _UnreadableError(ValueError):
    """The line is no JSON text; the message says why."""


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _UnreadableError("number out of range")
    return number


def _no_constant(text: str) -> float:
    raise _UnreadableError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _decode(line: bytes) -> Any:
    try:
        value = _DECODER.decode(line.decode("utf-8"))
        if _SURROGATE.search(line):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError:
        raise _UnreadableError("not UTF-8") from None
    except UnicodeEncodeError:
        raise _UnreadableError("a lone surrogate is not a character") from None
    except json.JSONDecodeError as error:
        raise _UnreadableError(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _UnreadableError("nested too deeply") from None
    except _UnreadableError:
        raise
    except ValueError:  # an integer of thousands of digits
        raise _UnreadableError("number out of range") from None
    return value


def _message(value: Any) -> JSONRPCMessage | BadFrame | None:
    if isinstance(value, list):
        ids = tuple(_echo(each["id"]) for each in value if isinstance(each, dict) and "id" in each)
        text = "an array of messages is not supported, send one a line"
        return BadFrame(INVALID_REQUEST, text, ids[:MAX_BATCH_ANSWERS] or (None,))
    if not isinstance(value, dict):
        return BadFrame(INVALID_REQUEST, "a message is an object")
    if "method" not in value and ("result" in value or "error" in value):
        return _response(value)
    return _request(value)


def _request(value: dict[str, Any]) -> JSONRPCMessage | BadFrame:
    # Looking at the keys first matters: read as a model, a request whose id has the wrong type
    # becomes a notification and is never answered.
    ids = (_echo(value.get("id")),)
    if value.get("jsonrpc") != "2.0":
        return BadFrame(INVALID_REQUEST, 'jsonrpc must be "2.0"', ids)
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str):
        return BadFrame(INVALID_REQUEST, "method must be a string", ids)
    if params is not None and not isinstance(params, dict):
        return BadFrame(INVALID_PARAMS, "params must be an object", ids)
    if _too_deep(value):
        return BadFrame(INVALID_REQUEST, f"nested deeper than {MAX_DEPTH}", ids)
    if "id" not in value:
        return JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
    if not _is_id(value["id"]):
        return BadFrame(INVALID_REQUEST, "id must be a string or an integer", ids)
    return JSONRPCRequest(jsonrpc="2.0", id=value["id"], method=method, params=params)


def _response(value: dict[str, Any]) -> JSONRPCMessage | None:
    """Read an answer of the client; a broken one is dropped, for answers are never answered."""
    try:
        model = JSONRPCResponse if "result" in value else JSONRPCError
        return model.model_validate(value)
    except ValueError:
        return None


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _echo(value: object) -> Id:
    """Return what an answer may carry as id: a string or number as sent, else nothing."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return value if not isinstance(value, str) or len(value) <= MAX_ID else None


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterator[Any]:
    inside = value.values() if isinstance(value, dict) else value
    return (child for child in inside if isinstance(child, dict | list))


_VALUE = rb'(-?[0-9]{1,18}|"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]){0,256}")'
# The first members of the outermost object, when they are the ones that may stand before `id`.
_ID_FIRST = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*|"method"\s*:\s*"[\w/.$-]*"\s*,\s*)*"id"\s*:\s*'
    + _VALUE
    + rb"\s*[,}]"
)
# The last member: what the line's last brace closes is the outermost object, and inside a string
# the quote before `id` would have a backslash.
_ID_LAST = re.compile(rb'(?<!\\)"id"\s*:\s*' + _VALUE + rb"\s*\}\s*\Z")


def _guess_id(head: bytes, tail: bytes) -> Id:
    """Find the id of a line that can't be parsed, where its place leaves no doubt."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None:
        return None
    try:
        return _echo(json.loads(found[1]))
    except ValueError:
        return None
