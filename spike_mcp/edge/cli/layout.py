"""Lines for a terminal: how wide a text is, how it is cut, padded, wrapped and set in columns.

What is measured is what is shown: texts of unknown origin go through `one_line` first.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spike_mcp.core.unsafe import visible

if TYPE_CHECKING:
    from spike_mcp.edge.cli.out import Part

NARROWEST = 40
"""Columns below which nothing is made narrower: the terminal wraps then."""


def terminal_width(stream: object, environ: Mapping[str, str]) -> int:
    """Columns of the terminal behind `stream`; $COLUMNS wins; 0 = not a terminal, no limit."""
    given = environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return max(int(given), NARROWEST)
    try:
        descriptor: int = stream.fileno()  # type: ignore[attr-defined]  # caught below
        return max(os.get_terminal_size(descriptor).columns, NARROWEST)
    except (AttributeError, OSError, ValueError):
        return 0


def one_line(text: str) -> str:
    """`text` as one harmless line: hidden characters in hex, a newline too; tab is kept."""
    return visible(text).replace("\n", "<000a>")


def width(text: str) -> int:
    """Columns that `text` takes: wide characters count two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, limit: int) -> str:
    """`text` in at most `limit` columns, `…` where something was cut; 0 = no limit."""
    if limit <= 0 or width(text) <= limit:
        return text
    kept, used = [], 1
    for char in text:
        used += _char_width(char)
        if used > limit:
            break
        kept.append(char)
    return "".join(kept) + "…"


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """`text` filled with blanks to `columns`; `right` puts the blanks in front."""
    blanks = " " * max(columns - width(text), 0)
    return blanks + text if right else text + blanks


def wrap(text: str, limit: int) -> list[str]:
    """`text` broken at blanks into lines of at most `limit` columns; long words stay whole."""
    if limit <= 0:
        return [text]
    lines: list[str] = []
    current = ""
    for word in text.split():
        longer = f"{current} {word}" if current else word
        if current and width(longer) > limit:
            lines.append(current)
            current = word
        else:
            current = longer
    return [*lines, current] if current or not lines else lines


def folded(parts: Sequence[Part], limit: int, indent: int) -> Iterator[list[Part]]:
    """One line of styled parts as lines of at most `limit` columns; 0 = no limit.

    What goes on stands `indent` columns in, behind an arrow at its left.
    """
    room = limit - indent
    if limit <= 0 or room < 8:
        yield list(parts)
        return
    line: list[Part] = []
    used = 0
    for text, style in ((p, "") if isinstance(p, str) else p for p in parts):
        kept = ""
        for char in one_line(text):
            if used + _char_width(char) > limit:
                yield [*line, (kept, style)]
                line, kept, used = [(f"{'↳ ':>{indent}}", "dim")], "", indent
            kept += char
            used += _char_width(char)
        line.append((kept, style))
    yield line


def hanging(lead: str, text: str, limit: int) -> Iterator[str]:
    """`lead` and `text`, broken at blanks into lines of `limit` columns; more stands beside it."""
    beside = width(lead)
    first, *rest = wrap(one_line(text), max(limit - beside, 20) if limit else 0)
    yield f"{lead}{first}".rstrip()
    yield from (f"{' ' * beside}{line}" for line in rest)


def labelled(pairs: Iterable[tuple[str, str]], limit: int, indent: int = 2) -> Iterator[str]:
    """`label  text` rows with the labels in one column and the texts wrapped beside it."""
    rows = [(label, one_line(text)) for label, text in pairs]
    column = max((len(label) for label, _text in rows), default=0)
    room = limit - indent - column - 2 if limit else 0
    for label, text in rows:
        first, *rest = wrap(text, room if room > 20 else 0)
        yield f"{' ' * indent}{pad(label, column)}  {first}".rstrip()
        yield from (f"{' ' * (indent + column + 2)}{line}" for line in rest)


def columns(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[list[str]]:
    """Cells padded to their column's width, except the last; `right` = columns set to the right."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    if not rows:
        return []
    last = len(rows[0]) - 1
    sizes = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        [cell if i == last else pad(cell, sizes[i], right=i in right) for i, cell in enumerate(row)]
        for row in rows
    ]


def bar(part: float, whole: float, size: int = 20) -> str:
    """`[######..............]`; overfull shows a `!` at the end."""
    share = part / whole if whole > 0 else 0.0
    filled = min(size, max(0, round(share * size)))
    if part > 0 and filled == 0:
        filled = 1
    body = "#" * filled + "." * (size - filled)
    return f"[{body[:-1]}!]" if share > 1 else f"[{body}]"


def clock(seconds: float) -> str:
    """`38:12`: minutes and seconds, minutes beyond 60 too; what is gone counts as zero."""
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 hunk`, `3 hunks`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
