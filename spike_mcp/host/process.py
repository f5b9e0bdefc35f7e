"""Which process, beyond doubt: a pid alone is given to somebody else sooner or later (spec 7)."""

import os
import subprocess
from typing import NamedTuple

from spike_mcp.host.clock import boot_id

_STATE, _START = 0, 19
"""Places of state and start time in /proc/PID/stat, counted behind the command's name."""


class Identity(NamedTuple):
    """A process: the boot it belongs to, its pid, and when it started.

    `start` is in clock ticks since boot; elsewhere than on Linux a number made from the start
    time's text; 0 = unknown. A plain tuple in the ledger (`run_started.owner`).
    """

    boot: str
    pid: int
    start: int


def me() -> Identity:
    """This process."""
    return of(os.getpid())


def of(pid: int) -> Identity:
    """The process that has this pid now; `start` is 0 if there is none."""
    _, start = _look(pid)
    return Identity(boot_id(), pid, start)


def alive(identity: tuple[str, int, int]) -> bool:
    """Whether that very process still runs here; a zombie does not.

    Does not hold across pid namespaces: a process of another container looks dead from here.
    """
    boot, pid, start = identity
    if boot != boot_id() or pid <= 0 or start == 0:
        return False
    state, now = _look(pid)
    return now == start and state not in ("Z", "X", "x")


def _look(pid: int) -> tuple[str, int]:
    """State letter and start time of a pid; ("", 0) if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses is the process's own choice and may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        return fields[_STATE].decode("ascii"), int(fields[_START])
    except (OSError, IndexError):
        return ("", 0) if os.path.exists("/proc/self/stat") else _ask_ps(pid)


def _ask_ps(pid: int) -> tuple[str, int]:
    """The same where there is no /proc (macOS)."""
    done = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )
    state, _, started = done.stdout.strip().partition(" ")
    return (
        (state[:1], int("0" + "".join(c for c in started if c.isdigit()))) if started else ("", 0)
    )
