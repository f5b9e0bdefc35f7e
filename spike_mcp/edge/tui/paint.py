"""Lines of styled pieces, and how to cut, pad and wrap them by terminal cells.

A piece is (text, style names of `theme`). All text in pieces is safe: no control characters, no
tabs; `Painter` of the app checks nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, get_character_cell_size

Piece = tuple[str, str]
Line = list[Piece]


def width_of(line: Iterable[Piece]) -> int:
    """Cells of a line."""
    return sum(cells(text) for text, _style in line)


def cells(text: str) -> int:
    """Cells of a text."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int) -> str:
    """The longest beginning of `text` that fits into `width` cells."""
    if text.isascii():
        return text[: max(width, 0)]
    used = 0
    for index, char in enumerate(text):
        used += get_character_cell_size(char)
        if used > width:
            return text[:index]
    return text


def fit(text: str, width: int, more: str) -> str:
    """`text`, or its beginning and `more`, in at most `width` cells."""
    return text if cells(text) <= width else cut(text, width - 1) + more if width > 0 else ""


def fit_path(path: str, width: int, more: str) -> str:
    """`path`, or `more` and its end: the file's name is what tells paths apart."""
    if cells(path) <= width:
        return path
    start = len(path)
    used = 1
    while start > 0 and used + cells(path[start - 1]) <= width:
        start -= 1
        used += cells(path[start])
    return more + path[start:] if width > 0 else ""


def pad(text: str, width: int) -> str:
    """`text` with blanks up to `width` cells."""
    return text + " " * (width - cells(text))


def clip(line: Sequence[Piece], width: int, start: int = 0) -> Line:
    """The cells `start` to `start + width` of a line."""
    out: Line = []
    skip, left = start, width
    for text, style in line:
        size = cells(text)
        if skip >= size:
            skip -= size
            continue
        if skip:
            text = text[len(cut(text, skip)) :]
            skip = 0
        if left <= 0:
            break
        text = cut(text, left)
        left -= cells(text)
        out.append((text, style))
    return out


def filled(line: Sequence[Piece], width: int, style: str) -> Line:
    """A line of exactly `width` cells over the ground `style`."""
    shown = [(text, f"{style} {own}") for text, own in clip(line, width)]
    missing = width - width_of(shown)
    return [*shown, (" " * missing, style)] if missing > 0 else shown


def wrap(line: Sequence[Piece], width: int, indent: int = 0) -> list[Line]:
    """Break a line at blanks into lines of at most `width` cells; the later ones indented."""
    width = max(width, indent + 4)
    lines: list[Line] = [[]]
    used = 0
    for text, style in line:
        for word in _words(text):
            used = _place(lines, word, style, used, width, indent)
    return lines


def _words(text: str) -> list[str]:
    """Words with the blanks after them."""
    parts: list[str] = []
    start = 0
    for index in range(1, len(text)):
        if text[index - 1] == " " and text[index] != " ":
            parts.append(text[start:index])
            start = index
    return [*parts, text[start:]] if text else []


def _place(lines: list[Line], word: str, style: str, used: int, width: int, indent: int) -> int:
    bare = cells(word.rstrip(" "))
    if used + bare > width and used > indent:
        lines.append([(" " * indent, "")] if indent else [])
        used = indent
    while used + cells(word.rstrip(" ")) > width:
        head = cut(word, width - used)
        lines[-1].append((head, style))
        lines.append([(" " * indent, "")] if indent else [])
        word, used = word[len(head) :], indent
    word = cut(word, width - used)
    lines[-1].append((word, style))
    return used + cells(word)


def columns(parts: Iterable[Sequence[Piece]], width: int, gap: int = 2) -> Line:
    """Parts side by side; one that does not fit is left out whole, with all after it."""
    out: Line = []
    used = 0
    for part in parts:
        size = width_of(part)
        if not part:
            continue
        if used + size + (gap if out else 0) > width:
            break
        if out:
            out.append((" " * gap, ""))
            used += gap
        out.extend(part)
        used += size
    return out
