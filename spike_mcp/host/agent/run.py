"""One `spike run`: sockets, proxy, terminal, agent, deadline, exit status (spec 14).

One process and one event loop. bubblewrap is a child of the main thread and dies with it, so
whatever ends this process ends everything inside within milliseconds.
"""

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, closing
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

from spike_mcp.host.agent import channel, client_home, launch
from spike_mcp.host.agent.listener import Listener
from spike_mcp.host.agent.model import AgentNeverRan, AgentRun, Referee
from spike_mcp.host.agent.namespace import Namespace
from spike_mcp.host.agent.proxy import Proxy, name_of
from spike_mcp.host.agent.terminal import Piped, Terminal

GRACE_SECONDS = 5.0
"""Between the polite end and the hard one; real clients need under 50 ms."""
LOOK_SECONDS = 2.0
"""How often the clock is asked: a spike can also be closed before its time."""
LAST_WORDS_SECONDS = 3.0
"""For calls still running when the agent is gone."""
LAST_OUTPUT_SECONDS = 5.0
"""For a slow terminal to take what the agent still wrote."""
REAP_SECONDS = 2.0
BACKLOG = 16
MAX_COUNTS = 40


def run_agent(spec: AgentRun, referee: Referee) -> int:
    """Run the agent to its end and return its exit status.

    AgentNeverRan (a Problem; exit status 71) when it did not start: no sandbox, no such command.
    128 + n after signal n to this process. Call it from the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("bubblewrap dies with the thread that started it: use the main thread")
    prepared = launch.prepare(spec)
    try:
        launch.probe(prepared)
        run = _Run(prepared, referee)
        status = anyio.run(run.main)
        if run.fault is not None:
            raise run.fault
    finally:
        client_home.remove(prepared.run_dir, spec.root, spec.client)
    if run.by == "deadline":
        # Not before: an agent may have filled the disk with its home, and a verdict needs room.
        referee.at_deadline()
    return status


def warnings(spec: AgentRun) -> tuple[str, ...]:
    """Return what the human should know before this run, one sentence each."""
    said = []
    if os.geteuid() == 0:
        said.append(
            "running as root: files that only root may read and that the sandbox shows can be read"
            " by the agent; an ordinary user is safer"
        )
    if spec.network == "host":
        said.append(
            "--network host: the agent shares this machine's network; UDP, MPTCP and the listed"
            " ports stay open to it"
        )
    return tuple(said)


class _Run:
    """The state of one run."""

    def __init__(self, prepared: launch.Launch, referee: Referee) -> None:
        self.by = "itself"
        self.fault: Exception | None = None
        """Why the session could not say how much time is left: then the agent is ended."""
        self._launch = prepared
        self._referee = referee
        self._signal = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._namespace: Namespace | None = None
        self._exit_code: int | None = None

    async def main(self) -> int:
        """Serve, run, wind down."""
        self._turn = anyio.Lock()
        self._known = anyio.Event()
        self._gone = anyio.Event()
        began = time.monotonic()
        end_talks = anyio.Event()
        listener = Listener(self._referee.serve, self._tell, self._wait_known, end_talks)
        proxy = Proxy(self._launch.allow, self._tell)
        wire = str(self._launch.run_dir.wire)
        with ExitStack() as sockets:
            way_in = sockets.enter_context(closing(channel.bind(wire, "mcp.sock", BACKLOG)))
            way_out = sockets.enter_context(closing(channel.bind(wire, "proxy.sock", BACKLOG)))
            async with anyio.create_task_group() as services:
                services.start_soon(listener.run, way_in)
                if self._launch.proxied:
                    services.start_soon(proxy.run, way_out)
                returncode = await self._agent()
                with anyio.move_on_after(LAST_WORDS_SECONDS):
                    await listener.idle()
                end_talks.set()
                with anyio.move_on_after(1.0):
                    await listener.idle()
                services.cancel_scope.cancel()
        status = self._status(returncode)
        fields = {
            "status": AgentNeverRan.exit_status if status is None else status,
            "by": self.by,
            "seconds": round(time.monotonic() - began, 3),
            "connections": listener.connected,
            "refused_connections": listener.refused,
            "egress": _counts(proxy.allowed),
            "egress_refused": _counts(proxy.refused),
        }
        await self._tell("agent_stopped", fields)
        if status is None:
            message = "bubblewrap could not start the agent; its own message stands above"
            raise AgentNeverRan(message, "run `spike doctor`")
        return status

    # the agent

    async def _agent(self) -> int:
        spec = self._launch.spec
        with ExitStack() as stack:
            terminal = stack.enter_context(closing(Terminal())) if spec.interactive else None
            if terminal is not None:
                stack.enter_context(terminal.raw())
            piped = None if terminal is not None else Piped()
            if piped is not None:
                stack.callback(piped.end, LAST_OUTPUT_SECONDS)
            async with anyio.create_task_group() as watchers:
                await watchers.start(self._heed_signals)
                process, status = launch.start(
                    self._launch,
                    self._launch.command,
                    tty=terminal.slave if terminal is not None else None,
                    stdout=piped.stdout if piped is not None else None,
                    stderr=piped.stderr if piped is not None else None,
                )
                if piped is not None:
                    piped.started()
                try:
                    self._process = process
                    watchers.start_soon(self._keep_deadline)
                    relayed = anyio.Event()
                    if terminal is not None:
                        terminal.started()
                        watchers.start_soon(_then, terminal.relay, relayed)
                    await self._read_status(status)
                    await _ended(process)
                    self._gone.set()
                    if terminal is not None:
                        with anyio.move_on_after(LAST_OUTPUT_SECONDS):
                            await relayed.wait()
                finally:
                    self._end_hard()
                    returncode = _reap(process)
                watchers.cancel_scope.cancel()
        return returncode

    async def _read_status(self, fd: int) -> None:
        """Follow bubblewrap's JSON: the namespace's first process, then the agent's status."""
        rest = b""
        try:
            while True:
                await anyio.wait_readable(fd)
                chunk = os.read(fd, 4096)
                if not chunk:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await self._note_status(json.loads(line))
        finally:
            os.close(fd)

    async def _note_status(self, said: Mapping[str, Any]) -> None:
        if "exit-code" in said:
            self._exit_code = int(said["exit-code"])
        if "child-pid" in said:
            self._namespace = Namespace.of(int(said["child-pid"]))
            if self._namespace is not None:
                self._known.set()
            spec = self._launch.spec
            fields = {
                "program": os.path.basename(self._launch.command[0]),
                "client": spec.client.name if spec.client else "",
                "network": spec.network,
                "allowed": sorted(map(name_of, self._launch.allow)),
                "interactive": spec.interactive,
                "bubblewrap": ".".join(map(str, self._launch.version)),
                "uid": os.getuid(),
            }
            await self._tell("agent_started", fields)

    def _status(self, returncode: int) -> int | None:
        """Return the exit status; None if the agent never ran."""
        if self._signal:
            return 128 + self._signal
        if self._exit_code is not None:
            return self._exit_code
        if self.by == "itself" and returncode == 1:
            return None  # an agent's own 1 comes with an "exit-code"; this is bubblewrap's
        return 128 - returncode if returncode < 0 else returncode

    # its end

    async def _keep_deadline(self) -> None:
        while True:
            try:
                left = await anyio.to_thread.run_sync(self._referee.remaining_seconds)
            except Exception as error:  # noqa: BLE001  (raised again, after the agent is gone)
                self.fault = error
                await self._end("fault")
                return
            if left <= 0:
                break
            await anyio.sleep(min(left, LOOK_SECONDS))
        await self._end("deadline")

    async def _heed_signals(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        async with anyio.create_task_group() as ending:
            with anyio.open_signal_receiver(*wanted) as signals:
                task_status.started()
                async for number in signals:
                    if self._signal:
                        self._end_hard()  # asked twice
                        continue
                    self._signal = number
                    ending.start_soon(self._end, "signal")

    async def _end(self, by: str) -> None:
        """Ask the agent's processes to end, then end them."""
        if self.by != "itself":
            return
        self.by = by
        if self._namespace is not None:
            self._namespace.terminate()
            with anyio.move_on_after(GRACE_SECONDS):
                await self._gone.wait()
        if not self._gone.is_set():
            self._end_hard()

    def _end_hard(self) -> None:
        if self._namespace is not None:
            self._namespace.kill()
        elif self._process is not None:
            self._process.kill()  # bubblewrap is still setting up, or the kernel told us nothing

    # talking to the session

    async def _wait_known(self) -> Namespace:
        await self._known.wait()
        assert self._namespace is not None
        return self._namespace

    async def _tell(self, event: str, fields: Mapping[str, Any]) -> None:
        """Record an event, one at a time; the run goes on if the session can't."""
        async with self._turn:
            try:
                await anyio.to_thread.run_sync(self._referee.on_event, event, fields)
            except Exception:
                logging.getLogger(__name__).exception("%s was not recorded", event)


async def _then(work: Callable[[], Awaitable[None]], done: anyio.Event) -> None:
    await work()
    done.set()


def _reap(process: subprocess.Popen[bytes]) -> int:
    """Collect a bubblewrap whose sandbox is dead; returns as Popen does."""
    try:
        return process.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


async def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for a child without a thread."""
    handle = os.pidfd_open(process.pid)
    try:
        while process.poll() is None:
            await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def _counts(counter: Counter[str]) -> dict[str, int]:
    return dict(counter.most_common(MAX_COUNTS))
