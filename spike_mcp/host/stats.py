"""Which files of the baseline need not be hashed again: an accelerator, never evidence (spec 9).

One record for each line of the manifest, in its order: mode, inode, size, mtime and ctime of the
file when its bytes were last seen to be the manifest's. A record is kept only if both times are
older than the moment at which the look began, by the file system's own clock: a file written in
that very tick could change once more without its times telling (Git's "racy" rule).

This does not hold against a process that writes through a mapping of the file it has made long
before: the kernel may leave ctime alone then. `Sweeper.sweep(rehash=True)` ignores the records.
"""

import os
import struct
import time
from contextlib import suppress
from typing import Final

from spike_mcp.core.codes import Problem
from spike_mcp.host.files import PathLike, read_all, temporary_name, write_atomic
from spike_mcp.host.manifest import Manifest

Stat = tuple[int, int, int, int, int]
"""mode, inode, size in bytes, mtime and ctime in nanoseconds."""

_RECORD: Final = struct.Struct("<IQQqq")
_UNKNOWN: Final[Stat] = (0, 0, 0, 0, 0)
_OTHER_CLOCK: Final = 3 * 10**9


def stat_of(found: os.stat_result) -> Stat:
    """The record of a file."""
    return (
        found.st_mode,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


class StatCache:
    """The records of one manifest, in one file that may be lost at any time."""

    def __init__(self, path: PathLike, manifest: Manifest) -> None:
        self.path = os.fspath(path)
        self._manifest = manifest

    def load(self) -> dict[str, Stat]:
        """Path -> record; {} if there is no file or it belongs to another manifest."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return {}
        try:
            data = read_all(fd)
        finally:
            os.close(fd)
        header = self._header()
        names = self._manifest.names()
        if not data.startswith(header) or len(data) != len(header) + _RECORD.size * len(names):
            return {}
        return dict(zip(names, _RECORD.iter_unpack(memoryview(data)[len(header) :]), strict=True))

    def save(self, known: dict[str, Stat]) -> None:
        """Replace the file; a disk that takes no more just leaves the accelerator out."""
        records = (_RECORD.pack(*known.get(name, _UNKNOWN)) for name in self._manifest.names())
        with suppress(OSError, Problem):
            write_atomic(self.path, self._header() + b"".join(records), 0o600, durable=False)

    def _header(self) -> bytes:
        return f"spike-stats 1 {self._manifest.digest()} {len(self._manifest)}\n".encode("ascii")


def tick(directory: PathLike | None, device: int) -> int:
    """Now, in nanoseconds, by the clock that stamps files on `device`; earlier rather than later.

    The clock is read off a fresh file in `directory`. Where there is none, or it lies on another
    device or can't be written, the system's clock less three seconds has to do.
    """
    if directory is None:
        return time.time_ns() - _OTHER_CLOCK
    path = os.path.join(os.fspath(directory), temporary_name())
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return time.time_ns() - _OTHER_CLOCK
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
        os.unlink(path)
    return found.st_ctime_ns if found.st_dev == device else time.time_ns() - _OTHER_CLOCK
