"""The agent's processes: known by their pid namespace, stopped gently, then for good.

SIGTERM to the outer bubblewrap would give them no grace: it dies, and they are killed with it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Namespace:
    """A pid namespace: its first process as seen from outside, and the kernel's name for it."""

    first: int
    identity: Identity

    @classmethod
    def of(cls, pid: int) -> "Namespace | None":
        """Return the namespace whose first process is `pid`; None if that has ended."""
        identity = _identity(pid)
        return None if identity is None else cls(pid, identity)

    def holds(self, pid: int) -> bool:
        """Whether a process is in it."""
        return _identity(pid) == self.identity

    def terminate(self) -> int:
        """Ask every process but the first to end; returns how many were asked."""
        return sum(
            self._send(pid, signal.SIGTERM, signal.SIGCONT) for pid in _pids() if pid != self.first
        )

    def kill(self) -> None:
        """End all of them at once: the kernel kills the rest with the first."""
        self._send(self.first, signal.SIGKILL)

    def _send(self, pid: int, *signals: signal.Signals) -> bool:
        """Signal a process if it is in the namespace; a pid given to somebody else is safe."""
        if not self.holds(pid):
            return False
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if not self.holds(pid):
                    return False
                for number in signals:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
            return True
        return False


def _identity(pid: int) -> Identity | None:
    try:
        found = os.stat(f"/proc/{pid}/ns/pid")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())
