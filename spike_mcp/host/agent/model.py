"""The values that `spike run` is made of, and what the session gives it (spec 14)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio

from spike_mcp.core.codes import Exit, Problem, Refusal

WIRE = "/run/spike"
"""The run's own directory as the agent sees it."""
SOCKET = f"{WIRE}/mcp.sock"
BRIDGE = f"{WIRE}/bridge.py"
PROXY_SOCKET = f"{WIRE}/proxy.sock"
PROXY_PORT = 3128
"""Where the agent finds the way out, on its own loopback."""

Network = Literal["proxy", "host"]


@dataclass(frozen=True, slots=True)
class HomeFile:
    """A generated file of the agent's home. `path` is relative to the home.

    `read_only`: mounted so that not even the agent's client can change it; else a copy for this
    run, which may be changed and is thrown away.
    """

    path: str
    content: bytes
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class HomeBind:
    """A file or directory of this machine, shown read-only at `path` in the agent's home."""

    source: str
    path: str


@dataclass(frozen=True, slots=True)
class ClientNeeds:
    """What one client needs beside its program.

    `read_only`: further paths of this machine, shown at their own place. `transcripts`:
    directories of its home kept as data after the run. `allow_hosts`: `host:port` of its model.
    """

    name: str
    files: tuple[HomeFile, ...] = ()
    binds: tuple[HomeBind, ...] = ()
    read_only: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    transcripts: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One `spike run`.

    `root` is the spike's directory and `work` its worktree; `git_dir` (the repository's common
    directory) is shown read-only, or absent. `env` are variables for the agent beside the fixed
    ones (keys, base URLs). `interactive`: the agent gets a terminal of its own; else it gets
    descriptors 0 to 2 as they are, and no terminal.
    """

    root: Path
    work: Path
    git_dir: Path | None
    argv: tuple[str, ...]
    client: ClientNeeds | None
    network: Network
    allow_hosts: tuple[str, ...]
    env: Mapping[str, str]
    interactive: bool


@dataclass(frozen=True, slots=True)
class Peer:
    """A process of the agent that connected: its pid and uid outside, and the how-manieth it is."""

    pid: int
    uid: int
    number: int


class Referee(Protocol):
    """What the session gives. `serve` runs on the event loop, the rest in worker threads, one
    call at a time, except `at_deadline`: in the main thread, after the agent is gone."""

    async def serve(self, peer: Peer, fd: int, stop: anyio.Event) -> None:
        """Serve MCP on a connected socket until it ends or `stop` is set; `fd` stays open."""

    def remaining_seconds(self) -> float:
        """Seconds until the agent has to go; 0 or less once it has."""

    def on_event(self, event: str, fields: Mapping[str, Any]) -> None:
        """Record what happened: agent_started, agent_connected, agent_refused_connection,
        egress_refused, agent_stopped."""

    def at_deadline(self) -> None:
        """Write the verdict: the time was up."""


class AgentNeverRan(Problem):
    """The agent did not start; nothing but the run's own directory was touched (spec 13: 71)."""

    exit_status = int(Exit.AGENT_NEVER_RAN)

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(Refusal.SANDBOX_UNAVAILABLE, message, hint)
