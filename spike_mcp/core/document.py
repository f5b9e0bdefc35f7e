"""A file's lines for placing hunks: each with its own ending, all bytes kept (spec 8).

Lines are compared by their text without ending, so a patch that a client sent with other line
endings still fits. Each distinct line is one character of a string: finding a run of lines is then
one substring search, linear whatever the file repeats.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from spike_mcp.core import content
from spike_mcp.core.codes import Problem, Refusal

_LAST_CODE = 0x10FFFF


def holds_bytes(text: str) -> bool:
    """Whether `text` holds bytes that were no UTF-8, as surrogate escapes."""
    return not text.isascii() and any("\udc80" <= char <= "\udcff" for char in text)


def key(text: str) -> str:
    """The form of a line's text in which patch and file are compared.

    Bytes that arrived as surrogate escapes are read as the file's own bytes are.
    """
    if not holds_bytes(text):
        return text
    return content.decode_line(text.encode("utf-8", "surrogateescape"))


def require_encodable(*texts: str) -> None:
    """Raise `Problem` for text that can't be bytes: NUL, or half of a surrogate pair."""
    for text in texts:
        if "\0" in text:
            raise Problem(
                Refusal.BINARY_CONTENT,
                "the text holds a NUL character: that is binary content",
                "binary content can't be written here; a person couldn't review it",
            )
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise Problem(
                Refusal.ENCODING_UNSUPPORTED,
                f"the text holds a lone surrogate (U+{ord(text[error.start]):04X})",
                "send the character itself, not half of its UTF-16 form",
            ) from error


class Document:
    """The lines of one file. Raises `Problem` when it is no text (`content.require_text`)."""

    def __init__(self, data: bytes, name: str = "the file") -> None:
        content.require_text(data, name)
        self.name = name
        self.bom = content.BOM if data.startswith(content.BOM) else b""
        body = data[len(self.bom) :]
        self.encoding = content.encoding_of(body)
        self.lines, self.ends = _lines_and_ends(body)
        self.keys = self._texts(body)
        crlf = self.ends.count(b"\r\n")
        self.default_end = b"\r\n" if crlf > self.ends.count(b"\n") else b"\n"
        self._headings: dict[str, list[int]] | None = None
        self._block_ends: list[int] = []

    def _texts(self, body: bytes) -> list[str]:
        if self.encoding != "utf-8" or b"\r\n" in body:
            return [content.decode_line(line) for line in self.lines]
        return body.decode("utf-8").split("\n")[: len(self.lines)]

    @cached_property
    def _codes(self) -> dict[str, str]:
        """Line text -> its character; made when the first hunk is looked for."""
        texts = dict.fromkeys(self.keys)
        if len(texts) > _LAST_CODE:
            raise Problem(
                Refusal.TOO_LARGE, f"{self.name} has too many lines", "change a smaller file"
            )
        return {text: chr(number) for number, text in enumerate(texts, 1)}

    @cached_property
    def _hay(self) -> str:
        return "".join(map(self._codes.__getitem__, self.keys))

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def open_end(self) -> bool:
        """Whether the last line lacks its newline."""
        return bool(self.ends) and not self.ends[-1]

    def code(self, keys: Sequence[str]) -> str | None:
        """The run of lines as a search string; None when a line is nowhere in the file."""
        codes = [self._codes.get(text) for text in keys]
        return None if None in codes else "".join(code for code in codes if code)

    def has_at(self, code: str, at: int) -> bool:
        """Whether the run stands at 0-based line `at`."""
        return self._hay.startswith(code, at) and at + len(code) <= len(self)

    def find(self, code: str, start: int = 0, end: int | None = None) -> Iterator[int]:
        """0-based lines where the run begins, overlapping ones too."""
        stop = len(self._hay) if end is None else end
        at = self._hay.find(code, start, stop)
        while at >= 0:
            yield at
            at = self._hay.find(code, at + 1, stop)

    def positions(self) -> dict[str, list[int]]:
        """Where each text stands, white space folded: what a near miss is searched with."""
        found: dict[str, list[int]] = {}
        for at, text in enumerate(self.keys):
            folded = fold(text)
            if folded:
                found.setdefault(folded, []).append(at)
        return found

    def blocks(self, heading: str, start: int, end: int) -> list[tuple[int, int]]:
        """`(first, end)` of the block under lines from `start` to `end` that read `heading`.

        Indentation apart; two at most, enough to tell whether there is just one. A block ends
        before the next line that is indented no deeper than its heading.
        """
        if self._headings is None:
            self._headings = {}
            for at, text in enumerate(self.keys):
                self._headings.setdefault(text.strip(), []).append(at)
            self._block_ends = _block_ends(self.keys)
        places = self._headings.get(heading, [])
        first = bisect_left(places, start)
        inside = places[first : first + 2]
        return [(at + 1, self._block_ends[at]) for at in inside if at < end]

    def writes_latin(self, start: int, end: int) -> bool:
        """Whether new lines in place of lines `start` to `end` are ISO-8859-1, as theirs are."""
        if self.encoding == "utf-8":
            return False
        if self.encoding == content.LATIN:
            return True
        return not all(map(content.is_utf8, self.lines[start:end]))

    def encode(self, text: str, latin: bool) -> bytes:
        """Bytes of a new line. `Problem` when the file's encoding can't hold a character."""
        if not latin or holds_bytes(text):
            return text.encode("utf-8", "surrogateescape")
        try:
            return text.encode(content.LATIN)
        except UnicodeEncodeError as error:
            raise Problem(
                Refusal.ENCODING_UNSUPPORTED,
                f"{self.name} is {self.encoding}, which has no U+{ord(text[error.start]):04X}",
                "write the character as an escape of the language",
            ) from error


def _lines_and_ends(body: bytes) -> tuple[list[bytes], list[bytes]]:
    """The lines without their endings, and these; the last ending may be empty."""
    lines = body.split(b"\n")
    ends = [b"\n"] * (len(lines) - 1)
    if lines[-1]:
        ends.append(b"")
    else:
        lines.pop()
    if b"\r\n" in body:
        for at, end in enumerate(ends):
            if end and lines[at].endswith(b"\r"):
                lines[at], ends[at] = lines[at][:-1], b"\r\n"
    return lines, ends


def _block_ends(keys: Sequence[str]) -> list[int]:
    ends = [len(keys)] * len(keys)
    waiting: list[tuple[int, int]] = []  # (indentation, line), each deeper than the one before
    for at, text in enumerate(keys):
        bare = text.lstrip()
        if not bare:
            continue
        deep = len(text) - len(bare)
        while waiting and waiting[-1][0] >= deep:
            ends[waiting.pop()[1]] = at
        waiting.append((deep, at))
    return ends


def fold(text: str) -> str:
    """`text` with each run of white space as one space, none at the ends."""
    return " ".join(text.split())


def join(bom: bytes, lines: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The file's bytes from `(line, ending)` pairs."""
    out = [bom]
    for line, end in lines:
        out += (line, end)
    return b"".join(out)
