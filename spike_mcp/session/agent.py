"""The agent's door: every tools/call, broken ones too, passes here and nowhere else (spec 6, 7).

`call` is synchronous and runs off the event loop; a test run is claimed here and spawned by the
server on its loop thread. Replies are values; the server prints them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from spike_mcp.core import events as ev
from spike_mcp.core import mapping, timing
from spike_mcp.core.codes import Actor, Checkpoint, Problem, Refusal
from spike_mcp.core.decide import Observation, Refused, rows_spent
from spike_mcp.core.hunks import short_ids
from spike_mcp.core.model import Feedback, State
from spike_mcp.core.model import Run as RunState
from spike_mcp.core.requests import (
    ApplyPatch,
    EditFile,
    Kind,
    ListFiles,
    Malformed,
    ReadFile,
    Report,
    Request,
    RevertPatch,
    RunTest,
    SearchFiles,
    Status,
    WriteFile,
    parse,
)
from spike_mcp.session import observe, reads, runs, writes
from spike_mcp.session.projection import write_projection
from spike_mcp.session.spike import Spike
from spike_mcp.session.status import status
from spike_mcp.session.transaction import Transaction, glimpse, transaction

FLUSH_SECONDS = 10.0
"""Latest moment at which counted repeats of a refusal become a row (spec 6)."""

EVERY_TOOL = "*"
"""Tool of a `refusals_repeated` row that counts calls of all tools: the call limit is spent."""

LATE_ROWS = 200
"""Rows for counted refusals that may still follow once the call limit is spent; then none."""

_MAX_MESSAGE = 600
_READS = (ListFiles, ReadFile, SearchFiles)


@dataclass(frozen=True)
class Reply:
    """What a call gets. `outcome`: accepted or refused; `lines`: the text, outcome first.

    `data`: the machine copy's own keys. `ticket`: a claimed run that the server must spawn, or
    None; `joined`: id of a run of another caller that this call waits for.
    """

    outcome: str
    lines: tuple[str, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    ticket: runs.Ticket | None = None
    joined: str = ""
    remaining: float = 0.0
    writes_close: float = 0.0


@dataclass(slots=True)
class _Repeats:
    """Equal refusals in a row: the first has its own row, the rest are counted here.

    Once the rows for refusals are used up, all of them are counted, by code.
    """

    tool: str = ""
    code: str = ""
    since: float = 0.0
    counts: dict[tuple[str, str], int] = field(default_factory=dict)


class AgentDesk:
    """One server process's view of a spike. Calls are serialised by the caller."""

    def __init__(self, spike: Spike, session: str, tier: str = "configured") -> None:
        self.spike = spike
        self.session = session
        self.tier = tier
        self.client = ""
        self._opened = False
        self._repeats = _Repeats()

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> Reply:
        """Answer one tools/call. Never raises `Problem`."""
        parsed = parse(name, arguments)
        try:
            ahead = writes.read_ahead(self.spike, parsed.request)
            with transaction(self.spike, human=False) as tx:
                reply = self._answer(tx, name, parsed.request, ahead)
                reply = self._with_news(tx, reply)
            if reply.outcome == "accepted" and isinstance(parsed.request, _READS):
                reply = self._read(parsed.request, reply)
        except Problem as problem:
            reply = self._without_row(problem)
        if parsed.ignored:
            note = f"ignored arguments: {', '.join(parsed.ignored[:10])[:300]}"
            reply = replace(reply, lines=(*reply.lines, note))
        return reply

    def glance(self, arguments: Mapping[str, Any] | None) -> Reply | None:
        """`spike_status` without waiting for anybody; None where the answer must write a row.

        The same gate as ever: only the lock is left out, since nothing is changed.
        """
        parsed = parse(Status.tool, arguments)
        if not self._opened or parsed.ignored:
            return None
        with suppress(Problem):
            tx = glimpse(self.spike)
            if tx is None or self._unheard(tx.state):
                return None
            if not self._worth_preparing(tx, parsed.request):
                return None
            seen = observe.observation(tx, human=False)
            if not isinstance(tx.decide(parsed.request, seen), Refused):
                return self._with_news(tx, self._status(tx))
        return None

    def unreadable(self, message: str) -> Reply:
        """Note a line of the client that was no request; it passes the gate like any call."""
        line = Malformed("(unreadable line)", Kind.READ, message)
        try:
            with transaction(self.spike, human=False) as tx:
                return self._answer(tx, line.tool, line)
        except Problem as problem:
            return self._without_row(problem)

    def refuse(self, name: str, problem: Problem) -> Reply:
        """A refusal found after the gate (no sandbox, an unplanned fault): ledgered like others."""
        refused = Refused(Refusal(problem.code), problem.message, problem.hint)
        try:
            with transaction(self.spike, human=False) as tx:
                return self._with_news(tx, self._refused(tx, name, refused, problem))
        except Problem as second:
            return self._without_row(second)

    def news(self, reply: Reply) -> Reply:
        """`reply`, made outside a call (the end of a run), with the clock and the human's words."""
        try:
            with transaction(self.spike, human=False) as tx:
                return self._with_news(tx, reply)
        except Problem:
            return reply

    # --- one call -------------------------------------------------------------------------------

    def _answer(
        self,
        tx: Transaction,
        name: str,
        request: Request | Malformed,
        ahead: writes.Ahead = None,
    ) -> Reply:
        if not self.spike.damage:
            self._open_session(tx)
            self._open_attempt(tx, request)
        plan: writes.Plan | None = None
        seen = Observation(tx.elapsed)
        if self._worth_preparing(tx, request):
            plan, seen = self._prepare(tx, request, ahead)
        elif self.spike.damage:
            seen = Observation(tx.elapsed, damage=self.spike.damage)
        elif tx.state.started and tx.state.verdict is None:
            seen = observe.observation(tx, human=False)
        answer = tx.decide(request, seen)
        if isinstance(answer, Refused):
            return self._refused(tx, name, answer, seen.problem)
        return self._effect(tx, request, plan)

    def _worth_preparing(self, tx: Transaction, request: Request | Malformed) -> bool:
        """Whether it makes sense to look at files at all: not for a spike that is over."""
        if self.spike.damage or isinstance(request, Malformed) or tx.state.verdict:
            return False
        total = self.spike.contract.budgets.total * 60
        return tx.state.started and timing.ready(tx.state) and tx.elapsed < total

    def _open_session(self, tx: Transaction) -> None:
        if self._opened or not tx.state.started or tx.state.verdict or tx.state.killed:
            return
        if rows_spent(tx.state, self.spike.contract.budgets):
            return  # nothing but status is answered to this session, and no row is left for it
        tx.append(Actor.AGENT, ev.SessionOpened(self.session, self.tier, self.client[:200]))
        self._opened = True

    def _open_attempt(self, tx: Transaction, request: Request | Malformed) -> None:
        """The attempt opens at the first well-formed write, or at a run (spec 5)."""
        if isinstance(request, Malformed) or request.kind not in (Kind.WRITE, Kind.RUN):
            return
        if tx.state.verdict is None and tx.state.killed is None and tx.state.started:
            tx.start_attempt(human=False)

    def _prepare(
        self, tx: Transaction, request: Request | Malformed, ahead: writes.Ahead
    ) -> tuple[writes.Plan | None, Observation]:
        if isinstance(request, RunTest):
            seen = observe.observation(tx, human=False, sweep_tree=True)
            tree = self.spike.tree_digest()
            joined = tx.state.open_run is not None
            known = runs.stored(self.spike, tree) is not None
            return None, replace(seen, measured=known or joined)
        if not isinstance(request, ApplyPatch | EditFile | WriteFile | RevertPatch):
            return None, observe.observation(tx, human=False)
        seen = observe.observation(tx, human=False)
        if seen.tampered:
            return None, seen
        plan = writes.plan(self.spike, request, ahead)
        seen = replace(
            seen,
            out_of_band=tuple(dict.fromkeys((*seen.out_of_band, *plan.out_of_band))),
            problem=plan.problem,
            pending_after=plan.pending_after,
            adds_hunk=plan.adds_hunk,
            is_revert=plan.is_revert,
        )
        return plan, seen

    def _effect(
        self, tx: Transaction, request: Request | Malformed, plan: writes.Plan | None
    ) -> Reply:
        match request:
            case Status():
                return self._status(tx)
            case ListFiles() | ReadFile() | SearchFiles():
                return Reply("accepted", ())  # read once the lock is free: a search takes seconds
            case ApplyPatch() | EditFile() | WriteFile() | RevertPatch():
                assert plan is not None
                return self._write(tx, request, plan)
            case RunTest():
                return self._run(tx)
            case Report():
                return self._report(tx, request)
            case _:
                raise AssertionError(f"no effect for {type(request).__name__}")

    # --- effects --------------------------------------------------------------------------------

    def _status(self, tx: Transaction) -> Reply:
        found = status(self.spike, tx.reading)
        return Reply("accepted", found.agent_lines(), found.to_dict())

    def _read(self, request: ListFiles | ReadFile | SearchFiles, reply: Reply) -> Reply:
        """The effect of an accepted read, without the lock: it changes nothing."""
        try:
            text, data = reads.answer(self.spike, request)
        except Problem as problem:
            return self.refuse(request.tool, problem)
        return replace(reply, lines=(text, *reply.lines), data={**reply.data, **data})

    def _write(
        self,
        tx: Transaction,
        request: ApplyPatch | EditFile | WriteFile | RevertPatch,
        plan: writes.Plan,
    ) -> Reply:
        try:
            outcome = writes.perform(tx, request, plan, Actor.AGENT)
        except Problem as problem:
            # Something was put in the way just now: a refusal like those found before.
            if problem.code in (Refusal.STORAGE_FULL, Refusal.LEDGER_DAMAGED):
                raise
            refused = Refused(Refusal(problem.code), problem.message, problem.hint)
            return self._refused(tx, request.tool, refused, problem)
        write_projection(self.spike)
        ids = short_ids([h.id for h in outcome.hunks], tx.state.hunk_ids)
        pending = [h for h in outcome.hunks if mapping.is_pending(tx.state, h)]
        paths = ", ".join(f.path for f in plan.files)
        first = (
            f"applied {outcome.patch} to {paths}: {_counted(len(pending), 'hunk')} pending review"
        )
        lines = [first, *plan.notes]
        if pending:
            lines.append(f"hunks: {writes.named((h.id for h in pending), ids)}")
        if outcome.lapsed:
            changed = _counted(len(outcome.lapsed), "approved region")
            lines.append(f"{changed} changed: pending again")
        gone = len(mapping.withdrawn_groups(tx.state))
        taken = f"; {_counted(gone, 'approved hunk')} taken out: the human decides" if gone else ""
        lines.append(f"waiting for the human: {_counted(outcome.pending, 'hunk')} in all{taken}")
        data = {
            "patch": outcome.patch,
            "hunks": [ids[h.id] for h in outcome.hunks],
            "pending": outcome.pending,
            "notes": list(plan.notes),
            "sha256": {f.path: writes.sha(f.after) for f in plan.files},
        }
        return Reply("accepted", tuple(lines), data)

    def _run(self, tx: Transaction) -> Reply:
        tree = self.spike.tree_digest()
        running = tx.state.open_run
        if running is not None:
            return Reply("accepted", (), {}, joined=running.id)
        known = runs.stored(self.spike, tree)
        if known is not None:
            return run_reply(self.spike, known, stored=True)
        places = runs.places_of(self.spike)
        spec = runs.spec_of(self.spike, self.spike.work, places, pins=tx.state.pins)
        ticket = runs.claim(tx, "agent", spec, tree)
        return Reply("accepted", (), {}, ticket=ticket)

    def _report(self, tx: Transaction, request: Report) -> Reply:
        if request.report == "unknown":
            number = len(tx.state.unknowns) + 1
            tx.append(Actor.AGENT, ev.Reported("unknown", request.text, number))
            line = f"noted as unknown {number}; it counts once the human confirms it"
            return Reply("accepted", (line,), {"unknown": number})
        rows: list[ev.Event] = [ev.Reported("done", request.text)]
        visit = tx.state.visit
        if visit is not None and visit.checkpoint is Checkpoint.ATTEMPT:
            rows.append(tx.stop(met=tx.tree_is_green(), why="done"))
        tx.append(Actor.AGENT, *rows)
        waiting = mapping.pending_count(tx.state)
        line = (
            f"noted: the attempt is finished; the human has {_counted(waiting, 'hunk')} to review"
        )
        return Reply("accepted", (line,), {"pending": waiting})

    # --- refusals -------------------------------------------------------------------------------

    def _refused(
        self, tx: Transaction, name: str, answer: Refused, problem: Problem | None
    ) -> Reply:
        code = answer.code
        if code is Refusal.REVIEW_BACKLOG:
            tx.begin_backlog()
        if code is not Refusal.LEDGER_DAMAGED and tx.state.created is not None:
            self._record(tx, name, answer, problem)
        return refusal_reply(answer.code, answer.message, answer.hint)

    def _record(self, tx: Transaction, name: str, answer: Refused, problem: Problem | None) -> None:
        tool, code = name[:80], answer.code.value
        about = problem.keys if isinstance(problem, writes.Resubmitted) else ()
        found = self._repeats
        spent = rows_spent(tx.state, self.spike.contract.budgets)
        if spent or (not about and (found.tool, found.code) == (tool, code)):
            # Whatever is called in turn after the last row: a call is no row of its own any more.
            key = (EVERY_TOOL if spent else tool, code)
            found.counts[key] = found.counts.get(key, 0) + 1
            self._flush(tx, due_only=True)
            return
        self._flush(tx)
        message = answer.message[:_MAX_MESSAGE]
        tx.append(Actor.AGENT, ev.CallRefused(tool, code, message, about=about))
        self._repeats = _Repeats(tool, code, time.monotonic())

    def _flush(self, tx: Transaction, *, due_only: bool = False) -> None:
        found = self._repeats
        if not found.counts or (due_only and time.monotonic() - found.since < FLUSH_SECONDS):
            return
        rows = [ev.RefusalsRepeated(*key, count) for key, count in found.counts.items()]
        if tx.state.refusals < self.spike.contract.budgets.max_refusals + LATE_ROWS:
            tx.append(Actor.AGENT, *rows)
        self._repeats = _Repeats(found.tool, found.code, time.monotonic())

    @property
    def repeats_waiting(self) -> bool:
        """Whether counted refusals wait to become a row."""
        return bool(self._repeats.counts)

    def flush(self) -> None:
        """Write the row of counted refusals (after 10 s, at shutdown). Raises no `Problem`."""
        if not self._repeats.counts:
            return
        try:
            with transaction(self.spike, human=False, timeout=1.0) as tx:
                if not self.spike.damage:
                    self._flush(tx)
        except Problem:
            return

    def _without_row(self, problem: Problem) -> Reply:
        """A refusal that can't or need not be ledgered: busy, a full disk, damage (spec 10)."""
        code = problem.code if isinstance(problem.code, Refusal) else Refusal.INTERNAL_ERROR
        return refusal_reply(code, problem.message, problem.hint)

    # --- what every reply carries -----------------------------------------------------------------

    def _unheard(self, state: State) -> list[Feedback]:
        return [item for item in state.feedback if item.seq > state.delivered]

    def _with_news(self, tx: Transaction, reply: Reply) -> Reply:
        state, budgets = tx.state, self.spike.contract.budgets
        elapsed = tx.elapsed
        reply = replace(
            reply,
            remaining=timing.remaining_seconds(state, budgets, elapsed),
            writes_close=timing.writes_close_in_seconds(state, budgets, elapsed),
        )
        news = self._unheard(state)
        if not news or self.spike.damage or state.verdict is not None:
            return reply
        with suppress(Problem):  # what was done stands; the news is told once more then
            tx.append(Actor.HOST, ev.FeedbackDelivered(news[-1].seq))
        said = tuple(f"the human {item.text}" for item in news[-20:])
        return replace(reply, lines=(*reply.lines, *said), data={**reply.data, "feedback": said})


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def refusal_reply(code: Refusal, message: str, hint: str) -> Reply:
    """The text and machine copy of a refusal (spec 6)."""
    lines = [f"refused: {code.value}", message]
    if hint:
        lines.append(f"hint: {hint}")
    return Reply("refused", tuple(lines), {"message": message, "hint": hint}, code=code.value)


def run_reply(spike: Spike, run: RunState, *, stored: bool = False) -> Reply:
    """What a finished run tells the agent: verdict first, then the end of its output."""
    row = run.finished
    assert row is not None
    head, tail, dropped = runs.output_of(spike, row)
    word = "green" if row.green else f"not green ({row.outcome.replace('_', ' ')})"
    again = " (stored result: the tree is unchanged)" if stored else ""
    lines = [f"{run.id} {word}, exit code {row.exit_code}, {row.seconds:.1f} s{again}"]
    if row.note:
        lines.append(row.note)
    failed = [f"{name}: {outcome}" for name, outcome in row.tests if outcome != "passed"]
    lines += failed[:20]
    lines.append(reads.clip_output(head, tail, dropped))
    data = {
        "run": run.id,
        "green": row.green,
        "run_outcome": row.outcome,
        "exit_code": row.exit_code,
        "seconds": row.seconds,
        "dropped": row.dropped,
        "evidence": row.evidence,
        "tests": dict(row.tests),
        "stored": stored,
    }
    return Reply("accepted", tuple(lines), data)
