"""One process's service for the agent: calls in order, one run at a time, chores in between.

Whatever touches the `Spike` runs in a worker thread while the turn is held, one at a time; waiting
for a run holds nothing, so status answers meanwhile. Nothing happens before the first call: no
spike is opened, no row written, no clock looked at (spec 7).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.edge import faults
from spike_mcp.edge.replies import Answer

if TYPE_CHECKING:
    from spike_mcp.edge.opened import Opened
    from spike_mcp.edge.running import Progress
    from spike_mcp.host.clock import Clock
    from spike_mcp.session.agent import Reply

PATIENCE = 44.0
"""Seconds after which a call that waits for a run answers `running`: 45 with all else (spec 7)."""
UNOPENED_SECONDS = 0.5
FAULT_SECONDS = 30.0
"""Pause after a chore that failed: one line in the log, not thousands."""
MAX_UNREADABLE = 1_000
STATUS = "spike_status"
MAX_NAME = 80

T = TypeVar("T")


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
        self._open: Opened | None = None
        self._turn = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._unreadable: list[str] = []
        self._stopping = False
        self._called = time.monotonic()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Paths that must not stand in an answer."""
        return () if self._open is None else self._open.secrets

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
            return await self._call(name, arguments, client, progress)
        except Problem as problem:
            return self._refusal(problem)
        except Exception as error:  # noqa: BLE001  (the last door: nothing of it reaches the agent)
            return await self._internal_error(name, error)
        finally:
            self._called = time.monotonic()

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        client: str,
        progress: Progress | None,
    ) -> Answer:
        until = anyio.current_time() + self._patience
        while True:
            there, reply = await self._begin(name, arguments, client)
            wanted = reply.ticket.run if reply.ticket is not None else reply.joined
            if not wanted:
                return there.answer(reply)
            end = await there.runner.attend(wanted, until, progress)
            if end is not None:
                told = partial(there.told, name, arguments, reply, end)
                return there.answer(await self.locked(told))

    async def _begin(
        self, name: str, arguments: Mapping[str, Any] | None, client: str
    ) -> tuple[Opened, Reply]:
        """Pass the gate; spawn the run that was claimed, before anything can cancel this."""
        opened = self._open
        if opened is not None and name == STATUS and not self._turn.locked() and not self._stopping:
            # The commonest call. It takes less time than a change of threads, and nobody else is
            # at the spike in this process: nothing here is awaited.
            glanced = opened.glance(arguments, client)
            if glanced is not None:
                return opened, glanced
        if opened is not None:
            await opened.runner.let_die()
        async with self._turn:
            if self._stopping:
                hint = "connect again in a moment"
                raise Problem(Refusal.BUSY, "the server is stopping", hint)
            with anyio.CancelScope(shield=True):
                there, reply = await self._ask(name, arguments, client)
                if reply.ticket is not None:
                    reply = await self._spawn(there, reply)
        return there, reply

    async def _ask(
        self, name: str, arguments: Mapping[str, Any] | None, client: str
    ) -> tuple[Opened, Reply]:
        there = self._open
        if there is None:
            there = await _threaded(self._opened)
        return there, await _threaded(partial(there.ask, name, arguments, client))

    async def _spawn(self, there: Opened, reply: Reply) -> Reply:
        ticket = reply.ticket
        assert ticket is not None
        assert self._tasks is not None, "`run` must be running"
        problem = there.runner.spawn(ticket, self._tasks)
        if problem is None:
            return reply
        return await _threaded(partial(there.runner.not_run, ticket, problem))

    def _opened(self) -> Opened:
        """Open the spike if that is still to be done; its modules are loaded only now."""
        if self._open is None:
            from spike_mcp.edge.opened import open_spike

            root = self._find()
            self._open = open_spike(root, self._clock, self._session, self._tier, self.locked)
        return self._open

    async def _internal_error(self, name: str, error: Exception) -> Answer:
        there = self._open
        if there is not None and there.is_gone:
            return self._refusal(
                Problem(Usage.SPIKE_NOT_FOUND, "the spike was removed", "stop here")
            )
        faults.record(error, self._root())
        problem = Problem(Refusal.INTERNAL_ERROR, faults.SENTENCE, faults.HINT)
        if there is not None:
            try:
                refuse = partial(there.desk.refuse, name[:MAX_NAME], problem)
                return there.answer(await self.locked(refuse))
            except Exception as second:  # noqa: BLE001
                faults.record(second, self._root())
        return self._refusal(problem)

    def _refusal(self, problem: Problem) -> Answer:
        """A refusal that no ledger knows: no spike, or a server that stops."""
        code, message, hint = problem.code.value, problem.message, problem.hint
        lines = [f"refused: {code}", message, *([f"hint: {hint}"] if hint else [])]
        seconds = None if self._open is None else self._open.seconds()
        return Answer(
            "refused", tuple(lines), {"message": message, "hint": hint}, code, (), seconds
        )

    def _root(self) -> Path | None:
        return None if self._open is None else self._open.desk.spike.root

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

    async def _tend(self, there: Opened) -> None:
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
            if not there.is_gone:
                faults.record(error, self._root())
            await anyio.sleep(FAULT_SECONDS)

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
                faults.record(error, self._root())
            del self._unreadable[0]

    async def stop(self) -> None:
        """Kill the run with its process tree, record that, write what was counted. Idempotent."""
        self._stopping = True
        there = self._open
        if there is None:
            return
        await there.runner.stop()
        while self._unreadable:
            await anyio.sleep(0.01)
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
