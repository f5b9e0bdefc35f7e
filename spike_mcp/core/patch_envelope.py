"""The `*** Begin Patch` envelope that some models write by habit (spec 8).

It carries no line numbers: a chunk's place must follow from its lines, from an `@@ heading` line
above it, or from `*** End of File`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from spike_mcp.core.codes import ChangeKind
from spike_mcp.core.patch_scan import scan
from spike_mcp.core.patch_types import (
    MAX_PATCH_HUNKS,
    FilePatch,
    PatchHunk,
    PatchLine,
    malformed,
    unsupported,
)
from spike_mcp.core.paths import RepoPath
from spike_mcp.core.unsafe import quoted

_BEGIN = re.compile(r"\*\*\* Begin Patch(?: \*\*\*)?[ \t]*$")
_END = re.compile(r"\*\*\* End Patch(?: \*\*\*)?[ \t]*$")
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)$")
_MOVE = "*** Move to: "
_EOF = re.compile(r"\*\*\* End of File(?: \*\*\*)?[ \t]*$")
_NUMBERS = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})?(?: ?@@.*)?$")


def unwrap(text: str) -> str:
    """The patch inside a JSON object or list such as `{"command": ["apply_patch", "..."]}`.

    Any other text comes back as it is.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = [item for item in _strings(value, 3) if has_envelope(item)]
    if len(found) > 1:
        raise malformed("the JSON text holds several patches", "send the text of one patch")
    return found[0] if found else text


def _strings(value: Any, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth and isinstance(value, list | dict):
        items = value.values() if isinstance(value, dict) else value
        return [text for item in items for text in _strings(item, depth - 1)]
    return []


def has_envelope(text: str) -> bool:
    """Whether a line of `text` opens an envelope."""
    return "*** Begin Patch" in text and any(map(_BEGIN.match, _rows(text)))


def _rows(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def read(text: str) -> tuple[FilePatch, ...]:
    """The files of every envelope in `text`; raises `Problem` when it is not whole."""
    return _Reader(text).run()


class _Reader:
    def __init__(self, text: str) -> None:
        self.raw = text.split("\n")
        self.rows = _rows(text)
        self.at = 0
        self.files: list[FilePatch] = []
        self.outside: list[str] = []
        self.cr_in_structure = False
        self.chunks = 0

    def run(self) -> tuple[FilePatch, ...]:
        while self.at < len(self.rows):
            row = self.rows[self.at]
            if _BEGIN.match(row):
                self._envelope()
            elif row.startswith("*** "):
                raise malformed(
                    f"patch line {self.at + 1} stands outside the envelope: {quoted(row)}"
                )
            else:
                self.outside.append(row)
                self.at += 1
        if scan("\n".join(self.outside)):
            raise malformed("a unified diff stands beside the envelope", "send one or the other")
        return tuple(self.files)

    def _envelope(self) -> None:
        self.cr_in_structure |= self.raw[self.at].endswith("\r")
        self.at += 1
        while True:
            if self.at >= len(self.rows):
                raise malformed(
                    "the patch has no '*** End Patch' line: was it cut off?",
                    "send the whole patch, ending with '*** End Patch'",
                )
            row = self.rows[self.at]
            if _END.match(row):
                self.at += 1
                return
            found = _FILE.match(row)
            if found:
                self._file(found.group(1), found.group(2).rstrip(" \t"))
            elif row.strip():
                raise malformed(
                    f"patch line {self.at + 1} belongs to no file: {quoted(row, 60)}",
                    "begin each file with '*** Update File: PATH' or '*** Add File: PATH'",
                )
            else:
                self.at += 1

    def _file(self, verb: str, name: str) -> None:
        path, first = RepoPath.parse(name), self.at + 1
        if verb == "Delete":
            raise unsupported(
                f"'*** Delete File: {quoted(name)}' does not show what it deletes",
                "send a unified diff: '--- a/PATH', '+++ /dev/null', '@@', each line with '-'",
            )
        self.at += 1
        if self._row().startswith(_MOVE):
            raise unsupported(
                f"patch line {self.at + 1}: moves are not supported",
                "create the new file with its content and delete the old one, line by line",
            )
        if verb == "Add":
            hunks, kind = self._added(), ChangeKind.CREATE
        else:
            hunks, kind = self._chunks(name), ChangeKind.MODIFY
        crs = any(line.endswith("\r") for line in self.raw[first : self.at])
        literal = crs and not self.cr_in_structure
        self.files.append(FilePatch(path, kind, hunks, literal))

    def _row(self) -> str:
        return self.rows[self.at] if self.at < len(self.rows) else ""

    def _body_end(self, start: int) -> int:
        """First row from `start` that is a directive, or the text's end."""
        end = start
        while end < len(self.rows) and not self.rows[end].startswith("*** "):
            end += 1
        return end

    def _added(self) -> tuple[PatchHunk, ...]:
        start, end = self.at, self._body_end(self.at)
        self.at = end
        while end > start and not self.rows[end - 1]:
            end -= 1
        lines = []
        for at in range(start, end):
            if not self.rows[at].startswith("+"):
                raise malformed(
                    f"patch line {at + 1}: in a new file every line begins with '+': "
                    f"{quoted(self.rows[at], 60)}",
                    "put '+' in front, blank lines too",
                )
            lines.append(self._line(at))
        return (PatchHunk(tuple(lines), row=start),) if lines else ()

    def _line(self, at: int) -> PatchLine:
        row = self.rows[at]
        return PatchLine(row[:1] or " ", row[1:], cr=self.raw[at] != row)

    def _chunks(self, name: str) -> tuple[PatchHunk, ...]:
        hunks: list[PatchHunk] = []
        while self.at < len(self.rows) and not self._row().startswith("*** "):
            hunk = self._chunk()
            if hunk:
                hunks.append(hunk)
        if not hunks:
            raise malformed(f"'*** Update File: {quoted(name)}' has no lines below it")
        return tuple(hunks)

    def _chunk(self) -> PatchHunk | None:
        row, start, anchors = self.at + 1, None, []
        while self._row().startswith("@@"):
            numbered = _NUMBERS.match(self._row())
            anchor = self._row().strip("@").strip()
            if numbered:
                start = int(numbered.group(1))
            elif anchor.strip(".- "):
                anchors.append(anchor)
            self.at += 1
        lines = self._chunk_lines()
        at_end = bool(_EOF.match(self._row()))
        self.at += at_end
        if not lines:
            if anchors or start is not None or at_end:
                raise malformed(f"patch line {row}: the chunk is empty")
            return None
        self.chunks += 1
        if self.chunks > MAX_PATCH_HUNKS:
            raise malformed(f"the patch has more than {MAX_PATCH_HUNKS} chunks", "send it in parts")
        return PatchHunk(tuple(lines), start, row, tuple(anchors), at_end)

    def _chunk_lines(self) -> list[PatchLine]:
        start = end = self.at
        while end < len(self.rows) and not self.rows[end].startswith(("*** ", "@@")):
            sign = self.rows[end][:1]
            if sign not in ("", " ", "+", "-"):
                raise malformed(
                    f"patch line {end + 1} has no ' ', '+' or '-' in front: "
                    f"{quoted(self.rows[end], 60)}"
                )
            end += 1
        self.at = end
        while end > start and not self.rows[end - 1]:
            end -= 1
        return [self._line(at) for at in range(start, end)]
