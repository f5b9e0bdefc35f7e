"""What changed, on bytes: regions, their identity, and putting them together again (spec 9).

A *region* is one contiguous run of removed and added lines. It is the unit of approval, and its key
digests exactly what a human is shown of it: path, kind, place in the baseline, removed and added
bytes. `core.hunks` is the door to this module and adds the view that people look at.

Lines end at `\\n` only. The differ (libgit2's xdiff) says nothing but line numbers; every byte is
cut from the two inputs here, so a view, a key and `compose` can't disagree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from spike_mcp.core.codes import ChangeKind

CONTEXT = 3
"""Unchanged lines shown on each side of a change, as in git's default."""

JOIN_GAP = 2 * CONTEXT
"""Regions with at most this many unchanged lines between them share a hunk."""

MAX_REGIONS = 2000
"""Most regions that one file may have (spec 9)."""


class TooManyRegions(Exception):  # noqa: N818  (an answer: the caller refuses with `too_large`)
    """A file's diff falls into more regions than the limit allows."""

    def __init__(self, path: str, count: int, limit: int) -> None:
        super().__init__(f"{path} falls into {count} changed regions, the limit is {limit}")
        self.path = path
        self.count = count
        self.limit = limit


class RegionsConflict(ValueError):  # noqa: N818  (named for what it says)
    """Regions that can't be put on this baseline together: they overlap, touch or don't fit."""


def path_bytes(path: str) -> bytes:
    """The bytes of a path whose non-UTF-8 bytes are held as surrogate escapes."""
    return path.encode("utf-8", "surrogateescape")


def split_lines(data: bytes) -> list[bytes]:
    """Cut `data` after each `\\n`, endings kept; the last line may lack one."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    if last:
        lines.append(last)
    return lines


def count_lines(data: bytes) -> int:
    """Number of lines in `data`; an unfinished last line counts."""
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)


def digest(*parts: bytes | str | int) -> str:
    """SHA-256 (64 hex digits) over the parts, each written as decimal length, `:`, bytes.

    The length prefix keeps `("ab", "c")` and `("a", "bc")` apart. Numbers are decimal text.
    """
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else path_bytes(str(part))
        total.update(b"%d:" % len(data))
        total.update(data)
    return total.hexdigest()


@dataclass(frozen=True)  # without slots: the key is worked out once
class Region:
    """One run of changed lines between baseline and worktree.

    `old_start` is the 0-based index of its first baseline line (the gap, for an insertion);
    `new_start` the same in the worktree file. `removed` and `added` hold whole lines, endings
    included. For `create` and `delete` there is one region and it is the whole file, empty or not.
    """

    path: str
    kind: ChangeKind
    old_start: int
    old_count: int
    new_start: int
    removed: bytes
    added: bytes

    @cached_property
    def key(self) -> str:
        """The identity that approvals hang on, 64 hex digits; `new_start` is no part of it."""
        return digest(
            "spike-hunk-1",
            self.kind.value,
            self.path,
            self.old_start,
            self.old_count,
            self.removed,
            self.added,
        )

    @property
    def removed_count(self) -> int:
        """Lines removed."""
        return self.old_count

    @property
    def added_count(self) -> int:
        """Lines added."""
        return count_lines(self.added)

    @property
    def lines_changed(self) -> int:
        """Lines removed plus lines added, the measure of the contract's `max_lines`."""
        return self.removed_count + self.added_count


@dataclass(frozen=True, slots=True)
class Span:
    """What the ledger keeps of a region: enough to group regions into hunks without any file."""

    key: str
    old_start: int
    old_count: int
    new_count: int


def diff(
    path: str, base: bytes | None, work: bytes | None, limit: int = MAX_REGIONS
) -> tuple[Region, ...]:
    """Regions that turn `base` into `work`, in order; None stands for an absent file.

    Whole files go to the differ: cutting off a common start or end first is what makes
    `git diff -U0` cut elsewhere than the -U3 view. Raises `TooManyRegions` above `limit`.
    """
    if base == work:
        return ()
    if base is None or work is None:
        kind = ChangeKind.CREATE if base is None else ChangeKind.DELETE
        return (_whole(path, kind, base or b"", work or b""),)
    if not base or not work:
        return (_whole(path, ChangeKind.MODIFY, base, work),)
    cuts = _cuts(base, work)
    if len(cuts) > limit:
        raise TooManyRegions(path, len(cuts), limit)
    old, new = split_lines(base), split_lines(work)
    return tuple(
        Region(
            path=path,
            kind=ChangeKind.MODIFY,
            old_start=old_from,
            old_count=old_to - old_from,
            new_start=new_from,
            removed=b"".join(old[old_from:old_to]),
            added=b"".join(new[new_from:new_to]),
        )
        for old_from, old_to, new_from, new_to in cuts
    )


def _whole(path: str, kind: ChangeKind, removed: bytes, added: bytes) -> Region:
    return Region(path, kind, 0, count_lines(removed), 0, removed, added)


def _cuts(base: bytes, work: bytes) -> list[tuple[int, int, int, int]]:
    """Changed line ranges `(old_from, old_to, new_from, new_to)`, 0-based and half open.

    Force-text: one NUL byte must not hide a file. Indent heuristic: git's default. pygit2 is
    imported here because loading it costs more than a whole `spike status`.
    """
    from pygit2 import Patch
    from pygit2.enums import DiffOption

    if any(odd in side for odd in (b"\f", b"\v") for side in (base, work)):
        base, work = _plain_blanks(base), _plain_blanks(work)
    patch = Patch.create_from(
        base,
        work,
        flag=DiffOption.INDENT_HEURISTIC | DiffOption.FORCE_TEXT,
        context_lines=0,
        interhunk_lines=0,
    )
    cuts = []
    for hunk in patch.hunks:
        # A range without lines names the line before it, which is its 0-based gap already.
        old_from = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        new_from = hunk.new_start - 1 if hunk.new_lines else hunk.new_start
        cuts.append((old_from, old_from + hunk.old_lines, new_from, new_from + hunk.new_lines))
    return cuts


def _plain_blanks(data: bytes) -> bytes:
    """A copy for the differ in which form feed and vertical tab are no white space.

    libgit2 asks C's isspace, git its own table, so their indent heuristics part on these two
    bytes. The escape is one to one and done to both files: equal lines stay equal, others differ.
    """
    return (
        data.replace(b"\x01", b"\x01\x01").replace(b"\f", b"\x01\x02").replace(b"\v", b"\x01\x03")
    )


def compose(base: bytes | None, regions: Iterable[Region]) -> bytes | None:
    """`base` with `regions` put in place, without any differ; None stands for an absent file.

    This is the proof that approved regions reproduce a file. Raises `RegionsConflict` when regions
    overlap or touch, when the removed bytes are not what the baseline has there, or when a line
    without ending would be glued to the next.
    """
    ordered = sorted(regions, key=lambda region: region.old_start)
    if not ordered:
        return base
    if any(region.kind is not ChangeKind.MODIFY for region in ordered):
        return _compose_whole(base, ordered)
    if base is None:
        raise RegionsConflict("the baseline has no such file")
    old = split_lines(base)
    pieces: list[bytes] = []
    at = 0
    for number, region in enumerate(ordered):
        end = region.old_start + region.old_count
        if region.old_start < at or (number and region.old_start == at):
            raise RegionsConflict(f"regions overlap or touch at baseline line {at + 1}")
        if b"".join(old[region.old_start : end]) != region.removed or end > len(old):
            raise RegionsConflict(f"baseline line {region.old_start + 1} is not what was removed")
        pieces.extend(old[at : region.old_start])
        _check_ends(pieces, region, at_end=end == len(old))
        pieces.append(region.added)
        at = end
    pieces.extend(old[at:])
    return b"".join(pieces)


def _check_ends(before: list[bytes], region: Region, *, at_end: bool) -> None:
    glued_above = region.added and before and not before[-1].endswith(b"\n")
    glued_below = region.added and not at_end and not region.added.endswith(b"\n")
    if glued_above or glued_below:
        raise RegionsConflict("a line without ending would be joined to the next one")


def _compose_whole(base: bytes | None, regions: Sequence[Region]) -> bytes | None:
    if len(regions) > 1:
        raise RegionsConflict("a whole-file entry stands alone")
    region = regions[0]
    before = None if region.kind is ChangeKind.CREATE else region.removed
    after = None if region.kind is ChangeKind.DELETE else region.added
    if before != base or (before or b"") != region.removed or (after or b"") != region.added:
        raise RegionsConflict("a whole-file entry does not fit the baseline")
    return after


def group(spans: Sequence[Span]) -> tuple[tuple[Span, ...], ...]:
    """Spans of one file, in order, grouped into the hunks that git's -U3 view shows."""
    return tuple(
        tuple(spans[first:end])
        for first, end in runs([(s.old_start, s.old_start + s.old_count) for s in spans])
    )


def runs(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Index ranges of neighbours that lie at most `JOIN_GAP` baseline lines apart."""
    first = 0
    for index in range(1, len(ranges) + 1):
        if index == len(ranges) or ranges[index][0] - ranges[index - 1][1] > JOIN_GAP:
            yield first, index
            first = index


def spans(regions: Iterable[Region]) -> tuple[Span, ...]:
    """The ledger's short form of regions."""
    return tuple(Span(r.key, r.old_start, r.old_count, r.added_count) for r in regions)
