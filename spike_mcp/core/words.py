"""Names that a reader sees in one form and Python reads in another.

Python folds identifiers with NFKC, so full-width or mathematical letters spell `os._exit` without
one of its characters. Only such names in code are meant; strings and comments may hold any letter.
"""

from __future__ import annotations

import re
import tokenize
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_JUDGED = 500
"""Most words of one file whose place is looked up."""

_SUFFIXES = (".py", ".pyi", ".pyw", ".pyx")
_WORD = re.compile(r"\w+")
_PYTHON_LINE = re.compile(rb"#![^\n]*python")
_STRING_PREFIX = re.compile(r"[A-Za-z]*")
# Literal parts of f- and t-strings, where the running Python splits them into tokens (3.12, 3.14).
_MIDDLES = frozenset(
    number
    for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE")
    if (number := getattr(tokenize, name, None)) is not None
)


def folds_names(path: str, content: bytes) -> bool:
    """Whether the file's language normalises identifiers, as Python does."""
    return path.endswith(_SUFFIXES) or _PYTHON_LINE.match(content) is not None


def look_alikes(line: str) -> list[tuple[int, str]]:
    """`(0-based column, word)` of words that are no ASCII but become an ASCII name under NFKC."""
    found = []
    for match in _WORD.finditer(line):
        word = match.group()
        if word.isascii():
            continue
        plain = unicodedata.normalize("NFKC", word)
        if plain.isascii() and plain.isidentifier():
            found.append((match.start(), word))
    return found


def in_code(
    candidates: Iterable[tuple[int, int, str]], source: bytes | None
) -> Iterator[tuple[int, str]]:
    """Of `(1-based line, 0-based column, word)`, the `(line, word)` outside strings and comments.

    Without source, where it stops being Python, and beyond `MAX_JUDGED` words, everything counts as
    code: looking up each word must not cost more than reading the file.
    """
    candidates = tuple(candidates)
    if not candidates:
        return
    quoted = _quoted_parts(source) if source is not None else []
    starts = [part.start for part in quoted]
    for number, (line, column, word) in enumerate(candidates):
        at = bisect_right(starts, (line, column)) - 1
        if number >= MAX_JUDGED or at < 0 or not quoted[at].holds(line, column):
            yield line, word


@dataclass(frozen=True, slots=True)
class _Part:
    """A string or comment token from `start` to `end`, both `(line, column)`."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str
    formatted: bool

    def holds(self, line: int, column: int) -> bool:
        """Whether the place lies in the token's literal text."""
        if not self.start <= (line, column) < self.end:
            return False
        return not (self.formatted and self._in_braces(line, column))

    def _in_braces(self, line: int, column: int) -> bool:
        """Before Python 3.12 an f-string is one token, its expressions included."""
        rows = self.text.split("\n")[: line - self.start[0] + 1]
        rows[-1] = rows[-1][: column - (self.start[1] if line == self.start[0] else 0)]
        head = "\n".join(rows).replace("{{", "").replace("}}", "")
        return head.count("{") > head.count("}")


def _quoted_parts(source: bytes) -> list[_Part]:
    text = source.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    lines = iter([line + "\n" for line in text.split("\n")])
    parts: list[_Part] = []
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.COMMENT or token.type in _MIDDLES:
                parts.append(_Part(token.start, token.end, token.string, False))
            elif token.type == tokenize.STRING:
                prefix = _STRING_PREFIX.match(token.string)
                formatted = prefix is not None and bool(set("fFtT") & set(prefix.group()))
                parts.append(_Part(token.start, token.end, token.string, formatted))
    except (tokenize.TokenError, SyntaxError, UnicodeError):
        return parts
    return parts
