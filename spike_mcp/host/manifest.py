"""The baseline manifest: what git checked out, byte for byte (spec 2, 4, 9).

One text file, written once by `spike init` and sealed by its digest. A header line, then one line a
path, sorted by the path's bytes:

    spike-manifest 1 <number of lines>
    <mode, 6 octal digits> <sha256> <size, 16 columns> <= or ~> <path>

`mode` is the file's `st_mode` as checked out (permission bits included, symbolic links 120777),
160000 for a submodule's directory, 000000 for a path of the commit that was not checked out
(sparse checkouts). `sha256` and `size` are the bytes' on disk, of a symbolic link its target's.
`~` marks a file whose bytes differ from its blob in the object store (eol, ident, filter, LFS).
In paths `\\` stands for a backslash and `\\n` for a newline; all other bytes are as they are.

The leading columns have fixed widths, so a path is found by bisection in the mapped file without
reading the rest: a command that asks about three paths must not pay for 100,000.
"""

import hashlib
import mmap
import os
import re
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.files import PathLike, write_atomic

GITLINK: Final = 0o160000
ABSENT: Final = 0

_ZERO: Final = "0" * 64
_REMEMBERED: Final = 4_096
"""Look-ups kept in memory: a write asks for the same few paths ten times over."""
_PATH_AT: Final = 6 + 1 + 64 + 1 + 16 + 1 + 1 + 1
_HEADER: Final = re.compile(rb"spike-manifest 1 (\d+)\n")
_ROW: Final = re.compile(rb"([0-7]{6}) ([0-9a-f]{64}) ([ 0-9]{15}\d) ([=~]) ")


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of the baseline: `st_mode`, size in bytes, SHA-256 (hex) of the bytes on disk."""

    mode: int
    size: int
    sha256: str
    converted: bool = False
    """The bytes on disk are not the blob's: writing here could not be shipped faithfully."""

    @property
    def is_file(self) -> bool:
        """A regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_symlink(self) -> bool:
        """A symbolic link; size and digest are its target's."""
        return stat.S_ISLNK(self.mode)

    @property
    def is_gitlink(self) -> bool:
        """A submodule's directory; left alone."""
        return self.mode == GITLINK

    @property
    def is_absent(self) -> bool:
        """In the commit, but not checked out."""
        return self.mode == ABSENT


def gitlink() -> Entry:
    """The row of a submodule's directory."""
    return Entry(GITLINK, 0, _ZERO)


def absent() -> Entry:
    """The row of a path that the commit has and the checkout left out."""
    return Entry(ABSENT, 0, _ZERO)


def write_manifest(path: PathLike, rows: Iterable[tuple[str, Entry]]) -> str:
    """Write the manifest, read-only; return its SHA-256. Paths are text (surrogateescape).

    Raises `ValueError` for a path given twice, `Problem(STORAGE_FULL)`.
    """
    lines = sorted(_row(text, entry) for text, entry in rows)
    names = [line[0] for line in lines]
    if len(set(names)) != len(names):
        raise ValueError("a path stands twice in the manifest")
    body = b"".join(head + name + b"\n" for name, head in lines)
    data = b"spike-manifest 1 %d\n" % len(lines) + body
    write_atomic(path, data, 0o444)
    return hashlib.sha256(data).hexdigest()


def _row(text: str, entry: Entry) -> tuple[bytes, bytes]:
    if not 0 <= entry.size < 10**16 or len(entry.sha256) != 64 or not 0 <= entry.mode < 8**6:
        raise ValueError(f"not a manifest row: {text!r} {entry!r}")
    mark = "~" if entry.converted else "="
    head = f"{entry.mode:06o} {entry.sha256} {entry.size:>16d} {mark} "
    return _escape(text), head.encode("ascii")


def _escape(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)


class Manifest:
    """A manifest opened for reading; look-ups bisect the mapped file, `load` reads all of it.

    Opening verifies the shape only; the caller compares `digest()` with the seal.
    """

    def __init__(self, path: PathLike) -> None:
        """Map the file. `Problem(SEAL_BROKEN)` when it is missing or is no manifest."""
        self.path = os.fspath(path)
        self._map = _map_file(self.path)
        header = _HEADER.match(self._map)
        if header is None or self._map[-1:] != b"\n":
            raise _damaged("is not a manifest")
        self._count = int(header[1])
        self._first = header.end()
        self._names: list[str] | None = None
        self._known: dict[str, Entry | None] = {}
        self._by_mode: dict[int, frozenset[str]] = {}

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()

    def digest(self) -> str:
        """SHA-256 of the whole file."""
        return hashlib.sha256(self._map).hexdigest()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, path: str) -> bool:
        return self.get(path) is not None

    def get(self, path: str) -> Entry | None:
        """The entry of a path, None if the baseline has no such path."""
        if path in self._known:
            return self._known[path]
        found = self._read(_escape(path))
        if len(self._known) < _REMEMBERED:
            self._known[path] = found
        return found

    def _read(self, key: bytes) -> Entry | None:
        start = self._find(key)
        end = self._map.find(b"\n", start)
        if end < 0 or self._map[start + _PATH_AT : end] != key:
            return None
        return self._entry(start)

    def has_directory(self, path: str) -> bool:
        """Whether the baseline has anything below this directory."""
        return next(self.under(path), None) is not None

    def under(self, path: str) -> Iterator[tuple[str, Entry]]:
        """The entries below a directory (`""` = all), in the order of their bytes."""
        prefix = _escape(path) + b"/" if path else b""
        start = self._find(prefix)
        while start < len(self._map):
            end = self._map.find(b"\n", start)
            name = self._map[start + _PATH_AT : end]
            if not name.startswith(prefix):
                return
            yield _unescape(name.decode("utf-8", "surrogateescape")), self._entry(start)
            start = end + 1

    def names(self) -> list[str]:
        """All paths in the file's order, read once and kept (100,000: about 40 ms)."""
        if self._names is None:
            text = self._map[self._first :].decode("utf-8", "surrogateescape")
            names = [line[_PATH_AT:] for line in text.split("\n")]
            names.pop()
            if len(names) != self._count or "" in names:
                raise _damaged("has lost or damaged lines")
            self._names = [_unescape(name) for name in names] if "\\" in text else names
        return self._names

    def gitlinks(self) -> frozenset[str]:
        """The paths of submodules."""
        return self._marked(GITLINK)

    def absent(self) -> frozenset[str]:
        """The paths of the commit that were not checked out."""
        return self._marked(ABSENT)

    def _marked(self, mode: int) -> frozenset[str]:
        if mode not in self._by_mode:
            start = b"%06o " % mode
            lines = self._map[self._first :]
            any_there = lines.startswith(start) or b"\n" + start in lines
            rows = zip(self.names(), lines.split(b"\n"), strict=False) if any_there else ()
            self._by_mode[mode] = frozenset(name for name, line in rows if line.startswith(start))
        return self._by_mode[mode]

    def index(self, path: str) -> int | None:
        """The place of a path in `names()`, None if it is not there."""
        names = self.names()
        key = _escape(path)
        place = bisect_left(names, key, key=_escape)
        return place if place < len(names) and names[place] == path else None

    def _find(self, key: bytes) -> int:
        """Offset of the first line whose escaped path is not below `key`."""
        low, high = self._first, len(self._map)
        while low < high:
            middle = (low + high) // 2
            start = self._map.rfind(b"\n", low, middle) + 1 or low
            end = self._map.find(b"\n", middle)
            if self._map[start + _PATH_AT : end] < key:
                low = end + 1
            else:
                high = start
        return low

    def _entry(self, start: int) -> Entry:
        row = _ROW.match(self._map, start)
        if row is None:
            raise _damaged("holds a line that is no manifest line")
        mode, digest, size, mark = row.groups()
        return Entry(int(mode, 8), int(size), digest.decode("ascii"), mark == b"~")


def _map_file(path: str) -> mmap.mmap:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _damaged("is missing or unreadable") from error
    try:
        return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise _damaged("is empty") from error
    finally:
        os.close(fd)


def _damaged(what: str) -> Problem:
    return Problem(
        Refusal.SEAL_BROKEN,
        f"the baseline manifest {what}",
        "the spike can't be judged without it: close it and open a new one",
    )
