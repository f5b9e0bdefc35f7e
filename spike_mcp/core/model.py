"""What the ledger amounts to: the types of the folded state (the fold itself: `state.py`).

Minutes are floats; `elapsed` is in seconds since the `started` row; "" stands for "absent".
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spike_mcp.core import events as ev
from spike_mcp.core.clock import ClockState, Reading
from spike_mcp.core.codes import Actor, Checkpoint

NO_RESULT = frozenset({"cancelled", "sandbox_error"})
"""Outcomes of runs that say nothing about the tree."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A ledger row as the fold sees it."""

    seq: int
    reading: Reading
    actor: Actor
    event: ev.Event


@dataclass(frozen=True, slots=True)
class Visit:
    """The open visit of a checkpoint; `opened` and `stood` (backlog) in seconds of elapsed time."""

    checkpoint: Checkpoint
    opened: float
    stood: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """Minutes used over all closed visits, and what became of it."""

    used: float = 0.0
    over: bool = False
    over_told: bool = False
    """Whether a stop row has said so: only one does."""
    met: bool | None = None
    lowered: bool = False
    visits: int = 0
    extended: bool = False
    closed_by: str = ""
    """Why the last visit ended: done, human, allowance, verify, ..."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file that differs from the baseline, or did: "" = absent."""

    sha256: str
    mode: int


@dataclass(frozen=True, slots=True)
class Approval:
    """One region that a human approved; the region's bytes lie in blobs."""

    decision: str
    hunk: str
    tag: str
    region: ev.RegionRow
    elapsed: float
    epoch: float
    view_sha256: str

    @property
    def key(self) -> str:
        """The region's key."""
        return self.region[0]

    @property
    def path(self) -> str:
        """The region's file."""
        return self.region[1]


@dataclass(frozen=True, slots=True)
class Lapse:
    """An approval that lapsed, and why; offered again with its old tag."""

    approval: Approval
    why: str
    seq: int

    @property
    def key(self) -> str:
        """The region's key."""
        return self.approval.key


@dataclass(frozen=True, slots=True)
class Patch:
    """An accepted write."""

    id: str
    actor: Actor
    tool: str
    rationale: str
    files: tuple[ev.FileRow, ...]
    elapsed: float
    epoch: float
    notes: tuple[str, ...] = ()
    resubmits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """A human decision that `spike undo` can take back, with what it changed."""

    id: str
    event: ev.Event
    seq: int
    before: Mapping[str, Approval] = field(default_factory=dict)
    """Approvals that this decision took away or replaced."""
    withdrawn: Mapping[str, Approval] = field(default_factory=dict)
    lapsed: Mapping[str, Lapse] = field(default_factory=dict)
    """Lapses that it settled (approved anew) or made forgotten (a reject to the baseline)."""
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A measurement, running while `finished` is None."""

    id: str
    purpose: str
    tree: str
    owner: tuple[str, int, int]
    began: float
    ended: float = 0.0
    """Elapsed seconds at its end."""
    finished: ev.RunFinished | None = None
    lost: bool = False
    cancel_asked: bool = False

    @property
    def measured(self) -> bool:
        """Whether it says anything about its tree: setup and a cancelled run do not."""
        done = self.finished
        return done is not None and self.purpose != "setup" and done.outcome not in NO_RESULT


@dataclass(frozen=True, slots=True)
class Unknown:
    """A new unknown, noted by the agent or the human; counts once confirmed."""

    number: int
    text: str
    actor: Actor
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Feedback:
    """Something the human said that the agent must hear once."""

    seq: int
    text: str


@dataclass(frozen=True)  # without slots: `changed`
class State:
    """Everything that can be known from the ledger alone."""

    seq: int = 0
    created: ev.Created | None = None
    clock: ClockState | None = None
    start_failure: str = ""
    checkpoints: Mapping[Checkpoint, CheckpointState] = field(
        default_factory=lambda: {name: CheckpointState() for name in Checkpoint}
    )
    visit: Visit | None = None
    manual: bool = False
    backlog_since: float | None = None
    relieved_itself: bool = False
    """Whether the agent has ended a backlog by its own doing: the clock stood for that once."""
    sealed: Mapping[str, ev.Sealed] = field(default_factory=dict)
    files: Mapping[str, FileState] = field(default_factory=dict)
    spans: Mapping[str, ev.FileSpans] = field(default_factory=dict)
    stamps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    withdrawn: Mapping[str, Approval] = field(default_factory=dict)
    lapsed: Mapping[str, Lapse] = field(default_factory=dict)
    patches: Mapping[str, Patch] = field(default_factory=dict)
    intent: tuple[int, ev.PatchStarted | ev.RejectStarted] | None = None
    issued_patches: int = 0
    issued_decisions: int = 0
    hunk_ids: frozenset[str] = frozenset()
    """Every hunk id that the map ever had: a short name never comes to mean a second hunk."""
    decisions: tuple[Decided, ...] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)
    resubmission_refused: frozenset[str] = frozenset()
    comments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    agent_runs: int = 0
    green: frozenset[str] = frozenset()
    """Digests of trees whose last measurement was green."""
    green_minutes: float | None = None
    refusals: int = 0
    remarks: int = 0
    """Rows of the agent's that change nothing: its sessions and reports."""
    stored: int = 0
    feedback: tuple[Feedback, ...] = ()
    delivered: int = 0
    unknowns: tuple[Unknown, ...] = ()
    done: bool = False
    tiers: frozenset[str] = frozenset()
    hidden_started: bool = False
    asked: ev.VerdictAsked | None = None
    """The verdict command that is at work, as far as the rows know."""
    verdict: ev.VerdictWritten | None = None
    shipped: ev.Shipped | None = None
    killed: ev.Killed | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since start at the last row; 0.0 before the start."""
        return self.clock.elapsed if self.clock else 0.0

    @property
    def started(self) -> bool:
        """Whether the clock runs."""
        return self.clock is not None

    @property
    def open_runs(self) -> tuple[Run, ...]:
        """Runs that have started and not ended, oldest first."""
        return tuple(r for r in self.runs.values() if r.finished is None and not r.lost)

    @property
    def open_run(self) -> Run | None:
        """The newest run that has started and not ended, if any."""
        return next(reversed(self.open_runs), None)

    def was_green(self, tree: str, by: float) -> bool:
        """Whether a measurement of `tree` that ended by `by` (elapsed seconds) was green."""
        return any(
            run.tree == tree and run.measured and run.finished.green and run.ended <= by
            for run in self.runs.values()
            if run.finished is not None
        )

    @property
    def last_run(self) -> Run | None:
        """The newest finished run."""
        return next((r for r in reversed(tuple(self.runs.values())) if r.finished), None)

    @property
    def pins(self) -> tuple[str, ...]:
        """Test ids that were red at the baseline; they decide."""
        row = self.sealed.get("reproduce")
        return row.tests if row else ()


if TYPE_CHECKING:
    changed = dataclasses.replace
else:

    def changed(state, /, **fields):
        """`dataclasses.replace` for a `State`, in a fifteenth of the time.

        A fold does this two or three times a row, and a state has forty fields.
        """
        after = object.__new__(State)
        after.__dict__.update(state.__dict__)
        after.__dict__.update(fields)
        return after
