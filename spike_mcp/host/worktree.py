"""Confined reads and writes in `work/` (spec 8, 9; architecture, habit 9).

Every access goes through a chain of directory handles (`handles.walk`), to regular files with one
link on the worktree's device only. Files are replaced whole: temporary file in the same directory,
sync, rename through the handle. A link, FIFO or hard link that is swapped in between is replaced by
the rename, never followed or written through.

This does not hold against somebody who may rename directories while a write runs and moves one out
of the worktree: the handle follows the directory. `commit` walks the chain once more just before
the renames, so what is left is the moment between two system calls.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.paths import RepoPath
from spike_mcp.host import handles, targets
from spike_mcp.host.files import TEMPORARY, PathLike, read_all, storage_errors
from spike_mcp.host.manifest import Manifest
from spike_mcp.host.targets import Kind, TargetFacts
from spike_mcp.host.transaction import (
    ANY,
    Prepared,
    Write,
    Written,
    missing,
    prune,
    refusals,
    stale,
)

__all__ = ["ANY", "Kind", "Prepared", "TargetFacts", "Worktree", "Write", "Written"]

_ATTEMPTS: Final = 5


class Worktree:
    """The agent's tree: reads and writes by `RepoPath`, confined to `root`."""

    def __init__(self, root: PathLike, baseline: Manifest) -> None:
        """`root` is the real path of `work/`; nothing is opened before the first use."""
        self.root = os.fspath(root)
        self.baseline = baseline

    def facts(self, path: RepoPath) -> TargetFacts:
        """Look at a target. `Problem` only for what can't be a target at all (`..`, `.git`)."""
        parts = handles.components(path.text)
        with handles.opened(self.root) as root:
            reached = handles.walk(root, parts[:-1])
            try:
                return targets.look(root, reached, parts, self.baseline)
            finally:
                os.close(reached.fd)

    def read(self, path: RepoPath, limit: int, *, linked: bool = False) -> bytes:
        """The file's bytes, at most `limit` of them (`Problem(TOO_LARGE)` otherwise).

        A file with several links is refused unless `linked`: its content may be another file's.
        Raises `Problem` with `FILE_MISSING` or whatever `TargetFacts.read_problem` says.
        """
        parts = handles.components(path.text)
        with handles.opened(self.root) as root:
            # A file replaced while it is read is read again: other servers may be writing.
            for _attempt in range(_ATTEMPTS):
                data = self._read(root, path, parts, limit, linked=linked)
                if data is not None:
                    return data
        raise stale(path.text)

    def _read(
        self, root: int, path: RepoPath, parts: tuple[bytes, ...], limit: int, *, linked: bool
    ) -> bytes | None:
        reached = handles.walk(root, parts[:-1])
        try:
            found = None if reached.trouble else handles.open_file(reached.fd, parts[-1])
            if found is None:
                facts = targets.look(root, reached, parts, self.baseline)
                raise facts.read_problem(path.text) or missing(path)
            fd = found[0]
            try:
                data = read_all(fd, limit)
                single = os.fstat(fd).st_nlink == 1
                if not linked and not handles.still_named(fd, reached.fd, parts[-1]):
                    return None
            finally:
                os.close(fd)
        finally:
            os.close(reached.fd)
        if not single and not linked:
            raise targets.hard_linked(path.text)
        if len(data) > limit:
            message = f"{path} is longer than {limit} bytes"
            raise Problem(Refusal.TOO_LARGE, message, "name a smaller file, or search in it")
        return data

    def replace(self, path: RepoPath, data: bytes, mode: int | None = None) -> Written:
        """Write one file whole; `mode` None keeps the permission bits. Durable on return."""
        with self.prepare((Write(path, data, mode=mode),)) as prepared:
            return prepared.commit()[0]

    def remove(self, path: RepoPath) -> None:
        """Remove one file, and the directories left empty by this that the baseline lacks."""
        with self.prepare((Write(path, None),)) as prepared:
            prepared.commit()

    def prepare(self, writes: Sequence[Write]) -> Prepared:
        """Check every write and put its bytes, synced, beside its target; nothing visible changes.

        Raises the `Problem` of the first write that can't be done (`STALE_FILE` where `before`
        differs), with every temporary file and new directory gone again.
        """
        if len({write.path for write in writes}) != len(writes):
            raise ValueError("one file stands twice in one transaction")
        prepared = Prepared(self.root, self.baseline)
        try:
            with storage_errors(), refusals():
                for write in writes:
                    prepared.stage(write)
        except BaseException:
            prepared.abort()
            raise
        return prepared

    def leftovers(self, paths: Iterable[RepoPath]) -> list[str]:
        """After a crash: remove temporary files beside `paths` and empty directories made for them.

        Call it under the spike's lock only. Returns the paths of the temporary files removed.
        """
        removed: list[str] = []
        with handles.opened(self.root) as root:
            for parent in sorted({handles.components(path.text)[:-1] for path in paths}):
                removed += _remove_temporaries(root, parent)
                prune(root, parent, self.baseline)
        return removed


def _remove_temporaries(root: int, parent: tuple[bytes, ...]) -> list[str]:
    removed = []
    reached = handles.walk(root, parent)
    try:
        for name in os.listdir(reached.fd) if not reached.trouble else ():
            if TEMPORARY.fullmatch(name):
                with suppress(OSError):
                    os.unlink(name, dir_fd=reached.fd)
                    removed.append(handles.decode(b"/".join((*parent, name.encode("ascii")))))
    finally:
        os.close(reached.fd)
    return removed
