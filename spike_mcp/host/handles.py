"""Reaching a path below a root without ever following a link (spec 8, "Writes are confined").

Each component is opened relative to the handle of the one before, with O_NOFOLLOW. A name decided
on by its spelling can be swapped for a link before it is used; a handle can't. What the chain does
accept is `..`, so `components` refuses that by its spelling first.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.files import PathLike

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that somebody put there must not hang the server.
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GONE: Final = b" (deleted)"
CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Trouble(StrEnum):
    """Why a walk did not reach the directory it was to reach."""

    NONE = ""
    MISSING = "missing"
    SYMLINK = "symlink"
    NOT_DIRECTORY = "not_directory"
    OTHER_DEVICE = "other_device"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Walk:
    """How far a walk came: `fd` is the deepest directory reached, `depth` components deep."""

    fd: int
    depth: int
    trouble: Trouble


def encode(text: str) -> bytes:
    """A name's bytes on disk, whatever the locale says."""
    return text.encode("utf-8", "surrogateescape")


def decode(name: bytes) -> str:
    """The text of a name read from disk."""
    return name.decode("utf-8", "surrogateescape")


def components(text: str) -> tuple[bytes, ...]:
    """The components of a repository path as bytes; refuses what no handle would stop.

    `Problem(PATH_INVALID)` for empty, `.` and `..` components, NUL, and `.git` at the top: the
    worktree's pointer is never a target.
    """
    parts = tuple(encode(text).split(b"/"))
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise Problem(Refusal.PATH_INVALID, "the path has a component that is no name")
    if parts[0].lower() == b".git":
        raise Problem(Refusal.PATH_PROTECTED, "the worktree's .git is no target")
    return parts


@contextmanager
def opened(path: PathLike) -> Iterator[int]:
    """Handle of a root directory; `Problem(WORKTREE_TAMPERED)` if it is no directory any more."""
    try:
        fd = os.open(path, DIRECTORY)
    except OSError as error:
        raise Problem(
            Refusal.WORKTREE_TAMPERED,
            f"the worktree can't be opened: {os.strerror(error.errno or 0).lower()}",
            "put the directory back, or close the spike",
        ) from error
    try:
        yield fd
    finally:
        os.close(fd)


def walk(root: int, parts: Sequence[bytes]) -> Walk:
    """Open the directories `parts` one below the other; the caller closes `fd` of the result."""
    device = os.fstat(root).st_dev
    fd = os.dup(root)
    for depth, part in enumerate(parts):
        try:
            below = os.open(part, DIRECTORY, dir_fd=fd)
        except OSError:
            return Walk(fd, depth, _why(fd, part))
        if os.fstat(below).st_dev != device:
            os.close(below)
            return Walk(fd, depth, Trouble.OTHER_DEVICE)
        os.close(fd)
        fd = below
    return Walk(fd, len(parts), Trouble.NONE)


def _why(fd: int, part: bytes) -> Trouble:
    try:
        found = lstat(fd, part)
    except OSError:
        return Trouble.UNREADABLE
    if found is None:
        return Trouble.MISSING
    if stat.S_ISLNK(found.st_mode):
        return Trouble.SYMLINK
    return Trouble.UNREADABLE if stat.S_ISDIR(found.st_mode) else Trouble.NOT_DIRECTORY


def lstat(fd: int, name: bytes) -> os.stat_result | None:
    """What `name` in the directory `fd` is, links not followed; None if no such file exists.

    Raises `OSError` where that can't be known (a directory without search permission).
    """
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return None
        raise


def open_file(fd: int, name: bytes) -> tuple[int, os.stat_result] | None:
    """Open `name` for reading if it is a regular file now; None for anything else."""
    try:
        opened_file = os.open(name, READ, dir_fd=fd)
    except OSError:
        return None
    found = os.fstat(opened_file)
    if stat.S_ISREG(found.st_mode):
        return opened_file, found
    os.close(opened_file)
    return None


def still_named(fd: int, directory: int, name: bytes) -> bool:
    """Whether an open file still has the name it was opened by, and has had it all the time.

    Tells a file with one link from one that had two when it was opened: removing the name that was
    used leaves the other. Linux says so of the name itself, which can't come back; elsewhere the
    name is looked up again, which a well-timed swap there and back can deceive.
    """
    try:
        if not name.endswith(_GONE):
            return not os.readlink(b"/proc/self/fd/%d" % fd).endswith(_GONE)
    except OSError:
        pass
    now = lstat(directory, name)
    return now is not None and os.path.samestat(now, os.fstat(fd))


def prune(root: int, parts: Sequence[bytes], keep: int) -> None:
    """Remove the directories `parts` from the deepest up to depth `keep` while they are empty."""
    for depth in range(len(parts), keep, -1):
        reached = walk(root, parts[: depth - 1])
        try:
            if reached.trouble:
                continue
            with suppress(FileNotFoundError):
                os.rmdir(parts[depth - 1], dir_fd=reached.fd)
        except OSError:
            return
        finally:
            os.close(reached.fd)
