"""Placing a file's hunks in its bytes: exactly, or not at all (spec 8).

A hunk goes to the stated line if it fits there, else to the only place in the file where it fits.
All hunks are placed in the file as it was, in any order, and must not touch each other's lines.
Line endings: an old line keeps its own; a new line takes that of the line it replaces, else of
the line above, else of the line below. A patch that shows the file's own carriage returns while
its headers have none (as `git diff` prints) is taken at its word instead.
The final newline stays as it is unless a `\\ No newline` marker in the hunk says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from spike_mcp.core.codes import ChangeKind, Problem, Refusal
from spike_mcp.core.document import Document, holds_bytes, join, key
from spike_mcp.core.patch_near import nearest, show_lines
from spike_mcp.core.patch_types import (
    MAX_FILE_BYTES,
    Change,
    FilePatch,
    PatchHunk,
    PatchLine,
    Placed,
    malformed,
)
from spike_mcp.core.unsafe import quoted

_SHOWN_PLACES = 6
_BOM = "\ufeff"


def place(patch: FilePatch, before: bytes | None, limit: int = MAX_FILE_BYTES) -> Placed:
    """What `patch` makes of a file's bytes; None stands for an absent file.

    Raises `Problem`: `FILE_EXISTS`, `FILE_MISSING`, `NO_MATCH`, `AMBIGUOUS_MATCH`, `NO_CHANGES`,
    `BINARY_CONTENT`, `ENCODING_UNSUPPORTED`, `TOO_LARGE` (above `limit` bytes), `PATCH_MALFORMED`
    (hunks overlap).
    """
    notes: tuple[str, ...] = ()
    after: bytes | None
    if patch.kind is ChangeKind.CREATE:
        after = _create(patch, before)
    elif before is None:
        raise Problem(
            Refusal.FILE_MISSING,
            f"{quoted(patch.path.text)} does not exist",
            "to create it, send '--- /dev/null' and '+++ b/PATH' with '+' lines",
        )
    elif patch.kind is ChangeKind.DELETE:
        _check_delete(patch, Document(before, patch.path.text))
        after = None
    else:
        after, notes = _modify(patch, before)
    return Placed(checked(patch.path.text, Change(patch.path, before, after), limit), notes)


def checked(name: str, change: Change, limit: int) -> Change:
    """`change`, unless it changes nothing or leaves a file above `limit` bytes.

    A file that was longer before may stay so, but not grow.
    """
    if change.before == change.after:
        raise Problem(
            Refusal.NO_CHANGES,
            f"{quoted(name)} would stay exactly as it is",
            "line endings and the byte order mark stay the file's own; send what must differ",
        )
    if len(change.after or b"") > max(limit, len(change.before or b"")):
        raise Problem(
            Refusal.TOO_LARGE,
            f"{quoted(name)} would have {len(change.after or b'')} bytes, the limit is {limit}",
            "keep files below the limit",
        )
    return change


def _create(patch: FilePatch, before: bytes | None) -> bytes:
    if before is not None:
        raise Problem(
            Refusal.FILE_EXISTS,
            f"{quoted(patch.path.text)} exists already",
            "send a change of the existing file instead of a new one",
        )
    lines = [line for hunk in patch.hunks for line in hunk.lines]
    pairs = []
    for line in lines:
        end = b"\r\n" if line.cr and patch.literal_endings else b"\n"
        text = line.text.encode("utf-8", "surrogateescape")
        pairs.append((text, b"" if line.no_newline else end))
    return join(b"", pairs)


def _check_delete(patch: FilePatch, doc: Document) -> None:
    lines = [line for hunk in patch.hunks for line in hunk.lines]
    keys = [key(line.text) for line in lines]
    if keys and doc.bom:
        keys[0] = keys[0].removeprefix(_BOM)
    marked = bool(lines) and lines[-1].no_newline
    if keys == doc.keys and (doc.open_end or not marked):
        return
    pairs = enumerate(zip(keys, doc.keys, strict=False))
    first = next((at for at, (a, b) in pairs if a != b), min(len(keys), len(doc)))
    raise Problem(
        Refusal.NO_MATCH,
        f"{quoted(doc.name)} has {len(doc)} lines; the deletion shows {len(keys)} and differs from "
        f"line {first + 1} on",
        "a deletion must show the whole file\n" + show_lines(doc, first, 1),
    )


@dataclass(frozen=True, slots=True)
class Spot:
    """A hunk and the 0-based line where its old lines begin."""

    hunk: PatchHunk
    at: int

    @property
    def end(self) -> int:
        """The line after its old lines."""
        return self.at + len(self.hunk.old)

    @property
    def changed(self) -> tuple[int, int]:
        """First and last gap between lines that the hunk's changes touch."""
        at, first, last = self.at, self.end, self.at
        for line in self.hunk.lines:
            if line.sign != " ":
                first = min(first, at)
            at += line.sign != "+"
            if line.sign != " ":
                last = at
        return first, last


def _modify(patch: FilePatch, before: bytes) -> tuple[bytes, tuple[str, ...]]:
    doc = Document(before, patch.path.text)
    spots, notes = [], []
    for number, hunk in enumerate(patch.hunks, 1):
        title = f"hunk {number} of {quoted(doc.name)} (patch line {hunk.row})"
        at = _locate(doc, hunk, title)
        spots.append(Spot(hunk, at))
        if hunk.start is None:
            notes.append(f"placed: {title} at line {at + 1}")
        elif hunk.start != at + 1 and hunk.old:
            shift = at + 1 - hunk.start
            notes.append(f"offset: {title} at line {at + 1}, {shift:+d} from the stated line")
    raw = any(holds_bytes(line.text) for hunk in patch.hunks for line in hunk.lines)
    return assemble(doc, spots, literal=patch.literal_endings, raw=raw), tuple(notes)


# ----- where -----


def _locate(doc: Document, hunk: PatchHunk, title: str) -> int:
    """The one 0-based line where the hunk's old lines stand."""
    old = hunk.old
    if not old:
        return _insertion(doc, hunk, title)
    keys = [key(line.text) for line in old]
    top_only = bool(doc.bom) and keys[0].startswith(_BOM)
    if top_only:
        keys[0] = keys[0].removeprefix(_BOM)
    keys += [""] * hunk.missing_blanks
    found = _places(doc, hunk, keys, top_only)
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(title, found)
    if hunk.missing_blanks and _places(doc, hunk, keys[: len(old)], top_only):
        raise Problem(
            Refusal.NO_MATCH,
            f"{title}: {hunk.missing_blanks} context line is missing at its end: the counts "
            "promise it, the patch does not show it, and the file has no blank line there",
            "send the hunk with all its context lines, or with counts that fit",
        )
    raise _no_match(doc, hunk, keys[: len(old)], title)


def _places(doc: Document, hunk: PatchHunk, keys: Sequence[str], top_only: bool) -> list[int]:
    """Where the lines stand: only the stated line if they do so there, else all, some at most."""
    code = doc.code(keys)
    if code is None:
        return []
    to_end = hunk.at_end or any(line.no_newline for line in hunk.lines)
    marked = hunk.old[-1].no_newline

    def fits(at: int) -> bool:
        at_end = not to_end or at + len(code) == len(doc)
        return at_end and not (top_only and at) and (not marked or doc.open_end)

    if hunk.start is not None:
        stated = max(hunk.start - 1, 0)
        if doc.has_at(code, stated) and fits(stated):
            return [stated]
    if to_end:
        last = len(doc) - len(code)
        return [last] if last >= 0 and doc.has_at(code, last) and fits(last) else []
    found = []
    for at in doc.find(code):
        if fits(at):
            found.append(at)
        if len(found) == _SHOWN_PLACES or top_only:
            break
    return _in_scope(doc, hunk.anchors, code, found) if len(found) > 1 else found


def _in_scope(doc: Document, anchors: Sequence[str], code: str, found: list[int]) -> list[int]:
    """The places below the `@@ heading` lines, each heading being unique in the one before."""
    start, end = 0, len(doc)
    for anchor in anchors:
        inner = doc.blocks(anchor, start, end)
        if len(inner) != 1:
            return found
        start, end = inner[0][0], min(inner[0][1], end)
    inside = list(islice(doc.find(code, start, end), _SHOWN_PLACES))
    return inside or found


def _insertion(doc: Document, hunk: PatchHunk, title: str) -> int:
    """A hunk that shows no line of the file has a place only where there is just one."""
    if not len(doc) or (hunk.at_end and not hunk.anchors):
        return len(doc)
    raise Problem(
        Refusal.AMBIGUOUS_MATCH,
        f"{title} shows no line of the file, so its place can't be checked",
        "add at least one unchanged line beside the new ones",
    )


def _ambiguous(title: str, found: Sequence[int]) -> Problem:
    shown = ", ".join(str(at + 1) for at in found[: _SHOWN_PLACES - 1])
    more = " and more" if len(found) == _SHOWN_PLACES else ""
    return Problem(
        Refusal.AMBIGUOUS_MATCH,
        f"{title} fits at lines {shown}{more}",
        "give the right line number in '@@ -N,...', or more unchanged lines around the change",
    )


def _no_match(doc: Document, hunk: PatchHunk, keys: Sequence[str], title: str) -> Problem:
    shown = nearest(doc, keys, hunk.start)
    if hunk.at_end or any(line.no_newline for line in hunk.lines):
        shown += "\nthe hunk says that it reaches the file's end"
        shown += ", without a newline" if hunk.old[-1].no_newline else ""
    return Problem(Refusal.NO_MATCH, f"{title} does not fit the file", shown)


# ----- what -----


def assemble(
    doc: Document, spots: Sequence[Spot], literal: bool = False, raw: bool = False
) -> bytes:
    """The file with all hunks in place; raises `PATCH_MALFORMED` when they overlap.

    `literal`: take endings as the patch has them where its old lines have the file's. `raw`: the
    patch holds the file's bytes, so its other characters are UTF-8 whatever the file's lines are.
    """
    changing = [spot for spot in spots if spot.hunk.changes]
    ordered = sorted(changing, key=lambda spot: (spot.at, spot.end))
    for one, two in pairwise(ordered):
        if one.changed[1] > two.at or one.end > two.changed[0] or one.at == two.at:
            raise malformed(
                f"the hunks at patch lines {one.hunk.row} and {two.hunk.row} overlap in "
                f"{quoted(doc.name)} at line {two.at + 1}",
                "send one hunk for neighbouring changes",
            )
    out: list[tuple[bytes, bytes]] = []
    at = 0
    for spot in ordered:
        first, last = spot.changed
        out += zip(doc.lines[at:first], doc.ends[at:first], strict=True)
        latin = not raw and doc.writes_latin(spot.at, spot.end)
        _emit(doc, spot, literal and _shows_endings(doc, spot), latin, out)
        at = max(last, at)
    out += zip(doc.lines[at:], doc.ends[at:], strict=True)
    _close_lines(doc, ordered, out)
    return join(doc.bom, out)


def _shows_endings(doc: Document, spot: Spot) -> bool:
    """Whether the hunk's old lines have exactly the file's endings."""
    shown = zip(spot.hunk.old, doc.ends[spot.at : spot.end], strict=True)
    return all(line.cr == (end == b"\r\n") for line, end in shown)


def _emit(
    doc: Document, spot: Spot, literal: bool, latin: bool, out: list[tuple[bytes, bytes]]
) -> None:
    """Append what stands between the hunk's first and last change."""
    first, last = spot.changed
    at = spot.at
    ends = _Ends(doc, spot)
    for line in spot.hunk.lines:
        if line.sign == " ":
            if first <= at < last:
                out.append((doc.lines[at], doc.ends[at]))
            ends.kept(at)
        elif line.sign == "+":
            text = line.text.removeprefix(_BOM) if doc.bom and not out else line.text
            end = (b"\r\n" if line.cr else b"\n") if literal else ends.take()
            out.append((doc.encode(text, latin), end))
        at += line.sign != "+"


class _Ends:
    """Endings for a hunk's new lines, taken from the lines that they replace or join."""

    def __init__(self, doc: Document, spot: Spot) -> None:
        self.doc = doc
        self.runs = _removed_runs(spot)
        self.run = self.runs.pop(0)
        self.used = 0
        self.above: int | None = spot.at - 1 if spot.at else None
        self.below = spot.at

    def kept(self, at: int) -> None:
        """A context line ends one run of changes and begins the next."""
        self.run, self.used = self.runs.pop(0), 0
        self.above, self.below = at, at + 1

    def take(self) -> bytes:
        """The next new line's ending, never empty."""
        removed = self.run[min(self.used, len(self.run) - 1)] if self.run else None
        self.used += 1
        below = self.below if self.below < len(self.doc) else None
        for at in (removed, self.above, below):
            if at is not None and self.doc.ends[at]:
                return self.doc.ends[at]
        return self.doc.default_end


def _removed_runs(spot: Spot) -> list[list[int]]:
    """0-based removed lines of each run of changes; context lines part the runs."""
    runs: list[list[int]] = [[]]
    at = spot.at
    for line in spot.hunk.lines:
        if line.sign == " ":
            runs.append([])
        elif line.sign == "-":
            runs[-1].append(at)
        at += line.sign != "+"
    return runs


def _close_lines(doc: Document, spots: Sequence[Spot], out: list[tuple[bytes, bytes]]) -> None:
    """Give every line but the last an ending, and the last one what file or marker say."""
    if len(doc) and doc.open_end:
        for at in range(len(out) - 1):
            if not out[at][1]:
                out[at] = (out[at][0], doc.default_end)
    if not spots or spots[-1].end != len(doc):
        return
    new = _last_new(spots[-1])
    marked = any(line.no_newline for line in spots[-1].hunk.lines)
    if new and new.sign == "+" and (new.no_newline if marked else doc.open_end):
        out[-1] = (out[-1][0], b"")


def _last_new(spot: Spot) -> PatchLine | None:
    """The hunk's last line of the new file."""
    return next((line for line in reversed(spot.hunk.lines) if line.sign != "-"), None)
