"""Taking things out of `work/` and putting recorded bytes back: the human's commands (spec 9, 13).

Everything goes through directory handles. A tree is removed flat: each directory met is first moved
up beside the one that is being removed, so that neither its depth nor a path longer than the system
takes can stop the removal.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from spike_mcp.host import handles
from spike_mcp.host.files import PathLike, storage_errors, temporary_name, write_all
from spike_mcp.host.handles import Trouble
from spike_mcp.host.manifest import GITLINK
from spike_mcp.host.transaction import prune, refusals
from spike_mcp.host.worktree import Worktree


def restore(worktree: Worktree, path: str, mode: int, data: bytes) -> None:
    """Put a file (or, with a link's `st_mode`, a symbolic link) back, whatever stands there now.

    What is in the way goes: a directory, a link or special file, also as a parent. A submodule's
    `st_mode` (160000) leaves an empty directory. Durable on return.
    """
    parts = handles.components(path)
    with storage_errors(), refusals(), handles.opened(worktree.root) as root:
        directory = _clear_way(root, parts[:-1])
        try:
            found = handles.lstat(directory, parts[-1])
            submodule = mode == GITLINK
            if submodule or (found is not None and stat.S_ISDIR(found.st_mode)):
                _remove(directory, parts[-1])
            if submodule:
                os.mkdir(parts[-1], dir_fd=directory)
            else:
                _put(directory, parts[-1], mode, data)
            os.fsync(directory)
        finally:
            os.close(directory)


def discard(worktree: Worktree, path: str) -> None:
    """Remove whatever stands at `path`, trees too, and parents left empty; no error if gone."""
    parts = handles.components(path)
    with refusals(), handles.opened(worktree.root) as root:
        reached = handles.walk(root, parts[:-1])
        try:
            if not reached.trouble:
                _remove(reached.fd, parts[-1])
                os.fsync(reached.fd)
        finally:
            os.close(reached.fd)
        prune(root, parts[:-1], worktree.baseline)


def remove_files(worktree: Worktree, paths: Iterable[str]) -> list[str]:
    """Remove droppings or temporaries as a sweep reported them; return the ones removed.

    Only what is still a file, a link or (final `/`) an empty directory is removed.
    """
    removed = []
    parents = set()
    with handles.opened(worktree.root) as root:
        for path in paths:
            parts = handles.components(path.rstrip("/"))
            reached = handles.walk(root, parts[:-1])
            try:
                if reached.trouble:
                    continue
                remove = os.rmdir if path.endswith("/") else os.unlink
                remove(parts[-1], dir_fd=reached.fd)
            except OSError:
                continue
            finally:
                os.close(reached.fd)
            removed.append(path)
            parents.add(parts[:-1])
        for parent in sorted(parents, key=len, reverse=True):
            prune(root, parent, worktree.baseline)
    return removed


def remove_worktree_files(root: PathLike) -> None:
    """Remove the directory `work/` itself with everything in it; no error if it is gone.

    The caller has verified that it is the worktree that was made.
    """
    where = os.fspath(root)
    above = os.open(os.path.dirname(where), handles.DIRECTORY)
    try:
        _remove(above, os.fsencode(os.path.basename(where)))
        os.fsync(above)
    finally:
        os.close(above)


def remove_tree(parent: int, name: bytes) -> None:
    """Remove the directory `name` of the open directory `parent`, and all that is below it."""
    pending = [name]
    while pending:
        current = pending.pop()
        fd = _open_own(parent, current)
        try:
            for entry in os.listdir(fd):
                _lift(fd, os.fsencode(entry), parent, pending)
        finally:
            os.close(fd)
        os.rmdir(current, dir_fd=parent)


def _lift(fd: int, entry: bytes, parent: int, pending: list[bytes]) -> None:
    found = handles.lstat(fd, entry)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(entry, dir_fd=fd)
        return
    os.close(_open_own(fd, entry))  # moving a directory needs write permission inside it
    beside = temporary_name().encode("ascii")
    os.rename(entry, beside, src_dir_fd=fd, dst_dir_fd=parent)
    pending.append(beside)


def _open_own(parent: int, name: bytes) -> int:
    """Open a directory of ours that somebody may have closed to us by its mode."""
    if hasattr(os, "O_PATH"):
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        path = os.open(name, flags, dir_fd=parent)
        try:
            # There is no fchmod for such a handle, and no chmod that does not follow links.
            if os.fstat(path).st_mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{path}", 0o700)
        finally:
            os.close(path)
    return os.open(name, handles.DIRECTORY, dir_fd=parent)


def _remove(directory: int, name: bytes) -> None:
    found = handles.lstat(directory, name)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        remove_tree(directory, name)
    else:
        os.unlink(name, dir_fd=directory)


def _clear_way(root: int, parents: tuple[bytes, ...]) -> int:
    """Handle of the directory `parents`; what is no directory on the way there is replaced."""
    fd = os.dup(root)
    for part in parents:
        reached = handles.walk(fd, (part,))
        os.close(fd)
        fd = reached.fd
        if not reached.trouble:
            continue
        try:
            below = _made(fd, part, reached.trouble)
        finally:
            os.close(fd)
        fd = below
    return fd


def _made(fd: int, part: bytes, trouble: Trouble) -> int:
    if trouble is Trouble.UNREADABLE:
        return _open_own(fd, part)
    if trouble is not Trouble.MISSING:
        os.unlink(part, dir_fd=fd)
    os.mkdir(part, dir_fd=fd)
    return os.open(part, handles.DIRECTORY, dir_fd=fd)


def _put(directory: int, name: bytes, mode: int, data: bytes) -> None:
    temporary = temporary_name().encode("ascii")
    try:
        if stat.S_ISLNK(mode):
            os.symlink(data, temporary, dir_fd=directory)
        else:
            fd = os.open(temporary, handles.CREATE, 0o600, dir_fd=directory)
            try:
                write_all(fd, data)
                os.fchmod(fd, stat.S_IMODE(mode))
                os.fsync(fd)
            finally:
                os.close(fd)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
