"""One transaction: lock, read, fold, recover, settle; then decide, intent, effect, outcome.

Nothing in here awaits, so nothing between an intent row and its outcome can be cancelled; a crash
there leaves an intent without outcome, which the next transaction rolls back. Recovery table:

| found at the next lock                         | done                                            |
|------------------------------------------------|-------------------------------------------------|
| torn last line                                 | moved aside, `tail_discarded` (host.ledger)     |
| patch_started / reject_started without outcome | old bytes put back, `write_rolled_back`         |
| run_started whose owner is dead                | `run_lost`                                      |
| run whose end this process could not write     | `run_finished`                                  |
| verify opened by a verdict command now dead    | stopped, not met                                |
| result.json without a verdict row              | `ledger_damaged`: rows were cut off             |
| verdict row without result.json                | the file is made again from its blob (verdict)  |
| checkpoint rows that fell due meanwhile        | appended with the minutes of their moment       |
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from spike_mcp.core import events as ev
from spike_mcp.core import layout, timing
from spike_mcp.core.clock import ClockState, Reading
from spike_mcp.core.codes import Actor, Checkpoint, Problem, Refusal
from spike_mcp.core.decide import Accepted, Observation, Refused, decide
from spike_mcp.core.mapping import pending_count
from spike_mcp.core.model import State
from spike_mcp.core.paths import RepoPath
from spike_mcp.core.requests import Malformed, Request
from spike_mcp.host import process
from spike_mcp.host.signing import Signer, decision_payload
from spike_mcp.host.transaction import ANY, Write
from spike_mcp.session.spike import Spike, decided_keys, tag_of

LOCK_SECONDS = 5.0
"""Longest wait for the lock before `busy` (spec 6: lock waits are bounded)."""
HUMAN_SECONDS = 10.0
"""The same for a human's command: an agent's longest write takes seconds on a slow machine, and
whoever sends one after the other may not keep the human out."""

_owed: dict[tuple[str, str], Callable[[], ev.Event]] = {}
"""Ends of this process's runs that could not be written, by (root, run): the disk was full."""


def owe(spike: Spike, run: str, row: Callable[[], ev.Event]) -> None:
    """Leave the end of a run to a later transaction: a run must not seem to go on for ever."""
    _owed[str(spike.root), run] = row


def pay(spike: Spike, run: str) -> None:
    """The end of this run stands in the ledger."""
    _owed.pop((str(spike.root), run), None)


class Transaction:
    """The holder of the lock. All rows of one transaction carry the same reading of the clock."""

    def __init__(self, spike: Spike, reading: Reading) -> None:
        self.spike = spike
        self.reading = reading
        self._advanced: tuple[ClockState, ClockState] | None = None

    @property
    def state(self) -> State:
        """The fold, rows of this transaction included."""
        return self.spike.state

    @property
    def elapsed(self) -> float:
        """Seconds since the start, now; 0.0 before it."""
        now = self._now()
        return now.elapsed if now is not None else 0.0

    def _now(self) -> ClockState | None:
        """The spike's clock at this transaction's reading; asked for half a dozen times a call."""
        clock = self.state.clock
        if clock is None:
            return None
        if self._advanced is None or self._advanced[0] is not clock:
            self._advanced = (clock, clock.advance(self.reading))
        return self._advanced[1]

    def append(self, actor: Actor, *rows: ev.Event) -> None:
        """Write rows (durable on return) and fold them."""
        pairs = [(row.NAME, ev.encode(row)) for row in rows]
        for row in self.spike.ledger.append_many(pairs, actor, self.reading):
            self.spike.take(row)

    def check_signer(self, signer: Signer | None) -> None:
        """`Problem(NOT_AUTHORISED)` where decisions are signed and there is nothing to sign with.

        Before the first effect: a reject must not be begun only to be rolled back.
        """
        if self.spike.created.approval_key and signer is None:
            raise Problem(
                Refusal.NOT_AUTHORISED,
                "this spike's decisions are signed; the passphrase is needed",
                "give it at the prompt, or with --passphrase-fd",
            )

    def append_signed(self, row: ev.Event, signer: Signer | None) -> None:
        """Write one human decision; signed over its place in the chain where a key is sealed."""
        created = self.spike.created
        self.check_signer(signer)
        if signer is not None and created.approval_key:
            prev, rows = self.spike.ledger.head
            payload = decision_payload(
                created.spike_id, rows + 1, prev, row.NAME, decided_keys(row), tag_of(row)
            )
            fields = {**ev.encode(row), "signature": signer.sign(payload)}
            row = ev.decode(row.NAME, fields)
        self.append(Actor.HUMAN, row)

    def decide(self, request: Request | Malformed, seen: Observation) -> Accepted | Refused:
        """The gate's answer (core.decide)."""
        return decide(self.state, self.spike.contract.budgets, seen, request)

    # --- before anything else -------------------------------------------------------------------

    def recover(self) -> None:
        """Finish what a crash left half done; raises `Problem(STORAGE_FULL)` if it can't be yet."""
        intent = self.state.intent
        if intent is not None:
            seq, row = intent
            self.put_back(row.files)
            what = row.patch if isinstance(row, ev.PatchStarted) else row.decision
            self.append(Actor.HOST, ev.WriteRolledBack(seq, what))
        self._end_runs()
        self._end_asking()

    def _end_runs(self) -> None:
        for run in self.state.open_runs:
            owed = _owed.get((str(self.spike.root), run.id))
            if owed is not None:
                # A blob that does not fit yet must not keep everything else from being done.
                with suppress(Problem):
                    self.append(Actor.HOST, self.end_of(run.id, owed()))
                    pay(self.spike, run.id)
            elif not process.alive(run.owner):
                self.append(Actor.HOST, ev.RunLost(run.id))

    def end_of(self, run: str, row: ev.Event) -> ev.Event:
        """`row`, or `run_lost` after the verdict: nothing that counts may follow it (spec 10)."""
        return row if self.state.verdict is None else ev.RunLost(run)

    def _end_asking(self) -> None:
        """Stop the verify of a verdict command that died: the agent's writes would wait for it."""
        state, asked = self.state, self.state.asked
        if asked is None or not asked.owner or process.alive(asked.owner):
            return
        if state.visit is not None and state.visit.checkpoint is Checkpoint.VERIFY:
            self.append(Actor.HOST, self.stop(met=False, why="verdict_lost"))

    def stop(self, *, met: bool, why: str, lowered: bool = False) -> ev.CheckpointStopped:
        """The row that ends the open visit now, at the latest when the total is spent."""
        budgets, visit = self.spike.contract.budgets, self.state.visit
        latest = max(budgets.total * 60, visit.opened if visit else 0.0)
        elapsed = min(self.elapsed, latest)
        return timing.stop_row(self.state, budgets, elapsed, met=met, why=why, lowered=lowered)

    def put_back(self, files: Iterable[ev.FileRow]) -> None:
        """Give files that hold an intent's new bytes their old ones; others are left as they are.

        What is neither the old nor the new content was made by somebody else: the sweep names it.
        """
        rows = list(files)
        paths = [RepoPath.trusted(path) for path, *_rest in rows]
        self.spike.worktree.leftovers(paths)
        writes = []
        for path, (name, before, after, _mode) in zip(paths, rows, strict=True):
            found = self._sha_now(path)
            if found != after or found == before:
                continue
            data = self.spike.blobs.get(before) if before else None
            mode = self.spike.file_mode(name) & 0o7777 if data is not None else None
            writes.append(Write(path, data, before=ANY, mode=mode))
        for write in writes:
            try:
                with self.spike.worktree.prepare([write]) as prepared:
                    prepared.commit()
            except Problem as problem:
                # Something else stands there (a link, a directory): no reason never to go on.
                if problem.code is Refusal.STORAGE_FULL:
                    raise

    def _sha_now(self, path: RepoPath) -> str:
        try:
            data = self.spike.worktree.read(path, 1 << 40, linked=True)
        except Problem:
            return ""
        return hashlib.sha256(data).hexdigest()

    def settle(self) -> None:
        """Append the checkpoint rows that have fallen due, and the end of a review backlog."""
        state, budgets = self.state, self.spike.contract.budgets
        if not state.started or state.verdict or state.killed:
            return
        self._note_clock()
        for _round in range(8):
            row = next(
                timing.due(self.state, budgets, self.elapsed, green=self.tree_is_green()), None
            )
            if row is None:
                break
            self.append(Actor.HOST, row)
        self.end_backlog()

    def is_settled(self) -> bool:
        """Whether `recover` and `settle` would write nothing now."""
        state, now = self.state, self._now()
        if state.clock is None or now is None:
            return False
        if state.intent or state.open_runs or state.asked or state.backlog_since:
            return False
        if state.verdict or state.killed or now.disagreement is not state.clock.disagreement:
            return False
        budgets = self.spike.contract.budgets
        due = timing.due(state, budgets, now.elapsed, green=self.tree_is_green())
        return next(due, None) is None

    def _note_clock(self) -> None:
        clock = self.state.clock
        if clock is None:
            return
        now = clock.advance(self.reading)
        found = now.disagreement
        if found is not None and found != clock.disagreement:
            row = ev.ClockDisagreed(found.boot_seconds, found.wall_seconds, found.text)
            self.append(Actor.HOST, row)
        elif now.reboots != clock.reboots:
            # A row of this boot: from here on setting the wall clock back gains nothing.
            up, passed = self.reading.boot_ms / 1000, now.elapsed - clock.elapsed
            self.append(Actor.HOST, ev.ClockDisagreed(up, round(passed, 3), "after a reboot"))

    def tree_is_green(self) -> bool:
        """Whether the tree as it is has a green measurement."""
        return bool(self.state.green) and self.spike.tree_digest() in self.state.green

    def begin_backlog(self) -> None:
        """`backlog_began` at a write that was refused for it, if so many hunks wait already."""
        pending = pending_count(self.state)
        full = pending >= self.spike.contract.budgets.max_pending
        if self.state.backlog_since is None and full:
            self.append(Actor.HOST, ev.BacklogBegan(pending))

    def end_backlog(self) -> None:
        """`backlog_ended` once fewer hunks than the limit are pending."""
        if self.state.backlog_since is None:
            return
        pending = pending_count(self.state)
        if pending < self.spike.contract.budgets.max_pending:
            self.append(Actor.HOST, ev.BacklogEnded(pending))

    def start_attempt(self, *, human: bool) -> bool:
        """Open or resume the attempt if a write or run may do so (spec 5); whether it resumed."""
        budgets, visits = self.spike.contract.budgets, 0
        if self.elapsed >= budgets.write_cutoff * 60:
            return False
        if timing.may_open_attempt(self.state, budgets, self.elapsed, human=human):
            visits = self.state.checkpoints[Checkpoint.ATTEMPT].visits
            self.append(Actor.HOST, ev.CheckpointStarted("attempt"))
        return visits > 0


@contextmanager
def transaction(
    spike: Spike, *, human: bool, timeout: float | None = None
) -> Iterator[Transaction]:
    """Hold the spike's lock; on entry everything that is due or half done has been settled.

    Raises `Problem` with BUSY, STORAGE_FULL; a damaged ledger does not raise: it is in
    `spike.damage`, and nothing is appended before the caller has decided.
    """
    if timeout is None:
        timeout = HUMAN_SECONDS if human else LOCK_SECONDS
    with spike.lock.hold(human, timeout):
        spike.refresh(locked=True)
        _check_anchor(spike)
        tx = Transaction(spike, spike.clock.read())
        if not spike.damage:
            tx.recover()
            tx.settle()
        yield tx


def glimpse(spike: Spike) -> Transaction | None:
    """The spike as it is, without the lock, for an answer that writes nothing.

    None where a transaction would begin by writing a row, or where something is odd.
    """
    # Looked for before the rows are read: the verdict's row is written before the file is.
    ended = os.path.lexists(os.path.join(spike.verdict_dir, layout.RESULT))
    state = spike.refresh()
    if spike.damage or spike.ledger.torn or ended or not state.started:
        return None
    tx = Transaction(spike, spike.clock.read())
    return tx if tx.is_settled() else None


def _check_anchor(spike: Spike) -> None:
    """result.json is made after the verdict's row: alone, it shows that rows were cut off."""
    if spike.damage or spike.state.verdict is not None:
        return
    if os.path.lexists(os.path.join(spike.verdict_dir, layout.RESULT)):
        spike.damage = "result.json is there, but the ledger has no verdict"
