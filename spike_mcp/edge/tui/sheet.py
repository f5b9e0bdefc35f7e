"""The rows of one or several hunks at a width: built once, painted only where somebody looks.

A row is a note, a title, a region's label, or a part of a code line (wrapped lines have several).
`ends` tells which row is the last of which view: what was painted there was on the screen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from spike_mcp.core.unsafe import needs_hex
from spike_mcp.edge.present import KIND_WORDS, Glyphs, patch_of, reason_of
from spike_mcp.edge.shown import Note, ShownHunk, notes_of, tail_words
from spike_mcp.edge.text import safe, safe_line
from spike_mcp.edge.tui import syntax
from spike_mcp.edge.tui.paint import Line, Piece, cells, clip, fit, wrap
from spike_mcp.session.view import HunkMap

_PLAIN_CHARS = 4000
"""Longer lines are painted without words and syntax: in one piece per kind of character."""

_TAB = 4
_NARROW = 60
_NO_NEWLINE = "\\ no newline at the end of the file"
_NOTE_STYLES = {"hidden": "flag", "flag": "flag", "lapse": "lapsed", "comment": "note"}


@dataclass(frozen=True, slots=True)
class _Code:
    """A code line: its shown text is cut at `cuts` (offsets into it)."""

    shown: ShownHunk
    index: int
    cuts: tuple[int, ...]
    hang: int


@dataclass(frozen=True, slots=True)
class Options:
    """How a sheet is laid out. `stacked`: several hunks, each under a title of its own."""

    width: int
    wrap: bool
    glyphs: Glyphs
    stacked: bool = False


class Sheet:
    """Rows of hunks; `row(y)` paints one."""

    def __init__(self, hunks: Sequence[ShownHunk], current: HunkMap, options: Options) -> None:
        self.hunks = tuple(hunks)
        self.options = options
        self.ends: dict[int, str] = {}
        self.starts: dict[str, int] = {}
        self.first_changes: dict[str, tuple[int, int]] = {}
        """First and last row of a hunk's first region, by id."""
        self.widest = 0
        self._blocks: list[tuple[Line, ...] | _Code] = []
        self._tops: list[int] = []
        self._parts: dict[tuple[int, int], list[Piece]] = {}
        self.height = 0
        numbers = [n for s in hunks for ln in s.lines for n in (ln.old_no, ln.new_no) if n]
        self._digits = max(3, len(str(max(numbers, default=1))))
        self._two_numbers = options.width >= _NARROW
        for shown in self.hunks:
            self._add_hunk(shown, current)

    # --- building -------------------------------------------------------------------------------

    @property
    def gutter(self) -> int:
        """Cells before the code: numbers, region mark, sign, blank."""
        return self._digits * (2 if self._two_numbers else 1) + self._two_numbers + 5

    @property
    def code_width(self) -> int:
        """Cells for code."""
        return max(8, self.options.width - self.gutter)

    def _add(self, block: tuple[Line, ...] | _Code) -> None:
        self._tops.append(self.height)
        self._blocks.append(block)
        self.height += len(block.cuts) if isinstance(block, _Code) else len(block)

    def _add_hunk(self, shown: ShownHunk, current: HunkMap) -> None:
        each, glyphs = shown.each, self.options.glyphs
        self.starts[each.id] = self.height
        if self.options.stacked:
            if self.height:
                self._add(([],))
            self._add((self._title(shown),))
        shown_ids = {other.each.short for other in self.hunks}
        for note in notes_of(each, current):
            if note.kind != "twin" or not shown_ids.issuperset(each.twins):
                self._add(tuple(self._note(note)))
        if each.state == "approved" and each.tag:
            tag: Line = [("your tag: ", "dim"), (safe_line(each.tag, 400), "approved")]
            self._add(tuple(_indented(wrap(tag, self.options.width - 1, 10))))
            if each.rationale:
                said: Line = [("the agent said: ", "dim"), (reason_of(each), "dim")]
                self._add(tuple(_indented(wrap(said, self.options.width - 1, 16))))
        if not self.options.stacked:
            header = each.hunk.header or self._whole_file(shown)
            shown_header = fit(safe_line(header), self.options.width - 1, glyphs.more)
            self._add(([(" ", ""), (shown_header, "at")],))
        for index in range(len(shown.lines)):
            self._add_line(shown, index)
        self.ends[self.height - 1] = each.view

    def _whole_file(self, shown: ShownHunk) -> str:
        hunk = shown.each.hunk
        return f"{KIND_WORDS[hunk.kind] or 'changed'}: an empty file"

    def _title(self, shown: ShownHunk) -> Line:
        each, glyphs = shown.each, self.options.glyphs
        header = safe_line(each.hunk.header or self._whole_file(shown))
        line: Line = [
            (f" {each.short}", "strong"),
            (f" {safe_line(each.path, 120)}", "title"),
            (f" {glyphs.of(each.state)} {each.state}", each.state),
            (f" {patch_of(each)} ", "dim"),
            (header, "at"),
        ]
        return clip(line, self.options.width)

    def _note(self, note: Note) -> list[Line]:
        marks = {"lapse": self.options.glyphs.lapsed, "twin": "=", "comment": "c"}
        mark = "" if note.kind in ("hidden", "flag") else marks.get(note.kind, "i") + " "
        style = _NOTE_STYLES.get(note.kind, "note")
        line: Line = [(f"{mark}{note.lead}", style), (note.text, "note")]
        return _indented(wrap(line, self.options.width - 1, 2))

    def _add_line(self, shown: ShownHunk, index: int) -> None:
        key = shown.lines[index].key
        if shown.starts_region(index) and shown.mixed:
            self._add((self._label(shown, index),))
        text = self._display(shown, index)
        hang = self._hang(shown, index)
        self.widest = max(self.widest, cells(text))
        cuts = (
            cut_points(text, self.code_width, self.code_width - hang) if self.options.wrap else (0,)
        )
        self._add(_Code(shown, index, cuts, hang))
        if key is not None and key == shown.each.regions[0].key:
            first, _last = self.first_changes.get(shown.each.id, (self.height - len(cuts), 0))
            self.first_changes[shown.each.id] = (first, self.height - 1)
        if shown.text(index).ending == "none":
            line: Line = [(" " * self.gutter, ""), (_NO_NEWLINE, "blank")]
            self._add((clip(line, self.options.width),))

    def _label(self, shown: ShownHunk, index: int) -> Line:
        """Which region begins here, and what became of it."""
        key = shown.lines[index].key or ""
        state = shown.states[key]
        number, count = shown.numbers[key], len(shown.each.regions)
        glyphs = self.options.glyphs
        which = f"region {number} of {count} " if count > 1 else ""
        line: Line = [
            (glyphs.rule * max(2, self.gutter - 1) + " ", "rule"),
            (which, "dim"),
            (f"{glyphs.of(state)} {state}", state),
        ]
        tag = next((a.tag for a in shown.each.approvals if a.key == key), "")
        if tag:
            line.append((f': "{safe_line(tag, 200)}"', "dim"))
        return clip(line, self.options.width)

    # --- code -----------------------------------------------------------------------------------

    def _display(self, shown: ShownHunk, index: int) -> str:
        return "".join(text for text, _style in self._line_parts(shown, index))

    def _hang(self, shown: ShownHunk, index: int) -> int:
        body = shown.text(index).body
        indent = len(body) - len(body.lstrip(" \t")) + (_TAB - 1) * body[:80].count("\t")
        return min(indent + 2, self.code_width // 3)

    def _line_parts(self, shown: ShownHunk, index: int) -> list[Piece]:
        """The visible text of a line in styled pieces; cheap until somebody looks at it."""
        line, text = shown.lines[index], shown.text(index)
        body = safe(text.body).replace("\t", self.options.glyphs.tab + " " * (_TAB - 1))
        changed = line.key is not None
        tail = text.tail if changed else ""
        shown_tail = tail.replace(" ", self.options.glyphs.blank).replace(
            "\t", self.options.glyphs.tab + " " * (_TAB - 1)
        )
        parts: list[Piece] = [(body, "")]
        if shown_tail:
            parts.append((shown_tail, "hidden"))
        if shown.odd_ending(index):
            parts.append((f" <{'crlf' if text.ending == 'crlf' else 'lf'}>", "hidden"))
        return parts

    def _painted(self, shown: ShownHunk, index: int) -> list[Piece]:
        """The same text with words and syntax told apart; kept for the next paint."""
        key = (id(shown), index)
        found = self._parts.get(key)
        if found is None:
            plain = self._line_parts(shown, index)
            found = self._parts[key] = [*self._body(shown, index), *plain[1:]]
        return found

    def _body(self, shown: ShownHunk, index: int) -> list[Piece]:
        body = shown.text(index).body
        if len(body) > _PLAIN_CHARS:
            return [self._line_parts(shown, index)[0]]
        styles = [""] * len(body)
        for start, end, name in syntax.spans(shown.each.path, body):
            styles[start:end] = [name] * (end - start)
        word = {"+": " addword", "-": " delword"}.get(shown.lines[index].sign, "")
        if _base_style(shown, index) == "settled":
            word = " settledword"
        for start, end in shown.changed_words(index):
            styles[start:end] = [style + word for style in styles[start:end]]
        return list(self._runs(body, styles))

    def _runs(self, body: str, styles: list[str]) -> Iterator[Piece]:
        tab = self.options.glyphs.tab + " " * (_TAB - 1)
        for (style, kind), group in groupby(
            zip(body, styles, strict=True), key=lambda pair: (pair[1], _kind(pair[0]))
        ):
            text = "".join(char for char, _style in group)
            if kind == "tab":
                yield tab * len(text), f"{style} blank"
            elif kind == "hidden":
                yield safe(text), f"{style} hidden"
            else:
                yield text, style

    # --- painting -------------------------------------------------------------------------------

    def row(self, y: int, start: int = 0) -> Line:
        """Row `y`, of `width` cells at most; code scrolled right by `start` cells."""
        if not 0 <= y < self.height:
            return []
        number = bisect_right(self._tops, y) - 1
        block = self._blocks[number]
        if isinstance(block, _Code):
            return self._code_row(block, y - self._tops[number], start)
        return list(block[y - self._tops[number]])

    def _code_row(self, block: _Code, part: int, start: int) -> Line:
        shown, index = block.shown, block.index
        base = _base_style(shown, index)
        code = self._painted(shown, index)
        if self.options.wrap:
            end = block.cuts[part + 1] if part + 1 < len(block.cuts) else None
            code = _slice(code, block.cuts[part], end)
        else:
            code = clip(code, self.code_width, start)
        lead: Line = self._gutter_of(shown, index)
        if part:
            corner = self.options.glyphs.corner
            lead = [(" " * (self.gutter - 2), ""), (f"{corner} ", "rule")]
            code = [(" " * block.hang, ""), *code]
        if not base:
            return [*lead, *code]
        missing = self.code_width - sum(cells(text) for text, _style in code)
        code = [*code, (" " * max(0, missing), "")]
        return [*lead, *((text, f"{base} {style}") for text, style in code)]

    def _gutter_of(self, shown: ShownHunk, index: int) -> Line:
        line, digits = shown.lines[index], self._digits
        if self._two_numbers:
            numbers = f"{line.old_no or '':>{digits}} {line.new_no or '':>{digits}} "
        else:
            numbers = f"{line.new_no or line.old_no or '':>{digits}} "
        state = shown.state(index)
        mark = self.options.glyphs.of(state) if state and shown.mixed else " "
        sign = {"+": "plus", "-": "minus", " ": ""}[line.sign]
        return [(numbers, "number"), (f"{mark} ", state), (line.sign, sign), (" ", "")]

    def end_words(self, shown: ShownHunk, index: int) -> str:
        """What stands invisibly at a line's end, in words."""
        return tail_words(shown.text(index), odd_ending=shown.odd_ending(index))

    def cut_lines(self) -> bool:
        """Whether some line is wider than the screen and not wrapped: its end is out of sight."""
        return not self.options.wrap and self.widest > self.code_width


def _indented(lines: list[Line]) -> list[Line]:
    return [[(" ", ""), *line] for line in lines]


def _kind(char: str) -> str:
    if char == "\t":
        return "tab"
    return "hidden" if not " " <= char <= "~" and needs_hex(char) else "text"


def _base_style(shown: ShownHunk, index: int) -> str:
    """The ground of a line: regions that are approved already step back behind the open ones."""
    line = shown.lines[index]
    if line.key is None:
        return ""
    if shown.each.state == "pending" and shown.state(index) == "approved":
        return "settled"
    return "add" if line.sign == "+" else "del"


def _slice(parts: Sequence[Piece], start: int, end: int | None) -> list[Piece]:
    """Characters `start` to `end` of the parts' joined text."""
    out: list[Piece] = []
    at = 0
    for text, style in parts:
        stop = len(text) if end is None else min(len(text), end - at)
        begin = max(0, start - at)
        if begin < stop:
            out.append((text[begin:stop], style))
        at += len(text)
        if end is not None and at >= end:
            break
    return out


def cut_points(text: str, first: int, rest: int) -> tuple[int, ...]:
    """Where `text` is cut so that the first part has `first` cells and each later one `rest`."""
    if len(text) <= first and cells(text) <= first:
        return (0,)
    if text.isascii():
        return (0, *range(first, len(text), rest))
    points, used, limit = [0], 0, first
    for index, char in enumerate(text):
        size = cells(char)
        if used + size > limit:
            points.append(index)
            used, limit = 0, rest
        used += size
    return tuple(points)
