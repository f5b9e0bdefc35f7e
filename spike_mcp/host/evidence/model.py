"""What a run can prove, as values; one adapter per runner makes them (spec 11)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spike_mcp.host.sandbox.model import Places


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a test failed: exception type, and the last frame in the tree under test.

    `path` is relative to the working directory, `line` 1-based; `direct` says that nothing deeper
    raised it (the assertion itself did, or unittest's own `assert...` method).
    """

    exception: str
    path: str
    line: int
    function: str
    direct: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """What came out of a run besides its exit code.

    `kind`: pytest, unittest, go, cargo, node or exit_code. `outcomes`: test id -> passed, failed
    (in the call phase), error (set-up or tear-down), skipped, xfailed, xpassed, rerun.
    `loaded`: repository paths of files read from the tree (modules, and files opened by Python).
    `foreign`: modules whose name belongs to the tree but that came from elsewhere.
    `finished`: the runner's own end was seen. `flaws`: why the story contradicts itself.
    `detail`: what this adapter can't prove, one sentence.
    """

    kind: str = "exit_code"
    collected: tuple[str, ...] = ()
    outcomes: Mapping[str, str] = field(default_factory=dict)
    failed_in_call: tuple[str, ...] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict)
    collection_errors: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()
    finished: bool = False
    status: int | None = None
    loaded: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """How an adapter wants its runner started.

    `argv`: what is executed inside. `channel`: an event socket is inherited, its descriptor named
    in $SPIKE_EVENTS. `text`: standard output is the adapter's to read and comes apart.
    `env`: variables beside those of the places. `job`: bytes for the recorder, behind a descriptor
    named in $SPIKE_JOB.
    """

    argv: tuple[str, ...]
    channel: bool = False
    text: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    job: bytes = b""


class Reader(Protocol):
    """Takes what one run says about itself, piece by piece, and sums it up."""

    def event(self, line: bytes) -> None:
        """One line of the event channel, nonce removed."""

    def text(self, line: bytes) -> bytes | None:
        """One line of standard output; returns what people should see of it, None for nothing."""

    def evidence(self) -> Evidence:
        """The sum; `loaded` and `foreign` are still as the run named them (absolute paths)."""

    @property
    def modules(self) -> Sequence[tuple[str, str]]:
        """(module name, absolute file) as loaded inside."""

    @property
    def opened(self) -> Sequence[str]:
        """Files below the working directory that were opened, relative to it."""


class Adapter(Protocol):
    """One runner: how to start it and how to read what it says."""

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """`inside`: directory of our recorders as seen by the run. `dry`: collect only."""

    def reader(self, dry: bool) -> Reader:
        """A fresh reader for one run."""
