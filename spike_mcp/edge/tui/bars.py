"""The fixed lines around the hunk: hypothesis, title, clock and counts, checkpoints, keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from spike_mcp.core import tags
from spike_mcp.edge.desk import Sealed, Snapshot
from spike_mcp.edge.present import (
    KIND_WORDS,
    Glyphs,
    bar,
    checkpoint_word,
    clock,
    lines_text,
    minutes,
)
from spike_mcp.edge.text import safe_line
from spike_mcp.edge.tui.keys import KEYS
from spike_mcp.edge.tui.model import Entry, Review
from spike_mcp.edge.tui.paint import (
    Line,
    Piece,
    clip,
    columns,
    fit_path,
    width_of,
    wrap,
)
from spike_mcp.session.view import MapHunk

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_LOW_MINUTES = 5
WIDE = 90
"""Columns from which words are said in full."""


def hypothesis_lines(sealed: Sealed, width: int, limit: int, glyphs: Glyphs) -> list[Line]:
    """The sentence with its tag tokens underlined, on at most `limit` lines."""
    text = sealed.hypothesis
    within = len(sealed.subject) if text.startswith(sealed.subject) else len(text)
    line: Line = [(" HYPOTHESIS ", "title")]
    line += token_pieces(text[:within], sealed.tokens)
    line.append((safe_line(text[within:], 4000), "dim"))
    lines = wrap(line, width - 1, 12)
    if len(lines) > limit:
        lines = [*lines[: limit - 1], [*clip(lines[limit - 1], width - 2), (glyphs.more, "dim")]]
    return lines


def token_pieces(text: str, tokens: Iterable[str]) -> list[Piece]:
    """`text` with each word that is a tag token set apart."""
    stems = {tags.stem(token) for token in tokens}
    out: list[Piece] = []
    at = 0
    for match in _WORD.finditer(text):
        words = tags.words(match.group())
        if any(tags.stem(word) in stems for word in words):
            out += [(safe_line(text[at : match.start()], 4000), ""), (match.group(), "token")]
            at = match.end()
    out.append((safe_line(text[at:], 4000), ""))
    return [piece for piece in out if piece[0]]


def title_line(review: Review, shown: Sequence[MapHunk], width: int, glyphs: Glyphs) -> Line:
    """id, path, patch, state of what is shown; its place among the shown entries at the right."""
    entry = review.current
    if entry is None and not shown:
        return [(" nothing to review", "dim")]
    place = f"{review.position + 1}/{len(review.shown)} "
    room = width - len(place) - 1
    if len(shown) > 1:
        names = " ".join(each.short for each in shown)
        line: Line = [(f" {len(shown)} hunks  ", "strong"), (names, "title")]
    elif shown:
        line = _hunk_title(shown[0], room, glyphs)
    else:
        line = _entry_title(entry, room, glyphs)
    line = clip(line, room)
    gap = width - width_of(line) - len(place)
    return [*line, (" " * gap, ""), (place, "dim")]


def _hunk_title(each: MapHunk, width: int, glyphs: Glyphs) -> Line:
    kind = KIND_WORDS[each.hunk.kind]
    rest: Line = [
        (f"  {glyphs.of(each.state)} {each.state}", each.state),
        (f"  {'+'.join(each.patches[-4:])}", "dim"),
        (f"  {kind}" if kind else "", "alarm"),
        (f"  +{each.added} -{each.removed}", "dim"),
    ]
    return _titled(each.short, each.path, rest, width, glyphs)


def _entry_title(entry: Entry | None, width: int, glyphs: Glyphs) -> Line:
    if entry is None:
        return []
    style = "outside" if entry.state == "out of band" else entry.state
    rest: Line = [(f"  {glyphs.of(entry.state)} {entry.state}", style)]
    return _titled(entry.short, entry.path, rest, width, glyphs)


def _titled(short: str, path: str, rest: Line, width: int, glyphs: Glyphs) -> Line:
    lead: Line = [(" ", ""), (short, "strong"), ("  " if short else "", "")]
    # The state is said whatever else has to go.
    while len(rest) > 1 and width - width_of(lead) - width_of(rest) < 16:
        rest = rest[:-1]
    room = width - width_of(lead) - width_of(rest)
    shown = fit_path(safe_line(path, 400), max(room, 8), glyphs.more)
    return [*lead, (shown, "title"), *rest]


def status_lines(
    sealed: Sealed, snapshot: Snapshot, width: int, glyphs: Glyphs, *, checkpoints: bool
) -> list[Line]:
    """Time, counts and lines; then the four checkpoints where there is room for them."""
    wide = width >= WIDE
    parts = [*_clock_parts(snapshot, width, glyphs), *_counts(snapshot, wide=wide)]
    size = _size(sealed, snapshot, wide=wide)
    parts.insert(-1, size)
    lines = [[(" ", ""), *columns(parts, width - 2, 2)]]
    if checkpoints:
        room = (width - 6) // 4
        parts = [_checkpoint(name, snapshot, room, glyphs) for name in snapshot.status.checkpoints]
        lines.append([(" ", ""), *columns(parts, width - 1, 2 if width >= 90 else 1)])
    return lines


def _clock_parts(snapshot: Snapshot, width: int, glyphs: Glyphs) -> list[Line]:
    now = snapshot.status
    if now.phase == "closed":
        return [[("closed: ", "dim"), (safe_line(now.verdict or "killed", 80), "strong")]]
    if now.phase == "created":
        return [[("not started", "strong")]]
    low = now.remaining < _LOW_MINUTES * 60
    total: Line = [(f"{clock(now.remaining)} left", "alarm" if low else "strong")]
    if width >= 100:
        used = bar(now.elapsed, now.total_minutes * 60, 10, glyphs)
        total += [(f" of {minutes(now.total_minutes)} ", "dim"), (used, "bar-full")]
    if now.writes_close_in <= 0:
        writes: Line = [("writes closed", "dim")]
    else:
        soon = now.writes_close_in < _LOW_MINUTES * 60
        word = "writes stop in" if width >= 90 else "writes"
        writes = [(f"{word} ", "dim"), (clock(now.writes_close_in), "alarm" if soon else "strong")]
    return [total, writes]


def _counts(snapshot: Snapshot, *, wide: bool) -> list[Line]:
    now = snapshot.status
    parts: list[Line] = [
        [(f"{now.pending} pending", "pending" if now.pending else "dim")],
        [(f"{now.approved} approved", "approved" if now.approved else "dim")],
        [(f"{snapshot.rejected} {'rejected' if wide else 'rej'}", "dim")],
    ]
    if now.withdrawn:
        parts.insert(0, [(f"{now.withdrawn} withdrawn", "withdrawn")])
    if snapshot.outside:
        parts.insert(0, [(f"{len(snapshot.outside)} out of band", "outside")])
    return parts


def _size(sealed: Sealed, snapshot: Snapshot, *, wide: bool) -> Line:
    lines, limit = snapshot.map.lines, sealed.max_lines
    text = lines_text(lines, limit) if wide else f"{lines}/{limit}"
    if lines >= limit:
        return [(f"{text}{':' if wide else ''} PARK", "alarm")]
    return [(text if wide else f"{text} lines", "")]


def _checkpoint(name: str, snapshot: Snapshot, room: int, glyphs: Glyphs) -> Line:
    value = snapshot.status.checkpoints[name]
    used, allowed = value["used_minutes"], value["allowed_minutes"]
    word = checkpoint_word(name, value, snapshot.status.checkpoint)
    style = {"over": "alarm", "now": "strong", "met": "good", "not met": "alarm"}.get(word, "dim")
    numbers = f"{minutes(used)}/{minutes(allowed)}"
    line: Line = [(name, "strong" if word == "now" else ""), (" ", "")]
    size = min(8, room - len(name) - len(numbers) - len(word) - 4)
    if size >= 3:
        filled = "bar-over" if word == "over" else "bar-full"
        line += [(bar(used, allowed, size, glyphs), filled), (" ", "")]
    return [*line, (numbers, "dim"), (f" {word}" if word else "", style)]


def key_line(width: int) -> Line:
    """The keys that fit, the most needed first; `?` always."""
    wanted = [entry for entry in KEYS if entry.brief]
    last = [entry for entry in wanted if entry.action in ("help", "quit")]
    first = [entry for entry in wanted if entry not in last]
    ends = _key_parts(last)
    room = width - 3 - width_of(columns(ends, width, 2))
    return [(" ", ""), *columns(_key_parts(first), room, 2), ("  ", ""), *columns(ends, width, 2)]


def _key_parts(entries: Iterable[object]) -> list[Line]:
    wanted = set(map(id, entries))
    return [
        [(entry.shown, "key"), (f" {entry.brief}", "dim")] for entry in KEYS if id(entry) in wanted
    ]
