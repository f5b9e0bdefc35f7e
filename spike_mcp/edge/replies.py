"""From a reply of the desk to what goes over the wire: one text, one machine copy (spec 6, 7).

The text has its outcome in the first line, then what the human said, then the rest, and ends with a
line on time. It stays below 8 KB, since clients cut or hide longer ones: the longest part gives way
in its middle. No path of judge/ or verdict/ passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spike_mcp.core.unsafe import visible

META_KEY = "spike-mcp/reply"
MAX_TEXT = 8_000
"""Bytes of a reply's text."""
MAX_NEWS = 600
"""Characters of one remark of the human."""
SHORTEST = 200
"""Bytes below which no part is cut."""
HIDDEN = "<judge>"

_EXACT = "spike_read_file"
_PRIVATE = frozenset({"root"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as the wire needs it. `seconds` = (left of the total, until writes close) or None.

    `code` is "" unless refused; `news` are the human's words, once each; `lines` is the text, its
    outcome first; `data` the machine copy's own keys.
    """

    outcome: str
    lines: tuple[str, ...]
    data: Mapping[str, Any]
    code: str = ""
    news: tuple[str, ...] = ()
    seconds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the client gets; `meta` is the value of `_meta`."""

    text: str
    meta: dict[str, Any]
    is_error: bool


def render(answer: Answer, tool: str = "", secrets: Sequence[str] = ()) -> Rendered:
    """The wire form. `secrets` are absolute paths that nobody may read in it."""
    meta = {
        "outcome": answer.outcome,
        "code": answer.code,
        "message": "",
        "hint": "",
        "remaining_seconds": _rounded(answer.seconds, 0),
        "writes_close_in_seconds": _rounded(answer.seconds, 1),
        **{key: value for key, value in answer.data.items() if key not in _PRIVATE},
    }
    if answer.news:
        meta["feedback"] = list(answer.news)
    text = _text(answer, tool)
    return Rendered(
        _without(text, secrets),
        {META_KEY: _plain(meta, secrets)},
        answer.outcome == "refused",
    )


def _text(answer: Answer, tool: str) -> str:
    shown = list(answer.lines) if tool == _EXACT else [visible(line) for line in answer.lines]
    news = [_remark(item) for item in answer.news]
    parts = [*shown[:1], *news, *shown[1:]]
    if answer.seconds is not None:
        parts.append(time_line(*answer.seconds))
    return "\n".join(fit(parts, MAX_TEXT))


def _remark(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= MAX_NEWS else f"{shown[:MAX_NEWS]}... ({len(text)} characters)"


def fit(parts: Sequence[str], limit: int) -> list[str]:
    """The parts with the longest ones cut in their middle until they fit `limit` bytes in all."""
    found = list(parts)
    sizes = [len(part.encode("utf-8", "replace")) for part in found]
    over = sum(sizes) + len(found) - 1 - limit
    while over > 0:
        longest = max(range(len(found)), key=sizes.__getitem__)
        if sizes[longest] <= SHORTEST:
            break
        keep = max(SHORTEST, sizes[longest] - over - 80)
        found[longest] = _cut(found[longest], keep)
        size = len(found[longest].encode("utf-8", "replace"))
        over -= sizes[longest] - size
        if size >= sizes[longest]:
            break
        sizes[longest] = size
    return found


def _cut(text: str, keep: int) -> str:
    raw = text.encode("utf-8", "replace")
    head, tail = keep // 3, keep - keep // 3
    start = raw[:head].decode("utf-8", "ignore")
    end = raw[-tail:].decode("utf-8", "ignore")
    left_out = len(raw) - len(start.encode()) - len(end.encode())
    return f"{start}\n[... {left_out} bytes left out for want of room ...]\n{end}"


def time_line(remaining: float, writes: float) -> str:
    """The last line of every reply."""
    left = f"time left: {_minutes(remaining)}" if remaining > 0 else "time left: none"
    close = f"writes close in {_minutes(writes)}" if writes > 0 else "writes are closed"
    return f"{left}; {close}"


def _minutes(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60} min {whole % 60:02d} s"


def _rounded(seconds: tuple[float, float] | None, which: int) -> float | None:
    return None if seconds is None else round(seconds[which], 3)


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def _plain(meta: dict[str, Any], secrets: Sequence[str]) -> Any:
    """The machine copy without the secrets; looked at piece by piece only if it holds one."""
    written = repr(meta)
    if any(secret in written or repr(secret)[1:-1] in written for secret in secrets):
        return _scrubbed(meta, secrets)
    return meta


def _scrubbed(value: Any, secrets: Sequence[str]) -> Any:
    """The same value without the secrets; asks for concrete types, since it sees every reply."""
    if isinstance(value, str):
        return _without(value, secrets)
    if isinstance(value, dict):
        return {_without(str(key), secrets): _scrubbed(value[key], secrets) for key in value}
    if isinstance(value, list | tuple):
        return [_scrubbed(item, secrets) for item in value]
    return value
