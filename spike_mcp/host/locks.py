"""The lock under which everything that changes a spike happens (spec 6, 7).

Two files in judge/, both only locked, never written: `lock` is the lock, `lock.turn` a turnstile.
A human who waits stands in the turnstile (shared), and servers (exclusive, for an instant) can not
pass it meanwhile: so the human goes next, however many servers are busy. Both are flock(2) on file
descriptions of their own, which makes threads of one process exclude each other as processes do,
and the kernel frees what a dead process held. flock is no promise on network file systems.
"""

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from spike_mcp.core.codes import Problem, Refusal

LOCK = "lock"
TURN = "lock.turn"

_HUMAN_PAUSE = 0.0005
_SERVER_PAUSE = (0.001, 0.005)


class SpikeLock:
    """The lock of one spike. Not re-entrant: a holder that asks again waits for itself."""

    def __init__(self, judge: Path) -> None:
        self._lock = os.path.join(judge, LOCK)
        self._turn = os.path.join(judge, TURN)

    @contextlib.contextmanager
    def hold(self, human: bool, timeout: float) -> Iterator[None]:
        """Hold the lock for the body of `with`; a waiting human goes before servers.

        Raises `Problem(BUSY)` when it could not be had within `timeout` seconds, `OSError` when
        judge/ itself can't be used.
        """
        deadline = time.monotonic() + timeout
        try:
            held = self._human(deadline) if human else self._server(deadline)
        except Problem as busy:
            told = holder_of(self._lock) if human else ""
            raise Problem(busy.code, busy.message, told or busy.hint) from None
        try:
            yield
        finally:
            _release(held)

    def _human(self, deadline: float) -> int:
        turn = _open(self._turn)
        try:
            # A server is in the turnstile for microseconds only, so this ends soon too.
            while not _try(turn, fcntl.LOCK_SH):
                _pause(deadline, _HUMAN_PAUSE)
            while (held := self._take()) is None:
                _pause(deadline, _HUMAN_PAUSE)
            return held
        finally:
            _release(turn)

    def _server(self, deadline: float) -> int:
        while True:
            turn = _open(self._turn)
            try:
                if _try(turn, fcntl.LOCK_EX) and (held := self._take()) is not None:
                    return held
            finally:
                _release(turn)
            _pause(deadline, random.uniform(*_SERVER_PAUSE))  # noqa: S311  (a pause, no secret)

    def _take(self) -> int | None:
        """The lock's descriptor, locked, or None when somebody else holds it."""
        descriptor = _open(self._lock)
        with contextlib.ExitStack() as undo:
            undo.callback(_release, descriptor)
            if not _try(descriptor, fcntl.LOCK_EX) or not _still_there(descriptor, self._lock):
                return None
            undo.pop_all()
        return descriptor


def holder_of(path: str) -> str:
    """Which process has the lock for so long and what a person can do about it; "" if unknown.

    A stopped one (Ctrl-Z, a debugger, somebody's signal) keeps it until it is told to go on.
    """
    try:
        found = os.stat(path, follow_symlinks=False)
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        with open("/proc/locks", encoding="ascii") as file:
            rows = [line.split() for line in file]
        pid = next(int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == place)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError, StopIteration):
        return ""
    if state in "Tt":
        return f"process {pid} has the lock and is stopped: kill -CONT {pid} lets it go on"
    return f"process {pid} has the lock: try again in a moment, or see what it is doing"


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_there(descriptor: int, path: str) -> bool:
    """Whether `path` is the file we locked: a lock on a removed file excludes nobody."""
    mine = os.fstat(descriptor)
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (now.st_dev, now.st_ino)


def _release(descriptor: int) -> None:
    # Unlocked by name, not only by close: a forked child may hold a copy of the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _pause(deadline: float, seconds: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Problem(
            Refusal.BUSY,
            "another command is working on this spike",
            "try again in a moment; nothing was changed",
        )
    time.sleep(min(seconds, left))
