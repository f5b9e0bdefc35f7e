"""Patch text to values, and values to bytes: the one parse that policy and write both use (spec 8).

Accepted: unified diff (git or plain, with or without `a/ b/`, inside a Markdown fence or prose,
counts and line numbers advisory) and the `*** Begin Patch` envelope. Our own scanner settles
structure, counts and paths; unidiff reads the text again in normal form, and what it does not read
the same way is refused. A file has at most one section in a patch.

`parse`, `place`, `edit` and `write` are the whole interface; all raise `Problem`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from spike_mcp.core import patch_envelope, patch_scan
from spike_mcp.core.codes import ChangeKind, Problem, Refusal
from spike_mcp.core.document import require_encodable
from spike_mcp.core.patch_edit import edit, write
from spike_mcp.core.patch_names import NOTHING, is_prefixed, resolve
from spike_mcp.core.patch_place import place
from spike_mcp.core.patch_types import (
    EXAMPLE,
    MAX_FILE_BYTES,
    MAX_PATCH_BYTES,
    Change,
    FilePatch,
    PatchHunk,
    PatchLine,
    PatchSet,
    Placed,
    malformed,
)
from spike_mcp.core.paths import RepoPath
from spike_mcp.core.unsafe import quoted

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_PATCH_BYTES",
    "Change",
    "FilePatch",
    "PatchHunk",
    "PatchLine",
    "PatchSet",
    "Placed",
    "edit",
    "parse",
    "place",
    "write",
]

_HEADER = re.compile(r"^(?:diff --git |--- |---\r?$)", re.MULTILINE)
_DIALECTS = tuple(
    (re.compile(sign, re.MULTILINE), what, hint)
    for sign, what, hint in (
        (r"^<<<<<<< ?SEARCH", "search and replace blocks", "use spike_edit_file"),
        (r"^\*{15}\r?$", "the format of a context diff", EXAMPLE),
        (r"^\d+(?:,\d+)?[acd]\d+(?:,\d+)?\r?$", "no context lines", EXAMPLE),
        (
            r"^\*\*\* (?:Add|Update|Delete) File: ",
            "no '*** Begin Patch' line",
            "begin with '*** Begin Patch' and end with '*** End Patch'",
        ),
        (r"^diff --(?:cc|combined) |^@@@", "the combined diff of a merge", EXAMPLE),
        (r"^@@|^[+-]", "hunks without a file header", EXAMPLE),
    )
)


def parse(text: str, limit: int = MAX_PATCH_BYTES) -> PatchSet:
    """The patch in `text`; raises `Problem`.

    `NO_CHANGES` (nothing in it), `TOO_LARGE` (above `limit` bytes), `PATCH_DIALECT` (another
    format, named), `PATCH_MALFORMED`, `UNSUPPORTED_CHANGE_KIND` (rename, mode, link, binary),
    `PATH_INVALID`, `BINARY_CONTENT` (a NUL), `ENCODING_UNSUPPORTED` (a lone surrogate).
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise Problem(
            Refusal.TOO_LARGE,
            f"the patch has {size} bytes, the limit is {limit}",
            "send smaller patches",
        )
    require_encodable(text)
    if not text.strip():
        raise Problem(Refusal.NO_CHANGES, "the patch is empty", EXAMPLE)
    text = patch_envelope.unwrap(text)
    require_encodable(text)
    corrections: tuple[str, ...] = ()
    if patch_envelope.has_envelope(text):
        dialect, files = "begin patch", patch_envelope.read(text)
    else:
        dialect, files, corrections = _unified(text)
    _check_whole(files)
    _check_with_unidiff(files)
    return PatchSet(dialect, files, corrections)


def _unified(text: str) -> tuple[str, tuple[FilePatch, ...], tuple[str, ...]]:
    sections = patch_scan.scan(text) if _HEADER.search(text) else []
    if not sections:
        raise _other_dialect(text)
    habits = {is_prefixed(section.names) for section in sections}
    prefixed = True in habits or False not in habits
    files = tuple(_file_patch(section, prefixed) for section in sections)
    dialect = "git diff" if any(section.git for section in sections) else "unified diff"
    return dialect, files, tuple(line for section in sections for line in section.corrections)


def _other_dialect(text: str) -> Problem:
    for sign, what, hint in _DIALECTS:
        if sign.search(text):
            return Problem(
                Refusal.PATCH_DIALECT, f"the text is no unified diff: it has {what}", hint
            )
    return Problem(Refusal.PATCH_DIALECT, "no patch was found in the text", EXAMPLE)


def _file_patch(section: patch_scan.Section, prefixed: bool) -> FilePatch:
    path = RepoPath.parse(resolve(section.names, prefixed))
    created = section.created or section.old == NOTHING
    deleted = section.deleted or section.new == NOTHING
    row = section.row
    if created and (deleted or section.old not in (None, NOTHING)):
        raise malformed(f"patch line {row}: the header says both new file and old name")
    if deleted and section.new not in (None, NOTHING):
        raise malformed(f"patch line {row}: the header says both deleted file and new name")
    kind = ChangeKind.MODIFY
    if created or deleted:
        kind = ChangeKind.CREATE if created else ChangeKind.DELETE
        _check_one_sided(section, kind)
    lines = [line for hunk in section.hunks for line in hunk.lines]
    literal = not section.cr_in_structure and any(line.cr for line in lines)
    hunks = map(_with_open_returns, section.hunks) if literal else section.hunks
    return FilePatch(path, kind, tuple(hunks), literal)


def _with_open_returns(hunk: PatchHunk) -> PatchHunk:
    """A carriage return before a `\\ No newline` marker belongs to the line, not to an ending."""
    lines = [
        replace(line, text=line.text + "\r", cr=False) if line.no_newline and line.cr else line
        for line in hunk.lines
    ]
    return replace(hunk, lines=tuple(lines))


def _check_one_sided(section: patch_scan.Section, kind: ChangeKind) -> None:
    sign, word = ("+", "new") if kind is ChangeKind.CREATE else ("-", "deleted")
    wrong = any(line.sign != sign for hunk in section.hunks for line in hunk.lines)
    if wrong or len(section.hunks) > 1:
        raise malformed(
            f"patch line {section.row}: a {word} file has one hunk and all its lines begin with "
            f"'{sign}'",
            f"show the whole file with '{sign}' in front of every line, blank lines too",
        )


def _check_whole(files: tuple[FilePatch, ...]) -> None:
    seen: set[str] = set()
    for file in files:
        name = quoted(file.path.text)
        if file.path.text in seen:
            raise malformed(
                f"'{name}' has two sections in one patch",
                "put all hunks of a file under one header, in the order of the file",
            )
        seen.add(file.path.text)
        for hunk in file.hunks:
            _check_markers(hunk)
    entries = [file for file in files if file.kind is not ChangeKind.MODIFY]
    if not entries and not any(hunk.changes for file in files for hunk in file.hunks):
        raise Problem(Refusal.NO_CHANGES, "the patch has no '+' or '-' line", EXAMPLE)


def _check_markers(hunk: PatchHunk) -> None:
    """A line without newline is the last of its side."""
    ended: set[str] = set()
    for line in hunk.lines:
        sides = {" ": "-+"}.get(line.sign, line.sign)
        if ended & set(sides):
            raise malformed(
                f"patch line {hunk.row}: lines follow a line marked '\\ No newline at end of file'",
                "the marker belongs below the last line of a file",
            )
        if line.no_newline:
            ended |= set(sides)


# ----- the second reading -----


def _check_with_unidiff(files: tuple[FilePatch, ...]) -> None:
    """Let unidiff read the patch in normal form; it must find the same files, hunks and lines."""
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet as Reading

    shown = [file for file in files if file.hunks]
    text = [line for file in shown for line in _normal_form(file)]
    try:
        reading = Reading(text)
    except UnidiffParseError as error:
        raise malformed(f"a second reading of the patch failed: {quoted(str(error))}") from error
    found = [
        (
            file.source_file,
            file.target_file,
            [[(line.line_type, line.value) for line in hunk] for hunk in file],
        )
        for file in reading
    ]
    if found != [(*_header_names(file), [_pairs(hunk) for hunk in file.hunks]) for file in shown]:
        raise malformed("two readings of the patch differ", "send it as a plain unified diff")


def _header_names(file: FilePatch) -> tuple[str, str]:
    old = NOTHING if file.kind is ChangeKind.CREATE else f"a/{file.path.text}"
    new = NOTHING if file.kind is ChangeKind.DELETE else f"b/{file.path.text}"
    return old, new


def _normal_form(file: FilePatch) -> Iterator[str]:
    old_name, new_name = _header_names(file)
    yield f"--- {old_name}\n"
    yield f"+++ {new_name}\n"
    for hunk in file.hunks:
        old = sum(line.sign != "+" for line in hunk.lines)
        new = sum(line.sign != "-" for line in hunk.lines)
        yield f"@@ -{1 if old else 0},{old} +{1 if new else 0},{new} @@\n"
        for sign, value in _pairs(hunk):
            yield sign + value


def _pairs(hunk: PatchHunk) -> list[tuple[str, str]]:
    pairs = []
    for line in hunk.lines:
        pairs.append((line.sign, line.text + ("\r\n" if line.cr else "\n")))
        if line.no_newline:
            pairs.append(("\\", " No newline at end of file\n"))
    return pairs
