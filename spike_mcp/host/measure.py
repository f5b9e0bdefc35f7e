"""Run the measurement: one throw-away tree, one sandbox, one result (spec 11).

`Run.start` spawns on the calling thread, which must live as long as the run (the sandbox dies with
the thread that made it): the server's event-loop thread, or the CLI's main thread. It can then be
waited for from async code (`wait_async`) or without (`wait`), and cancelled from anywhere.
"""

import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from spike_mcp.core.codes import Isolation
from spike_mcp.host.evidence import (
    Adapter,
    Evidence,
    Launch,
    Reader,
    RunOutcome,
    adapter_for,
    decide,
)
from spike_mcp.host.evidence.python import JOB_VARIABLE, VARIABLE
from spike_mcp.host.evidence.trees import foreign_modules, loaded_paths
from spike_mcp.host.sandbox.argv import GATE_SCRIPT, under
from spike_mcp.host.sandbox.boxed import boxed, open_data
from spike_mcp.host.sandbox.capture import Capture, Lines
from spike_mcp.host.sandbox.live import Ending, Live, Spawn, Stop
from spike_mcp.host.sandbox.machine import (
    fixed_environment,
    hint_for,
    sandbox_host,
)
from spike_mcp.host.sandbox.model import INSIDE, Box, Limits, Places
from spike_mcp.host.sandbox.scan import Scan, scan

_RECORDERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "evidence", "inside")
_GATE = ("/bin/sh", "-c", GATE_SCRIPT, "sh")
_PROGRESS_SECONDS = 1.0
_EVENT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Everything one run needs. Paths of the machine are absolute and real (no links in them).

    `tree`: what is seen, never modified: writes go to a throw-away layer. `mount_at`: where it
    appears; the first is the working directory, the main checkout's path is the other.
    `oracle`: repository path -> sealed file, `replaced`: repository path -> hidden test or negative
    control; both are bound read-only over the tree, `replaced` last. `read_only`: repository paths
    of the environment inside the tree. `hide`: absolute paths that no bound place may show.
    `pins`: test ids that must pass; empty for the first red run. `dry`: collect, run nothing.
    `setup`: the human's set-up command: it runs as the human would run it (own environment,
    network, no sandbox), writes into `tree` itself, and is judged by its exit code.
    """

    tree: Path
    mount_at: tuple[str, ...]
    places: Places
    runner: str
    oracle: Mapping[str, Path] = field(default_factory=dict)
    replaced: Mapping[str, Path] = field(default_factory=dict)
    read_only: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    isolation: Isolation = Isolation.NAMESPACES
    pins: tuple[str, ...] = ()
    dry: bool = False
    setup: bool = False


@dataclass(frozen=True, slots=True)
class RunResult:
    """How one run ended. `head` + (`dropped` bytes) + `tail` is what it printed, both streams.

    `exit_code` is None where the command never ran or was killed by us; 128 + n for a fatal
    signal n, which then also stands in `signal`. `note`: one sentence where the outcome needs it.
    """

    outcome: RunOutcome
    exit_code: int | None
    signal: int | None
    seconds: float
    head: bytes
    tail: bytes
    dropped: int
    evidence: Evidence
    note: str = ""

    def ending(self, limit: int = 2000) -> str:
        """The last `limit` bytes of what it printed, decoded with replacement characters.

        Output that fits into `head` leaves `tail` empty, so neither alone is the end.
        """
        kept = self.tail if self.dropped else self.head + self.tail
        return kept[-limit:].decode("utf-8", "replace")


class Run:
    """A live run. Made by `start`; `result` stands once `wait` or `wait_async` returned."""

    def __init__(self, spec: RunSpec, launch: Launch, reader: Reader) -> None:
        self._spec = spec
        self._launch = launch
        self._reader = reader
        self._seen = Capture(spec.limits.output_head, spec.limits.output_tail)
        self._text = Lines(self._show)
        self._nonce = secrets.token_hex(16).encode()
        self._events = Lines(self._one_event)
        self._event_bytes = 0
        self._forged = 0
        self._roots = spec.mount_at
        self._scan = Scan((), ())
        self._clean: Callable[[], None] = lambda: None
        self._live: Live | None = None
        self.result: RunResult | None = None

    @classmethod
    def start(cls, spec: RunSpec, adapter: Adapter | None = None) -> "Run":
        """Spawn. Problem(SANDBOX_UNAVAILABLE) if there is no sandbox on this machine.

        `adapter` replaces the runner's own (hidden vectors use it).
        """
        adapter = adapter or adapter_for("plain" if spec.setup else spec.runner)
        sandboxed = spec.isolation is Isolation.NAMESPACES
        launch = adapter.launch(spec.places, INSIDE if sandboxed else _RECORDERS, spec.dry)
        run = cls(spec, launch, adapter.reader(spec.dry))
        run._scan = scan(str(spec.tree), frozenset(spec.read_only))
        if spec.setup:
            run._start_setup()
        elif sandboxed:
            run._start_boxed()
        else:
            run._start_open()
        return run

    @property
    def last_line(self) -> str:
        """The last line of output so far."""
        return self._seen.last_line()

    @property
    def done(self) -> bool:
        """Is it over?"""
        return self.result is not None

    def cancel(self) -> None:
        """Kill the whole process tree; `wait` then returns with outcome `cancelled`."""
        if self._live is not None:
            self._live.cancel()

    def wait(self, on_progress: Callable[[str], None] | None = None) -> RunResult:
        """Block until it is over; `on_progress` gets the last line about once a second."""
        assert self._live is not None
        try:
            while not self._live.done.wait(_PROGRESS_SECONDS):
                if on_progress is not None:
                    on_progress(self.last_line)
        except BaseException:
            self.cancel()
            self._live.done.wait(5)
            raise
        return self._outcome()

    async def wait_async(self, on_progress: Callable[[str], None] | None = None) -> RunResult:
        """The same without blocking the event loop; being cancelled kills the process tree."""
        import anyio
        import anyio.to_thread

        assert self._live is not None
        done = self._live.done
        try:
            while not done.is_set():
                tick = partial(done.wait, _PROGRESS_SECONDS)
                await anyio.to_thread.run_sync(tick, abandon_on_cancel=True)
                if on_progress is not None and not done.is_set():
                    on_progress(self.last_line)
        except BaseException:
            self.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(done.wait, 5))
            raise
        return self._outcome()

    def _outcome(self) -> RunResult:
        assert self.result is not None
        return self.result

    # -- starting

    def _start_boxed(self) -> None:
        made = boxed(self._box(), self._launch.argv)
        env, channel, inherit = self._environment()
        inherit += made.inherit
        self._go(made.argv, env, inherit, channel, status=made.status, block=made.block)

    def _box(self) -> Box:
        spec = self._spec
        return Box(
            tree=str(spec.tree),
            mount_at=spec.mount_at,
            covers=tuple((str(file), path) for path, file in self._covers()),
            bytecode=self._scan.bytecode,
            sockets=self._scan.sockets,
            environment=spec.read_only,
            read_only=spec.places.read_only,
            hide=spec.hide,
            inside=_RECORDERS,
            proc=sandbox_host().proc,
            limits=spec.limits,
        )

    def _covers(self) -> list[tuple[str, Path]]:
        """(repository path, sealed file): a replaced oracle file appears once."""
        return sorted({**self._spec.oracle, **self._spec.replaced}.items())

    def _start_setup(self) -> None:
        argv = (*_GATE, *self._launch.argv)
        self._go(argv, dict(os.environ), [], None, cwd=str(self._spec.tree))

    def _start_open(self) -> None:
        """Isolation `none`: a copy, a fixed environment, limits; nothing holds the code back."""
        spec = self._spec
        base = os.path.realpath(tempfile.mkdtemp(prefix="spike-open-"))
        self._clean = partial(shutil.rmtree, base, ignore_errors=True)
        tree = os.path.join(base, "tree")
        _copy_tree(str(spec.tree), tree)
        for path, file in self._covers():
            target = os.path.join(tree, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(file, target)
        self._roots = (tree,)
        env, channel, inherit = self._environment()
        env |= {"HOME": base, "TMPDIR": base}
        argv = (*_GATE, *self._moved(tree))
        self._go(argv, env, inherit, channel, cwd=tree)

    def _moved(self, tree: str) -> tuple[str, ...]:
        """The command with paths inside the worktree turned to the copy (a script of the tree)."""
        at = self._spec.mount_at[0]
        return tuple(
            tree + word[len(at) :] if word != at and under(word, at) and index else word
            for index, word in enumerate(self._launch.argv)
        )

    def _environment(self) -> tuple[dict[str, str], socket.socket | None, list[int]]:
        """The fixed environment, our end of the event channel, the descriptor to inherit."""
        env = fixed_environment(dict(self._spec.places.env)) | dict(self._launch.env)
        if not self._launch.channel:
            return env, None, []
        ours, theirs = socket.socketpair()
        ours.sendall(self._nonce + b"\n")
        env[VARIABLE] = str(theirs.fileno())
        inherit = [theirs.detach()]
        if self._launch.job:
            inherit.append(open_data(self._launch.job))
            env[JOB_VARIABLE] = str(inherit[-1])
        return env, ours, inherit

    def _go(
        self,
        argv: tuple[str, ...],
        env: dict[str, str],
        inherit: list[int],
        channel: socket.socket | None,
        status: int | None = None,
        block: int | None = None,
        cwd: str = "/",
    ) -> None:
        spawn = Spawn(
            argv=argv,
            env=env,
            limits=self._spec.limits,
            cwd=cwd,
            inherit=inherit,
            status=status,
            block=block,
            channel=channel.detach() if channel else None,
            apart=self._launch.text,
            on_output=self._seen.feed,
            on_text=self._text.feed,
            on_event=self._take_events,
        )
        self._live = Live(spawn, self._finish)

    # -- reading, on the supervising thread

    def _show(self, line: bytes) -> None:
        shown = self._reader.text(line)
        if shown is not None:
            self._seen.feed(shown + b"\n")

    def _take_events(self, chunk: bytes) -> None:
        self._event_bytes += len(chunk)
        if self._event_bytes <= _EVENT_BYTES:
            self._events.feed(chunk)

    def _one_event(self, line: bytes) -> None:
        if line.startswith(self._nonce):
            self._reader.event(line[len(self._nonce) :])
        else:
            self._forged += 1

    def _finish(self, ending: Ending) -> None:
        try:
            self._text.end()
            self._events.end()
            evidence = self._evidence(ending)
            outcome, note = self._judge(ending, evidence)
            self.result = RunResult(
                outcome=outcome,
                exit_code=ending.exit_code,
                signal=ending.signal,
                seconds=ending.seconds,
                head=self._seen.head,
                tail=self._seen.tail,
                dropped=self._seen.dropped,
                evidence=evidence,
                note=note,
            )
        finally:
            self._clean()

    def _evidence(self, ending: Ending) -> Evidence:
        evidence = self._reader.evidence()
        flaws, notes = evidence.flaws, evidence.notes
        if self._forged:
            flaws += (f"{self._forged} events without the nonce",)
        if self._event_bytes > _EVENT_BYTES:
            flaws += ("more events than can be recorded",)
        if ending.copied:
            notes += ("the kernel refused an overlay: the tree was copied",)
        environment = self._environment_paths()
        modules, tree = self._reader.modules, str(self._spec.tree)
        # A file that the run itself made (.pytest_cache) was not read from the tree under test.
        opened = [path for path in self._reader.opened if os.path.lexists(os.path.join(tree, path))]
        return replace(
            evidence,
            flaws=flaws,
            notes=notes,
            loaded=loaded_paths(modules, opened, self._roots, environment),
            foreign=foreign_modules(
                modules,
                self._roots,
                environment,
                lambda path: os.path.isfile(os.path.join(tree, path)),
            ),
        )

    def _environment_paths(self) -> tuple[str, ...]:
        """Repository paths that hold installed packages: the environment, and bound-back places."""
        inner = [
            os.path.relpath(place, root)
            for root in self._spec.mount_at
            for place in self._spec.places.read_only
            if place != root and under(place, root)
        ]
        return (*self._spec.read_only, *inner)

    def _judge(self, ending: Ending, evidence: Evidence) -> tuple[RunOutcome, str]:
        stopped = _STOPPED.get(ending.stop)
        if stopped is not None:
            return stopped
        if ending.out_of_memory and ending.exit_code != 0:
            return RunOutcome.OUT_OF_MEMORY, "the memory limit was reached"
        if ending.exit_code is None or not ending.started:
            lines = self._seen.head.decode("utf-8", "replace").strip().splitlines() or [""]
            return RunOutcome.SANDBOX_ERROR, f"{lines[-1][:300]} ({hint_for(lines[-1])})"
        return decide(evidence, ending.exit_code, self._spec.pins, self._spec.dry)


_STOPPED = {
    Stop.TIME: (RunOutcome.TIMED_OUT, "the wall-clock limit was reached"),
    Stop.OUTPUT: (RunOutcome.OUTPUT_CAPPED, "the output limit was reached"),
    Stop.PROCESSES: (RunOutcome.FAILED, "the process limit was reached"),
    Stop.CANCEL: (RunOutcome.CANCELLED, "cancelled"),
}


def is_green(result: RunResult, pins: tuple[str, ...]) -> bool:
    """Did the measurement pass, with evidence for every pinned test id?"""
    if result.outcome is not RunOutcome.PASSED:
        return False
    return decide(result.evidence, result.exit_code, pins)[0] is RunOutcome.PASSED


def _copy_tree(source: str, target: str) -> None:
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, target, symlinks=True, ignore=skip)
