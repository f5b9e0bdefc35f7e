"""THE gate: one pure function decides every request (spec 6).

`RULES` is the policy, in order; the first rule that objects wins. The order is pinned by
`tests/vectors/gate.json`. The server and the CLI are the only two callers that enforce it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from spike_mcp.core.codes import Checkpoint, Problem, Refusal
from spike_mcp.core.contract import Budgets
from spike_mcp.core.model import State
from spike_mcp.core.requests import Kind, Malformed, Request
from spike_mcp.core.timing import is_over, is_spent, may_open_attempt, ready

_AGENT = frozenset(
    {Kind.STATUS, Kind.READ, Kind.WRITE, Kind.RUN, Kind.REPORT, Kind.UNKNOWN},
)
_ALL = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class Observation:
    """What was looked at for one request, besides the ledger. All of it is measured afresh.

    `elapsed` in seconds. `damage`, `seal`, `tampered`, `out_of_band`: what was found wrong, "" or
    empty = nothing. `problem`: why the prepared effect can't be (paths, patches, hunks, tags).
    `pending_after`: hunks that wait for the human once the effect is done; `adds_hunk`: whether it
    adds one. `measured`: a stored result for the present tree makes a run free.
    """

    elapsed: float
    human: bool = False
    damage: str = ""
    seal: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()
    out_of_band: tuple[str, ...] = ()
    running: str = ""
    problem: Problem | None = None
    pending_after: int = 0
    adds_hunk: bool = False
    is_revert: bool = False
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request may have its effect."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The request gets "no": a stable code, a sentence, what to do about it."""

    code: Refusal
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Everything a rule may look at."""

    state: State
    budgets: Budgets
    seen: Observation
    request: Request | Malformed

    @property
    def kind(self) -> Kind:
        """The kind of the request; a human's patch (`spike apply`) is a write like any other."""
        return self.request.kind

    @property
    def harmless_revert(self) -> bool:
        """A revert that adds no hunk is never held back by clocks or backlog (spec 6)."""
        return self.seen.is_revert and not self.seen.adds_hunk


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the policy: whom it concerns and when it objects (with the message, or None)."""

    code: Refusal
    kinds: frozenset[Kind]
    objects: Callable[[Case], str | None]
    hint: str = ""


def _budget_spent(case: Case) -> str | None:
    if case.state.started and case.seen.elapsed >= case.budgets.total * 60:
        note = case.state.clock.note if case.state.clock else ""
        return f"the spike's {case.budgets.total:g} minutes are over" + (
            f" ({note})" if note else ""
        )
    return None


def _spike_closed(case: Case) -> str | None:
    state = case.state
    if state.verdict is not None:
        return f"the verdict is written: {state.verdict.decision} {state.verdict.reason}"
    if state.killed is not None:
        return "the spike was closed by the human"
    if state.hidden_started and case.kind is not Kind.END:
        return "the hidden judges have started; nothing but the verdict can follow"
    return None


def _not_started(case: Case) -> str | None:
    if not case.state.started:
        return "the spike has not been started"
    if case.kind in _AGENT and not ready(case.state):
        return "the failing test has not been reproduced yet"
    return None


def _ledger_damaged(case: Case) -> str | None:
    return case.seen.damage or None


def rows_spent(state: State, budgets: Budgets) -> bool:
    """Whether the agent's calls have made as many rows that change nothing as it may make."""
    return state.refusals + state.remarks >= budgets.max_refusals


def _call_limit_spent(case: Case) -> str | None:
    if case.seen.human:
        return None
    if rows_spent(case.state, case.budgets):
        remarks = f" and {case.state.remarks} reports and sessions noted"
        return (
            f"{case.state.refusals} calls were refused{remarks if case.state.remarks > 1 else ''}; "
            "no more calls are answered"
        )
    if case.state.stored >= case.budgets.max_blob_bytes:
        return "the writes of this spike have used up the space set aside for them"
    return None


def _seal_broken(case: Case) -> str | None:
    return f"sealed, but changed: {_names(case.seen.seal)}" if case.seen.seal else None


def _worktree_tampered(case: Case) -> str | None:
    found = case.seen.tampered
    return f"the worktree is not as it was made: {_names(found)}" if found else None


def _out_of_band(case: Case) -> str | None:
    found = case.seen.out_of_band
    return f"changed outside the tools: {_names(found)}" if found else None


def _names(found: tuple[str, ...]) -> str:
    shown = ", ".join(found[:5])
    return shown if len(found) <= 5 else f"{shown} and {len(found) - 5} more"


def _run_in_progress(case: Case) -> str | None:
    return f"test run {case.seen.running} is in progress" if case.seen.running else None


def _writes_closed(case: Case) -> str | None:
    if case.harmless_revert or case.seen.elapsed < case.budgets.write_cutoff * 60:
        return None
    return f"writes closed at minute {case.budgets.write_cutoff:g}"


def _checkpoint_over(case: Case) -> str | None:
    attempt = case.state.checkpoints[Checkpoint.ATTEMPT]
    if case.harmless_revert or attempt.extended:
        return None
    facts = (case.state, case.budgets, Checkpoint.ATTEMPT, case.seen.elapsed)
    if is_over(*facts) or is_spent(*facts):
        return f"the attempt has used its {case.budgets.attempt:g} minutes"
    return None


def _checkpoint_closed(case: Case) -> str | None:
    if case.harmless_revert:
        return None
    visit = case.state.visit
    if visit is not None:
        return None if visit.checkpoint is Checkpoint.ATTEMPT else f"{visit.checkpoint} is running"
    if may_open_attempt(case.state, case.budgets, case.seen.elapsed, human=case.seen.human):
        return None
    return "the attempt is closed"


def _review_backlog(case: Case) -> str | None:
    waiting = case.seen.pending_after
    if case.harmless_revert:
        return None
    if case.seen.adds_hunk and waiting > case.budgets.max_pending:
        return (
            f"this would leave {waiting} hunks waiting for review, "
            f"the limit is {case.budgets.max_pending}"
        )
    if not case.seen.human and _has_waited_too_long(case):
        return (
            f"{waiting} hunks wait for review; the attempt's clock stands only while you wait, and "
            f"its {case.budgets.attempt:g} minutes would be over with this"
        )
    return None


def _has_waited_too_long(case: Case) -> bool:
    """Whether the attempt has time left only because its clock stood in a backlog (spec 5)."""
    if case.state.backlog_since is None:
        return False
    counted = replace(case.state, backlog_since=None)
    return is_spent(counted, case.budgets, Checkpoint.ATTEMPT, case.seen.elapsed)


def _test_runs_spent(case: Case) -> str | None:
    if case.seen.measured or case.state.agent_runs < case.budgets.max_runs:
        return None
    return f"all {case.budgets.max_runs} test runs are used"


def _malformed(case: Case) -> str | None:
    known = isinstance(case.request, Malformed) and case.kind is not Kind.UNKNOWN
    return case.request.message if known and isinstance(case.request, Malformed) else None


def _unknown_tool(case: Case) -> str | None:
    if isinstance(case.request, Malformed) and case.kind is Kind.UNKNOWN:
        return case.request.message
    return None


RULES: tuple[Rule, ...] = (
    Rule(
        Refusal.BUDGET_SPENT,
        _ALL - {Kind.END},
        _budget_spent,
        "stop here; the verdict follows the ledger as it stood at that moment",
    ),
    Rule(Refusal.SPIKE_CLOSED, _ALL, _spike_closed, "stop here; a new spike is the only appeal"),
    Rule(
        Refusal.NOT_STARTED,
        _ALL - {Kind.STATUS},
        _not_started,
        "the human runs `spike start` first",
    ),
    Rule(
        Refusal.LEDGER_DAMAGED,
        _ALL - {Kind.END},
        _ledger_damaged,
        "tell the human; `spike verify` shows where",
    ),
    Rule(
        Refusal.CALL_LIMIT_SPENT,
        _AGENT - {Kind.STATUS},
        _call_limit_spent,
        "stop here and let the human decide",
    ),
    Rule(
        Refusal.SEAL_BROKEN,
        _AGENT | {Kind.APPROVE},
        _seal_broken,
        "tell the human; nothing can ship from a spike whose judge was changed",
    ),
    Rule(
        Refusal.WORKTREE_TAMPERED,
        _AGENT | {Kind.APPROVE},
        _worktree_tampered,
        "tell the human; the worktree's .git file and its branch must stay as they were made",
    ),
    Rule(
        Refusal.OUT_OF_BAND_CHANGE,
        frozenset({Kind.WRITE, Kind.RUN, Kind.APPROVE}),
        _out_of_band,
        "the human puts the recorded bytes back with `spike restore --all`, "
        "or `spike restore PATH`",
    ),
    Rule(
        Refusal.RUN_IN_PROGRESS,
        frozenset({Kind.WRITE}),
        _run_in_progress,
        "wait for it: spike_run_test joins the running one; or cancel it",
    ),
    Rule(
        Refusal.WRITES_CLOSED,
        frozenset({Kind.WRITE}),
        _writes_closed,
        "reads and test runs go on; the rest of the time belongs to the review",
    ),
    Rule(
        Refusal.CHECKPOINT_OVER,
        frozenset({Kind.WRITE}),
        _checkpoint_over,
        "the human asks for the verdict, or lets it run on, on the record, "
        "with `spike checkpoint extend attempt`",
    ),
    Rule(
        Refusal.CHECKPOINT_CLOSED,
        frozenset({Kind.WRITE}),
        _checkpoint_closed,
        "the human may resume it with `spike checkpoint start attempt`",
    ),
    Rule(
        Refusal.REVIEW_BACKLOG,
        frozenset({Kind.WRITE}),
        _review_backlog,
        "wait for the human to review, or revert a patch of yours",
    ),
    Rule(
        Refusal.TEST_RUNS_SPENT,
        frozenset({Kind.RUN}),
        _test_runs_spent,
        "an unchanged tree still returns its stored result",
    ),
    Rule(
        Refusal.MALFORMED_REQUEST,
        _ALL,
        _malformed,
        "look at the tool's input schema and call again",
    ),
    Rule(Refusal.UNKNOWN_TOOL, _ALL, _unknown_tool, "tools/list names the tools there are"),
)
"""The policy. After these come the `path_*` and `patch_*` codes that preparing the effect found."""


def decide(
    state: State, budgets: Budgets, seen: Observation, request: Request | Malformed
) -> Accepted | Refused:
    """Whether a request may have its effect. Total, pure, and the only place that says no."""
    case = Case(state, budgets, seen, request)
    for rule in RULES:
        if request.kind not in rule.kinds:
            continue
        message = rule.objects(case)
        if message is not None:
            return Refused(rule.code, message, rule.hint)
    problem = seen.problem
    if problem is not None:
        code = problem.code if isinstance(problem.code, Refusal) else Refusal.INTERNAL_ERROR
        return Refused(code, problem.message, problem.hint)
    return Accepted()
