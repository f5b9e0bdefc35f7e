"""Structure of a unified diff: sections, hunks, counts. Nothing of content is decided here.

The scanner reads what models and mail really send: prose around the diff, Markdown fences, wrong
or missing counts and numbers, stripped blank lines, signatures. It has one duty above tolerance:
no line that starts with `+` or `-` and could belong to a change is ever passed over in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.patch_kinds import EXTENDED, binary, extended
from spike_mcp.core.patch_names import Names, header_name
from spike_mcp.core.patch_types import (
    MAX_PATCH_HUNKS,
    PatchHunk,
    PatchLine,
    malformed,
)
from spike_mcp.core.unsafe import quoted

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?(?: ?@@(.*))?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^`]*$")
_VERSION = re.compile(r"\d+\.\d+[\w.() +-]*$")
_STRUCTURE = ("diff ", "Index: ", "=====", "@@", "From ", "Only in ", *EXTENDED)
_COMBINED = ("diff --cc ", "diff --combined ", "@@@")
MAX_MISSING = 3


@dataclass
class Section:
    """One file's part of a unified diff, as read. `git` is the text after `diff --git `."""

    row: int
    git: str | None = None
    old: str | None = None
    new: str | None = None
    created: bool = False
    deleted: bool = False
    cr_in_structure: bool = False
    hunks: list[PatchHunk] = field(default_factory=list)
    corrections: list[str] = field(default_factory=list)

    @property
    def names(self) -> Names:
        """The header's names, for `patch_names.resolve`."""
        return Names(self.old, self.new, self.git, self.row)


@dataclass
class _Header:
    """Numbers and text of an `@@` line."""

    start: int | None = None
    counts: tuple[int, int] | None = None
    anchor: str = ""


def scan(text: str) -> list[Section]:
    """Sections of every unified diff in `text`; empty when there is none.

    Raises `Problem` for broken structure and for kinds of change that have no lines to review.
    """
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.final_newline = not self.lines[-1]
        if self.final_newline:
            self.lines.pop()
        self.at = 0
        self.sections: list[Section] = []
        self.current: Section | None = None
        self.fenced = False
        # Whether the open fence holds a hunk: then every line in it must make sense.
        self.strict = False
        # Whether the fence that held the last hunk is closed: all below is prose.
        self.free = self.was_free = False
        # Whether lines below the last hunk are known to be prose, and whether a blank one came.
        self.prose = True
        self.gap = False
        self.hunk_count = 0

    def run(self) -> list[Section]:
        while self.at < len(self.lines):
            self._step(self._line(self.at))
        self._close()
        return self.sections

    # ----- lines -----

    def _line(self, at: int) -> str:
        return self.lines[at].removesuffix("\r") if at < len(self.lines) else ""

    def _is_header(self, at: int) -> bool:
        """`--- ` is a header only when `+++ ` and `@@` follow (spec 8)."""
        return self._is_pair(at) and self._line(at + 2).startswith("@@")

    def _is_pair(self, at: int) -> bool:
        one, two = self._line(at), self._line(at + 1)
        return (one.startswith("--- ") or one == "---") and (two.startswith("+++ ") or two == "+++")

    def _is_signature(self, at: int, complete: bool = False) -> bool:
        """The `-- ` and version lines that format-patch puts below a diff.

        Below a hunk that is `complete` by its counts, any text will do for the version.
        """
        line, below = self._line(at), self._line(at + 1)
        if line not in ("-- ", "--"):
            return False
        other = complete and line == "-- " and below[:1] not in ("", *" +-\\@")
        return other or bool(_VERSION.match(below))

    # ----- between hunks -----

    def _step(self, line: str) -> None:
        if line.startswith(_COMBINED):
            raise Problem(
                Refusal.PATCH_DIALECT,
                f"patch line {self.at + 1}: this is a combined diff of a merge",
                "send a plain unified diff against the current files",
            )
        if line.startswith("diff --git "):
            self._git_section()
        elif self._is_header(self.at):
            if self.current is None or self.current.old is not None or self.current.hunks:
                self._open(Section(self.at + 1))
            self._names()
        elif line.startswith("@@"):
            self._hunk()
        elif _FENCE.match(line):
            self._fence()
            self.at += 1
        elif self._is_signature(self.at, complete=True):
            self._close()
            self.at += 2
        else:
            self._stray(line)

    def _fence(self) -> None:
        """Open or close a fence; a second fence below the patch must not hold more of it."""
        if self.fenced:
            self.free = self.strict or self.was_free
        else:
            self.was_free, self.free = self.free, False
        self.fenced, self.strict = not self.fenced, False

    def _stray(self, line: str) -> None:
        """A line outside every hunk: prose, or a change that would be lost."""
        row = self.at + 1
        if self._is_pair(self.at):
            raise malformed(f"patch line {row}: '---' and '+++' lines without an '@@' line below")
        if line.startswith(("Binary files ", "GIT binary patch")):
            raise binary(row)
        if not line.strip():
            self.gap = True
        elif self.current is not None and not self.free:
            self._check_stray(line, row)
        self.at += 1

    def _check_stray(self, line: str, row: int) -> None:
        bullet = self.prose and not self.fenced and line.startswith("- ")
        if line.startswith(("+", "-")) and line != "---" and not bullet:
            raise malformed(
                f"patch line {row} stands outside every hunk: {quoted(line, 60)}",
                "correct the counts of the '@@' line above it, or write it as bare '@@'",
            )
        if self.strict and not line.startswith((" ", *_STRUCTURE)):
            raise malformed(_no_sign(row, line))
        self.prose |= self.gap and not line.startswith(" ")

    # ----- sections -----

    def _open(self, section: Section) -> None:
        self._close()
        self.current = section
        self.sections.append(section)

    def _close(self) -> None:
        """Leave the current section; what follows is a preamble again."""
        section, self.current = self.current, None
        self.prose = True
        if section is None or section.hunks or section.created or section.deleted:
            return
        raise malformed(f"patch line {section.row}: this file's section changes nothing")

    def _git_section(self) -> None:
        section = Section(self.at + 1, git=self._line(self.at).removeprefix("diff --git "))
        self._open(section)
        section.cr_in_structure = self.lines[self.at].endswith("\r")
        self.at += 1
        while self._line(self.at).startswith(EXTENDED):
            word = extended(self._line(self.at), self.at + 1, section.git or "")
            section.created |= word == "created"
            section.deleted |= word == "deleted"
            self.at += 1
        if self._is_pair(self.at) and not self._is_header(self.at):
            raise malformed(f"patch line {self.at + 1}: no '@@' line below '---' and '+++'")

    def _names(self) -> None:
        section = self.current
        assert section is not None
        section.cr_in_structure |= self.lines[self.at].endswith("\r")
        section.old = header_name(self._line(self.at)[4:], self.at + 1)
        section.new = header_name(self._line(self.at + 1)[4:], self.at + 2)
        self.at += 2

    # ----- hunks -----

    def _hunk(self) -> None:
        section, row = self.current, self.at + 1
        if section is None:
            raise malformed(f"patch line {row}: a hunk without '---' and '+++' lines above it")
        self.hunk_count += 1
        if self.hunk_count > MAX_PATCH_HUNKS:
            raise Problem(
                Refusal.TOO_LARGE,
                f"the patch has more than {MAX_PATCH_HUNKS} hunks",
                "send it in parts",
            )
        header = _header(self._line(self.at))
        section.cr_in_structure |= self.lines[self.at].endswith("\r")
        start = self.at + 1
        end = self._end_by_counts(start, header.counts) if header.counts else None
        exact = end is not None
        if end is None:
            end = self._end_by_shape(start)
        self.at = end
        lines = _body(self.lines[start:end], start)
        if not lines:
            raise malformed(f"patch line {row}: the hunk is empty")
        self._check_below(end, exact)
        missing = 0 if exact else self._correct(section, header, lines, row)
        anchors = (header.anchor,) if header.anchor and header.start is None else ()
        section.hunks.append(
            PatchHunk(tuple(lines), header.start, row, anchors, missing_blanks=missing)
        )

    def _end_by_counts(self, start: int, counts: tuple[int, int]) -> int | None:
        """End of the hunk if its counts fit what stands there exactly, else None."""
        old, new = counts
        at = start
        while old or new:
            if at >= len(self.lines) or (self._is_header(at) and (old, new) != (1, 1)):
                return None
            sign = _sign(self._line(at))
            old -= sign in " -"
            new -= sign in " +"
            if not sign or old < 0 or new < 0:
                return None
            at += 1
        while self._line(at).startswith("\\ "):
            at += 1
        more = self._line(at).startswith((" ", "+", "-"))
        if more and not self._is_pair(at) and not self._is_signature(at, complete=True):
            return None
        return at

    def _end_by_shape(self, start: int) -> int:
        """End of the longest run of lines that can belong to a hunk; blank ones at its end off."""
        at = start
        while at < len(self.lines):
            if not _sign(self._line(at)) or self._is_header(at) or self._is_signature(at):
                break
            at += 1
        while at > start and not self._line(at - 1):
            at -= 1
        return at

    def _check_below(self, end: int, exact: bool) -> None:
        """Judge the first line below a hunk: its counterpart in `_stray` relies on `prose`."""
        below = end
        while below < len(self.lines) and not self._line(below):
            below += 1
        line = self._line(below)
        self.gap = below > end
        self.prose = exact and self.gap
        self.strict, self.free = self.fenced, False
        if below >= len(self.lines) or line.startswith((" ", "+", "-", *_STRUCTURE)):
            return
        if not _FENCE.match(line) and (self.strict or not (exact or self.gap)):
            raise malformed(_no_sign(below + 1, line))

    def _correct(self, section: Section, header: _Header, lines: list[PatchLine], row: int) -> int:
        """Report counts that the body disproves; give how many blank lines were stripped instead.

        A patch that lost its last blank context lines to a strip() has counts that are short by
        the same number on both sides, at its very end.
        """
        if header.counts is None:
            return 0
        old = sum(line.sign != "+" for line in lines)
        new = sum(line.sign != "-" for line in lines)
        short = header.counts[0] - old
        trailing = 0
        for line in reversed(lines):
            if line.sign != " ":
                break
            trailing += 1
        stripped = not self.final_newline or trailing + short == MAX_MISSING
        at_end = not any(self._line(at) for at in range(self.at, len(self.lines)))
        even = header.counts[1] - new == short and 0 < short <= MAX_MISSING
        if even and at_end and stripped and not lines[-1].no_newline:
            return short
        section.corrections.append(
            f"counts_corrected: patch line {row} said {header.counts[0]} old and "
            f"{header.counts[1]} new lines, its hunk holds {old} and {new}"
        )
        return 0


def _sign(line: str) -> str:
    """What a line of a hunk is: `" "`, `"+"`, `"-"`, `"\\"`; empty when it can't be one."""
    if line[:1] == "\\":
        return "\\" if line[:2] == "\\ " else ""
    sign = line[:1] or " "
    return sign if sign in " +-" else ""


def _header(line: str) -> _Header:
    found = _HUNK.match(line)
    if found:
        start, old, _, new, _ = found.groups()
        return _Header(int(start), (int(old or 1), int(new or 1)))
    text = line.strip("@").strip()
    return _Header(anchor="" if set(text) <= set(". -+,0123456789") else text)


def _body(lines: list[str], start: int) -> list[PatchLine]:
    """The hunk's lines; markers become `no_newline` of the line above."""
    body: list[PatchLine] = []
    for offset, raw in enumerate(lines):
        text = raw.removesuffix("\r")
        if not text.startswith("\\"):
            body.append(PatchLine(text[:1] or " ", text[1:], cr=len(text) < len(raw)))
            continue
        if not body or body[-1].no_newline:
            raise malformed(f"patch line {start + offset + 1}: a '\\' line without a line above")
        last = body[-1]
        body[-1] = PatchLine(last.sign, last.text, last.cr, no_newline=True)
    return body


def _no_sign(row: int, line: str) -> str:
    return f"patch line {row} has no ' ', '+' or '-' in front: {quoted(line, 60)}"
