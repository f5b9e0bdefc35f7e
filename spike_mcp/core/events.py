"""The ledger's event union: one frozen dataclass per row kind, and its JSON codec.

Field names are wire names (spec 10). The schema is additive: a reader ignores keys it does not
know, a writer never renames one. Values are JSON's own types; lists are read back as tuples.
Files in rows are `(path, before_sha256, after_sha256, mode)`; "" stands for "absent".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

SCHEMA = 1

FileRow = tuple[str, str, str, int]
"""(path, sha256 before, sha256 after, mode after); "" = absent."""

SpanRow = tuple[str, int, int, int]
"""(region key, baseline start, baseline count, added lines), in baseline order."""

FileSpans = tuple[str, str, tuple[SpanRow, ...]]
"""(path, change kind, spans of the whole file); no spans = equal to the baseline again."""

RegionRow = tuple[str, str, str, int, int, str, str]
"""(key, path, kind, baseline start, baseline count, sha256 removed, sha256 added)."""

REGISTRY: dict[str, type["Event"]] = {}
"""Wire name -> class, of every row kind."""
NAMES: dict[type["Event"], tuple[str, ...]] = {}
"""Field names of every row kind."""
E = TypeVar("E", bound=type["Event"])


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all rows. `NAME` is the wire name in the row's `event` field."""

    NAME: ClassVar[str] = ""


def _row(cls: E) -> E:
    REGISTRY[cls.NAME] = cls
    NAMES[cls] = tuple(f.name for f in fields(cls))
    return cls


@dataclass(frozen=True, slots=True)
class Revision(Event):
    """What every revision of the map tells: the files now, and what became of approvals.

    `lapsed` = (key, why); `withdrawn` = approved keys that left the diff uncovered;
    `revived` = keys whose approval this row puts back (spec 9: that row is the approval);
    `forgotten` = lapsed keys that no later reject may put back.
    """

    files: tuple[FileRow, ...] = ()
    spans: tuple[FileSpans, ...] = ()
    lapsed: tuple[tuple[str, str], ...] = ()
    withdrawn: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()


# --- life of the spike -------------------------------------------------------------------------


@_row
@dataclass(frozen=True, slots=True)
class Created(Event):
    """`spike init` sealed the contract; digests are of bytes in blobs."""

    NAME: ClassVar[str] = "created"
    spike_id: str
    name: str
    baseline: str
    fingerprint: str
    contract: str
    seals: str
    pointer: str
    isolation: str
    approval_key: str = ""


@_row
@dataclass(frozen=True, slots=True)
class Started(Event):
    """`spike start`: the clock of the total runs from this row."""

    NAME: ClassVar[str] = "started"
    manual: bool = False


@_row
@dataclass(frozen=True, slots=True)
class StartFailed(Event):
    """A step of `spike start` did not give what it must; start may be repeated."""

    NAME: ClassVar[str] = "start_failed"
    code: str
    detail: str = ""


@_row
@dataclass(frozen=True, slots=True)
class CheckpointStarted(Event):
    """A visit of a checkpoint began (published shape).

    `since` = elapsed seconds at which it fell due, where the row was written later; -1 = now.
    """

    NAME: ClassVar[str] = "start"
    checkpoint: str
    since: float = -1.0


@_row
@dataclass(frozen=True, slots=True)
class CheckpointStopped(Event):
    """A visit ended (published shape): its own minutes; `allowed` was left when it began."""

    NAME: ClassVar[str] = "stop"
    checkpoint: str
    minutes: float
    allowed: float
    over: bool
    met: bool
    why: str = ""
    lowered: bool = False


@_row
@dataclass(frozen=True, slots=True)
class AllowanceSpent(Event):
    """An open checkpoint ran past its allowance without its evidence: it is over (spec 5)."""

    NAME: ClassVar[str] = "allowance_spent"
    checkpoint: str


@_row
@dataclass(frozen=True, slots=True)
class CheckpointExtended(Event):
    """The human lets an over checkpoint run on to the cut-off; over stays true."""

    NAME: ClassVar[str] = "extended"
    checkpoint: str


@_row
@dataclass(frozen=True, slots=True)
class Sealed(Event):
    """What is sealed when setup and reproduce stop (spec 2, 4).

    `what` = setup: `places` (blob: where the measurement's program and packages lie) and `digest`
    (of the tree seal over them and the environment). `what` = reproduce: `oracle` and `support`
    files that the red runs loaded, as (path, sha256); `tests` = ids that must pass, `red` = those
    that failed; `weak` = why this red proves less than it should, "" if it does not.
    """

    NAME: ClassVar[str] = "sealed"
    what: str
    oracle: tuple[tuple[str, str], ...] = ()
    support: tuple[tuple[str, str], ...] = ()
    tests: tuple[str, ...] = ()
    red: tuple[str, ...] = ()
    digest: str = ""
    places: str = ""
    weak: str = ""


@_row
@dataclass(frozen=True, slots=True)
class BacklogBegan(Event):
    """A write was refused because too many hunks wait; the attempt's clock stands (spec 5)."""

    NAME: ClassVar[str] = "backlog_began"
    pending: int


@_row
@dataclass(frozen=True, slots=True)
class BacklogEnded(Event):
    """Fewer hunks than the limit are pending again, or the agent went on without waiting for that.

    `counted`: the time since it began is the attempt's after all: the agent did not wait.
    """

    NAME: ClassVar[str] = "backlog_ended"
    pending: int
    counted: bool = False


@_row
@dataclass(frozen=True, slots=True)
class ClockDisagreed(Event):
    """Wall time and boot time differ by more than 2 s; the larger elapsed value counts."""

    NAME: ClassVar[str] = "clock_disagreed"
    boot_seconds: float
    wall_seconds: float
    detail: str = ""


@_row
@dataclass(frozen=True, slots=True)
class TailDiscarded(Event):
    """A torn last line was moved aside."""

    NAME: ClassVar[str] = "tail_discarded"
    length: int
    sha256: str


# --- runs --------------------------------------------------------------------------------------


@_row
@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A measurement was claimed. `owner` = (boot id, pid, pid start time)."""

    NAME: ClassVar[str] = "run_started"
    run: str
    purpose: str
    tree: str
    owner: tuple[str, int, int]


@_row
@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """What the run gave. `green` = passed with evidence for the pinned tests."""

    NAME: ClassVar[str] = "run_finished"
    run: str
    outcome: str
    green: bool
    seconds: float
    exit_code: int | None = None
    output: str = ""
    dropped: int = 0
    evidence: str = ""
    tests: tuple[tuple[str, str], ...] = ()
    note: str = ""


@_row
@dataclass(frozen=True, slots=True)
class RunCancelAsked(Event):
    """A human's command needs the tree: whoever owns the run ends it."""

    NAME: ClassVar[str] = "run_cancel_asked"
    run: str


@_row
@dataclass(frozen=True, slots=True)
class RunLost(Event):
    """A run ended without a result. `why`: "" = its owner was found dead; `not_made` = the sandbox
    could not be had; `human` = a human's command took the tree from under it.
    """

    NAME: ClassVar[str] = "run_lost"
    run: str
    why: str = ""


# --- writes ------------------------------------------------------------------------------------


@_row
@dataclass(frozen=True, slots=True)
class PatchStarted(Event):
    """Intent: blobs are saved, nothing in work/ has changed yet."""

    NAME: ClassVar[str] = "patch_started"
    patch: str
    tool: str
    rationale: str
    files: tuple[FileRow, ...]
    reverts: str = ""
    stored: int = 0


@_row
@dataclass(frozen=True, slots=True)
class PatchApplied(Revision):
    """Outcome: the tree holds the patch."""

    NAME: ClassVar[str] = "patch_applied"
    patch: str = ""
    tool: str = ""
    rationale: str = ""
    notes: tuple[str, ...] = ()
    resubmits: tuple[str, ...] = ()
    reverts: str = ""


@_row
@dataclass(frozen=True, slots=True)
class WriteRolledBack(Event):
    """Recovery put the old bytes back after a crash between intent and outcome."""

    NAME: ClassVar[str] = "write_rolled_back"
    intent: int
    what: str


# --- human decisions ---------------------------------------------------------------------------


@_row
@dataclass(frozen=True, slots=True)
class HunkApproved(Event):
    """The human saw exactly these regions and tied them to the hypothesis."""

    NAME: ClassVar[str] = "hunk_approved"
    decision: str
    hunk: str
    regions: tuple[RegionRow, ...]
    tag: str
    flags: tuple[str, ...] = ()
    acknowledged: tuple[str, ...] = ()
    view_sha256: str = ""
    like_rationale: bool = False
    seconds: float = 0.0
    signature: str = ""


@_row
@dataclass(frozen=True, slots=True)
class WithdrawalAccepted(Event):
    """The human accepts that an approved region is no longer in the diff."""

    NAME: ClassVar[str] = "withdrawal_accepted"
    decision: str
    hunk: str
    keys: tuple[str, ...]
    signature: str = ""


@_row
@dataclass(frozen=True, slots=True)
class RejectStarted(Event):
    """Intent of a reject or an undo."""

    NAME: ClassVar[str] = "reject_started"
    decision: str
    files: tuple[FileRow, ...]


@_row
@dataclass(frozen=True, slots=True)
class HunkRejected(Revision):
    """The human refused these hunks; their bytes are gone from work/, kept in blobs."""

    NAME: ClassVar[str] = "hunk_rejected"
    decision: str = ""
    hunks: tuple[str, ...] = ()
    target: str = ""
    reason: str = ""
    regions: tuple[RegionRow, ...] = ()
    resubmission: tuple[str, ...] = ()
    saved: tuple[tuple[str, str], ...] = ()
    signature: str = ""


@_row
@dataclass(frozen=True, slots=True)
class Undone(Revision):
    """The human took back decision `undoes`."""

    NAME: ClassVar[str] = "undone"
    decision: str = ""
    undoes: str = ""
    signature: str = ""


@_row
@dataclass(frozen=True, slots=True)
class Commented(Event):
    """A remark on a hunk; the agent is told at its next call."""

    NAME: ClassVar[str] = "commented"
    decision: str
    hunk: str
    path: str
    text: str


@_row
@dataclass(frozen=True, slots=True)
class Restored(Event):
    """The human put recorded bytes back over out-of-band changes (found bytes kept in blobs)."""

    NAME: ClassVar[str] = "restored"
    paths: tuple[str, ...]
    saved: tuple[tuple[str, str], ...] = ()


@_row
@dataclass(frozen=True, slots=True)
class DroppingsRemoved(Event):
    """Tool caches and editor swap files that a human's command cleared away."""

    NAME: ClassVar[str] = "droppings_removed"
    count: int
    names: tuple[str, ...]


@_row
@dataclass(frozen=True, slots=True)
class OutOfBandSeen(Event):
    """A sweep found changes that no accepted write made."""

    NAME: ClassVar[str] = "out_of_band_seen"
    count: int
    names: tuple[str, ...]


@_row
@dataclass(frozen=True, slots=True)
class UnknownNoted(Event):
    """The human noted a new unknown."""

    NAME: ClassVar[str] = "unknown_noted"
    unknown: int
    text: str


@_row
@dataclass(frozen=True, slots=True)
class UnknownConfirmed(Event):
    """The human confirms unknown N: it counts as the verdict's "new unknown"."""

    NAME: ClassVar[str] = "unknown_confirmed"
    unknown: int


# --- the agent's calls -------------------------------------------------------------------------


@_row
@dataclass(frozen=True, slots=True)
class SessionOpened(Event):
    """A server process answered its first call. `tier` = configured | enforced."""

    NAME: ClassVar[str] = "session_opened"
    session: str
    tier: str
    client: str = ""


@_row
@dataclass(frozen=True, slots=True)
class CallRefused(Event):
    """A request was answered "no". `about` = resubmission keys of a `resubmitted` refusal."""

    NAME: ClassVar[str] = "call_refused"
    tool: str
    code: str
    message: str
    about: tuple[str, ...] = ()


@_row
@dataclass(frozen=True, slots=True)
class RefusalsRepeated(Event):
    """Further refusals equal to an earlier row, counted."""

    NAME: ClassVar[str] = "refusals_repeated"
    tool: str
    code: str
    count: int


@_row
@dataclass(frozen=True, slots=True)
class Reported(Event):
    """`spike_report`: the agent is done, or met an unknown (numbered)."""

    NAME: ClassVar[str] = "reported"
    kind: str
    text: str
    unknown: int = 0


@_row
@dataclass(frozen=True, slots=True)
class FeedbackDelivered(Event):
    """Rejections and comments up to row `upto` were told to the agent."""

    NAME: ClassVar[str] = "feedback_delivered"
    upto: int


@_row
@dataclass(frozen=True, slots=True)
class AgentNote(Event):
    """What `spike run` saw: `what` = agent_started, agent_stopped, egress_refused, ..."""

    NAME: ClassVar[str] = "agent_note"
    what: str
    detail: Mapping[str, Any] = field(default_factory=dict)


# --- the end -----------------------------------------------------------------------------------


@_row
@dataclass(frozen=True, slots=True)
class VerdictAsked(Event):
    """`spike verdict` began: its time counts, however long the runs take.

    `owner` = (boot id, pid, pid start time) of the command that opened verify for itself; empty
    where verify ran already or the total is spent.
    """

    NAME: ClassVar[str] = "verdict_asked"
    final: bool
    elapsed: float
    owner: tuple[str, int, int] | tuple[()] = ()


@_row
@dataclass(frozen=True, slots=True)
class HiddenStarted(Event):
    """A hidden part started: nothing but the verdict can follow (spec 11)."""

    NAME: ClassVar[str] = "hidden_started"
    parts: int


@_row
@dataclass(frozen=True, slots=True)
class VerdictWritten(Event):
    """The verdict; `result` is the sha256 of result.json's bytes, which lie in blobs."""

    NAME: ClassVar[str] = "verdict"
    decision: str
    reason: str
    result: str


@_row
@dataclass(frozen=True, slots=True)
class Shipped(Event):
    """`spike ship` committed the approved tree."""

    NAME: ClassVar[str] = "shipped"
    commit: str
    branch: str


@_row
@dataclass(frozen=True, slots=True)
class Killed(Event):
    """`spike kill` removed the worktree; `note` is what the assistant missed."""

    NAME: ClassVar[str] = "killed"
    note: str = ""


DECISIONS = (HunkApproved, WithdrawalAccepted, HunkRejected, Undone)
"""Rows that a signed spike must sign (spec 10)."""


def encode(event: Event) -> dict[str, Any]:
    """Fields of a row (without the envelope), JSON-ready."""
    return {name: getattr(event, name) for name in NAMES[type(event)]}


def decode(name: str, raw: Mapping[str, Any]) -> Event:
    """Row fields to an event; unknown keys are ignored.

    Raises `KeyError` for an unknown event name and `TypeError` for a missing field:
    the ledger reader turns both into `ledger_damaged`.
    """
    cls = REGISTRY[name]
    return cls(**{name: _frozen(raw[name]) for name in NAMES[cls] if name in raw})


def _frozen(value: Any) -> Any:
    # Every value of every row comes by here: no call for what is no list, no generator.
    if type(value) is not list:
        return value
    return tuple([_frozen(item) if type(item) is list else item for item in value])
