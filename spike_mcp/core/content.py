"""What a file's bytes say to a reader, and added lines that would deceive one (spec 8).

`decode` turns a file into text and names what it found; lines that are no UTF-8 are read as
ISO-8859-1, byte for byte and line for line, so every byte has a character and nothing is lost.
`deceptive` refuses added lines that a person reads otherwise than the machine does; with the
contract's `allow_control` the same findings are only flags.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spike_mcp.core import words
from spike_mcp.core.codes import ChangeKind, Problem, Refusal
from spike_mcp.core.regions import Region, split_lines
from spike_mcp.core.unsafe import (
    escape,
    is_hidden,
    mixed_scripts,
    obscuring,
    quoted,
    twin_words,
)

BOM = b"\xef\xbb\xbf"
"""UTF-8's byte order mark; it is kept, and no part of the text."""

LATIN = "iso-8859-1"
"""What a line is read as when it is no UTF-8: the one reading that never fails or loses a byte."""

MAX_FLAGS = 100
"""Most flags that `flags` gives for one file."""

_WIDE = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_PLAIN = re.compile(rb"[\t\f\x20-\x7e]*")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_UTF8_NAMES = frozenset({"utf-8", "utf8", "ascii", "us-ascii"})
_PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINER = "\u200d"
_VARIANTS = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"
_ALSO_EMOJI = "\u203c\u2049\u2139\u3030\u303d"

_ONLY_FLAGGED = frozenset({"emoji_joiner", "mixed_scripts", "combining_marks"})
_HINTS = {
    "lone_cr": "end lines with \\n or \\r\\n, and write a carriage return in a string as \\r",
    "control_character": "write it as an escape of the language, such as \\x1b",
    "bidi_character": "leave it out, or write it as an escape of the language",
    "invisible_character": "leave it out, or write it as an escape of the language",
    "not_utf8": "new text must be UTF-8; bytes of the replaced lines may stay as they are",
    "encoding_cookie": "leave the encoding declaration out, or declare utf-8",
    "look_alike": "write the name in plain ASCII: the language reads it so",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A file as text.

    `encoding` is `utf-8`, `iso-8859-1`, or `utf-8 and iso-8859-1` where lines differ; `endings` is
    `lf`, `crlf`, `mixed` or `none`. `text` keeps its line endings and leaves out the BOM.
    """

    text: str
    encoding: str
    bom: bool
    endings: str


@dataclass(frozen=True, slots=True)
class Flag:
    """Something in an added line that the human must look at; `line` counts the worktree's lines.

    `text` says what it is, in visible characters.
    """

    name: str
    line: int
    text: str


def require_text(data: bytes, name: str = "the file") -> None:
    """Raise `Problem` for content that has no lines of text.

    `ENCODING_UNSUPPORTED` for UTF-16 and UTF-32, `BINARY_CONTENT` for a NUL byte.
    """
    for mark, wide in _WIDE:
        if data.startswith(mark):
            raise Problem(
                Refusal.ENCODING_UNSUPPORTED,
                f"{quoted(name)} is {wide} text; only UTF-8 and 8-bit text can be read or changed",
                "leave this file as it is, or ask the human to convert it before the spike",
            )
    at = data.find(b"\0")
    if at >= 0:
        raise Problem(
            Refusal.BINARY_CONTENT,
            f"{quoted(name)} holds a NUL byte at offset {at}: it is binary, not text",
            "binary content can't be written here; a person couldn't review it",
        )


def decode_line(line: bytes) -> str:
    """One line as text: UTF-8, else ISO-8859-1."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode(LATIN)


def is_utf8(data: bytes) -> bool:
    """Whether `data` is valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def encoding_of(data: bytes) -> str:
    """`utf-8`, `iso-8859-1` or `utf-8 and iso-8859-1`, as in `Text.encoding`."""
    if is_utf8(data):
        return "utf-8"
    some_utf8 = any(not line.isascii() and is_utf8(line) for line in split_lines(data))
    return f"utf-8 and {LATIN}" if some_utf8 else LATIN


def decode(data: bytes) -> Text:
    """`data` as text, with encoding, BOM and line endings named.

    Raises `Problem` as `require_text` does.
    """
    require_text(data)
    bom = data.startswith(BOM)
    body = data[len(BOM) :] if bom else data
    encoding = encoding_of(body)
    if encoding == "utf-8":
        text = body.decode("utf-8")
    else:
        text = "".join(decode_line(line) for line in split_lines(body))
    return Text(text, encoding, bom, _endings(body))


def _endings(data: bytes) -> str:
    lines = data.count(b"\n")
    crlf = data.count(b"\r\n")
    if not lines:
        return "none"
    if crlf in (0, lines):
        return "crlf" if crlf else "lf"
    return "mixed"


def deceptive(
    before: bytes | None,
    after: bytes | None,
    regions: Iterable[Region],
    allow_control: bool = False,
) -> Problem | None:
    """The refusal of a change whose added lines deceive a reader, or None.

    `regions` is the diff from `before` to `after`. NUL is `BINARY_CONTENT` always; the rest is
    `CONTENT_DECEPTIVE`, naming line and character, unless `allow_control`.
    """
    regions = tuple(regions)
    if not regions or after is None:
        return None
    try:
        require_text(after, regions[0].path)
    except Problem as problem:
        return problem
    if allow_control:
        return None
    for flag in _findings(regions[0].path, regions, before, after):
        if flag.name not in _ONLY_FLAGGED:
            return Problem(
                Refusal.CONTENT_DECEPTIVE,
                f"{quoted(regions[0].path)} line {flag.line}: {flag.text}",
                _HINTS[flag.name],
            )
    return None


def flags(
    path: str,
    regions: Iterable[Region],
    before: bytes | None = None,
    after: bytes | None = None,
) -> tuple[Flag, ...]:
    """What a human should be shown of the added lines, at most `MAX_FLAGS`.

    With `after` at hand, look-alike names inside strings and comments are left alone.
    """
    found: list[Flag] = []
    for flag in _findings(path, tuple(regions), before, after):
        if len(found) == MAX_FLAGS:
            break
        found.append(flag)
    return tuple(found)


def _findings(
    path: str, regions: tuple[Region, ...], before: bytes | None, after: bytes | None
) -> Iterator[Flag]:
    look_alikes: list[tuple[int, int, str]] = []
    twins: list[tuple[int, int, str]] = []
    for region in regions:
        kept = frozenset(_HIGH_RUN.findall(region.removed))
        for offset, line in enumerate(split_lines(region.added)):
            body = _without_ending(line)
            if _PLAIN.fullmatch(body):
                continue
            number = region.new_start + offset + 1
            yield from _bad_bytes(body, number, kept)
            text = body.decode("utf-8", "surrogateescape")
            if number == 1 and before is not None and before.startswith(BOM):
                text = text.removeprefix("\ufeff")
            yield from _hidden(text, number)
            if obscuring(text):
                yield Flag("combining_marks", number, "marks are drawn over letters or piled up")
            if mixed_scripts(text):
                yield Flag("mixed_scripts", number, "a word mixes letters of look-alike scripts")
            twins += [(number, at, word) for at, word in twin_words(text)]
            if words.folds_names(path, after or region.added):
                look_alikes += [(number, at, word) for at, word in words.look_alikes(text)]
    yield from _cookie_flags(path, regions, before, after)
    yield from _twin_flags(path, twins, after)
    if regions and regions[0].kind is ChangeKind.CREATE and twin_words(path):
        yield Flag("mixed_scripts", 1, "the file's name has letters that only look Latin")
    for number, word in words.in_code(look_alikes, after):
        plain = unicodedata.normalize("NFKC", word)
        yield Flag("look_alike", number, f"'{quoted(word)}' is read as the name '{plain}'")


def _twin_flags(
    path: str, twins: list[tuple[int, int, str]], after: bytes | None
) -> Iterator[Flag]:
    """Names in another alphabet that read like Latin ones; texts for people may hold any."""
    if path.endswith(_PROSE) or not twins:
        return
    python = words.folds_names(path, after or b"")
    found = words.in_code(twins, after) if python else ((line, word) for line, _, word in twins)
    for number, word in found:
        text = f"'{quoted(word)}' is made of letters that only look Latin"
        yield Flag("mixed_scripts", number, text)


def _without_ending(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def _bad_bytes(body: bytes, number: int, kept: frozenset[bytes]) -> Iterator[Flag]:
    """Bytes that are no UTF-8 and were not in the lines this one replaces."""
    for run in _HIGH_RUN.findall(body):
        if not is_utf8(run) and run not in kept:
            shown = " ".join(f"{byte:02x}" for byte in run[:8])
            yield Flag("not_utf8", number, f"the bytes {shown} are not UTF-8")


def _hidden(text: str, number: int) -> Iterator[Flag]:
    for at, char in enumerate(text):
        if char in "\t\f" or "\udc80" <= char <= "\udcff" or not is_hidden(char):
            continue
        if _in_emoji(text, at):
            yield Flag("emoji_joiner", number, f"{escape(char)} inside an emoji")
            continue
        yield Flag(_kind(char), number, f"{escape(char)} {_name(char)}, character {at + 1}")


def _kind(char: str) -> str:
    if char == "\r":
        return "lone_cr"
    if char in _BIDI:
        return "bidi_character"
    return "control_character" if unicodedata.category(char) == "Cc" else "invisible_character"


def _name(char: str) -> str:
    if char == "\r":
        return "is a carriage return inside a line"
    if unicodedata.category(char) == "Cc":
        return "is a control character"
    return f"is {unicodedata.name(char, 'a character without a visible form')}"


def _in_emoji(text: str, at: int) -> bool:
    """Whether the joiner or variation selector at `at` glues or shapes an emoji."""
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if text[at] == _JOINER:
        return _drawn(before) and _drawn(after) and after not in _VARIANTS
    if text[at] in _VARIANTS:
        keycap = before in "0123456789#*" and after == _KEYCAP
        return bool(before) and before not in _VARIANTS and (_drawn(before) or keycap)
    return False


def _drawn(char: str) -> bool:
    """A symbol, a skin tone or a selected variant: what an emoji sequence is made of."""
    if not char:
        return False
    skin = "\U0001f3fb" <= char <= "\U0001f3ff"
    return skin or char in _VARIANTS + _ALSO_EMOJI or unicodedata.category(char) in ("So", "Sm")


def _cookie_flags(
    path: str, regions: tuple[Region, ...], before: bytes | None, after: bytes | None
) -> Iterator[Flag]:
    """A declared source encoding other than UTF-8 that this change brings into force.

    Compared with the file before, since removing line 1 can move an old comment into line 2. Only
    regions that reach the first two lines can have done it.
    """
    if path.endswith(_PROSE) or not any(region.new_start < 2 for region in regions):
        return
    if after is None:
        after = regions[0].added if regions[0].new_start == 0 else b""
    number, name = _cookie(after)
    if name and name not in _UTF8_NAMES and not name.startswith("utf-8-"):
        if before is not None and _cookie(before)[1] == name:
            return
        yield Flag("encoding_cookie", number, f"declares the source encoding '{quoted(name)}'")


def _cookie(data: bytes) -> tuple[int, str]:
    """Line and name of the encoding declaration (PEP 263) in the first two lines, or `(0, "")`."""
    lines = _LINE_BREAK.split(data.removeprefix(BOM)[:4096], maxsplit=2)[:2]
    for number, line in enumerate(lines, 1):
        found = _COOKIE.match(line)
        if found:
            return number, found.group(1).decode("ascii", "replace").lower().replace("_", "-")
    return 0, ""
