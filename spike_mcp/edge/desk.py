"""The reviewer's desk: what a review screen may look at and do, whatever draws it.

`Desk` is what the screen and the line-by-line review know; `SpikeDesk` does it on a real spike
through the session, which decides everything. A decision sends the digest of the view that was
shown, so content that changed between the look and the key is refused (spec 9).

Not for use by two threads at a time. Methods raise `Problem` for "no".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from spike_mcp.core import events as ev
from spike_mcp.core import layout
from spike_mcp.core.codes import Problem
from spike_mcp.core.hunks import split_lines
from spike_mcp.core.model import State
from spike_mcp.edge.present import counted, in_one_line
from spike_mcp.host import signing
from spike_mcp.host.signing import Signer
from spike_mcp.session import decisions, judging, observe, rejecting, runs
from spike_mcp.session.spike import Spike
from spike_mcp.session.status import Status, status
from spike_mcp.session.view import HunkMap, MapHunk, Withdrawn, hunk_map

SignerFactory = Callable[[], Signer | None]
"""Asks for the passphrase and unlocks the approval key; called once per review session."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A spike at one moment. `map` is the same object as before while nothing in it changed.

    `outside`: paths changed outside the tools, as far as the last look at the tree knows.
    `problem`: why the map could not be made anew, "" when it could.
    """

    map: HunkMap
    status: Status
    rejected: int
    outside: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What never changes during a review."""

    hypothesis: str
    subject: str
    tokens: tuple[str, ...]
    max_lines: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Done:
    """What a decision did, in a sentence (raw text: names come from the agent), and warnings."""

    text: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What a reject would do: approvals it cuts anew, those that come back, whether a lapsed
    approval offers older bytes than the baseline's."""

    target: str
    recut: tuple[str, ...]
    revived: int
    has_older: bool


@dataclass(frozen=True, slots=True)
class TestRun:
    """A rehearsal of the measurement. `output` is the run's own, raw."""

    run: str
    green: bool
    outcome: str
    seconds: float
    output: str
    note: str = ""


class Desk(Protocol):
    """What reviewing needs."""

    sealed: Sealed

    def look(self) -> Snapshot:
        """The spike now; cheap when nothing happened."""

    def look_outside(self) -> Snapshot:
        """The spike now, the whole worktree looked at."""

    def file_lines(self, path: str) -> tuple[list[bytes], list[bytes]]:
        """Lines of the baseline's and of the worktree's file, endings kept."""

    def approve(self, each: MapHunk, tag: str, acks: Sequence[str], seconds: float) -> Done:
        """Approve what `each` shows, and nothing else."""

    def accept_withdrawal(self, entry: Withdrawn) -> Done:
        """Accept that approved bytes left the diff."""

    def preview_reject(self, names: Sequence[str], *, to_baseline: bool) -> Preview:
        """What rejecting these ids would do."""

    def reject(self, names: Sequence[str], reason: str, *, to_baseline: bool) -> Done:
        """Take hunks out of the worktree, or put a withdrawn one back."""

    def comment(self, each: MapHunk, text: str) -> Done:
        """Tell the agent something about a hunk."""

    def undo(self) -> Done:
        """Take back the last decision."""

    def restore(self, paths: Sequence[str]) -> Done:
        """Put the recorded bytes back over changes from outside."""

    def run_test(self, *, tree: bool, on_progress: Progress) -> TestRun:
        """Rehearse the measurement; blocks, may be called from another thread."""


class SpikeDesk:
    """The desk over a real spike."""

    def __init__(self, spike: Spike, signer: Signer | None = None) -> None:
        contract = spike.contract
        self.sealed = Sealed(
            hypothesis=contract.hypothesis.text,
            subject=contract.hypothesis.subject,
            tokens=contract.hypothesis.tokens,
            max_lines=contract.budgets.max_lines,
            signed=bool(spike.created.approval_key),
        )
        self._spike = spike
        self._signer = signer
        self._map = HunkMap((), ())
        self._made_from: tuple[object, ...] = ()
        self._outside: tuple[str, ...] = ()
        self._problem = ""
        self._end_tried = False

    # --- looking --------------------------------------------------------------------------------

    def look(self) -> Snapshot:
        """Fold new rows; make the map again only if one of them touched it."""
        spike = self._spike
        state = spike.refresh()
        made_from = _map_inputs(state)
        if not self._made_from or any(
            new is not old for new, old in zip(made_from, self._made_from, strict=True)
        ):
            self._make_map(made_from)
        now = status(spike, spike.clock.read(), len(self._outside))
        if now.phase == "over" and not self._end_tried:
            self._end_tried = True
            judging.at_deadline(spike)
            return self.look()
        return Snapshot(self._map, now, _rejected(state), self._outside, self._problem)

    def _make_map(self, made_from: tuple[object, ...]) -> None:
        try:
            self._map = hunk_map(self._spike)
            self._problem = self._spike.damage
        except Problem as problem:
            self._problem = in_one_line(problem)
        self._made_from = made_from

    def look_outside(self) -> Snapshot:
        """Sweep without the lock; what is found is looked at again so that no write is taken for
        a change from outside. Nothing is ledgered: looking is no request."""
        spike = self._spike
        spike.refresh()
        if not spike.work.exists() or spike.damage:
            return self.look()
        sweeper = observe.watch(spike).sweeper
        found = sweeper.sweep(observe.expected_changes(spike)).findings
        if found:
            spike.refresh()
            again = [finding.path for finding in found]
            found = tuple(sweeper.check_paths(again, observe.expected_changes(spike)))
        self._outside = tuple(finding.path for finding in found)
        return self.look()

    def file_lines(self, path: str) -> tuple[list[bytes], list[bytes]]:
        """Lines of the baseline's and of the worktree's file."""
        base, work = self._spike.base_bytes(path), self._spike.work_bytes(path)
        return split_lines(base or b""), split_lines(work or b"")

    # --- deciding -------------------------------------------------------------------------------

    def approve(self, each: MapHunk, tag: str, acks: Sequence[str], seconds: float) -> Done:
        """Approve by full id, pinned to the digest of the view."""
        with _called(each.id, each.short):
            done = decisions.approve(
                self._spike,
                [each.id],
                tag,
                sha=each.view,
                acks=acks,
                seconds=seconds,
                signer=self._signer,
            )
        return Done(f"approved {each.short}", done.warnings)

    def accept_withdrawal(self, entry: Withdrawn) -> Done:
        """Accept a withdrawal by full id."""
        short = decisions.accept_withdrawal(self._spike, entry.id, signer=self._signer)
        return Done(f"accepted that {short} left the diff")

    def preview_reject(self, names: Sequence[str], *, to_baseline: bool) -> Preview:
        """Work the reject out without doing it."""
        plan = rejecting.plan_reject(self._spike, names, to_baseline=to_baseline)
        older = rejecting.plan_reject(self._spike, names) if to_baseline else plan
        return Preview(plan.target, plan.recut, len(plan.revived), bool(older.revived))

    def reject(self, names: Sequence[str], reason: str, *, to_baseline: bool) -> Done:
        """Reject by full id."""
        done = rejecting.reject(
            self._spike, names, reason, to_baseline=to_baseline, signer=self._signer
        )
        recut = counted(len(done.lapsed), "approved region")
        cut = f"; {recut} cut anew" if done.lapsed else ""
        back = "put back in" if not done.paths or self._is_withdrawal(names) else "reverted in"
        return Done(
            f"rejected {done.target}: {back} work/, the agent will be told{cut}. u restores it"
        )

    def _is_withdrawal(self, names: Sequence[str]) -> bool:
        return any(entry.id in names for entry in self._map.withdrawn)

    def comment(self, each: MapHunk, text: str) -> Done:
        """Comment by full id."""
        with _called(each.id, each.short):
            short = decisions.comment(self._spike, each.id, text)
        return Done(f"noted on {short}; the agent hears it at its next call")

    def undo(self) -> Done:
        """Undo whatever was decided last, by whomever."""
        done = rejecting.undo(self._spike, signer=self._signer)
        return Done(f"took back {done.target}{_what(self._spike.state, done.target)}")

    def restore(self, paths: Sequence[str]) -> Done:
        """Restore by name."""
        row = decisions.restore(self._spike, paths)
        gone = set(row.paths)
        self._outside = tuple(path for path in self._outside if path not in gone)
        return Done(f"restored {counted(len(row.paths), 'file')}; what stood there is kept")

    def run_test(self, *, tree: bool, on_progress: Progress) -> TestRun:
        """Rehearse with a second view of the spike, so that this one stays free for decisions."""
        spike = Spike(self._spike.root, self._spike.clock)
        row = judging.rehearse(spike, tree=tree, on_progress=on_progress)
        head, tail, dropped = runs.output_of(spike, row)
        middle = f"\n[{dropped} bytes left out]\n" if dropped else ""
        return TestRun(
            row.run, row.green, row.outcome, row.seconds, f"{head}{middle}{tail}", row.note
        )


@contextmanager
def _called(full: str, short: str) -> Iterator[None]:
    """A refusal names the hunk as the screen does."""
    try:
        yield
    except Problem as problem:
        message = problem.message.replace(full, short)
        raise Problem(problem.code, message, problem.hint) from problem


def _map_inputs(state: State) -> tuple[object, ...]:
    """The parts of the fold that the map is made from; each stays the same object unless a row
    changed it."""
    return (
        state.spans,
        state.files,
        state.stamps,
        state.approvals,
        state.withdrawn,
        state.lapsed,
        state.comments,
        state.rejected,
    )


def _rejected(state: State) -> int:
    return sum(isinstance(d.event, ev.HunkRejected) and not d.undone for d in state.decisions)


def _what(state: State, decision: str) -> str:
    """` (approval "tag")`: what kind of decision was taken back."""
    for decided in state.decisions:
        if decided.id == decision:
            match decided.event:
                case ev.HunkApproved() as row:
                    return f' (approval, "{row.tag}")'
                case ev.HunkRejected() as row:
                    return f" (reject of {row.target})"
                case _:
                    return ""
    return ""


@dataclass(slots=True)
class Unlock:
    """Asks for the signer once, at the first decision that needs it."""

    spike: Spike
    factory: SignerFactory | None
    _signer: Signer | None = field(default=None)

    def __call__(self) -> Signer | None:
        """The signer of a signed spike, None where decisions are not signed."""
        if self._signer is None and self.spike.created.approval_key and self.factory is not None:
            self._signer = self.factory()
        return self._signer


def unlock_with(spike: Spike, passphrase: str) -> Signer:
    """The signer of this spike's approval key. `Problem(NOT_AUTHORISED)` for a wrong passphrase."""
    blob = (spike.judge / layout.SECRET_KEY).read_bytes()
    return signing.unlock(blob, passphrase)
