"""One hunk: as data for scripts, as lines to be read before a decision, as part of a diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from spike_mcp.core.codes import ChangeKind
from spike_mcp.core.hunks import Hunk, Region, ViewLine, split_lines
from spike_mcp.edge.cli.layout import folded, wrap
from spike_mcp.edge.cli.out import Line, Part
from spike_mcp.edge.present import KIND_WORDS
from spike_mcp.edge.shown import LineText, ShownHunk, flag_names, line_text, notes_of, tail_words
from spike_mcp.edge.text import safe_line
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import HunkMap, MapHunk, Withdrawn

MARKS = {"pending": "p", "approved": "a", "lapsed": "l", "": " "}
"""What stands before a changed line: the state of the region it belongs to."""

_LEGEND = "p pending, a approved, l lapsed (approved once, changed since)"
_TAB = "→   "
_NOTE_STYLES = {"hidden": "alarm", "flag": "alarm", "lapse": "yellow", "context": "yellow"}

# --- for scripts --------------------------------------------------------------------------------


def hunk_data(each: MapHunk) -> dict[str, Any]:
    """A hunk in the shape of `map` (spec 13). `lines` = its view, `text` with its line ending."""
    hunk = each.hunk
    return {
        "id": each.short,
        "digest": each.id,
        "state": each.state,
        "path": each.path,
        "kind": hunk.kind.value,
        "old_start": hunk.old_start,
        "old_lines": hunk.old_lines,
        "new_start": hunk.new_start,
        "new_lines": hunk.new_lines,
        "header": hunk.header,
        "added": each.added,
        "removed": each.removed,
        "tag": each.tag,
        "old_tags": list(each.old_tags),
        "why": each.why,
        "patches": list(each.patches),
        "rationale": each.rationale,
        "flags": [{"name": f.name, "line": f.line, "text": f.text} for f in each.flags],
        "regions": [
            _region_data(region, state)
            for region, state in zip(each.regions, each.region_states, strict=True)
        ],
        "comments": list(each.comments),
        "twins": list(each.twins),
        "context_changed": each.context_changed,
        "resubmitted": each.resubmitted,
        "view_sha256": each.view,
        "lines": [_line_data(line) for line in hunk.lines],
    }


def _region_data(region: Region, state: str) -> dict[str, Any]:
    return {
        "key": region.key,
        "state": state,
        "old_start": region.old_start,
        "old_count": region.old_count,
        "added": region.added_count,
        "removed": region.removed_count,
    }


def _line_data(line: ViewLine) -> dict[str, Any]:
    text = line.text.decode("utf-8", "surrogateescape")
    return {"sign": line.sign, "text": text, "old": line.old_no, "new": line.new_no}


def withdrawn_data(spike: Spike, entry: Withdrawn) -> dict[str, Any]:
    """A withdrawn entry in the shape of `map`; its lines are the ones that were approved."""
    regions = [spike.approval_region(approval) for approval in entry.approvals]
    first = regions[0]
    lines = list(_approved_lines(regions))
    return {
        "id": entry.short,
        "digest": entry.id,
        "state": "withdrawn",
        "path": entry.path,
        "kind": first.kind.value,
        "old_start": first.old_start + bool(first.old_count),
        "old_lines": sum(region.old_count for region in regions),
        "new_start": 0,
        "new_lines": 0,
        "header": "",
        "added": sum(region.added_count for region in regions),
        "removed": sum(region.removed_count for region in regions),
        "tag": entry.tag,
        "patches": [],
        "rationale": "",
        "flags": [],
        "regions": [_region_data(region, "withdrawn") for region in regions],
        "view_sha256": "",
        "lines": [_line_data(line) for line in lines],
    }


def _approved_lines(regions: Sequence[Region]) -> Iterator[ViewLine]:
    for region in regions:
        for at, text in enumerate(split_lines(region.removed), region.old_start + 1):
            yield ViewLine("-", text, at, None, region.key)
        for text in split_lines(region.added):
            yield ViewLine("+", text, None, None, region.key)


# --- for people ---------------------------------------------------------------------------------


def hunk_lines(
    each: MapHunk, current: HunkMap, width: int, *, reason: bool = False
) -> Iterator[Line]:
    """The hunk as it must be seen: what to know first, then every line."""
    yield _title(each)
    for text, style in _before(each, current, reason=reason):
        first, *rest = wrap(text, width - 2 if width else 0)
        yield [(first, style)]
        for line in rest:
            yield [(f"  {line}", style)]
    yield from body_lines(ShownHunk(each), width)


def _before(each: MapHunk, current: HunkMap, *, reason: bool) -> Iterator[tuple[str, str]]:
    if each.tag:
        yield f'tag: "{safe_line(each.tag)}"', ""
    for note in notes_of(each, current):
        yield note.line, _NOTE_STYLES.get(note.kind, "dim")
    names = flag_names([each])
    if names:
        acks = " ".join(f"--ack {name}" for name in names)
        yield f"to approve it: {acks} (or --ack all)", ""
    if reason and each.rationale:
        yield f'the agent says: "{safe_line(each.rationale, 1000)}"', ""
    elif each.rationale:
        yield "the agent's reason: --reason (find your own words first)", "dim"


def _title(each: MapHunk) -> Line:
    kind = KIND_WORDS[each.hunk.kind]
    by = f"  by {', '.join(each.patches)}" if each.patches else ""
    return [
        (each.short, "bold"),
        f"  {safe_line(each.path, 300)}  ",
        (each.state, "green" if each.state == "approved" else "yellow"),
        f"  +{each.added} -{each.removed}{f'  {kind}' if kind else ''}{by}",
    ]


def body_lines(shown: ShownHunk, width: int = 0) -> Iterator[Line]:
    """Header and lines, numbered, marked, with what can't be seen made visible.

    A line longer than `width` goes on below itself, behind a mark: what a terminal would put at
    the left edge could be taken for a line of its own.
    """
    if shown.each.hunk.header:
        yield [(shown.each.hunk.header, "cyan")]
    if not shown.lines:
        yield "  (an empty file)"
        return
    size = len(str(max(max(line.old_no or 0, line.new_no or 0) for line in shown.lines)))
    for index, line in enumerate(shown.lines):
        yield from folded(_numbered(shown, index, line, size), width, 2 * size + 6)
    if shown.is_crlf:
        yield [("lines end in CR LF", "dim")]
    if shown.mixed:
        yield [(_LEGEND, "dim")]


def _numbered(shown: ShownHunk, index: int, line: ViewLine, size: int) -> Line:
    old, new = str(line.old_no or ""), str(line.new_no or "")
    mark = MARKS[shown.state(index)]
    style = {"+": "green", "-": "red"}.get(line.sign, "")
    text = shown.text(index)
    parts: list[Part] = [
        (f"{old:>{size}} {new:>{size}} ", "dim"),
        (f"{mark} {line.sign} ", style),
        *_words(text.body, shown.changed_words(index), style),
    ]
    return parts + _tail(text, odd=shown.odd_ending(index), changed=line.key is not None)


def _words(body: str, spans: Sequence[tuple[int, int]], style: str) -> Iterator[Part]:
    """The line's text, the words that changed in a stronger style."""
    at = 0
    for start, end in spans:
        yield _tabs(body[at:start]), style
        yield _tabs(body[start:end]), f"{style}+" if style else ""
        at = end
    yield _tabs(body[at:]), style


def _tabs(text: str) -> str:
    return text.replace("\t", _TAB)


def _tail(text: LineText, *, odd: bool, changed: bool) -> list[Part]:
    """Blanks at the end of a changed line, and in words whatever else its end hides."""
    if not changed and text.ending != "none":
        return []
    blanks = text.tail.replace(" ", "·").replace("\t", "→")
    said = tail_words(text, odd_ending=odd)
    return [(blanks, "reverse"), (f"  <- {said}" if said else "", "yellow")]


def withdrawn_lines(spike: Spike, entry: Withdrawn, width: int = 0) -> Iterator[Line]:
    """What was approved and is gone, and the two ways to decide it."""
    yield [(entry.short, "bold"), f"  {safe_line(entry.path, 300)}  ", ("withdrawn", "yellow")]
    yield f'approved as "{safe_line(entry.tag)}", then taken out by the agent:'
    regions = [spike.approval_region(approval) for approval in entry.approvals]
    for line in _approved_lines(regions):
        text = line_text(line.text)
        style = "green" if line.sign == "+" else "red"
        tail = _tail(text, odd=False, changed=True)
        yield from folded([(f"  {line.sign} {_tabs(text.body)}", style), *tail], width, 4)
    yield f"let it go: spike approve --withdrawn {entry.short}"
    yield f"put it back: spike reject {entry.short}"


# --- as a diff ----------------------------------------------------------------------------------


def diff_lines(chosen: Sequence[MapHunk]) -> Iterator[Line]:
    """A unified diff; id and state stand behind each `@@`, where a heading may stand."""
    for path, group in groupby(chosen, key=lambda each: each.path):
        hunks = list(group)
        yield from _file_header(safe_line(path, 4096), hunks[0].hunk)
        for each in hunks:
            yield from _diff_hunk(each)


def _file_header(path: str, hunk: Hunk) -> Iterator[Line]:
    yield [(f"diff --git a/{path} b/{path}", "bold")]
    created, deleted = hunk.kind is ChangeKind.CREATE, hunk.kind is ChangeKind.DELETE
    if created:
        yield [("new file mode 100644", "bold")]
    if deleted:
        yield [("deleted file mode 100644", "bold")]
    if hunk.header:
        yield [(f"--- {'/dev/null' if created else f'a/{path}'}", "bold")]
        yield [(f"+++ {'/dev/null' if deleted else f'b/{path}'}", "bold")]


def _diff_hunk(each: MapHunk) -> Iterator[Line]:
    if each.hunk.header:
        place, _, heading = each.hunk.header.removeprefix("@@ ").partition(" @@")
        yield [(f"@@ {place} @@ [{each.short} {each.state}]", "cyan"), heading]
    for line in each.hunk.lines:
        style = {"+": "green", "-": "red"}.get(line.sign, "")
        whole = line.text.endswith(b"\n")
        text = line.text[:-1] if whole else line.text
        yield [(line.sign + text.decode("utf-8", "surrogateescape"), style)]
        if not whole:
            yield "\\ No newline at end of file"
