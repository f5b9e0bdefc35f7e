"""The Textual app of `spike review`: keys in, lines out; everything it shows comes from `View`.

Keys are served one after the other by one task, so that type-ahead is never lost and a decision
that waits for the spike's lock stops neither the clock nor the paint. Everything that touches the
spike runs on one thread of its own: `Spike` is not for two threads at a time. A test run has a
thread and a view of the spike to itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from rich.segment import Segment
from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from spike_mcp.core.codes import Problem
from spike_mcp.edge.desk import Desk, Snapshot
from spike_mcp.edge.present import ASCII, UNICODE
from spike_mcp.edge.tui.actions import Actions
from spike_mcp.edge.tui.paint import Line
from spike_mcp.edge.tui.theme import Theme
from spike_mcp.edge.tui.view import View

T = TypeVar("T")

POLL_SECONDS = 0.4
"""How often new ledger rows are looked for; free while there are none."""

SWEEP_SECONDS = 10.0
"""How often the whole worktree is looked at for changes from outside."""


class Canvas(Widget, can_focus=True):
    """One widget as large as the screen; it draws the lines of the last frame."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; background: ansi_default; }"

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._looks = theme
        self.lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        """Draw the rows that differ from what is drawn already."""
        old = self.lines
        self.lines = lines
        if len(old) != len(lines):
            self.refresh()
            return
        changed = [y for y, line in enumerate(lines) if line != old[y]]
        if changed:
            width = self.size.width
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        """Row `y` of the frame."""
        if y >= len(self.lines):
            return Strip.blank(self.size.width)
        style = self._looks.style
        segments = [
            Segment("".join(text for text, _names in pieces), style(names))
            for names, pieces in groupby(self.lines[y], key=itemgetter(1))
        ]
        return Strip([segment for segment in segments if segment.text])


class ReviewApp(App[int]):
    """`spike review`."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []
    CSS = "Screen { background: ansi_default; overflow: hidden; layers: base; }"
    TITLE = "spike review"

    def __init__(self, desk: Desk, *, ascii_only: bool = False, color: bool = True) -> None:
        super().__init__(ansi_color=True)
        self._desk = desk
        self._clock = time.monotonic
        self._glyphs = ASCII if ascii_only else UNICODE
        self._canvas = Canvas(Theme(color=color))
        self._one_thread = ThreadPoolExecutor(1, "spike-desk")
        self._keys: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._aside: asyncio.Task[None] | None = None
        self._shown_since = self._clock()
        self.view: View | None = None
        self.actions: Actions | None = None

    def compose(self) -> ComposeResult:
        """The canvas alone."""
        yield self._canvas

    async def on_mount(self) -> None:
        """Look at the spike, paint, and start to serve keys and to follow the ledger."""
        snapshot = await self.on_desk(self._desk.look)
        size = self.size
        view = View(self._desk.sealed, snapshot, self._glyphs, width=size.width, height=size.height)
        view.review.take(snapshot)
        view.review.start()
        self.view = view
        self.actions = Actions(self, self._desk, view)
        view.reveal()
        self.paint()
        self._canvas.focus()
        self._start(self._serve_keys())
        self._start(self._follow())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def on_desk(self, work: Callable[[], T]) -> T:
        """Run something on the desk's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._one_thread, work)

    # --- keys -----------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Every key goes to the queue; Textual's own bindings have no part in it."""
        if isinstance(event, events.Key):
            char = event.character or ""
            self._keys.put_nowait((event.key, char if char.isprintable() else ""))
            return
        if isinstance(event, events.Paste):
            self._keys.put_nowait(("paste", event.text))
            return
        await super().on_event(event)

    async def _serve_keys(self) -> None:
        while True:
            name, char = await self._keys.get()
            try:
                await self._serve(name, char)
            finally:
                self._keys.task_done()

    async def _serve(self, name: str, char: str) -> None:
        assert self.actions is not None
        self.book_time()
        try:
            await self.actions.key(name, char)
        except Problem as problem:
            self.actions.refused(problem)
        if self._keys.empty():
            self.paint()

    async def settled(self) -> None:
        """Wait until every key has been served (for tests and screenshots)."""
        await self._keys.join()

    # --- following ------------------------------------------------------------------------------

    async def _follow(self) -> None:
        await self._look(self._desk.look_outside)
        swept = self._clock()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            look = self._desk.look
            if self._clock() - swept > SWEEP_SECONDS:
                look, swept = self._desk.look_outside, self._clock()
            await self._look(look)

    async def _look(self, look: Callable[[], Snapshot]) -> None:
        assert self.actions is not None
        try:
            self.actions.take(await self.on_desk(look))
        except Problem as problem:
            self.actions.refused(problem)
        self.paint()

    async def look_now(self) -> None:
        """Look at the spike now instead of at the next tick."""
        await self._look(self._desk.look)

    def book_time(self) -> None:
        """Book the time since the last key on what is on the screen."""
        now = self._clock()
        if self.view is not None and self.view.on_show:
            self.view.review.spend(self.view.on_show, now - self._shown_since)
        self._shown_since = now

    # --- painting -------------------------------------------------------------------------------

    def paint(self) -> None:
        """Draw the view."""
        if self.view is not None:
            self._canvas.show(self.view.frame())

    def on_resize(self, event: events.Resize) -> None:
        """Lay out anew."""
        if self.view is not None:
            self.view.width, self.view.height = event.size.width, event.size.height
            self.view.reveal()
            self.paint()

    def on_click(self, event: events.Click) -> None:
        """A click on the list moves the cursor there."""
        if self.view is None or self.view.box is not None:
            return
        entry = self.view.entry_at(event.screen_x, event.screen_y)
        if entry is not None:
            self.book_time()
            self.view.review.go_to(entry.key)
            self.view.reveal()
            self.paint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel scrolls the hunk."""
        self._wheel(event, 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel scrolls the hunk."""
        self._wheel(event, -3)

    def _wheel(self, event: events.MouseEvent, rows: int) -> None:
        event.stop()
        if self.view is not None:
            self.view.scroll_by(rows)
            self.paint()

    def run_aside(self, work: Callable[[], T], done: Callable[[T | Problem], None]) -> None:
        """Run something long on a thread of its own; `done` gets its value or its `Problem`."""

        async def wait() -> None:
            loop = asyncio.get_running_loop()
            with ThreadPoolExecutor(1, "spike-test") as thread:
                outcome: T | Problem
                try:
                    outcome = await loop.run_in_executor(thread, work)
                except Problem as problem:
                    outcome = problem
            done(outcome)
            self.paint()

        self._aside = self._start(wait())

    async def aside_done(self) -> None:
        """Wait for what `run_aside` started last (for tests and screenshots)."""
        if self._aside is not None:
            await self._aside

    async def on_unmount(self) -> None:
        """Leave no task behind; nothing is lost, for every decision is in the ledger."""
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._one_thread.shutdown(wait=True)
