"""Which key does what."""

from __future__ import annotations

from spike_mcp.edge.tui.boxes import Box, FilterBox
from spike_mcp.edge.tui.deeds import Deeds
from spike_mcp.edge.tui.keys import BY_KEY
from spike_mcp.edge.tui.moves import Moves

_SCROLL_KEYS = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1}


class Actions(Moves, Deeds):
    """Keys to deeds, for one view."""

    async def key(self, name: str, char: str) -> None:
        """Serve one key."""
        view = self._view
        view.message = ""
        if view.overlay is not None:
            self._overlay_key(name, char)
        elif view.box is not None:
            await self._box_key(view.box, name, char)
        elif name != "paste":
            action = BY_KEY.get(char) or BY_KEY.get(name)
            if action is not None:
                await self._do(action, name)

    async def _do(self, action: str, name: str) -> None:
        if action == "sideways":
            self._sideways(1 if name == "right" else -1)
            return
        made = getattr(self, f"_{action}")()
        if made is not None:
            await made

    def _overlay_key(self, name: str, char: str) -> None:
        view = self._view
        step = {"pagedown": view.page, "pageup": -view.page, "space": view.page, **_SCROLL_KEYS}
        by = step.get(name) or {"j": 1, "k": -1}.get(char)
        if by:
            view.scroll_by(by)
        else:
            view.overlay, view.overlay_top = None, 0

    async def _box_key(self, box: Box, name: str, char: str) -> None:
        if name == "paste":
            box.edit.insert(char)
            name = char = ""
        elif name in ("pagedown", "pageup"):
            self._view.scroll_by(self._view.page if name == "pagedown" else -self._view.page)
            return
        elif name in _SCROLL_KEYS:
            self._view.scroll_by(_SCROLL_KEYS[name])
            return
        elif name == "ctrl+c":
            name = "escape"
        answer = box.key(name, char)
        if isinstance(box, FilterBox):
            self._narrow(box)
        if answer == "cancel":
            self._leave(box)
        elif answer:
            await self._submit(box, answer)
