"""Files replaced whole, and blobs kept by digest (spec 3, 4, 10; architecture, habit 9).

Every file outside `work/` is written here: temporary file in the same directory, write, sync,
rename, sync of the directory. A reader sees the old content or the new one, never a mixture, and a
full disk leaves the old content in place.

What the platform does not promise: on macOS `fsync` hands the data to the drive without making the
drive write it, and a file system mounted without barriers can lose a synced file with the power.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from spike_mcp.core.codes import Problem, Refusal

TEMPORARY: Final = re.compile(r"\.spike-[0-9a-f]{24}\.tmp")
"""Name of every temporary file made by this program; the sweep knows it by `fullmatch`."""

_STORAGE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_CHUNK: Final = 1 << 20

PathLike = str | os.PathLike[str]


def temporary_name() -> str:
    """A fresh name for a temporary file, matched by `TEMPORARY`."""
    return f".spike-{os.urandom(12).hex()}.tmp"


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn "the medium takes no more bytes" into `Problem(STORAGE_FULL)`; let the rest through."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE_ERRORS:
            raise
        raise Problem(
            Refusal.STORAGE_FULL,
            f"nothing was changed: {os.strerror(error.errno).lower()}",
            "free some space (or lift the quota, or remount writable), then send it again",
        ) from error


def write_all(fd: int, data: bytes) -> None:
    """Write every byte: a nearly full disk accepts a part first and says so only by the count."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_all(fd: int, limit: int | None = None) -> bytes:
    """Read to the end; with `limit`, at most `limit + 1` bytes (one more says "longer")."""
    chunks: list[bytes] = []
    left = limit + 1 if limit is not None else None
    while left is None or left > 0:
        chunk = os.read(fd, _CHUNK if left is None else min(left, _CHUNK))
        if not chunk:
            break
        chunks.append(chunk)
        if left is not None:
            left -= len(chunk)
    return b"".join(chunks)


def sync_directory(path: PathLike) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: PathLike, data: bytes, mode: int = 0o644, *, durable: bool = True) -> None:
    """Replace the file at `path` by `data` with permission bits `mode`, whatever the umask.

    A symbolic link at `path` is replaced, not followed. `durable=False` leaves the syncs out, for
    files that may be lost (caches). Raises `Problem(STORAGE_FULL)` with the old content in place
    and the temporary file gone, `OSError` otherwise.
    """
    target = os.fspath(path)
    with storage_errors():
        _write_renamed(target, data, mode, durable=durable)
        if durable:
            sync_directory(os.path.dirname(target) or ".")


def _write_renamed(target: str, data: bytes, mode: int, *, durable: bool) -> None:
    temporary = os.path.join(os.path.dirname(target), temporary_name())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600)
    try:
        try:
            write_all(fd, data)
            os.fchmod(fd, mode)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def remove_temporaries(directory: PathLike) -> list[str]:
    """Remove the temporary files a killed process left in `directory`; return their names.

    Call it under the spike's lock only: a temporary file found there has no living owner.
    """
    removed = []
    for name in os.listdir(directory):
        if TEMPORARY.fullmatch(name):
            with suppress(OSError):
                os.unlink(os.path.join(directory, name))
                removed.append(name)
    return sorted(removed)


class Blobs:
    """Contents kept by their SHA-256, one read-only file each, in one flat directory."""

    def __init__(self, directory: PathLike) -> None:
        self.directory = os.fspath(directory)
        self._durable: set[str] = set()

    def put(self, data: bytes) -> str:
        """Keep `data`; return its digest (64 hex). Durable on return; the same data costs nothing.

        Raises `Problem(STORAGE_FULL)` with nothing half written.
        """
        return self.put_all((data,))[0]

    def put_all(self, items: Iterable[bytes]) -> list[str]:
        """Keep several contents with one sync of the directory; digests in the order given."""
        digests = []
        with storage_errors():
            for data in items:
                digest = hashlib.sha256(data).hexdigest()
                target = self._path(digest)
                if not _is_file_of_size(target, len(data)):
                    _write_renamed(target, data, 0o444, durable=True)
                    self._durable.discard(digest)
                digests.append(digest)
            if not self._durable.issuperset(digests):
                # Also for blobs that were there: their writer may have died before the sync.
                sync_directory(self.directory)
                self._durable.update(digests)
        return digests

    def get(self, digest: str) -> bytes:
        """The content with this digest, verified. `Problem(LEDGER_DAMAGED)` if gone or altered."""
        try:
            fd = os.open(self._path(digest), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise _lost(digest, "is missing or unreadable") from error
        try:
            data = read_all(fd)
        finally:
            os.close(fd)
        if hashlib.sha256(data).hexdigest() != digest:
            raise _lost(digest, "does not have the content its name promises")
        return data

    def has(self, digest: str) -> bool:
        """Whether a blob of that name exists; only `get` vouches for its content."""
        return os.path.isfile(self._path(digest))

    def _path(self, digest: str) -> str:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"not a sha256: {digest!r}")
        return os.path.join(self.directory, digest)


def _is_file_of_size(path: str, size: int) -> bool:
    try:
        return os.stat(path, follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False


def _lost(digest: str, what: str) -> Problem:
    return Problem(
        Refusal.LEDGER_DAMAGED,
        f"the stored content {digest[:12]} {what}",
        "restore the spike's judge directory from a backup, or close the spike",
    )
