"""The two simple writes: replace a text that occurs once, and write a whole file (spec 7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice

from spike_mcp.core import content
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.document import Document, join, key, require_encodable
from spike_mcp.core.patch_near import nearest
from spike_mcp.core.patch_place import Spot, assemble, checked
from spike_mcp.core.patch_types import MAX_FILE_BYTES, Change, PatchHunk, PatchLine, Placed
from spike_mcp.core.paths import RepoPath
from spike_mcp.core.unsafe import quoted

_SHOWN_PLACES = 6


def edit(
    path: RepoPath,
    before: bytes | None,
    old_text: str,
    new_text: str,
    limit: int = MAX_FILE_BYTES,
) -> Placed:
    """`before` with `old_text` replaced; it must occur exactly once, overlaps counted.

    Line endings in both texts count as plain newlines: an old line keeps its ending, a new one
    takes its neighbours'. Raises `Problem`: `FILE_MISSING`, `MALFORMED_REQUEST` (empty
    `old_text`), `NO_MATCH`, `AMBIGUOUS_MATCH`, `NO_CHANGES`, and as `place` for the content.
    """
    require_encodable(old_text, new_text)
    name = path.text
    if before is None:
        raise Problem(
            Refusal.FILE_MISSING,
            f"{quoted(name)} does not exist",
            "spike_write_file creates a file",
        )
    if not old_text:
        raise Problem(
            Refusal.MALFORMED_REQUEST,
            "old_text is empty",
            "give the text to replace; spike_write_file writes a whole file",
        )
    doc = Document(before, name)
    old, new = _plain(old_text, doc), _plain(new_text, doc)
    text = "\n".join(doc.keys) + ("" if doc.open_end or not len(doc) else "\n")
    at = _once(doc, text, old)
    spot = _as_hunk(text, at, old, new)
    after = assemble(doc, [spot]) if spot else before
    return Placed(checked(name, Change(path, before, after), limit))


def _plain(text: str, doc: Document) -> str:
    if doc.bom:
        text = text.removeprefix("\ufeff")
    return "\n".join(key(line.removesuffix("\r")) for line in text.split("\n"))


def _once(doc: Document, text: str, old: str) -> int:
    found = list(islice(_hits(text, old), _SHOWN_PLACES)) if old else []
    if len(found) == 1:
        return found[0]
    if found:
        rows = sorted({text.count("\n", 0, at) + 1 for at in found})
        shown = ", ".join(map(str, rows[: _SHOWN_PLACES - 1]))
        more = " and more" if len(found) == _SHOWN_PLACES else ""
        raise Problem(
            Refusal.AMBIGUOUS_MATCH,
            f"old_text occurs more than once in {quoted(doc.name)}: at lines {shown}{more}",
            "give more of the text around the place, so that it occurs once",
        )
    raise Problem(
        Refusal.NO_MATCH,
        f"old_text does not occur in {quoted(doc.name)}",
        nearest(doc, old.removesuffix("\n").split("\n"), None),
    )


def _hits(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + 1)


def _as_hunk(text: str, at: int, old: str, new: str) -> Spot | None:
    """The replacement as a hunk over whole lines, only those that differ; None if none does."""
    start = text.rfind("\n", 0, at) + 1
    stop = at + len(old)
    end = text.find("\n", stop)
    end = len(text) if end < 0 or stop == len(text) else end + 1
    before = _numbered(text[start:end])
    after = _numbered(text[start:at] + new + text[stop:end])
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    if not removed and not added:
        return None
    lines = [PatchLine("-", line, no_newline=not ended) for line, ended in removed]
    lines += [PatchLine("+", line, no_newline=not ended) for line, ended in added]
    return Spot(PatchHunk(tuple(lines)), text.count("\n", 0, start) + head)


def _numbered(text: str) -> list[tuple[str, bool]]:
    """Lines of `text` with whether each is ended by a newline."""
    lines = text.split("\n")
    last = lines.pop()
    found = [(line, True) for line in lines]
    return [*found, (last, False)] if last else found


def write(
    path: RepoPath,
    before: bytes | None,
    text: str,
    expected_sha256: str = "",
    limit: int = MAX_FILE_BYTES,
) -> Placed:
    """A file with `text` as its whole content: new, or in place of the one with that digest.

    The text is taken as it is, except that an existing file keeps its byte order mark, its CRLF
    endings when all its lines have them and `text` has no carriage return, and the bytes of lines
    that are no UTF-8. Raises `Problem`: `FILE_EXISTS`, `FILE_MISSING`, `STALE_FILE`, `NO_CHANGES`,
    and as `place` for the content.
    """
    require_encodable(text)
    name = path.text
    if before is None:
        if expected_sha256:
            raise Problem(
                Refusal.FILE_MISSING,
                f"{quoted(name)} does not exist, so it can't have the expected content",
                "leave expected_sha256 out to create it",
            )
        after = text.encode("utf-8", "surrogateescape")
        return Placed(checked(name, Change(path, None, after), limit))
    _check_expected(name, before, expected_sha256)
    after, notes = _rewritten(Document(before, name), text)
    return Placed(checked(name, Change(path, before, after), limit), notes)


def _check_expected(name: str, before: bytes, expected: str) -> None:
    if not expected:
        raise Problem(
            Refusal.FILE_EXISTS,
            f"{quoted(name)} exists already",
            "to replace it, read it and give its sha256 as expected_sha256",
        )
    if expected.lower() != hashlib.sha256(before).hexdigest():
        raise Problem(
            Refusal.STALE_FILE,
            f"{quoted(name)} has changed since: its content does not have the expected sha256",
            "read it again, then send the new content with the new sha256",
        )


def _rewritten(doc: Document, text: str) -> tuple[bytes, tuple[str, ...]]:
    notes = []
    if doc.bom:
        text = text.removeprefix("\ufeff")
        notes.append("kept: byte order mark")
    all_crlf = doc.default_end == b"\r\n" and b"\n" not in doc.ends
    to_crlf = all_crlf and "\r" not in text
    if to_crlf:
        notes.append("kept: CRLF line endings")
    known = dict(zip(doc.keys, doc.lines, strict=True)) if doc.encoding != "utf-8" else {}
    latin = doc.encoding == content.LATIN
    pairs = []
    for line, ended in _numbered(text):
        body = line.removesuffix("\r") if ended else line
        end = b"\r\n" if ended and (to_crlf or body != line) else b"\n" if ended else b""
        same = known.get(key(body))
        pairs.append((doc.encode(body, latin) if same is None else same, end))
    return join(doc.bom, pairs), tuple(notes)
