"""What a patch is once it is read: values shared by the scanner, the envelope and placement."""

from __future__ import annotations

from dataclasses import dataclass, field

from spike_mcp.core.codes import ChangeKind, Problem, Refusal
from spike_mcp.core.paths import RepoPath

EXAMPLE = (
    "send a unified diff: '--- a/src/x.py', '+++ b/src/x.py', '@@ -3,2 +3,2 @@', then lines that "
    "begin with ' ', '-' or '+'"
)
"""The accepted form in one line, for hints."""

MAX_PATCH_BYTES = 1 << 20
"""Largest patch text, in bytes of UTF-8 (spec 4)."""

MAX_FILE_BYTES = 1 << 20
"""Largest file that a write may leave, in bytes (spec 4)."""

MAX_PATCH_HUNKS = 2000
"""Most hunks in one patch, the limit that regions have as well."""


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk: sign `' '`, `'-'` or `'+'` and its text without ending.

    `cr`: the line ended in `\\r` before its `\\n`. `no_newline`: a `\\ No newline` marker follows.
    """

    sign: str
    text: str
    cr: bool = False
    no_newline: bool = False


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """One hunk as the patch has it.

    `start` is the stated first line in the old file (1-based; None where no number was given),
    `row` the 1-based line of its header in the patch. `anchors` are heading lines that narrow the
    place (bare `@@ heading` only). `at_end`: it must reach the file's end. `missing_blanks`: so
    many blank context lines at its end are promised by the counts but were stripped from the text.
    """

    lines: tuple[PatchLine, ...]
    start: int | None = None
    row: int = 0
    anchors: tuple[str, ...] = ()
    at_end: bool = False
    missing_blanks: int = 0

    @property
    def old(self) -> tuple[PatchLine, ...]:
        """Lines of the old file: context and removed."""
        return tuple(line for line in self.lines if line.sign != "+")

    @property
    def changes(self) -> bool:
        """Whether it adds or removes anything."""
        return any(line.sign != " " for line in self.lines)


@dataclass(frozen=True)
class FilePatch:
    """Everything a patch says about one file.

    `literal_endings`: the patch shows carriage returns of its body and has none in its own
    structure, so that they are the file's, not the transport's.
    """

    path: RepoPath
    kind: ChangeKind
    hunks: tuple[PatchHunk, ...]
    literal_endings: bool = False


@dataclass(frozen=True)
class PatchSet:
    """A whole patch. `dialect` is `git diff`, `unified diff` or `begin patch`.

    `corrections` says what was put right while reading, each `counts_corrected: ...`.
    """

    dialect: str
    files: tuple[FilePatch, ...]
    corrections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """What a write does to one file; None stands for an absent file."""

    path: RepoPath
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class Placed:
    """A change with everything worth telling about how it was placed."""

    change: Change
    notes: tuple[str, ...] = field(default=())


def malformed(message: str, hint: str = EXAMPLE) -> Problem:
    """`PATCH_MALFORMED` with the accepted form as hint."""
    return Problem(Refusal.PATCH_MALFORMED, message, hint)


def unsupported(message: str, hint: str) -> Problem:
    """`UNSUPPORTED_CHANGE_KIND` with the way to do it as hint."""
    return Problem(Refusal.UNSUPPORTED_CHANGE_KIND, message, hint)
