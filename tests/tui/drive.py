"""Drives the review screen in tests: keys in, text of the screen out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fake_desk import FakeDesk
from textual import events
from textual.keys import _character_to_key
from textual.pilot import Pilot

from spike_mcp.edge.desk import Desk
from spike_mcp.edge.tui.app import ReviewApp
from spike_mcp.edge.tui.view import View

_CHARACTERS = {"space": " ", "enter": "\r", "tab": "\t", "escape": "\x1b"}


class Screen:
    """A running screen over a desk."""

    def __init__(self, app: ReviewApp, pilot: Pilot[Any], desk: Any) -> None:
        self.app = app
        self.pilot = pilot
        self.desk = desk

    @property
    def view(self) -> View:
        """What the screen shows."""
        assert self.app.view is not None
        return self.app.view

    @property
    def current(self) -> str:
        """Short id under the cursor."""
        entry = self.view.review.current
        return entry.short if entry else ""

    async def press(self, *keys: str) -> None:
        """Press keys, each painted before the next, and wait until they are served."""
        await self.pilot.press(*keys)
        await self.app.settled()

    async def rush(self, *keys: str) -> None:
        """Press keys faster than the screen can paint, and wait until they are served."""
        for key in keys:
            name = _character_to_key(key) if len(key) == 1 else key
            char = key if len(key) == 1 else _CHARACTERS.get(key)
            self.app.post_message(events.Key(name, char))
        await self.pilot.pause()
        await self.app.settled()

    async def type(self, text: str) -> None:
        """Type text."""
        await self.rush(*("space" if char == " " else char for char in text))

    async def poll(self) -> None:
        """Look at the spike now instead of at the next tick."""
        await self.app.look_now()

    def text(self) -> str:
        """The screen as it is drawn, trailing blanks off."""
        return "\n".join(line.rstrip() for line in self.rows())

    def rows(self) -> list[str]:
        """The drawn rows, from Textual's own compositor."""
        size = self.app.size
        strips = self.app.screen._compositor.render_strips()
        return [strip.text for strip in strips][: size.height]


def on_screen(
    story: Callable[[Screen], Awaitable[None]],
    desk: Desk | None = None,
    size: tuple[int, int] = (120, 36),
    **options: Any,
) -> None:
    """Run `story` on a screen of `size` (columns, rows)."""

    async def go() -> None:
        shown = desk if desk is not None else FakeDesk()
        app = ReviewApp(shown, **options)
        async with app.run_test(size=size) as pilot:
            screen = Screen(app, pilot, shown)
            await screen.press()
            await pilot.pause()
            await story(screen)

    asyncio.run(go())
