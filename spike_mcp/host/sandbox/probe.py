"""The self-test: try from inside what the sandbox must refuse (spec 11)."""

import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spike_mcp.core.codes import Isolation
from spike_mcp.host.sandbox.boxed import boxed
from spike_mcp.host.sandbox.capture import Capture
from spike_mcp.host.sandbox.limits import make_cage
from spike_mcp.host.sandbox.live import Ending, Live, Spawn
from spike_mcp.host.sandbox.machine import (
    fixed_environment,
    hint_for,
    sandbox_host,
    unavailable,
)
from spike_mcp.host.sandbox.model import INSIDE, Box, Limits

_INSIDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "evidence")
_VARIABLE = "SPIKE_PROBE_SECRET"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """What the self-test found.

    `tree`: `overlay`, or `copy` where the kernel refuses one. `proc`: a private /proc is there.
    `processes`: `cgroup`, `rlimit` or `watch`; `memory`: `cgroup` or `rlimit` (limits.py).
    `probes`: names of what was tried and refused. Sizes and times are left to the caller.
    """

    level: Isolation
    program: str = ""
    version: str = ""
    tree: str = "copy"
    proc: bool = False
    processes: str = "rlimit"
    memory: str = "rlimit"
    probes: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """For people (`spike doctor`, `init`)."""
        if self.level is Isolation.NONE:
            return ("isolation none: the code under test can do what you can do; can't ship",)
        return (
            f"isolation namespaces: bubblewrap {self.version} at {self.program}",
            f"throw-away tree by {self.tree}, processes limited by {self.processes},"
            f" memory by {self.memory}{'' if self.proc else ', no /proc inside'}",
            f"{len(self.probes)} attempts to get out were refused",
        )


def self_test(level: Isolation = Isolation.NAMESPACES) -> SandboxReport:
    """Run the probes in a real sandbox (about 60 ms). Call it on a thread that lives on.

    Problem(SANDBOX_UNAVAILABLE) with the remedy if the sandbox can't start or holds less than it
    must. Level `none` is reported as it is.
    """
    if level is Isolation.NONE:
        return SandboxReport(level)
    machine = sandbox_host()
    with _targets() as (root, targets):
        output, ending = _run(root, targets)
    found = _answers(output, ending)
    leaks = sorted(f"{name}: {text}" for name, text in found.items() if text)
    if leaks:
        raise unavailable(
            f"the sandbox is not tight: {'; '.join(leaks)[:400]}",
            "report this with the output of `spike doctor`; --isolation none can't ship",
        )
    cage = make_cage(Limits())
    processes, memory = cage.processes, cage.memory
    cage.close()
    return SandboxReport(
        level=level,
        program=machine.bwrap.path,
        version=machine.bwrap.text,
        tree="copy" if ending.copied else "overlay",
        proc=machine.proc,
        processes=processes,
        memory=memory,
        probes=tuple(sorted(found)),
    )


def _answers(output: Capture, ending: Ending) -> dict[str, str]:
    text = (output.head + output.tail).decode("utf-8", "replace")
    if not ending.started or ending.exit_code is None:
        lines = [line for line in text.splitlines() if line.strip()] or ["no message"]
        raise unavailable(f"the sandbox does not start: {lines[0][:300]}", hint_for(text))
    try:
        answers = json.loads(text.rpartition("SPIKE")[2])
        return {str(name): str(value) for name, value in answers.items()}
    except (ValueError, AttributeError):
        raise unavailable(
            f"the self-test gave no answer: {text.strip()[-300:]}", hint_for(text)
        ) from None


def _run(root: str, targets: dict[str, object]) -> tuple[Capture, Ending]:
    """One sandboxed run of the probe under this very Python."""
    prefixes = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix)}
    tree = os.path.join(root, "work")
    limits = Limits(wall_seconds=_SECONDS)
    box = Box(
        tree=tree,
        mount_at=(tree,),
        covers=((os.path.join(root, "sealed"), str(targets["oracle"])),),
        sockets=("probe.sock",),
        read_only=tuple(sorted(path for path in prefixes if not path.startswith("/usr"))),
        hide=(str(targets["hidden"]),),
        inside=os.path.join(_INSIDE, "inside"),
        proc=sandbox_host().proc,
        limits=limits,
    )
    python = os.path.realpath(sys.executable)
    payload = (python, "-I", "-S", "-B", f"{INSIDE}/probe.py", json.dumps(targets))
    output = Capture(1 << 16, 1 << 16)
    endings: list[Ending] = []
    made = boxed(box, payload)
    env = fixed_environment({})
    spawn = Spawn(
        argv=made.argv,
        env=env,
        limits=limits,
        inherit=list(made.inherit),
        status=made.status,
        block=made.block,
        on_output=output.feed,
    )
    live = Live(spawn, endings.append)
    live.done.wait(_SECONDS + 10)
    return output, endings[0]


@contextmanager
def _targets() -> Iterator[tuple[str, dict[str, object]]]:
    """A small world outside the sandbox that the probe will try to reach."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="spike-probe-"))
    opened: list[socket.socket] = []
    os.environ[_VARIABLE] = "1"
    try:
        for name in ("work", "judge"):
            os.mkdir(os.path.join(root, name))
        for name in ("sealed", "work/oracle.txt", "work/spare.txt", "judge/contract.toml"):
            with open(os.path.join(root, name), "w", encoding="ascii") as file:
                file.write("sealed\n")
        abstract = f"spike-probe-{os.path.basename(root)}"
        addresses: tuple[tuple[int, tuple[str, int] | str], ...] = (
            (socket.AF_INET, ("127.0.0.1", 0)),
            (socket.AF_UNIX, "\0" + abstract),
            (socket.AF_UNIX, os.path.join(root, "out.sock")),
            (socket.AF_UNIX, os.path.join(root, "work", "probe.sock")),
        )
        for family, address in addresses:
            listener = socket.socket(family, socket.SOCK_STREAM)
            opened.append(listener)
            listener.bind(address)
            listener.listen(1)
        yield (
            root,
            {
                "port": opened[0].getsockname()[1],
                "abstract": abstract,
                "socket": os.path.join(root, "out.sock"),
                "oracle": "oracle.txt",
                "spare": "spare.txt",
                "hidden": os.path.join(root, "judge"),
                "beside": os.path.join(root, "sealed"),
                "private": "/proc/1/root" + os.path.join(root, "judge", "contract.toml"),
                "pid": os.getpid(),
                "variable": _VARIABLE,
            },
        )
    finally:
        os.environ.pop(_VARIABLE, None)
        for listener in opened:
            listener.close()
        shutil.rmtree(root, ignore_errors=True)
