"""Limits the kernel keeps for us: control groups where we may make one, else rlimits (spec 11).

As root RLIMIT_NPROC counts nothing, so a pids group matters most there. Where neither a group nor
the rlimit can hold, `Cage.tasks_over` lets the supervisor count the sandbox's processes itself.
"""

import itertools
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from spike_mcp.host.sandbox.model import Limits

_ROOT = "/sys/fs/cgroup"
_PREFIX = "spike-run-"
_serial = itertools.count()


@dataclass(slots=True)
class Cage:
    """The limits of one run. Make it with `make_cage`, `attach` before the payload starts."""

    limits: Limits
    groups: dict[str, str] = field(default_factory=dict)  # controller -> directory

    @property
    def processes(self) -> str:
        """What limits the number of processes: `cgroup`, `rlimit` or `watch`."""
        if "pids" in self.groups:
            return "cgroup"
        return "watch" if os.getuid() == 0 else "rlimit"

    @property
    def memory(self) -> str:
        """What limits memory: `cgroup` (the whole run) or `rlimit` (each process)."""
        return "cgroup" if "memory" in self.groups else "rlimit"

    def attach(self, pid: int) -> None:
        """Put process `pid`, and so all that it will start, under the limits.

        Raises ProcessLookupError if it is gone already.
        """
        for path in set(self.groups.values()):
            _write(f"{path}/cgroup.procs", str(pid))
        if not hasattr(resource, "prlimit"):
            return  # not Linux: isolation none, where the wall clock is all that holds
        for what, value in self._rlimits():
            _, hard = resource.prlimit(pid, what)
            ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, what, (ceiling, ceiling))

    def _rlimits(self) -> Iterator[tuple[int, int]]:
        limits = self.limits
        yield resource.RLIMIT_CORE, 0
        yield resource.RLIMIT_CPU, max(1, int(limits.cpu_seconds))
        yield resource.RLIMIT_FSIZE, limits.tree_bytes + limits.tmp_bytes
        if self.processes == "rlimit":
            yield resource.RLIMIT_NPROC, limits.processes
        if self.memory == "rlimit":
            # Not RLIMIT_AS: node, go and java reserve far more addresses than they use.
            yield resource.RLIMIT_DATA, limits.memory_bytes

    def tasks_over(self, pid: int) -> bool:
        """Are there more processes than allowed? Only asked where nothing else holds (`watch`)."""
        if not pid:
            return False
        try:
            names = os.listdir(f"/proc/{pid}/root/proc")
        except OSError:
            return False
        return sum(name.isdigit() for name in names) > self.limits.processes

    def out_of_memory(self) -> bool:
        """Did the kernel kill a process of the run for want of memory?"""
        path = self.groups.get("memory")
        if path is None:
            return False
        for name in ("memory.events", "memory.oom_control"):
            for line in _read(f"{path}/{name}").splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.strip() not in ("", "0"):
                    return True
        return False

    def kill_all(self) -> None:
        """SIGKILL whatever is still in the groups (without namespaces, daemons end only here)."""
        for path in set(self.groups.values()):
            for word in _read(f"{path}/cgroup.procs").split():
                with suppress(OSError, ValueError):
                    os.kill(int(word), signal.SIGKILL)

    def close(self) -> None:
        """Remove the groups; they are empty once the sandbox is dead."""
        for path in set(self.groups.values()):
            for _ in range(20):
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)  # a killed process leaves its group a moment later
                else:
                    break


def make_cage(limits: Limits) -> Cage:
    """The strongest limits that this process may set."""
    cage = Cage(limits)
    name = f"{_PREFIX}{os.getpid()}-{next(_serial)}"
    for controller, parent in _parents().items():
        _sweep(parent)
        path = f"{parent}/{name}"
        try:
            os.makedirs(path, exist_ok=True)
            _configure(path, controller, limits)
            cage.groups[controller] = path
        except OSError:
            with suppress(OSError):
                os.rmdir(path)
    return cage


def _configure(path: str, controller: str, limits: Limits) -> None:
    if controller == "pids":
        _write(f"{path}/pids.max", str(limits.processes))
    elif os.path.exists(f"{path}/memory.max"):
        _write(f"{path}/memory.max", str(limits.memory_bytes))
        with suppress(OSError):
            _write(f"{path}/memory.swap.max", "0")
    else:
        _write(f"{path}/memory.limit_in_bytes", str(limits.memory_bytes))
        with suppress(OSError):
            _write(f"{path}/memory.memsw.limit_in_bytes", str(limits.memory_bytes))


def _parents() -> dict[str, str]:
    """Controller -> directory in which we may make a group, for version 1 and version 2."""
    found: dict[str, str] = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if not controllers:
            parent = _unified_parent(path)
            enabled = _read(f"{parent}/cgroup.subtree_control").split() if parent else []
            for name in ("pids", "memory"):
                if name in enabled:
                    found.setdefault(name, parent)
        for name in ("pids", "memory"):
            parent = f"{_ROOT}/{controllers}{path}".rstrip("/")
            if name in names and os.access(parent, os.W_OK):
                found[name] = parent
    return found


def _unified_parent(path: str) -> str:
    """Version 2 lets no group hold processes and children: make a sibling of our own group."""
    root = _ROOT if os.path.exists(f"{_ROOT}/cgroup.controllers") else f"{_ROOT}/unified"
    parent = f"{root}{os.path.dirname(path)}".rstrip("/")
    writable = os.access(parent, os.W_OK) and os.access(f"{parent}/cgroup.procs", os.W_OK)
    return parent if writable else ""


def _sweep(parent: str) -> None:
    """Remove the empty groups of servers that were killed; a live one's group is busy."""
    with suppress(OSError):
        for name in os.listdir(parent):
            owner = name.removeprefix(_PREFIX).partition("-")[0]
            if name.startswith(_PREFIX) and not os.path.exists(f"/proc/{owner}"):
                with suppress(OSError):
                    os.rmdir(f"{parent}/{name}")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
