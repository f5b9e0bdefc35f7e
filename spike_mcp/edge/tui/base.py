"""What actions stand on: the app they run in, the desk, the view, and how they speak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from spike_mcp.core.codes import Problem
from spike_mcp.edge.desk import Desk, Done, Snapshot, TestRun
from spike_mcp.edge.present import in_one_line
from spike_mcp.edge.tui import changes
from spike_mcp.edge.tui.boxes import TagBox
from spike_mcp.edge.tui.view import View

T = TypeVar("T")


class Host(Protocol):
    """What actions need of the app."""

    async def on_desk(self, work: Callable[[], T]) -> T:
        """Run something on the desk's thread."""

    def run_aside(self, work: Callable[[], T], done: Callable[[T | Problem], None]) -> None:
        """Run something long."""

    def exit(self, result: int | None = None) -> None:
        """Leave."""


class Base:
    """State that all actions share, for one view."""

    def __init__(self, host: Host, desk: Desk, view: View) -> None:
        self._host = host
        self._desk = desk
        self._view = view
        self._drafts: dict[str, str] = {}
        self._last_run: TestRun | None = None
        self._is_testing = False

    def say(self, text: str, style: str = "message") -> None:
        """Show a message until the next key."""
        self._view.message, self._view.message_style = text, style

    def refused(self, problem: Problem) -> None:
        """Show a refusal: in the box if one is open, else as a message."""
        text = f"refused: {in_one_line(problem)}"
        if self._view.box is not None:
            self._view.box.message = text
        else:
            self.say(text, "message alarm")

    def take(self, snapshot: Snapshot) -> None:
        """Show a newer moment. A box keeps its pinned hunks and says if they changed."""
        view = self._view
        old, view.snapshot = view.snapshot, snapshot
        turned = changes.clock_news(old.status, snapshot.status)
        if turned:
            self.say(turned, "message alarm")
        if snapshot.map is old.map and snapshot.outside == old.outside:
            return
        before = view.review.cursor
        view.review.take(snapshot)
        if snapshot.map is not old.map:
            view.extra.clear()
            news = changes.news(old.map, snapshot.map)
            if news and not view.message:
                self.say(news)
        if isinstance(view.box, TagBox):
            view.box.changed = changes.pin_broken(view.pinned, snapshot.map)
        if view.review.cursor != before and not view.pinned:
            view.reveal()

    async def _decided(self, work: Callable[[], Done]) -> Done:
        """Do something, then show the spike as it is after it."""
        try:
            return await self._host.on_desk(work)
        finally:
            self.take(await self._host.on_desk(self._desk.look))
