"""A run of the measurement as a server sees it: spawned, watched, waited for, recorded (spec 7).

It is spawned on the event loop's thread, because the sandbox dies with the thread that made it, and
belongs to a task of its own: callers come and go. Whoever waits and is cancelled ends the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import anyio
import anyio.abc

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge import faults
from spike_mcp.edge.text import safe_line
from spike_mcp.host.evidence import RunOutcome
from spike_mcp.host.measure import Run
from spike_mcp.session import runs
from spike_mcp.session.agent import AgentDesk, Reply, refusal_reply, run_reply
from spike_mcp.session.transaction import transaction

TOOL = "spike_run_test"
PROGRESS_SECONDS = 2.0
PROGRESS_PATIENCE = 0.5
"""A client that does not take a progress notification within this time does not get it."""
POLL_SECONDS = 0.1
"""How often the ledger is asked whether a human wants the run to end."""
DYING_SECONDS = 2.0
RECORD_TRIES = 20
RECORD_PAUSE = 0.5

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
T = TypeVar("T")


class Locked(Protocol):
    """Runs a function in a thread while nothing else uses the spike; begun is finished."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """The function's result; its exceptions pass."""


@dataclass(slots=True, eq=False)
class Live:
    """A run of this process. `reply` stands once `done` is set."""

    ticket: runs.Ticket
    run: Run
    done: anyio.Event = field(default_factory=anyio.Event)
    reply: Reply | None = None
    dying: bool = False

    def kill(self) -> None:
        """End its process tree; `done` follows."""
        self.dying = True
        self.run.cancel()


class Runner:
    """The runs of one server, one at a time."""

    def __init__(self, desk: AgentDesk, locked: Locked) -> None:
        self._desk = desk
        self._locked = locked
        self.live: Live | None = None
        self.stopping = False

    def spawn(self, ticket: runs.Ticket, tasks: anyio.abc.TaskGroup) -> Problem | None:
        """Start a claimed run on this thread, watched in `tasks`; or say why it can't be."""
        try:
            run = Run.start(ticket.spec)
        except Problem as problem:
            return problem
        except Exception as error:  # noqa: BLE001  (no memory, no processes, no descriptors)
            faults.record(error, self._desk.spike.root)
            hint = "tell the human: `spike doctor` says what is missing"
            return Problem(Refusal.SANDBOX_UNAVAILABLE, "the test could not be started", hint)
        self.live = Live(ticket, run)
        tasks.start_soon(self._watch, self.live)
        return None

    def not_run(self, ticket: runs.Ticket, problem: Problem) -> Reply:
        """Release a claim whose run could not be made, and refuse."""
        runs.abandon(self._desk.spike, ticket)
        return self._desk.refuse(TOOL, problem)

    async def let_die(self) -> None:
        """Wait for the end of a run that was killed: what follows sees its end, not the run."""
        if self.live is not None and self.live.dying:
            with anyio.move_on_after(DYING_SECONDS):
                await self.live.done.wait()

    async def stop(self) -> None:
        """Kill what runs and wait until that is recorded."""
        self.stopping = True
        if self.live is not None:
            self.live.kill()
            await self.live.done.wait()

    # --- waiting --------------------------------------------------------------------------------

    async def attend(self, run: str, until: float, progress: Progress | None) -> Reply | None:
        """What run `run` gave, or `running` at `until` (loop time).

        None = it ended, but not with a result for the agent: ask the gate again.
        """
        live = self.live
        if live is None or live.ticket.run != run:
            return await self._attend_elsewhere(run, until, progress)
        try:
            await _wait(live.done, until, progress, lambda: live.run.last_line)
        except anyio.get_cancelled_exc_class():
            live.kill()
            raise
        return live.reply if live.done.is_set() else running(run, live.run.last_line)

    async def _attend_elsewhere(
        self, run: str, until: float, progress: Progress | None
    ) -> Reply | None:
        """The same for a run of another process, by its rows."""
        found: list[Reply | None] = []
        done = anyio.Event()

        async def look() -> None:
            while True:
                is_open, reply = await self._locked(lambda: self._look_elsewhere(run))
                if not is_open:
                    found.append(reply)
                    done.set()
                    return
                await anyio.sleep(POLL_SECONDS)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            await _wait(done, until, progress, lambda: "another process runs the test")
            tasks.cancel_scope.cancel()
        return found[0] if found else running(run, "")

    def _look_elsewhere(self, run: str) -> tuple[bool, Reply | None]:
        """(is it still open, what it gave): only the agent's own runs are told as they ended."""
        spike = self._desk.spike
        state = spike.refresh().runs[run]
        if state.finished is None and not state.lost:
            with transaction(spike, human=False):  # finds out when the owner is dead
                state = spike.state.runs[run]
        if state.finished is None:
            return not state.lost, None
        if state.purpose != "agent" or state.finished.outcome == RunOutcome.CANCELLED.value:
            return False, None
        return False, run_reply(spike, state)

    # --- watching -------------------------------------------------------------------------------

    async def _watch(self, live: Live) -> None:
        """Wait for the end of a run, kill it where a human asks for that, record how it ended."""
        try:
            async with anyio.create_task_group() as watchers:
                watchers.start_soon(self._heed, live)
                await live.run.wait_async()
                watchers.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                live.reply = await self._record(live)
                if self.live is live:
                    self.live = None
                live.done.set()

    async def _heed(self, live: Live) -> None:
        """End a run that is asked to be cancelled, was declared lost, or outlives its spike."""
        while not live.dying:
            await anyio.sleep(POLL_SECONDS)
            if await self._locked(lambda: self._unwanted(live)):
                live.kill()

    def _unwanted(self, live: Live) -> bool:
        state = self._desk.spike.refresh()
        run = state.runs[live.ticket.run]
        return run.cancel_asked or run.lost or bool(state.verdict or state.killed)

    async def _record(self, live: Live) -> Reply:
        """Append how the run ended. Tried again while the lock or the disk can't be had."""
        for attempt in range(RECORD_TRIES):
            try:
                return await self._locked(lambda: self._finish(live))
            except Problem as problem:
                found = problem
            except Exception as error:  # noqa: BLE001  (the run is over; its callers wait)
                faults.record(error, self._desk.spike.root)
                found = Problem(Refusal.INTERNAL_ERROR, faults.SENTENCE, faults.HINT)
            if self.stopping or attempt == RECORD_TRIES - 1:
                break
            await anyio.sleep(RECORD_PAUSE)
        code = found.code if isinstance(found.code, Refusal) else Refusal.INTERNAL_ERROR
        return refusal_reply(code, found.message, found.hint)

    def _finish(self, live: Live) -> Reply:
        spike, result = self._desk.spike, live.run.result
        if result is None or result.outcome is RunOutcome.SANDBOX_ERROR:
            why = result.note if result is not None and result.note else "it gave no result"
            problem = Problem(
                Refusal.SANDBOX_UNAVAILABLE,
                f"the test's sandbox failed: {why}",
                "tell the human: `spike doctor` says what is missing",
            )
            return self.not_run(live.ticket, problem)
        runs.finish(spike, live.ticket, result, human=False)
        state = spike.state.runs[live.ticket.run]
        if state.finished is None:
            line = f"{live.ticket.run} was ended by a command of the human; run the test again"
            return Reply("accepted", (line,), {"run": live.ticket.run, "green": False})
        return self.checked(run_reply(spike, state))

    def checked(self, reply: Reply) -> Reply:
        """`reply`, or the refusal that a run on another tree than ours is (spec 11)."""
        if reply.data.get("run_outcome") != RunOutcome.WRONG_TREE.value:
            return reply
        problem = Problem(
            Refusal.WRONG_TREE_IMPORTED,
            reply.lines[1] if len(reply.lines) > 1 else "the test imported from another tree",
            "nothing that you can change: tell the human that the test imports from elsewhere",
        )
        return self._desk.refuse(TOOL, problem)


def running(run: str, last_line: str) -> Reply:
    """The answer of a call that has waited long enough."""
    lines = [f"running: {run} goes on; call {TOOL} again to wait for it"]
    shown = safe_line(last_line, 200)
    if shown:
        lines.append(f"last line of its output so far: {shown}")
    return Reply("running", tuple(lines), {"run": run, "last_line": shown})


async def _wait(
    done: anyio.Event, until: float, progress: Progress | None, line: Callable[[], str]
) -> None:
    """Until `done` or out of patience, with progress for a client that asked for it."""
    began = anyio.current_time()
    while not done.is_set() and (left := until - anyio.current_time()) > 0:
        with anyio.move_on_after(min(PROGRESS_SECONDS, left)):
            await done.wait()
        if progress is not None and not done.is_set():
            with anyio.move_on_after(PROGRESS_PATIENCE):
                await progress(anyio.current_time() - began, None, safe_line(line(), 200))
