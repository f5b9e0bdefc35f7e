"""What there is to know about one agent client, as values (spec 14).

Each client is one small module that holds a `CLIENT`; what is done with it is in this package's
`wiring`, in `edge/agent_run.py` (`spike run`) and in `edge/cli/doctor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spike_mcp.edge.tools import SERVER_NAME, TOOLS

NAME = SERVER_NAME
TOOL_NAMES = tuple(tool.name for tool in TOOLS)
CALL_SECONDS = 900
"""How long a client may wait for one call; our longest answers after 45 s."""
START_SECONDS = 30
FIRST_WORDS = (
    "Call spike_status first. Then test its hypothesis with the spike_ tools alone, which are your"
    " only way to write and to run the test; end with spike_report."
)
"""What to say to an agent that shows its model no server instructions."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client's files are, how our server is started there, and how strict the run is.

    `directory` is absolute. `enforced`: under `spike run`, where judge/ is out of reach and reading
    tools do no harm; otherwise the client's own readers are taken away too, since they would show
    judge/. `variables`: names that are set in the human's environment.
    """

    directory: str
    server: tuple[str, ...]
    work: str
    enforced: bool = False
    variables: frozenset[str] = frozenset()

    @property
    def command(self) -> str:
        """The server's program."""
        return self.server[0]

    @property
    def args(self) -> list[str]:
        """The server's arguments."""
        return list(self.server[1:])

    def path(self, name: str) -> str:
        """The absolute path of one of the client's files."""
        return f"{self.directory}/{name}"


@dataclass(frozen=True, slots=True)
class Setup:
    """One client's configuration for one spike.

    `files`: name below the client's directory -> content. `args` go right behind the program,
    `env` is added to the environment. `notes`: what the human has to know or do.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What `spike run` gives a client beside its setup.

    `home`: file of the setup -> its place in the agent's home, read-only there; `start`: further
    JSON files of the home, which the client may change; "{work}" in them stands for the worktree,
    "{tail of NAME}" for the end of a variable. `keys`: variables of the human's environment that
    are passed on; `addresses`: those of them that name the model's address. `hosts`: `host:port` of
    the model. `credentials`: files of the human's home, shown read-only, those in `copied` as a
    copy. `folders`: directories of the human's home, shown read-only where they exist.
    `transcripts`: what is kept of the home afterwards.
    """

    home: Mapping[str, str] = field(default_factory=dict)
    start: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Client:
    """One client.

    `program` is what is started, `package` where it comes from, `tried` the version that the tests
    held with ("" = written from its documentation, never tried). `prompt` and `headless` are the
    arguments that give it first words, with and without a screen; "{}" stands for the words.
    `left`: built-in tools that stay, `readers`: those that stay under `spike run` as well.
    `shows` is the name under which the model sees our tools, `limits` its time-outs in words.
    """

    name: str
    title: str
    program: str
    setup: Callable[[Place], Setup]
    shows: str
    readable: str
    limits: str
    package: str = ""
    tried: str = ""
    prompt: tuple[str, ...] = ("{}",)
    headless: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    node: int = 0
    sandbox: Sandbox | None = None


def seen(pattern: str) -> list[str]:
    """Our tools as a client names them; `X` in the pattern stands for the name."""
    return [pattern.replace("X", name) for name in TOOL_NAMES]


def as_json(value: Any) -> str:
    """A configuration file's text."""
    import json

    return json.dumps(value, indent=2) + "\n"


def as_toml(value: Mapping[str, Any]) -> str:
    """A configuration file's text."""
    import tomli_w

    return tomli_w.dumps(dict(value))
