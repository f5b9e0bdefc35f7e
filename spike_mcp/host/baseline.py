"""Recording the baseline: every file of the commit as git checked it out (spec 2, 4)."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence

from spike_mcp.host import handles
from spike_mcp.host.examine import chunks
from spike_mcp.host.files import PathLike
from spike_mcp.host.git.objects import GITLINK, TreeEntry
from spike_mcp.host.manifest import Entry, Manifest, absent, gitlink, write_manifest
from spike_mcp.host.stats import Stat, StatCache, stat_of, tick

_LINK = 0o120000


def record_baseline(
    root: PathLike,
    listing: Sequence[TreeEntry],
    object_format: str,
    path: PathLike,
    cache: PathLike | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Hash the fresh worktree at `root`, write the manifest to `path` and the stat records to
    `cache`, and return the manifest opened.

    `listing`: `Git.listing` of the baseline commit; a path of it that is not on disk was left out
    by a sparse checkout and is recorded as absent. Call it before anybody else can write there.
    """
    rows: list[tuple[str, Entry]] = []
    known: dict[str, Stat] = {}
    where = os.path.dirname(os.fspath(cache)) if cache is not None else None
    with handles.opened(root) as top:
        settled_before = tick(where, os.fstat(top).st_dev)
        directories = _Directories(top)
        try:
            for done, item in enumerate(sorted(listing)):
                entry, found = _entry(directories, item, object_format)
                rows.append((item.path, entry))
                if found and max(found.st_mtime_ns, found.st_ctime_ns) < settled_before:
                    known[item.path] = stat_of(found)
                if on_progress is not None and done % 1000 == 0:
                    on_progress(done, len(listing))
        finally:
            directories.close()
    write_manifest(path, rows)
    manifest = Manifest(path)
    if cache is not None:
        StatCache(cache, manifest).save(known)
    return manifest


class _Directories:
    """The handle of the directory looked at last: a sorted listing stays in one for long."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._parents: tuple[bytes, ...] = ()
        self._reached = handles.walk(root, ())

    def close(self) -> None:
        os.close(self._reached.fd)

    def of(self, parents: tuple[bytes, ...]) -> int | None:
        """Handle of a directory, None if it is not there (or is no directory)."""
        if parents != self._parents:
            self.close()
            self._parents, self._reached = parents, handles.walk(self._root, parents)
        return None if self._reached.trouble else self._reached.fd


def _entry(
    directories: _Directories, item: TreeEntry, object_format: str
) -> tuple[Entry, os.stat_result | None]:
    if item.mode == GITLINK:
        return gitlink(), None
    parts = handles.components(item.path)
    fd = directories.of(parts[:-1])
    found = handles.lstat(fd, parts[-1]) if fd is not None else None
    if fd is None or found is None:
        return absent(), None
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(parts[-1], dir_fd=fd)
        return _compared(item, found, [target], object_format), found
    opened = handles.open_file(fd, parts[-1])
    if opened is None:
        return absent(), None
    try:
        return _compared(item, opened[1], chunks(opened[0]), object_format), opened[1]
    finally:
        os.close(opened[0])


def _compared(
    item: TreeEntry, found: os.stat_result, pieces: Iterable[bytes], object_format: str
) -> Entry:
    """The entry of these bytes, marked if they are not the blob's: eol, ident, filter, LFS."""
    digest = hashlib.sha256()
    blob = hashlib.new(object_format, b"blob %d\0" % found.st_size, usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
        blob.update(piece)
    same_kind = stat.S_IFMT(found.st_mode) == stat.S_IFMT(item.mode)
    converted = blob.hexdigest() != item.oid or not same_kind
    return Entry(found.st_mode, found.st_size, digest.hexdigest(), converted)
