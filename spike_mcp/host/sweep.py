"""The out-of-band sweep: the whole tree against what the ledger expects (spec 9).

Expected is the baseline manifest overlaid with the accepted changes. Ignore rules, attributes and
Git's index are not consulted; only `environment` paths lie outside. The walk goes through directory
handles and follows no link; a file whose stat is on record (`stats.py`) is not read again.

What was found is never remembered: every sweep looks again.
"""

import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spike_mcp.host import handles
from spike_mcp.host.droppings import Cache, cache_below
from spike_mcp.host.examine import Expected, Finding, Frame, Look, What, examine
from spike_mcp.host.files import PathLike
from spike_mcp.host.manifest import Manifest
from spike_mcp.host.stats import Stat, StatCache, tick

__all__ = ["Expected", "Finding", "Report", "Sweeper", "What"]

_DEEPEST: Final = 400  # each level holds a handle, and a process may have no more than 1,024
_PLAIN_NAMES: Final = sys.getfilesystemencoding().lower() == "utf-8"


@dataclass(frozen=True, slots=True)
class Report:
    """What one sweep saw; all paths sorted.

    `droppings`: files (and, with a final `/`, empty directories) of test runners and editors.
    `temporaries`: this program's own temporary files, left by a process that was killed or in use
    by one that is alive. `files` were met, `hashed` of them were read.
    """

    findings: tuple[Finding, ...]
    droppings: tuple[str, ...]
    temporaries: tuple[str, ...]
    files: int
    hashed: int


class Sweeper:
    """Sweeps of one worktree; keeps the stat records in memory between sweeps."""

    def __init__(
        self,
        root: PathLike,
        manifest: Manifest,
        cache: PathLike | None = None,
        environment: Iterable[str] = (),
    ) -> None:
        """`cache`: the file of stat records, in a directory only the server writes.

        `environment`: paths or `dir/` prefixes that are outside the diff.
        """
        self.root = os.fspath(root)
        self.manifest = manifest
        self._cache = StatCache(cache, manifest) if cache is not None else None
        self._known: dict[str, Stat] | None = None
        self._outside = frozenset(path.rstrip("/") for path in environment)

    def sweep(self, expected: Expected, *, rehash: bool = False) -> Report:
        """Look at everything; `rehash` reads every file whatever the records say.

        `Problem(WORKTREE_TAMPERED)` if the worktree's directory can't be opened.
        """
        records = self._records(expected)
        with handles.opened(self.root) as root:
            device = os.fstat(root).st_dev
            where = os.path.dirname(self._cache.path) if self._cache is not None else None
            known = {} if rehash else records
            look = self._look(root, expected, known, settled_before=tick(where, device))
            _walk(root, look)
        _find_missing(look)
        self._keep(records, look)
        return Report(
            tuple(sorted(set(look.findings))),
            tuple(sorted(look.droppings)),
            tuple(sorted(look.temporaries)),
            len(look.seen),
            look.hashed,
        )

    def check_paths(self, paths: Iterable[str], expected: Expected) -> tuple[Finding, ...]:
        """Look at these files only (the ones a write touches); their bytes are always read."""
        with handles.opened(self.root) as root:
            look = self._look(root, expected, {}, settled_before=0)
            for path in paths:
                _check_path(root, path, look)
        return tuple(sorted(set(look.findings)))

    def _look(
        self, root: int, expected: Expected, known: dict[str, Stat], settled_before: int
    ) -> Look:
        device = os.fstat(root).st_dev
        look = Look(self.manifest, expected, self._outside, known, settled_before, device)
        look.hidden += [path + "/" for path in self._outside]
        return look

    def _records(self, expected: Expected) -> dict[str, Stat]:
        if self._known is None:
            self._known = self._cache.load() if self._cache is not None else {}
        for path in expected:
            # A record says "has the baseline's bytes": worth nothing where others are expected.
            self._known.pop(path, None)
        return self._known

    def _keep(self, records: dict[str, Stat], look: Look) -> None:
        records.update(look.learned)
        if look.learned and self._cache is not None:
            self._cache.save(records)


def _walk(root: int, look: Look) -> None:
    top = _enter_or_close(os.dup(root), "", Cache.NONE, look)
    frames = [top] if top is not None else []
    try:
        while frames:
            frame = frames[-1]
            if not frame.below:
                os.close(frames.pop().fd)
                continue
            below = _descend(frame, frame.below.pop(), len(frames), look)
            if below is not None:
                frames.append(below)
    finally:
        for frame in frames:
            os.close(frame.fd)


def _enter_or_close(fd: int, prefix: str, cache: Cache, look: Look) -> Frame | None:
    try:
        return _enter(fd, prefix, cache, look)
    except OSError:
        os.close(fd)
        _not_entered(prefix[:-1], What.UNREADABLE, look)
        return None
    except BaseException:
        os.close(fd)
        raise


def _enter(fd: int, prefix: str, cache: Cache, look: Look) -> Frame:
    """Look at the files of one directory. The inner loop: 100,000 times a sweep."""
    frame = Frame(fd, prefix, [], cache)
    record, seen = look.known.get, look.seen
    before = len(seen)
    with os.scandir(fd) as entries:
        for entry in entries:
            name = entry.name if _PLAIN_NAMES else handles.decode(os.fsencode(entry.name))
            if entry.is_dir(follow_symlinks=False):
                frame.below.append(name)
                continue
            path = prefix + name
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                _without_stat(fd, path, look)
                continue
            seen.append(path)
            if record(path) != (
                found.st_mode,
                found.st_ino,
                found.st_size,
                found.st_mtime_ns,
                found.st_ctime_ns,
            ):
                examine(look, frame, name, found)
    if not frame.below and len(seen) == before:
        _empty(prefix, cache, look)
    return frame


def _descend(above: Frame, name: str, depth: int, look: Look) -> Frame | None:
    path = above.prefix + name
    if path in look.outside:
        return None
    look.directories.append(path)
    if name.lower() == ".git":
        look.seen.append(path)
        look.found(path, What.NESTED_REPOSITORY if above.prefix else What.TYPE_CHANGED)
        return None
    if depth > _DEEPEST:
        _not_entered(path, What.DIRECTORY, look)
        return None
    try:
        fd = os.open(handles.encode(name), handles.DIRECTORY, dir_fd=above.fd)
    except FileNotFoundError:
        return None
    except OSError:
        _not_entered(path, What.UNREADABLE, look)
        return None
    if path not in look.manifest.gitlinks() and os.fstat(fd).st_dev == look.device:
        return _enter_or_close(fd, path + "/", cache_below(above.cache, name), look)
    _closed_directory(fd, path, look)
    return None


def _closed_directory(fd: int, path: str, look: Look) -> None:
    """A submodule's directory, empty in a fresh worktree, or something mounted there."""
    try:
        if path not in look.manifest.gitlinks():
            _not_entered(path, What.SPECIAL, look)
            return
        look.seen.append(path)
        if os.listdir(fd):
            look.found(path, What.CHANGED)
    finally:
        os.close(fd)


def _not_entered(path: str, what: What, look: Look) -> None:
    look.found(path, what)
    look.hidden.append(path + "/")


def _without_stat(fd: int, path: str, look: Look) -> None:
    """Gone meanwhile (then it counts as missing), or in a directory without search permission."""
    if not os.access(".", os.X_OK, dir_fd=fd, effective_ids=True):
        look.seen.append(path)
        look.found(path, What.UNREADABLE)


def _empty(prefix: str, cache: Cache, look: Look) -> None:
    path = prefix[:-1]
    if not path or look.manifest.has_directory(path):
        return
    if any(name.startswith(prefix) for name in (*look.outside, *look.expected)):
        return
    if cache is Cache.NONE:
        look.found(path, What.DIRECTORY)
    else:
        look.droppings.append(prefix)


def _check_path(root: int, path: str, look: Look) -> None:
    parts = handles.components(path)
    name = handles.decode(parts[-1])
    reached = handles.walk(root, parts[:-1])
    try:
        found = None if reached.trouble else handles.lstat(reached.fd, parts[-1])
        if found is None:
            if look.want(path) is not None:
                look.found(path, What.DELETED)
        elif stat.S_ISDIR(found.st_mode):
            if look.want(path) is not None:
                look.found(path, What.TYPE_CHANGED)
        else:
            prefix = path[: len(path) - len(name)]
            examine(look, Frame(reached.fd, prefix, [], Cache.NONE), name, found)
    except OSError:
        look.found(path, What.UNREADABLE)
    finally:
        os.close(reached.fd)


def _find_missing(look: Look) -> None:
    seen, absent = set(look.seen), look.manifest.absent()
    if ".git" not in seen:
        look.found(".git", What.DELETED)
    missing = {name for name in look.manifest.names() if name not in seen and name not in absent}
    missing.difference_update(look.expected)
    missing.update(name for name, want in look.expected.items() if want and name not in seen)
    if not missing:
        return
    directories, hidden = set(look.directories), tuple(look.hidden)
    for path in missing:
        if not path.startswith(hidden):
            replaced = path in directories
            look.found(path, What.TYPE_CHANGED if replaced else What.DELETED)
