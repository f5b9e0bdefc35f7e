"""All-or-nothing writes of several files (spec 8; architecture, habits 7 and 9).

`stage` checks a write and puts its bytes, synced, beside the target; `commit` renames everything
into place; `abort` removes every trace. What a crash between two renames leaves is settled by the
caller's intent row and its blobs; `Worktree.leftovers` removes the temporary files.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.paths import RepoPath
from spike_mcp.host import handles, targets
from spike_mcp.host.files import read_all, storage_errors, temporary_name, write_all
from spike_mcp.host.handles import Trouble, Walk
from spike_mcp.host.manifest import Manifest

NEW_FILE: Final = 0o644
ANY: Final = "any"
"""`Write.before` that asks for no particular old content."""


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one file: `data` None removes it.

    `before`: SHA-256 the file must have now, "" for "must not exist", `ANY` for no check. `mode`:
    permission bits, None keeps the old ones (0644 for a new file, whatever the umask).
    """

    path: RepoPath
    data: bytes | None
    before: str = ANY
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a file becomes: `st_mode`, size, SHA-256; 0, 0, "" when it is removed."""

    path: str
    mode: int
    size: int
    sha256: str


Identity = tuple[int, ...]


@dataclass(slots=True)
class _Staged:
    """A write that waits: `directory` is a handle, `temporary` empty for a removal."""

    parts: tuple[bytes, ...]
    directory: int
    temporary: bytes
    result: Written
    old: bytes | None
    old_mode: int
    identity: Identity | None

    @property
    def name(self) -> bytes:
        return self.parts[-1]


class Prepared:
    """Writes that are checked and staged. As a context manager it aborts what was not committed."""

    def __init__(self, root: str, baseline: Manifest) -> None:
        self._baseline = baseline
        self._handles = ExitStack()
        self._root = self._handles.enter_context(handles.opened(root))
        self._staged: list[_Staged] = []
        self._made: list[tuple[bytes, ...]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    @property
    def results(self) -> tuple[Written, ...]:
        """What each file will be, in the order of the writes: known before anything changes."""
        return tuple(staged.result for staged in self._staged)

    def stage(self, write: Write) -> None:
        """Check one write and put its bytes beside the target; raises its `Problem`."""
        parts = handles.components(write.path.text)
        directory = self._reach(write, parts)
        old, found = _current(directory, parts[-1], write)
        old_mode = stat.S_IMODE(found.st_mode) & 0o777 if found else NEW_FILE
        mode = old_mode if write.mode is None else write.mode
        identity = _identity(found) if found else None
        temporary = temporary_name().encode("ascii") if write.data is not None else b""
        self._staged.append(
            _Staged(parts, directory, temporary, _result(write, mode), old, old_mode, identity)
        )
        if write.data is not None:
            _fill(directory, temporary, write.data, mode)

    def commit(self) -> tuple[Written, ...]:
        """Rename everything into place and sync the directories: all or nothing.

        Raises `Problem(STALE_FILE)` if a target or its directory is not the one that was checked,
        `Problem(STORAGE_FULL)`; the old bytes are back in place then. Where even that fails (the
        disk died) the `OSError` goes through, and the caller's intent row lets recovery finish.
        """
        results = self.results
        try:
            with storage_errors(), refusals():
                self._commit()
        finally:
            self.abort()
        return results

    def abort(self) -> None:
        """Remove temporary files and new directories; nothing after a commit or an abort."""
        for staged in self._staged:
            if staged.temporary:
                with suppress(OSError):
                    os.unlink(staged.temporary, dir_fd=staged.directory)
        for parts in reversed(self._made):
            handles.prune(self._root, parts, len(parts) - 1)
        self._staged, self._made = [], []
        self._handles.close()

    def _commit(self) -> None:
        for staged in self._staged:
            self._check_again(staged)
        with _undone_on_error() as done:
            for staged in self._staged:
                _swap(staged)
                done.append(staged)
            for directory in {staged.directory for staged in self._staged}:
                os.fsync(directory)
        removed = [staged.parts[:-1] for staged in self._staged if not staged.temporary]
        self._staged, self._made = [], []
        for parent in removed:
            prune(self._root, parent, self._baseline)

    def _reach(self, write: Write, parts: tuple[bytes, ...]) -> int:
        """Handle of the target's directory, made if it is missing, once the facts allow a write."""
        reached = handles.walk(self._root, parts[:-1])
        self._handles.callback(os.close, reached.fd)
        facts = targets.look(self._root, reached, parts, self._baseline)
        problem = facts.write_problem(write.path.text)
        if problem is not None:
            raise problem
        if reached.trouble is Trouble.NONE:
            return reached.fd
        if write.data is None:
            raise missing(write.path)
        return self._make_parents(reached, parts)

    def _make_parents(self, reached: Walk, parts: tuple[bytes, ...]) -> int:
        fd = reached.fd
        for depth in range(reached.depth, len(parts) - 1):
            os.mkdir(parts[depth], dir_fd=fd)
            self._made.append(parts[: depth + 1])
            below = os.open(parts[depth], handles.DIRECTORY, dir_fd=fd)
            self._handles.callback(os.close, below)
            os.fsync(fd)
            fd = below
        return fd

    def _check_again(self, staged: _Staged) -> None:
        reached = handles.walk(self._root, staged.parts[:-1])
        try:
            same = os.path.sameopenfile(reached.fd, staged.directory)
            now = handles.lstat(staged.directory, staged.name)
        finally:
            os.close(reached.fd)
        identity = _identity(now) if now else None
        if not same or identity != staged.identity or (now is not None and now.st_nlink > 1):
            raise stale(staged.result.path)


def prune(root: int, parts: tuple[bytes, ...], baseline: Manifest) -> None:
    """Remove the directory `parts` and its parents while they are empty and not the baseline's."""
    keep = len(parts)
    while keep and not baseline.has_directory(handles.decode(b"/".join(parts[:keep]))):
        keep -= 1
    handles.prune(root, parts, keep)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what somebody did to the tree meanwhile into refusals; other `OSError`s go through."""
    try:
        yield
    except PermissionError as error:
        message = "the worktree does not let this server write there (permission denied)"
        raise Problem(
            Refusal.NOT_A_FILE, message, "check the directory's mode and owner"
        ) from error
    except (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise stale(handles.decode(os.fsencode(error.filename2 or error.filename or ""))) from error


def missing(path: RepoPath) -> Problem:
    """The refusal for a file that is not there."""
    message = f"{path} does not exist"
    return Problem(Refusal.FILE_MISSING, message, "spike_list_files shows what does")


def stale(path: str) -> Problem:
    """The refusal for a file that is not what the change was made for."""
    message = f"{path} is not as it was when the change was prepared"
    return Problem(Refusal.STALE_FILE, message, "read it again and repeat the change")


@contextmanager
def _undone_on_error() -> Iterator[list[_Staged]]:
    """A list of swaps that are swapped back, last first, if the block fails."""
    done: list[_Staged] = []
    try:
        yield done
    except BaseException:
        for staged in reversed(done):
            _swap_back(staged)
        raise


def _current(
    directory: int, name: bytes, write: Write
) -> tuple[bytes | None, os.stat_result | None]:
    """The file's bytes and facts now, checked against `before`; (None, None) if there is none."""
    found = handles.open_file(directory, name)
    if found is None:
        if write.data is None:
            raise missing(write.path)
        if write.before not in (ANY, "") or handles.lstat(directory, name) is not None:
            raise stale(write.path.text)
        return None, None
    fd, facts = found
    try:
        old = read_all(fd)
    finally:
        os.close(fd)
    if write.before == "":
        raise Problem(Refusal.FILE_EXISTS, f"{write.path} exists already", "edit it instead")
    if write.before != ANY and hashlib.sha256(old).hexdigest() != write.before:
        raise stale(write.path.text)
    return old, facts


def _identity(found: os.stat_result) -> Identity:
    """What must be equal for a file to be the one that was read: an inode alone is reused."""
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def _result(write: Write, mode: int) -> Written:
    if write.data is None:
        return Written(write.path.text, 0, 0, "")
    digest = hashlib.sha256(write.data).hexdigest()
    return Written(write.path.text, stat.S_IFREG | mode, len(write.data), digest)


def _fill(directory: int, name: bytes, data: bytes, mode: int) -> None:
    fd = os.open(name, handles.CREATE, 0o600, dir_fd=directory)
    try:
        write_all(fd, data)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _swap(staged: _Staged) -> None:
    where = staged.directory
    if staged.temporary:
        os.rename(staged.temporary, staged.name, src_dir_fd=where, dst_dir_fd=where)
    else:
        os.unlink(staged.name, dir_fd=where)


def _swap_back(staged: _Staged) -> None:
    where = staged.directory
    if staged.old is None:
        os.unlink(staged.name, dir_fd=where)
        return
    temporary = temporary_name().encode("ascii")
    _fill(where, temporary, staged.old, staged.old_mode)
    os.rename(temporary, staged.name, src_dir_fd=where, dst_dir_fd=where)
