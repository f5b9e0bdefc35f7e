"""Keys that change what is looked at and decide nothing."""

from __future__ import annotations

from spike_mcp.edge.tui import context, texts
from spike_mcp.edge.tui.base import Base

_MORE_CONTEXT = 10


class Moves(Base):
    """Moving, marking, scrolling, grouping, more context, overlays."""

    def _moved(self, moved: bool, otherwise: str) -> None:
        if moved:
            self._view.reveal()
        else:
            self.say(otherwise)

    def _next(self) -> None:
        self._moved(self._view.review.step(1), "this is the last hunk")

    def _previous(self) -> None:
        self._moved(self._view.review.step(-1), "this is the first hunk")

    def _next_file(self) -> None:
        self._moved(self._view.review.step_file(1), "this is the last file")

    def _previous_file(self) -> None:
        self._moved(self._view.review.step_file(-1), "this is the first file")

    def _next_pending(self) -> None:
        self._moved(self._view.review.step_pending(1), "nothing is pending")

    def _previous_pending(self) -> None:
        self._moved(self._view.review.step_pending(-1), "nothing is pending")

    def _scroll_down(self) -> None:
        self._view.scroll_by(1)

    def _scroll_up(self) -> None:
        self._view.scroll_by(-1)

    def _page_down(self) -> None:
        self._view.scroll_by(self._view.page)

    def _page_up(self) -> None:
        self._view.scroll_by(-self._view.page)

    def _top(self) -> None:
        self._view.scroll_by(-self._view.scroll)

    def _bottom(self) -> None:
        self._view.scroll_by(self._view.rows_below)

    def _sideways(self, by: int) -> None:
        if self._view.wrap:
            self.say("lines are wrapped; w cuts them, then left and right scroll")
            return
        limit = max(0, self._view.sheet.widest - self._view.sheet.code_width)
        self._view.sideways = max(0, min(self._view.sideways + by * 8, limit))

    # --- the look of things ---------------------------------------------------------------------

    def _mark(self) -> None:
        if not self._view.review.toggle_mark():
            self.say("only hunks can be marked")
            return
        self._view.reveal()

    def _mark_same(self) -> None:
        count = self._view.review.mark_same()
        if count == 0:
            self.say("only hunks can be marked")
        elif count == 1:
            self._view.review.marks.clear()
            self.say("no other undecided hunk has these changed lines")
        else:
            self.say(f"{count} hunks with identical changed lines are marked; all are shown")
            self._view.reveal()

    def _clear(self) -> None:
        review = self._view.review
        if review.marks:
            review.marks.clear()
        elif review.filter:
            review.set_filter("")
        elif review.approved_only:
            review.toggle_approved_only()
        self._view.reveal()

    def _wrap(self) -> None:
        self._view.wrap = not self._view.wrap
        self._view.reveal()
        self.say("long lines are wrapped" if self._view.wrap else "long lines are cut: left, right")

    def _group(self) -> None:
        self.say(f"grouped by {self._view.review.cycle_grouping()}")
        self._view.reveal()

    def _approved_only(self) -> None:
        on = self._view.review.toggle_approved_only()
        self._view.review.marks.clear()
        self.say(
            "what is approved: the diff that would ship (v: everything)" if on else "everything"
        )
        self._view.reveal()

    def _list(self) -> None:
        self._view.list_forced = not self._view.list_forced
        self._view.reveal()

    async def _expand(self) -> None:
        current = self._view.review.current
        if current is None or current.hunk is None:
            return
        each = current.hunk
        base, work = await self._host.on_desk(lambda: self._desk.file_lines(each.path))
        had = self._view.extra.get(each.id, ((), ()))
        more = max(map(len, had)) + _MORE_CONTEXT
        self._view.extra[each.id] = context.around(each, self._view.snapshot.map, base, work, more)
        if self._view.extra[each.id] == had:
            self.say("that is all: the file, or another hunk, begins there")

    def _shrink(self) -> None:
        current = self._view.review.current
        if current is not None:
            self._view.extra.pop(current.key, None)
            self._view.reveal()

    def _help(self) -> None:
        self._view.overlay = texts.help_lines(self._view.sealed, self._view.width)

    def _output(self) -> None:
        if self._last_run is None:
            self.say("no test was run from here yet: T runs it")
        else:
            self._view.overlay = texts.output_lines(self._last_run, self._view.width)

    def _quit(self) -> None:
        self._host.exit(0)
