"""Hunks: what a human looks at, tags and decides (spec 9).

A *hunk* is the group of regions that `git diff --unified=3` prints under one `@@`. The view is made
from the same regions that approvals are stored for, with one diff, so view and id can't part.
This module is the door: it gives out everything of `core.regions` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from spike_mcp.core.codes import ChangeKind
from spike_mcp.core.regions import (
    CONTEXT,
    JOIN_GAP,
    MAX_REGIONS,
    Region,
    RegionsConflict,
    Span,
    TooManyRegions,
    compose,
    count_lines,
    diff,
    digest,
    group,
    path_bytes,
    runs,
    spans,
    split_lines,
)

__all__ = [
    "CONTEXT",
    "JOIN_GAP",
    "MAX_REGIONS",
    "SHORT_DIGITS",
    "Hunk",
    "Region",
    "RegionsConflict",
    "Span",
    "TooManyRegions",
    "ViewLine",
    "compose",
    "count_lines",
    "diff",
    "digest",
    "group",
    "hunk_id",
    "hunks",
    "path_bytes",
    "resubmission_key",
    "short_ids",
    "spans",
    "split_lines",
    "unified",
    "view_sha256",
]

SHORT_DIGITS = 8
"""Fewest hex digits of a hunk id on the screen."""

_HEADING_BYTES = 80
_NO_NEWLINE = b"\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class ViewLine:
    """One line of a hunk's view: sign `' '`, `'-'` or `'+'`, its bytes, its 1-based numbers.

    `key` names the region a changed line belongs to and is None for context.
    """

    sign: str
    text: bytes
    old_no: int | None
    new_no: int | None
    key: str | None


@dataclass(frozen=True)
class Hunk:
    """Regions that git shows under one `@@`, with three lines of context.

    Numbers are git's: 1-based, and the line before when the count is 0. `header` is the whole
    `@@ -a,b +c,d @@ heading` line without its ending; it is `""`, and `lines` is empty, for a file
    that is created or deleted empty, which git shows without a hunk.
    """

    path: str
    kind: ChangeKind
    regions: tuple[Region, ...]
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    header: str
    lines: tuple[ViewLine, ...]

    @cached_property
    def id(self) -> str:
        """Digest over the keys of its regions, 64 hex digits."""
        return hunk_id(region.key for region in self.regions)


def hunk_id(keys: Iterable[str]) -> str:
    """Id of the hunk made of the regions with these keys, in baseline order."""
    return digest("spike-hunk-id-1", *keys)


def resubmission_key(region: Region) -> str:
    """What a change says, wherever it stands: path, removed and added bytes.

    Only for recognising a rejected change that comes back. It never approves anything.
    """
    return digest("spike-resubmission-1", region.path, region.removed, region.added)


def hunks(
    path: str, base: bytes | None, work: bytes | None, regions: Sequence[Region] | None = None
) -> tuple[Hunk, ...]:
    """The -U3 view of a changed file; `regions` saves a second diff when the caller has them."""
    regions = diff(path, base, work) if regions is None else regions
    old = split_lines(base or b"")
    found: list[Hunk] = []
    heading, searched = b"", -1
    for first, end in runs([(r.old_start, r.old_start + r.old_count) for r in regions]):
        part = tuple(regions[first:end])
        if part[0].kind is not ChangeKind.MODIFY and not (base or work):
            found.append(Hunk(path, part[0].kind, part, 0, 0, 0, 0, "", ()))
            continue
        top = max(part[0].old_start - CONTEXT, 0)
        # As git does: look upwards, but never twice over the same lines.
        heading = _heading(old, top - 1, searched) or heading
        searched = top - 1
        found.append(_hunk(path, part, old, top, heading))
    return tuple(found)


def _heading(old: Sequence[bytes], start: int, stop: int) -> bytes:
    """The last line from `start` up to, not including, `stop` that looks like a heading."""
    for index in range(min(start, len(old) - 1), stop, -1):
        line = old[index]
        if line[:1].isalpha() or line[:1] in (b"_", b"$"):
            return line
    return b""


def _heading_text(line: bytes) -> str:
    """At most 80 bytes of a heading, trailing blanks off, cut before the first broken character."""
    text = line[:_HEADING_BYTES].rstrip(b" \t\r\n")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        decoded = text[: error.start].decode("utf-8")
    for odd in ("\ufffe", "\uffff"):  # git's own decoder stops at these two as well
        decoded = decoded.partition(odd)[0]
    return decoded


def _hunk(
    path: str, regions: tuple[Region, ...], old: Sequence[bytes], top: int, heading: bytes
) -> Hunk:
    lines = tuple(_view(regions, old, top))
    old_lines = sum(line.sign != "+" for line in lines)
    new_lines = sum(line.sign != "-" for line in lines)
    # Lines above the first region are unchanged, so they lie in both files at the same distance.
    new_top = regions[0].new_start - (regions[0].old_start - top)
    old_start, new_start = top + bool(old_lines), new_top + bool(new_lines)
    header = f"@@ -{_range(old_start, old_lines)} +{_range(new_start, new_lines)} @@"
    text = _heading_text(heading)
    if heading:
        header = f"{header} {text}"
    kind = regions[0].kind
    return Hunk(path, kind, regions, old_start, old_lines, new_start, new_lines, header, lines)


def _range(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"


def _view(regions: Sequence[Region], old: Sequence[bytes], top: int) -> Iterator[ViewLine]:
    at, shift = top, regions[0].new_start - regions[0].old_start
    for region in regions:
        key = region.key
        yield from _context(old, at, region.old_start, shift)
        at = region.old_start
        for text in split_lines(region.removed):
            at += 1
            yield ViewLine("-", text, at, None, key)
        new_no = region.new_start
        for text in split_lines(region.added):
            new_no += 1
            yield ViewLine("+", text, None, new_no, key)
        shift = new_no - at
    yield from _context(old, at, min(at + CONTEXT, len(old)), shift)


def _context(old: Sequence[bytes], start: int, end: int, shift: int) -> Iterator[ViewLine]:
    for index in range(start, end):
        yield ViewLine(" ", old[index], index + 1, index + 1 + shift, None)


def unified(*shown: Hunk) -> bytes:
    """The hunks as `git diff --unified=3` prints them, from the first `@@` on."""
    out: list[bytes] = []
    for hunk in shown:
        if hunk.header:
            out.append(path_bytes(hunk.header) + b"\n")
        for line in hunk.lines:
            out.append(line.sign.encode() + line.text)
            if not line.text.endswith(b"\n"):
                out.append(_NO_NEWLINE)
    return b"".join(out)


def view_sha256(hunk: Hunk) -> str:
    """Digest of what a screen shows of a hunk: path, kind, place and heading in the baseline, body.

    Line numbers of the worktree are left out: they move when another hunk above is edited, and
    nothing in this hunk's view has changed then.
    """
    heading = hunk.header.partition("@@ ")[2].partition(" @@")[2]
    body = unified(hunk)[len(path_bytes(hunk.header)) :]
    return digest(
        "spike-view-1",
        hunk.path,
        hunk.kind.value,
        hunk.old_start,
        hunk.old_lines,
        heading,
        body,
    )


def short_ids(ids: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Screen names for `ids`: `h` and as many digits as tell each from all others and `taken`.

    At least `SHORT_DIGITS` digits. `taken` holds every other id that the ledger ever named, so a
    short name never comes to mean a second hunk.
    """
    wanted = set(ids)
    starts = {full[:SHORT_DIGITS] for full in wanted}
    # Hardly ever do two share that much: a spike of a thousand patches has as many old ids.
    everything = sorted(wanted.union([full for full in taken if full[:SHORT_DIGITS] in starts]))
    names: dict[str, str] = {}
    for index, full in enumerate(everything):
        if full not in wanted:
            continue
        near = everything[max(index - 1, 0) : index] + everything[index + 1 : index + 2]
        shared = max((_shared(full, other) for other in near), default=0)
        names[full] = "h" + full[: max(SHORT_DIGITS, shared + 1)]
    return names


def _shared(one: str, two: str) -> int:
    """Length of the common start of two ids."""
    for index, (a, b) in enumerate(zip(one, two, strict=False)):
        if a != b:
            return index
    return min(len(one), len(two))
