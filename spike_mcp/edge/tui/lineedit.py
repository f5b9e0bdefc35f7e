"""One line of typed text with a caret, and completion of its words. No drawing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from spike_mcp.core.unsafe import is_hidden

MAX_CHARS = 1000

_PREFIX = re.compile(r"[\w-]*\Z")
_LAST_WORD = re.compile(r"\S*\s*\Z")


@dataclass
class LineEdit:
    """Text being typed; `caret` counts characters from the start."""

    text: str = ""
    caret: int = 0
    _cycle: tuple[int, tuple[str, ...], int] | None = field(default=None, repr=False)

    def insert(self, typed: str) -> None:
        """Put text at the caret. What a reader could not see is left out, a line end is a blank."""
        clean = "".join(" " if c in "\n\r\t" else "" if is_hidden(c) else c for c in typed)
        clean = clean[: max(0, MAX_CHARS - len(self.text))]
        self.text = self.text[: self.caret] + clean + self.text[self.caret :]
        self.caret += len(clean)
        self._cycle = None

    def key(self, name: str) -> bool:
        """An editing key by Textual's name; False if it is none."""
        action = _ACTIONS.get(name)
        if action is None:
            return False
        action(self)
        self._cycle = None
        return True

    def complete(self, words: Sequence[str]) -> str:
        """Complete the word before the caret; again: the next that fits. What was put in, or ""."""
        if self._cycle is not None:
            start, fitting, number = self._cycle
            number = (number + 1) % len(fitting)
        else:
            match = _PREFIX.search(self.text[: self.caret])
            prefix = match.group().casefold() if match else ""
            start = self.caret - len(prefix)
            fitting = tuple(w for w in words if prefix and w.casefold().startswith(prefix))
            number = 0
        if not fitting:
            return ""
        word = fitting[number]
        self.text = self.text[:start] + word + " " + self.text[self.caret :].lstrip(" ")
        self.caret = start + len(word) + 1
        self._cycle = (start, fitting, number)
        return word

    def _left(self) -> None:
        self.caret = max(0, self.caret - 1)

    def _right(self) -> None:
        self.caret = min(len(self.text), self.caret + 1)

    def _home(self) -> None:
        self.caret = 0

    def _end(self) -> None:
        self.caret = len(self.text)

    def _cut(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.caret = start

    def _backspace(self) -> None:
        self._cut(max(0, self.caret - 1), self.caret)

    def _delete(self) -> None:
        self._cut(self.caret, self.caret + 1)

    def _word(self) -> None:
        match = _LAST_WORD.search(self.text[: self.caret])
        self._cut(match.start() if match else 0, self.caret)

    def _before(self) -> None:
        self._cut(0, self.caret)

    def _after(self) -> None:
        self._cut(self.caret, len(self.text))


_ACTIONS = {
    "left": LineEdit._left,
    "right": LineEdit._right,
    "home": LineEdit._home,
    "ctrl+a": LineEdit._home,
    "end": LineEdit._end,
    "ctrl+e": LineEdit._end,
    "backspace": LineEdit._backspace,
    "ctrl+h": LineEdit._backspace,
    "delete": LineEdit._delete,
    "ctrl+d": LineEdit._delete,
    "ctrl+w": LineEdit._word,
    "ctrl+u": LineEdit._before,
    "ctrl+k": LineEdit._after,
}
