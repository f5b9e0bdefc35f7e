"""From an AgentRun to a started bubblewrap, and the probe that says beforehand whether it would.

Everything is prepared before the agent exists; nothing falls back to less (spec 14).
"""

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from spike_mcp.core.codes import Problem
from spike_mcp.core.layout import AGENT, JUDGE, VERDICT
from spike_mcp.host.agent import client_home, environment, mounts, programs, proxy, terminal
from spike_mcp.host.agent.client_home import RunDir
from spike_mcp.host.agent.model import (
    PROXY_PORT,
    PROXY_SOCKET,
    WIRE,
    AgentNeverRan,
    AgentRun,
    ClientNeeds,
)
from spike_mcp.host.sandbox import seccomp
from spike_mcp.host.sandbox.machine import find_bwrap, hint_for

PROBE_SECONDS = 30.0
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_ALWAYS_OPEN = (53, 443)
"""TCP ports that `--network host` leaves open beside those of the list."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A run that can start. `allow`: where its proxy connects to."""

    spec: AgentRun
    bwrap: str
    version: tuple[int, ...]
    run_dir: RunDir
    mounts: mounts.Mounts
    launcher: tuple[str, ...]
    command: tuple[str, ...]
    env: dict[str, str]
    allow: frozenset[proxy.Target]
    filter: bytes | None = field(default_factory=seccomp.program, repr=False)
    """The sandbox's system-call filter: typing into terminals, key rings, io_uring, vsock, ..."""

    @property
    def proxied(self) -> bool:
        """Whether the agent has a network of its own with one way out."""
        return self.mounts.own_network


def prepare(spec: AgentRun) -> Launch:
    """Resolve everything and make the run's directory. AgentNeverRan says what is missing."""
    try:
        bwrap = find_bwrap()
    except Problem as problem:
        raise AgentNeverRan(problem.message, problem.hint) from None
    found = programs.find(spec.argv)
    python, python_shown = programs.python_inside()
    needs = spec.client
    shown = (
        *found.shown,
        *python_shown,
        *(needs.read_only if needs else ()),
        *environment.certificates(spec.env),
    )
    try:
        allow = proxy.parse_list((*spec.allow_hosts, *(needs.allow_hosts if needs else ())))
    except ValueError as error:
        raise AgentNeverRan(str(error), "write it as api.example.com:443") from None
    home = client_home.home_inside(shown)
    run_dir = client_home.create(spec.root, needs, home)
    try:
        return _assemble(spec, bwrap.path, bwrap.version, run_dir, found, python, shown, allow)
    except BaseException:
        client_home.remove(run_dir, spec.root, None)
        raise


def _assemble(
    spec: AgentRun,
    bwrap: str,
    version: tuple[int, ...],
    run_dir: RunDir,
    found: programs.Programs,
    python: str,
    shown: tuple[str, ...],
    allow: frozenset[proxy.Target],
) -> Launch:
    agent = spec.root / AGENT
    value = mounts.Mounts(
        system=mounts.read_system(),
        shown=programs.outermost(path for path in shown if not programs.in_system(path)),
        links=found.links,
        home_source=str(run_dir.home_source),
        home=run_dir.home,
        home_files=run_dir.home_files,
        work=str(spec.work),
        git_dir=str(spec.git_dir) if spec.git_dir else None,
        agent_dir=str(agent),
        private=str(agent / client_home.PRIVATE),
        wire=str(run_dir.wire),
        own_network=spec.network == "proxy",
        new_session=not spec.interactive,
    )
    _check_hidden(spec, value)
    env = environment.build(
        home=run_dir.home,
        path=found.path,
        proxied=value.own_network,
        extra={**_env_of(spec.client), **spec.env},
    )
    launcher = (python, "-I", "-S", *_launcher(value.own_network, allow), "--")
    return Launch(spec, bwrap, version, run_dir, value, launcher, found.argv, env, allow)


def _env_of(needs: ClientNeeds | None) -> dict[str, str]:
    return dict(needs.env) if needs else {}


def _launcher(own_network: bool, allow: Iterable[proxy.Target]) -> tuple[str, ...]:
    if own_network:
        local = {
            port: proxy.name_of((host, port)) for host, port in sorted(allow) if host in _LOOPBACK
        }
        local.pop(PROXY_PORT, None)
        return f"{WIRE}/forwarder.py", str(PROXY_PORT), PROXY_SOCKET, *local.values()
    ports = sorted({*_ALWAYS_OPEN, *(port for _, port in allow)})
    return f"{WIRE}/landlock.py", ",".join(map(str, ports))


def _check_hidden(spec: AgentRun, value: mounts.Mounts) -> None:
    """Refuse a mount that would show what the agent must not see."""
    sources = [*value.shown, *(source for source, _ in value.home_files if _outside(spec, source))]
    sources += [value.git_dir] if value.git_dir else []
    for secret in (spec.root / JUDGE, spec.root / VERDICT, spec.root / AGENT):
        path = mounts.covers([*sources, value.work], str(secret))
        if path is not None:
            raise AgentNeverRan(
                f"showing {path} to the agent would show the spike's own files",
                "install the client elsewhere, or choose another --root for the spike",
            )
    home = os.path.realpath(os.path.expanduser("~"))
    for path in (*sources, value.work):
        if (home + "/").startswith(os.path.realpath(path).rstrip("/") + "/"):
            raise AgentNeverRan(
                f"showing {path} to the agent would show your whole home",
                "install the client in a directory of its own",
            )


def _outside(spec: AgentRun, source: str) -> bool:
    return not Path(source).is_relative_to(spec.root / AGENT)


def start(
    launch: Launch,
    command: tuple[str, ...],
    *,
    tty: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    quiet: bool = False,
) -> tuple[subprocess.Popen[bytes], int]:
    """Start bubblewrap with a command; returns it and the descriptor of its JSON status.

    Only from the main thread: `--die-with-parent` fires when the starting THREAD ends. `tty`: the
    agent's terminal, for all three standard descriptors; `quiet`: no input, no output. `stdout` and
    `stderr` None: those of this process.
    """
    status_read, status_write = os.pipe()
    filter_fd = _in_memory(launch.filter) if launch.filter is not None else None
    options = mounts.options(launch.mounts, status_write, filter_fd)
    arguments = _in_memory(b"".join(os.fsencode(item) + b"\0" for item in options))
    passed = [fd for fd in (arguments, status_write, filter_fd) if fd is not None]
    argv = [launch.bwrap, "--args", str(arguments), "--", *launch.launcher, *command]
    standard = subprocess.DEVNULL if quiet else tty
    try:
        process = subprocess.Popen(
            terminal.stub(argv) if tty is not None else argv,
            stdin=standard,
            stdout=stdout if stdout is not None else standard,
            stderr=stderr if stderr is not None else standard,
            env=launch.env,
            pass_fds=passed,
            start_new_session=True,
        )
    except BaseException:
        os.close(status_read)
        raise
    finally:
        for fd in passed:
            os.close(fd)
    return process, status_read


def _in_memory(data: bytes) -> int:
    """Return a descriptor from which `data` can be read once."""
    fd = os.memfd_create("spike-run")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def probe(launch: Launch) -> None:
    """Start the real sandbox around /bin/true. AgentNeverRan with bubblewrap's own words."""
    process, status = start(launch, ("/bin/true",), stderr=subprocess.PIPE, quiet=True)
    try:
        _, said = process.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AgentNeverRan("the sandbox did not start in time", "run `spike doctor`") from None
    finally:
        os.close(status)  # not before: bubblewrap would die of SIGPIPE half-way
    if process.returncode == 0:
        return
    lines = said.decode(errors="replace").strip().splitlines()
    message = lines[0].removeprefix("bwrap: ") if lines else f"status {process.returncode}"
    raise AgentNeverRan(f"the sandbox did not start: {message}", _hint(message))


def _hint(message: str) -> str:
    if "Landlock" in message:
        return "use --network proxy, or a kernel from 6.12 on"
    if "source path" in message:
        return "something that the client needs is not there: see the path in the message"
    return hint_for(message)
