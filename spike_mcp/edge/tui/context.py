"""More lines around a hunk, as far as the next hunk of the file or its end."""

from __future__ import annotations

from collections.abc import Sequence

from spike_mcp.core.codes import ChangeKind
from spike_mcp.core.hunks import Hunk, ViewLine
from spike_mcp.session.view import HunkMap, MapHunk

Around = tuple[tuple[ViewLine, ...], tuple[ViewLine, ...]]


def around(
    each: MapHunk, current: HunkMap, base: Sequence[bytes], work: Sequence[bytes], count: int
) -> Around:
    """Up to `count` more unchanged lines above and below what the hunk shows."""
    if each.hunk.kind is not ChangeKind.MODIFY:
        return (), ()
    others = [h.hunk for h in current.hunks if h.path == each.path and h.id != each.id]
    top, bottom = _span(each.hunk)
    floor = max((_span(h)[1] for h in others if _span(h)[1] <= top), default=0)
    ceiling = min((_span(h)[0] for h in others if _span(h)[0] >= bottom), default=len(base))
    shift = each.hunk.new_start - each.hunk.old_start
    below = shift + each.hunk.new_lines - each.hunk.old_lines
    return (
        _lines(base, work, range(max(floor, top - count), top), shift),
        _lines(base, work, range(bottom, min(ceiling, bottom + count)), below),
    )


def _span(hunk: Hunk) -> tuple[int, int]:
    """The baseline lines that the hunk shows, 0-based, the end excluded."""
    start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
    return start, start + hunk.old_lines


def _lines(
    base: Sequence[bytes], work: Sequence[bytes], places: range, shift: int
) -> tuple[ViewLine, ...]:
    """Lines at these baseline indices that are the same in both files."""
    return tuple(
        ViewLine(" ", base[index], index + 1, index + shift + 1, None)
        for index in places
        if 0 <= index + shift < len(work) and work[index + shift] == base[index]
    )
