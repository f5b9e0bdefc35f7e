"""One process's service for the agent: calls in order, one run at a time, chores in between.

Whatever touches the `Spike` runs in a worker thread while the turn is held, one at a time; waiting
for a run holds nothing, so status answers meanwhile. Nothing happens before the first call: no
spike is opened, no row written, no clock looked at (spec 7).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from spike_mcp.core import layout, timing
from spike_mcp.core.clock import elapsed as elapsed_at
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge import faults
from spike_mcp.edge.chores import Chores
from spike_mcp.edge.replies import Answer
from spike_mcp.edge.running import Progress, Runner
from spike_mcp.host.clock import Clock
from spike_mcp.session.agent import AgentDesk, Reply, refusal_reply
from spike_mcp.session.spike import Spike

PATIENCE = 44.0
"""Seconds after which a call that waits for a run answers `running`: 45 with all else (spec 7)."""
UNOPENED_SECONDS = 0.5
MAX_UNREADABLE = 1_000
MAX_NAME = 80

T = TypeVar("T")


class _Open:
    """What there is once the spike is open."""

    def __init__(self, desk: AgentDesk, service: AgentService) -> None:
        self.desk = desk
        self.runner = Runner(desk, service.locked)
        self.chores = Chores(desk)


class AgentService:
    """Serves the agent's calls on one spike; `run` must be running in a task meanwhile.

    `find` gives the spike's root and is asked again until it succeeds; it raises `Problem` where
    there is none. `tier` is `configured` or `enforced` (spec 14). `patience` in seconds.
    """

    def __init__(
        self,
        find: Callable[[], Path],
        *,
        tier: str = "configured",
        clock: Clock | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._find = find
        self._tier = tier
        self._clock = clock
        self._patience = patience
        self._session = secrets.token_hex(8)
        self._open: _Open | None = None
        self._turn = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._unreadable: list[str] = []
        self._stopping = False
        self._called = time.monotonic()

    # --- calls ----------------------------------------------------------------------------------

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        client: str = "",
        progress: Progress | None = None,
    ) -> Answer:
        """Answer one tools/call. Never raises, except when it is cancelled itself.

        Being cancelled while a run is waited for ends the run.
        """
        try:
            reply = await self._call(name, arguments, client, progress)
        except Exception as error:  # noqa: BLE001  (the last door: nothing of it reaches the agent)
            reply = await self._internal_error(name, error)
        self._called = time.monotonic()
        return self._answer(reply)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        client: str,
        progress: Progress | None,
    ) -> Reply:
        until = anyio.current_time() + self._patience
        while True:
            reply = await self._begin(name, arguments, client)
            wanted = reply.ticket.run if reply.ticket is not None else reply.joined
            if not wanted or self._open is None:
                return reply
            end = await self._open.runner.attend(wanted, until, progress)
            if end is not None:
                told = partial(_told, self._open.desk, name, arguments, reply, end)
                return await self.locked(told)

    async def _begin(self, name: str, arguments: Mapping[str, Any] | None, client: str) -> Reply:
        """Pass the gate; spawn the run that was claimed, before anything can cancel this."""
        if self._open is not None:
            await self._open.runner.let_die()
        async with self._turn:
            if self._stopping:
                hint = "connect again in a moment"
                return refusal_reply(Refusal.BUSY, "the server is stopping", hint)
            with anyio.CancelScope(shield=True):
                reply = await _threaded(lambda: self._ask(name, arguments, client))
                if reply.ticket is not None:
                    reply = await self._spawn(reply)
        return reply

    def _ask(self, name: str, arguments: Mapping[str, Any] | None, client: str) -> Reply:
        try:
            there = self._opened(client)
        except Problem as problem:
            return _unopened(problem)
        return there.runner.checked(there.desk.call(name, arguments))

    async def _spawn(self, reply: Reply) -> Reply:
        ticket, there = reply.ticket, self._open
        assert ticket is not None
        assert there is not None
        assert self._tasks is not None, "`run` must be running"
        problem = there.runner.spawn(ticket, self._tasks)
        if problem is None:
            return reply
        found = problem
        return await _threaded(lambda: there.runner.not_run(ticket, found))

    def _opened(self, client: str = "") -> _Open:
        """Open the spike if that is still to be done. `Problem` where it can't be."""
        if self._open is None:
            try:
                spike = Spike(self._find(), self._clock)
                spike.check_owner()
            except OSError as error:
                reason = (error.strerror or type(error).__name__).lower()
                raise Problem(
                    Refusal.NOT_AUTHORISED,
                    f"the spike can't be opened: {reason}",
                    "the server must run as the user that ran `spike init`",
                ) from error
            self._open = _Open(AgentDesk(spike, self._session, self._tier), self)
        if client and not self._open.desk.client:
            self._open.desk.client = client
        return self._open

    async def _internal_error(self, name: str, error: Exception) -> Reply:
        there = self._open
        faults.record(error, None if there is None else there.desk.spike.root)
        problem = Problem(Refusal.INTERNAL_ERROR, faults.SENTENCE, faults.HINT)
        if there is not None:
            desk = there.desk
            try:
                return await self.locked(lambda: desk.refuse(name[:MAX_NAME], problem))
            except Exception as second:  # noqa: BLE001
                faults.record(second, desk.spike.root)
        return refusal_reply(Refusal.INTERNAL_ERROR, problem.message, problem.hint)

    # --- what is said ---------------------------------------------------------------------------

    def _answer(self, reply: Reply) -> Answer:
        news = _feedback(reply)
        lines = tuple(line for line in reply.lines if line not in news)
        data = {key: value for key, value in reply.data.items() if key != "feedback"}
        seconds = self._seconds(reply)
        return Answer(reply.outcome, lines, data, reply.code, news, seconds)

    def _seconds(self, reply: Reply) -> tuple[float, float] | None:
        """What is left; a refusal that never reached the ledger (busy, a full disk) says it too."""
        if self._open is None:
            return None
        if reply.remaining:
            return reply.remaining, reply.writes_close
        spike = self._open.desk.spike
        state = spike.state
        try:
            budgets = spike.contract.budgets
        except Problem:
            return None
        elapsed = elapsed_at(state.clock, spike.clock.read()) if state.clock else 0.0
        return (
            timing.remaining_seconds(state, budgets, elapsed),
            timing.writes_close_in_seconds(state, budgets, elapsed),
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Paths that must not stand in an answer."""
        if self._open is None:
            return ()
        root = self._open.desk.spike.root
        return (str(root / layout.JUDGE), str(root / layout.VERDICT))

    # --- in the background ----------------------------------------------------------------------

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Watch runs and do the chores, until cancelled. Await `stop` before that."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            while True:
                there = self._open
                await anyio.sleep(UNOPENED_SECONDS if there is None else there.chores.pause())
                if there is not None and not self._stopping:
                    await self._tend(there)

    async def _tend(self, there: _Open) -> None:
        live, chores = there.runner.live, there.chores
        idle = 0.0 if live is not None else time.monotonic() - self._called
        try:
            over = await self.locked(lambda: chores.do(idle))
            if over and live is not None:
                live.kill()
                await there.runner.let_die()
            if over:
                chores.ask_for_verdict()
        except Problem:
            return  # busy, full, damaged: the next call says so
        except Exception as error:  # noqa: BLE001  (chores must not end the server)
            faults.record(error, there.desk.spike.root)

    def note_unreadable(self, message: str) -> None:
        """Have a line of the client that was no request ledgered as a refused call."""
        if self._tasks is None or len(self._unreadable) >= MAX_UNREADABLE:
            return
        self._unreadable.append(message)
        if len(self._unreadable) == 1:
            self._tasks.start_soon(self._ledger_unreadable)

    async def _ledger_unreadable(self) -> None:
        while self._unreadable:
            try:
                await self.locked(lambda: self._opened().desk.unreadable(self._unreadable[0]))
            except Problem:
                pass  # no spike to note it in
            except Exception as error:  # noqa: BLE001
                faults.record(error, self._open.desk.spike.root if self._open else None)
            del self._unreadable[0]

    async def stop(self) -> None:
        """Kill the run with its process tree, record that, write what was counted. Idempotent."""
        self._stopping = True
        there = self._open
        if there is None:
            return
        await there.runner.stop()
        if there.desk.repeats_waiting:
            await self.locked(there.desk.flush)

    async def locked(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread while nothing else uses the spike; once begun it is finished."""
        async with self._turn:
            with anyio.CancelScope(shield=True):
                found = await _threaded(work)
        return found


async def _threaded(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work)


def _told(
    desk: AgentDesk, name: str, arguments: Mapping[str, Any] | None, begun: Reply, end: Reply
) -> Reply:
    """The end of a run, with the news that its beginning had already taken from the ledger.

    After the total there is no result any more: the gate says so.
    """
    end = desk.news(end)
    if end.outcome == "accepted" and not end.remaining:
        again = desk.call(name, arguments)
        if again.outcome == "refused":
            return again
    before = _feedback(begun)
    if not before:
        return end
    return replace(end, data={**end.data, "feedback": (*before, *_feedback(end))})


def _feedback(reply: Reply) -> tuple[str, ...]:
    """What the human said since the last call; these stand among the reply's lines too."""
    return tuple(reply.data.get("feedback", ()))


def _unopened(problem: Problem) -> Reply:
    """A refusal without a spike: its code is the command line's where the gate has none."""
    reply = refusal_reply(Refusal.NOT_STARTED, problem.message, problem.hint)
    code = problem.code.value
    return replace(reply, lines=(f"refused: {code}", *reply.lines[1:]), code=code)
