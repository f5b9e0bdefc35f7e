"""One path of the worktree against what is expected there (spec 9); the walk is in `sweep.py`."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spike_mcp.host import handles
from spike_mcp.host.droppings import Cache, is_dropping
from spike_mcp.host.files import TEMPORARY
from spike_mcp.host.manifest import Manifest
from spike_mcp.host.stats import Stat, stat_of

Expected = Mapping[str, tuple[int, str] | None]
"""Accepted changes: path -> (`st_mode`, SHA-256), None = removed."""

_CHUNK = 1 << 20


class What(StrEnum):
    """How a path differs from what is expected."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"
    TYPE_CHANGED = "type_changed"
    MODE_CHANGED = "mode_changed"
    DIRECTORY = "directory"
    NESTED_REPOSITORY = "nested_repository"
    SYMLINK = "symlink"
    HARD_LINKED = "hard_linked"
    SPECIAL = "special"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One path that no accepted change explains.

    A directory is named itself where nothing below it was looked at: `directory` (empty, or too
    deep), `nested_repository`, `unreadable`, `special` (a mount), `changed` (a submodule).
    """

    path: str
    what: What


@dataclass(slots=True)
class Frame:
    """An open directory: `prefix` is "" or ends in "/", `below` are names still to visit."""

    fd: int
    prefix: str
    below: list[str]
    cache: Cache


@dataclass(slots=True)
class Look:
    """One look at the tree: what is expected, and what was met so far.

    `known`: stat records that make reading needless; `settled_before`: nanoseconds, see `stats.py`.
    `hidden`: prefixes ending in "/" below which nothing was looked at.
    """

    manifest: Manifest
    expected: Expected
    outside: frozenset[str]
    known: Mapping[str, Stat]
    settled_before: int
    device: int
    seen: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    droppings: list[str] = field(default_factory=list)
    temporaries: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    learned: dict[str, Stat] = field(default_factory=dict)
    hashed: int = 0

    def found(self, path: str, what: What) -> None:
        """Note a finding."""
        self.findings.append(Finding(path, what))

    def want(self, path: str) -> tuple[int, str] | None:
        """(`st_mode`, SHA-256) of the file or link expected at `path`, None if there is none."""
        if path in self.expected:
            return self.expected[path]
        entry = self.manifest.get(path)
        if entry is None or not (entry.is_file or entry.is_symlink):
            return None
        return entry.mode, entry.sha256


def examine(look: Look, frame: Frame, name: str, found: os.stat_result) -> None:
    """Compare what is no directory with what is expected, reading it if need be."""
    path = frame.prefix + name
    want = look.want(path)
    if want is None:
        _unexpected(look, frame, name, found)
    elif stat.S_IFMT(want[0]) != stat.S_IFMT(found.st_mode):
        look.found(path, What.TYPE_CHANGED)
    elif stat.S_ISLNK(found.st_mode):
        _link(look, frame, name, want[1], found)
    else:
        _file(look, frame, name, want)


def _unexpected(look: Look, frame: Frame, name: str, found: os.stat_result) -> None:
    path = frame.prefix + name
    regular = stat.S_ISREG(found.st_mode)
    if path in look.outside or (path == ".git" and regular):
        return
    if name.lower() == ".git":
        look.found(path, What.NESTED_REPOSITORY)
    elif not (regular or stat.S_ISLNK(found.st_mode)):
        look.found(path, What.SPECIAL)
    elif regular and found.st_nlink > 1:
        look.found(path, What.HARD_LINKED)
    elif regular and TEMPORARY.fullmatch(name):
        look.temporaries.append(path)
    elif is_dropping(frame.cache, name, regular=regular):
        look.droppings.append(path)
    else:
        look.found(path, What.ADDED if regular else What.SYMLINK)


def _link(look: Look, frame: Frame, name: str, want: str, found: os.stat_result) -> None:
    path = frame.prefix + name
    try:
        target = os.readlink(handles.encode(name), dir_fd=frame.fd)
    except OSError:
        look.found(path, What.CHANGED)
        return
    look.hashed += 1
    if hashlib.sha256(target).hexdigest() == want:
        _learn(look, path, found)
    else:
        look.found(path, What.CHANGED)


def _file(look: Look, frame: Frame, name: str, want: tuple[int, str]) -> None:
    path = frame.prefix + name
    opened = handles.open_file(frame.fd, handles.encode(name))
    if opened is None:
        look.found(path, What.UNREADABLE)
        return
    # The stat was taken before the read: a write during the read leaves a later ctime behind.
    fd, found = opened
    try:
        digest = digest_of(fd)
    finally:
        os.close(fd)
    look.hashed += 1
    if found.st_nlink > 1:
        look.found(path, What.HARD_LINKED)
    if digest != want[1]:
        look.found(path, What.CHANGED)
    elif found.st_mode != want[0]:
        look.found(path, What.MODE_CHANGED)
    elif found.st_nlink == 1:
        _learn(look, path, found)


def _learn(look: Look, path: str, found: os.stat_result) -> None:
    settled = max(found.st_mtime_ns, found.st_ctime_ns) < look.settled_before
    if settled and path not in look.expected:
        look.learned[path] = stat_of(found)


def chunks(fd: int) -> Iterator[bytes]:
    """The rest of an open file, piece by piece."""
    while chunk := os.read(fd, _CHUNK):
        yield chunk


def digest_of(fd: int) -> str:
    """SHA-256 (hex) of the rest of an open file."""
    digest = hashlib.sha256()
    for chunk in chunks(fd):
        digest.update(chunk)
    return digest.hexdigest()
