"""Style names to terminal styles. Colour never says anything alone: signs, words and weights do.

The palette keeps added and removed apart for the usual colour blindnesses: a blue-green against an
orange-brown, of different lightness. Without colour (`NO_COLOR`) only weights, underline and
reverse video are used.
"""

from __future__ import annotations

from functools import cache

from rich.style import Style

_GROUND = "#14181d"
_PANEL = "#1a1f26"
_BAR = "#232c37"

_COLOUR = {
    "text": f"#d9dee4 on {_GROUND}",
    "panel": f"#d9dee4 on {_PANEL}",
    "bar": f"#d9dee4 on {_BAR}",
    "box": "#d9dee4 on #1d2731",
    "message": "bold #f3f5f7 on #33475b",
    "dim": "#909aa6",
    "strong": "bold #ffffff",
    "title": "bold #b8d4ee",
    "heading": "#9fb2c4",
    "token": "bold underline #ffffff",
    "used": "bold reverse",
    "key": "bold #f5b841",
    "pending": "bold #f5b841",
    "lapsed": "bold #f5b841",
    "approved": "#62c6aa",
    "withdrawn": "bold #d9a5e8",
    "outside": "bold #ff9868",
    "alarm": "bold #ff9868",
    "good": "bold #62c6aa",
    "flag": "bold #14181d on #f5b841",
    "note": "italic #b6c3cf",
    "cursor": "bold #ffffff on #2f4f76",
    "caret": "reverse",
    "add": "#d9dee4 on #123430",
    "addword": "bold underline #ffffff on #1f6155",
    "del": "#d9dee4 on #40210f",
    "delword": "bold underline #ffffff on #80441b",
    "settled": f"#a3adb7 on {_GROUND}",
    "settledword": f"underline #a3adb7 on {_GROUND}",
    "plus": "bold #62c6aa",
    "minus": "bold #ff9868",
    "hidden": "bold reverse #ff9868",
    "blank": "#77828e",
    "number": "#77828e",
    "at": "#6fa8d6",
    "keyword": "#c3a6f0",
    "string": "#a8d08d",
    "literal": "#f0a86e",
    "remark": "italic #8e99a5",
    "name": "#7fb8ea",
    "rule": "#4a5866",
    "bar-full": "#9fb2c4",
    "bar-over": "bold #ff9868",
}

_PLAIN = {
    "message": "reverse",
    "dim": "dim",
    "strong": "bold",
    "title": "bold",
    "heading": "bold",
    "token": "bold underline",
    "used": "bold reverse",
    "key": "bold",
    "pending": "bold",
    "lapsed": "bold",
    "withdrawn": "bold",
    "outside": "bold",
    "alarm": "bold",
    "good": "bold",
    "flag": "reverse",
    "note": "italic",
    "cursor": "reverse",
    "caret": "reverse",
    "addword": "bold underline",
    "delword": "bold underline",
    "settled": "dim",
    "settledword": "dim underline",
    "plus": "bold",
    "minus": "bold",
    "hidden": "bold reverse",
    "blank": "dim",
    "number": "dim",
    "remark": "italic",
    "rule": "dim",
}


class Theme:
    """Styles by name; several names, separated by spaces, are laid over each other in order."""

    def __init__(self, *, color: bool) -> None:
        table = _COLOUR if color else _PLAIN
        self.color = color
        self._named = {name: Style.parse(text) for name, text in table.items()}
        self.style = cache(self._combine)

    def _combine(self, names: str) -> Style:
        style = Style.null()
        for name in names.split():
            style += self._named.get(name, Style.null())
        return style
