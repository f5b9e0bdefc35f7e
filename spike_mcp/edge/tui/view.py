"""The whole screen as a function of what is known: `View.frame()` gives its lines.

Layout (review-ux 'Screen'): hypothesis on top, the list left (on top below 90 columns, away below
30 rows), the hunk, a box at the bottom while something is asked, then clock, checkpoints and keys.
The hunk is never given up: everything else shrinks first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spike_mcp.core.hunks import ViewLine
from spike_mcp.edge.desk import Sealed, Snapshot
from spike_mcp.edge.present import Glyphs
from spike_mcp.edge.shown import ShownHunk
from spike_mcp.edge.text import safe_line
from spike_mcp.edge.tui import bars, texts
from spike_mcp.edge.tui.boxes import Box
from spike_mcp.edge.tui.listing import list_line
from spike_mcp.edge.tui.model import Entry, Review
from spike_mcp.edge.tui.paint import Line, filled, wrap
from spike_mcp.edge.tui.sheet import Options, Sheet
from spike_mcp.session.view import MapHunk

WIDE = bars.WIDE
"""Columns from which the list stands at the left."""

TALL = 30
"""Rows from which the list is shown at all."""

Above = tuple[tuple[ViewLine, ...], tuple[ViewLine, ...]]


@dataclass(frozen=True, slots=True)
class Rect:
    """A part of the screen in cells; empty when it is not shown."""

    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0

    def holds(self, x: int, y: int) -> bool:
        """Whether a cell lies inside."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(frozen=True, slots=True)
class Plan:
    """Where everything stands. `body` = list, title line and pane together."""

    listing: Rect
    body: Rect
    pane: Rect
    box_rows: int
    status_rows: int


@dataclass
class View:
    """What the screen shows. The app changes it and asks for a new `frame`."""

    sealed: Sealed
    snapshot: Snapshot
    glyphs: Glyphs
    review: Review = field(default_factory=Review)
    width: int = 80
    height: int = 24
    box: Box | None = None
    pinned: tuple[MapHunk, ...] = ()
    message: str = ""
    message_style: str = "message"
    running: str = ""
    wrap: bool = True
    list_forced: bool = False
    overlay: list[Line] | None = None
    scroll: int = 0
    sideways: int = 0
    overlay_top: int = 0
    list_top: int = 0
    extra: dict[str, Above] = field(default_factory=dict)
    """More context by hunk id, as `e` asked for it."""
    plan: Plan | None = None
    _sheet: Sheet | None = None
    _sheet_key: tuple[object, ...] = ()

    # --- what the pane shows --------------------------------------------------------------------

    @property
    def on_show(self) -> tuple[MapHunk, ...]:
        """The hunks in the pane: pinned by a box, all approved, the marked ones, or the current."""
        if self.pinned:
            return self.pinned
        current = self.review.current
        if self.review.approved_only:
            return tuple(e.hunk for e in self.review.shown if e.hunk is not None)
        if current is None or current.hunk is None:
            return ()
        if len(self.review.marks) > 1 and current.key in self.review.marks:
            return tuple(e.hunk for e in self.review.chosen if e.hunk is not None)
        return (current.hunk,)

    @property
    def sheet(self) -> Sheet:
        """The rows of what is on show, laid out for the pane; kept while nothing changed."""
        width = self.plan.pane.width if self.plan else self.width
        hunks = self.on_show
        stacked = len(hunks) > 1 or self.review.approved_only
        extra = tuple(self.extra.get(each.id) for each in hunks)
        states = tuple((each.id, each.state, each.tag, each.comments) for each in hunks)
        key = (states, id(self.snapshot.map), width, self.wrap, stacked, extra)
        if self._sheet is None or key != self._sheet_key:
            shown = [ShownHunk(each, *self.extra.get(each.id, ((), ()))) for each in hunks]
            options = Options(width, self.wrap, self.glyphs, stacked)
            self._sheet = Sheet(shown, self.snapshot.map, options)
            self._sheet_key = key
        return self._sheet

    def reveal(self) -> None:
        """Scroll so that the current hunk's first change is in sight, from the top if it fits."""
        self.plan = self._arrange()
        sheet, rows = self.sheet, self.plan.pane.height
        current = self.review.current
        key = current.key if current is not None else ""
        first, last = sheet.first_changes.get(key, (0, 0))
        self.sideways = 0
        if sheet.height <= rows or (len(self.on_show) == 1 and last < rows):
            self.scroll = 0
        elif len(self.on_show) > 1:
            self.scroll = sheet.starts.get(key, 0)
        else:
            self.scroll = max(0, min(first - 1, last - rows + 2))
        self._clamp()

    def scroll_by(self, rows: int) -> None:
        """Scroll the overlay if there is one, else the hunk."""
        if self.overlay is not None:
            self.overlay_top = max(0, min(self.overlay_top + rows, len(self.overlay) - 3))
            return
        self.scroll += rows
        self._clamp()

    def _clamp(self) -> None:
        rows = self.plan.pane.height if self.plan else self.height
        self.scroll = max(0, min(self.scroll, self.sheet.height - rows))

    @property
    def page(self) -> int:
        """Rows of a page of the pane."""
        return max(1, (self.plan.pane.height if self.plan else self.height) - 2)

    @property
    def rows_below(self) -> int:
        """Rows of the sheet below the pane."""
        rows = self.plan.pane.height if self.plan else self.height
        return max(0, self.sheet.height - self.scroll - rows)

    # --- layout ---------------------------------------------------------------------------------

    def _arrange(self) -> Plan:
        w, h = self.width, self.height
        top = len(self._hypothesis())
        foot = len(self._foot())
        status = self._status_rows()
        box = self._box_rows()
        body = max(2, h - top - status - foot - box)
        whole = Rect(0, top, w, body)
        if h < TALL and not self.list_forced:
            pane = Rect(0, top + 1, w, max(1, body - 1))
            return Plan(Rect(), whole, pane, box, status)
        if w >= WIDE:
            side = max(42, min(64, w * 2 // 5))
            pane = Rect(side + 1, top + 1, w - side - 1, max(1, body - 1))
            return Plan(Rect(0, top, side, body), whole, pane, box, status)
        rows = min(max(3, body // 3), max(1, len(self.review.rows)))
        pane = Rect(0, top + rows + 1, w, max(1, body - rows - 1))
        return Plan(Rect(0, top, w, rows), whole, pane, box, status)

    def _hypothesis(self) -> list[Line]:
        limit = 1 if self.height < 20 else 2 if self.height < 40 else 3
        return bars.hypothesis_lines(self.sealed, self.width, limit, self.glyphs)

    def _box_rows(self) -> int:
        if self.box is None:
            return 0
        wanted = 9 if self.height >= TALL else 7 if self.height >= 22 else 5
        if self.height < 16:
            wanted = 4
        return len(self.box.lines(self.width, wanted, self.glyphs))

    def _status_rows(self) -> int:
        if self.height < 16 and self.box is not None:
            return 0
        return 2 if self.height >= 18 else 1

    def _foot(self) -> list[Line]:
        """The message, else the test that runs, else the keys; nothing under a box."""
        if self.message:
            style = self.message_style
            lines = wrap([(safe_line(self.message, 600), style)], self.width - 2)[:3]
            return [filled([(" ", style), *line], self.width, style) for line in lines]
        if self.box is not None:
            return []
        if self.running:
            line: Line = [(" test running: ", "strong"), (safe_line(self.running, 300), "dim")]
            return [filled(line, self.width, "bar")]
        return [filled(bars.key_line(self.width), self.width, "bar")]

    # --- painting -------------------------------------------------------------------------------

    def frame(self) -> list[Line]:
        """The lines of the screen, each exactly `width` cells."""
        self.plan = plan = self._arrange()
        self._clamp()
        w, glyphs = self.width, self.glyphs
        lines = [filled(line, w, "bar") for line in self._hypothesis()]
        lines += self._body(plan)
        if self.box is not None:
            shown = self.box.lines(w, plan.box_rows, glyphs)
            lines += [filled(line, w, "box") for line in shown]
        status = bars.status_lines(
            self.sealed, self.snapshot, w, glyphs, checkpoints=plan.status_rows > 1
        )
        lines += [filled(line, w, "bar") for line in status[: plan.status_rows]]
        lines += self._foot()
        lines = lines[: self.height]
        return lines + [filled([], w, "text")] * (self.height - len(lines))

    def _body(self, plan: Plan) -> list[Line]:
        if self.overlay is not None:
            rows = plan.body.height
            part = self.overlay[self.overlay_top : self.overlay_top + rows]
            below = len(self.overlay) - self.overlay_top - rows
            if below > 0 and rows > 1:
                part[-1] = [(f" {self.glyphs.more} {below + 1} more lines: PgDn or j", "note")]
            part = part + [[]] * (rows - len(part))
            return [filled(line, self.width, "panel") for line in part]
        pane = self._pane_lines(plan)
        if not plan.listing.height:
            return pane
        listing = self._list_lines(plan.listing)
        if plan.pane.x == 0:
            return [*listing, *pane]
        wall: Line = [(self.glyphs.wall, "text rule")]
        return [[*left, *wall, *right] for left, right in zip(listing, pane, strict=True)]

    def _list_lines(self, rect: Rect) -> list[Line]:
        rows = len(self.review.rows)
        at = max(0, self.review.cursor_row)
        above = 1 if rect.height > 3 else 0
        self.list_top = max(min(self.list_top, at - above), at - rect.height + 1 + above, 0)
        self.list_top = max(0, min(self.list_top, rows - rect.height))
        lines = []
        for number in range(self.list_top, self.list_top + rect.height):
            line, here = list_line(self.review, number, rect.width, self.glyphs)
            lines.append(filled(line, rect.width, "panel cursor" if here else "panel"))
        return lines

    def _pane_lines(self, plan: Plan) -> list[Line]:
        rect = plan.pane
        title = bars.title_line(self.review, self.on_show, rect.width, self.glyphs)
        lines = [filled(title, rect.width, "bar")]
        if not self.on_show:
            lines += [filled(line, rect.width, "text") for line in self._instead(rect)]
        else:
            lines += [self._sheet_line(y, rect.width) for y in range(rect.height)]
        lines = lines[: rect.height + 1]
        return lines + [filled([], rect.width, "text")] * (rect.height + 1 - len(lines))

    def _sheet_line(self, y: int, width: int) -> Line:
        sheet, row = self.sheet, self.scroll + y
        view = sheet.ends.get(row)
        if view is not None and not sheet.cut_lines():
            self.review.seen.add(view)
        return filled(sheet.row(row, self.sideways), width, "text")

    def _instead(self, rect: Rect) -> list[Line]:
        """What stands where there is no hunk to show."""
        return texts.instead(self.review.current, self.review, self.snapshot, rect.width)

    def entry_at(self, x: int, y: int) -> Entry | None:
        """The entry whose list row is at a cell."""
        rect = self.plan.listing if self.plan else Rect()
        number = self.list_top + y - rect.y
        if not rect.holds(x, y) or not 0 <= number < len(self.review.rows):
            return None
        row = self.review.rows[number]
        return self.review.entries[row.index] if row.index >= 0 else None
