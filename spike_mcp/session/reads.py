"""What the agent may look at: files listed, read and searched; output cut to fit a reply (spec 7).

Reads are confined like writes and see any file below work/ but `.git`; the oracle is readable too.
Every text says in its first line what it is and, where it is not all, how to get the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from spike_mcp.core import content, globs
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.paths import PathClass, RepoPath
from spike_mcp.core.requests import ListFiles, ReadFile, SearchFiles
from spike_mcp.core.unsafe import quoted, visible
from spike_mcp.host.search import Found, search
from spike_mcp.session.spike import Spike

TEXT_BYTES = 6_500
"""Most bytes of file content, names or hits in one reply (8 KB with everything around it)."""
MAX_READ_BYTES = 16 << 20
MAX_PATTERN = 500

OUTPUT_HEAD = 900
OUTPUT_TAIL = 3_300
"""Bytes of a run's output that a reply shows from its beginning and its end."""


def answer(spike: Spike, request: ListFiles | ReadFile | SearchFiles) -> tuple[str, dict[str, Any]]:
    """(text, machine copy) of a read; raises `Problem` for what can't be read."""
    match request:
        case ListFiles():
            return _list(spike, request)
        case ReadFile():
            return _read(spike, request)
        case SearchFiles():
            return _search(spike, request)


# --- listing ------------------------------------------------------------------------------------


def expected_names(spike: Spike) -> list[str]:
    """Paths of all files as accepted writes left them, in the order of their bytes.

    What the baseline does not have and no accepted write made is not there: that is how its ignore
    rules apply (spec 7).
    """
    manifest = spike.manifest
    changed = spike.state.files
    gone = {path for path, state in changed.items() if not state.sha256}
    gone |= manifest.gitlinks() | manifest.absent()
    names = [name for name in manifest.names() if name not in gone] if gone else manifest.names()
    new = [path for path, state in changed.items() if state.sha256 and path not in manifest]
    return sorted([*names, *new], key=_bytes_of) if new else list(names)


def _bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _directory(raw: str) -> str:
    """A folder as the agent wrote it, "" for the repository's top."""
    text = raw.removeprefix("./").removesuffix("/")
    return "" if text in ("", ".") else RepoPath.parse(text).text


def _below(spike: Spike, raw: str) -> list[str]:
    """Expected files at or below a folder or file; `Problem(FILE_MISSING)` where there is none."""
    folder = _directory(raw)
    names = expected_names(spike)
    if not folder:
        return names
    found = [name for name in names if name == folder or name.startswith(folder + "/")]
    if not found:
        raise Problem(
            Refusal.FILE_MISSING,
            f"there is no file at or below '{quoted(folder)}'",
            "spike_list_files without arguments shows what there is",
        )
    return found


def _list(spike: Spike, request: ListFiles) -> tuple[str, dict[str, Any]]:
    names = _below(spike, request.path)
    if request.pattern:
        wanted = _filter(request.pattern, _directory(request.path))
        names = [name for name in names if wanted(name)]
    pages = _pages(names)
    if request.page > max(1, len(pages)):
        raise Problem(
            Refusal.MALFORMED_REQUEST,
            f"`page` {request.page} is past the last one, {max(1, len(pages))}",
            "pages count from 1",
        )
    start, end = pages[request.page - 1] if pages else (0, 0)
    first = f"{_count(len(names), 'file')}, page {request.page} of {max(1, len(pages))}"
    if request.page < len(pages):
        first += f"; more with page={request.page + 1}"
    data = {
        "files": [visible(name) for name in names[start:end]],
        "total": len(names),
        "page": request.page,
        "pages": max(1, len(pages)),
    }
    return "\n".join([first, *(_row(spike, name) for name in names[start:end])]), data


def _filter(pattern: str, folder: str) -> Callable[[str], bool]:
    """Whether a path matches: from the top, from the folder, or by its name alone."""
    if len(pattern) > MAX_PATTERN:
        raise Problem(
            Refusal.MALFORMED_REQUEST,
            f"`pattern` has {len(pattern)} characters, the limit is {MAX_PATTERN}",
            "use a shorter glob, such as 'src/**/*.py'",
        )
    forms = [pattern]
    if "/" not in pattern:
        forms.append(f"**/{pattern}")
    elif folder:
        forms.append(f"{folder}/{pattern}")
    return globs.matcher(tuple(forms)).matches


def _row(spike: Spike, name: str) -> str:
    """A path and what the agent must know about it."""
    entry = spike.manifest.get(name)
    changed = name in spike.state.spans
    marks = []
    if entry is not None and entry.is_symlink and not changed:
        marks.append("symbolic link")
    elif spike.policy.classify(RepoPath.trusted(name)) is PathClass.ALLOWED:
        marks.append("you may write")
    if changed:
        marks.append("new" if entry is None or entry.is_absent else "changed")
    return visible(name) + (f"  ({', '.join(marks)})" if marks else "")


def _pages(names: Sequence[str]) -> list[tuple[int, int]]:
    """(start, end) of each page; the same for the same names, whatever the marks."""
    pages, start, size = [], 0, 0
    for index, name in enumerate(names):
        cost = len(visible(name).encode()) + 32
        if size + cost > TEXT_BYTES and index > start:
            pages.append((start, index))
            start, size = index, 0
        size += cost
    if names:
        pages.append((start, len(names)))
    return pages


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# --- reading ------------------------------------------------------------------------------------


def _read(spike: Spike, request: ReadFile) -> tuple[str, dict[str, Any]]:
    path = _readable(request.path)
    data = spike.worktree.read(path, MAX_READ_BYTES)
    content.require_text(data, path.text)
    text = content.decode(data)
    lines = _lines(text.text)
    if request.start_line > max(1, len(lines)):
        raise Problem(
            Refusal.MALFORMED_REQUEST,
            f"`start_line` {request.start_line} is past the end: "
            f"{quoted(path.text)} has {_count(len(lines), 'line')}",
            "lines count from 1",
        )
    start = request.start_line - 1
    body, taken, cut = _fitting(lines[start : start + request.line_count])
    kind = spike.policy.classify(path)
    found = {
        "path": path.text,
        # A digest of the oracle is nobody's business here (spec 6); it is needed for writes only.
        "sha256": "" if kind is PathClass.PROTECTED else hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "encoding": text.encoding,
        "line_endings": text.endings,
        "bom": text.bom,
        "final_newline": text.text.endswith("\n"),
        "start_line": request.start_line if lines else 0,
        "end_line": start + taken,
        "total_lines": len(lines),
        "next_start_line": start + taken + 1 if start + taken < len(lines) else 0,
        "cut_characters": cut,
        "writable": kind is PathClass.ALLOWED,
    }
    ending = "" if body.endswith("\n") or not body else "\n"
    header = f"{_span(found)}\n{_about(found)}, {_MAY[kind]}"
    return f"{header}\n--- text ---\n{body}{ending}--- end ---", found


_MAY = {
    PathClass.ALLOWED: "you may write this file",
    PathClass.NOT_ALLOWED: "read-only: outside the allowed paths",
    PathClass.PROTECTED: "read-only: protected",
}


def _span(found: Mapping[str, Any]) -> str:
    """Which lines these are, and how to get the next ones."""
    total = found["total_lines"]
    first = f"{found['path']}: empty"
    if total:
        first = f"{found['path']}: lines {found['start_line']}-{found['end_line']} of {total}"
    if found["cut_characters"]:
        first += f"; line {found['end_line']} has {found['cut_characters']} characters, cut here"
    if found["next_start_line"]:
        first += f"; continue with start_line={found['next_start_line']}"
    return first


def _about(found: Mapping[str, Any]) -> str:
    parts = [
        f"{found['size']} bytes",
        found["encoding"],
        f"line endings: {found['line_endings']}",
        "with BOM" if found["bom"] else "no BOM",
    ]
    if found["size"] and not found["final_newline"]:
        parts.append("no newline at the end")
    if found["sha256"]:
        parts.append(f"sha256 {found['sha256']}")
    return ", ".join(parts)


def _readable(raw: str) -> RepoPath:
    path = RepoPath.parse(raw)
    if any(part.casefold() == ".git" for part in path.parts):
        raise Problem(
            Refusal.PATH_PROTECTED,
            f"'{quoted(path.text)}' lies in .git, which no tool shows",
            "spike_list_files shows what can be read",
        )
    return path


def _lines(text: str) -> list[str]:
    """Lines with their endings; only `\\n` ends a line."""
    return [line for line in _split(text) if line]


def _split(text: str) -> Iterator[str]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start : end + 1]
        start = end + 1
    yield text[start:]


def _fitting(lines: Sequence[str]) -> tuple[str, int, int]:
    """(text, lines taken, length of a line that had to be cut or 0): what fits into a reply."""
    taken: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode("utf-8"))
        if size > TEXT_BYTES:
            break
        taken.append(line)
    if taken or not lines:
        return "".join(taken), len(taken), 0
    return first_bytes(lines[0], TEXT_BYTES), 1, len(lines[0])


# --- searching ----------------------------------------------------------------------------------


def _search(spike: Spike, request: SearchFiles) -> tuple[str, dict[str, Any]]:
    if not request.pattern:
        raise Problem(
            Refusal.MALFORMED_REQUEST,
            "`pattern` is empty",
            "give the text to look for; spike_list_files lists files",
        )
    names = _below(spike, request.path)
    found = search(spike.work, names, request.pattern, regex=request.regex)
    rows = [f"{visible(hit.path)}:{hit.line}: {visible(hit.text)}" for hit in found.hits]
    shown = _head_that_fits(rows)
    first = _told(found, len(shown), len(names))
    data = {
        "hits": [
            {"path": visible(hit.path), "line": hit.line, "text": visible(hit.text)}
            for hit in found.hits[: len(shown)]
        ],
        "found": len(found.hits),
        "complete": found.complete,
        "searched": found.searched,
        "skipped": found.skipped,
    }
    return "\n".join([first, *rows[: len(shown)]]), data


def _head_that_fits(rows: Sequence[str]) -> Sequence[str]:
    size = 0
    for index, row in enumerate(rows):
        size += len(row.encode()) + 1
        if size > TEXT_BYTES:
            return rows[:index]
    return rows


def _told(found: Found, shown: int, files: int) -> str:
    number = len(found.hits)
    hits = _count(number, "matching line")
    if not found.complete and not found.more:
        return (
            f"stopped at the time limit: {hits} so far, {shown} shown; "
            "simplify the pattern or give a narrower path"
        )
    if found.more:
        first = f"more than {hits}, the first {shown} shown; give a narrower path or pattern"
    elif shown < number:
        first = f"{hits}, the first {shown} shown; give a narrower path or pattern"
    else:
        first = f"{hits} in {_count(files, 'file')}"
    skipped = f" ({found.skipped} passed over: binary, linked or too large)"
    return first + (skipped if found.skipped else "")


# --- output of runs -----------------------------------------------------------------------------


def clip_output(head: str, tail: str, dropped: int) -> str:
    """A run's output for a reply: all of it, or its beginning and its end, where assertions stand.

    `dropped` bytes lay between `head` and `tail`; what is left out here is counted too.
    """
    if not head and not tail and not dropped:
        return "no output"
    if not dropped:
        whole = _shown(head + tail)
        if len(whole.encode()) <= OUTPUT_HEAD + OUTPUT_TAIL:
            return f"output:\n{whole}"
        head, tail = head + tail, head + tail
    size = _size(head) if not dropped else _size(head) + _size(tail)
    start = first_bytes(head, _longest(head, OUTPUT_HEAD, first_bytes))
    end = last_bytes(tail, _longest(tail, OUTPUT_TAIL, last_bytes))
    left_out = size + dropped - _size(start) - _size(end)
    lost = f", {dropped} of them not kept at all" if dropped else ""
    marker = f"[... {left_out} bytes of output left out{lost} ...]"
    return f"output:\n{_shown(start)}\n{marker}\n{_shown(end)}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _shown(text: str) -> str:
    return visible(text.replace("\r\n", "\n")).rstrip("\n")


def _longest(text: str, limit: int, cut: Callable[[str, int], str]) -> int:
    """The most bytes that `cut` may leave so that the shown form stays within `limit` bytes."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if len(_shown(cut(text, middle)).encode()) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def first_bytes(text: str, limit: int) -> str:
    """The beginning of a text, at most `limit` bytes, whole characters."""
    return text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def last_bytes(text: str, limit: int) -> str:
    """The end of a text, at most `limit` bytes, whole characters."""
    if not limit:
        return ""
    return text[-limit:].encode("utf-8", "replace")[-limit:].decode("utf-8", "ignore")
