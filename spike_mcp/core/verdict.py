"""The verdict: a decision table over facts (spec 12).

`ROWS` is the table, in the specification's order; the first row that holds decides and all rows
that hold are named. Nothing here weighs or guesses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from spike_mcp.core.codes import Decision, Exit, Reason


class Clean(StrEnum):
    """What the clean run on the fresh scoring copy gave."""

    NOT_RUN = "not_run"
    GREEN = "green"
    FAILED = "failed"
    TESTS_NOT_RUN = "tests_not_run"
    EVIDENCE_MISMATCH = "evidence_mismatch"
    WRONG_TREE = "wrong_tree"
    NOT_SCORED = "not_scored"


class Control(StrEnum):
    """What the negative controls gave, all together."""

    NONE = "none"
    HONEST = "honest"
    FOOLED = "fooled"
    INCONCLUSIVE = "inconclusive"


class Twin(StrEnum):
    """What the hidden vectors and hidden tests gave."""

    NONE = "none"
    NOT_RUN = "not_run"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Unexplained:
    """One thing in the diff that no human tied to the hypothesis."""

    code: str
    path: str
    hunk: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the table looks at. Tuples name what was found; empty = as it should be.

    `deadline` = the total had run out when the verdict was asked for; `green_measured` = the
    approved tree has a green measurement. Minutes are floats; `lines` = added + removed.
    """

    hypothesis_changed: bool = False
    argv_changed: bool = False
    deadline: bool = False
    undecided: bool = False
    green_measured: bool = False
    unknown_confirmed: bool = False
    oracle_changed: tuple[str, ...] = ()
    contract_changed: tuple[str, ...] = ()
    ledger_damage: str = ""
    tampered: tuple[str, ...] = ()
    protected_changed: tuple[str, ...] = ()
    inputs_changed: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()
    closed: Reason | None = None
    overs: tuple[str, ...] = ()
    has_diff: bool = False
    unexplained: tuple[Unexplained, ...] = ()
    clean: Clean = Clean.NOT_RUN
    control: Control = Control.NONE
    twin: Twin = Twin.NONE
    isolation_none: bool = False
    lines: int = 0
    max_lines: int = 40
    lowered: tuple[str, ...] = ()
    attempt_minutes: float = 0.0
    hypothesis_minutes: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision, its first reason, and every reason that holds, in order of precedence."""

    decision: Decision
    reason: Reason
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; `number` is the specification's."""

    number: str
    decision: Decision
    reason: Reason
    holds: Callable[[Facts], bool]


def _deadline(facts: Facts) -> bool:
    unproven = not facts.green_measured and not facts.unknown_confirmed
    return facts.deadline and (facts.undecided or unproven)


def _met(facts: Facts) -> bool:
    """Rows 12 to 14 say "met, but": without a green clean run they say nothing."""
    return facts.clean is Clean.GREEN


def _ships(facts: Facts) -> bool:
    """Everything that a SHIP needs, said positively: no row below is a default for it."""
    return (
        facts.clean is Clean.GREEN
        and facts.control in (Control.NONE, Control.HONEST)
        and facts.twin in (Twin.NONE, Twin.PASSED)
        and facts.has_diff
        and not facts.isolation_none
    )


_KILL, _PARK = Decision.KILL, Decision.PARK

ROWS: tuple[Row, ...] = (
    Row("1", _KILL, Reason.HYPOTHESIS_TAMPERED, lambda f: f.hypothesis_changed),
    Row("2", _KILL, Reason.MEASUREMENT_COMMAND_CHANGED, lambda f: f.argv_changed),
    Row("3", _KILL, Reason.DEADLINE_EXCEEDED, _deadline),
    Row("4", _KILL, Reason.ORACLE_HASH_CHANGED, lambda f: bool(f.oracle_changed)),
    Row("5", _KILL, Reason.CONTRACT_CHANGED, lambda f: bool(f.contract_changed)),
    Row("5", _KILL, Reason.LEDGER_DAMAGED, lambda f: bool(f.ledger_damage)),
    Row("5", _KILL, Reason.WORKTREE_TAMPERED, lambda f: bool(f.tampered)),
    Row("5", _KILL, Reason.TEST_CONFIGURATION_CHANGED, lambda f: bool(f.protected_changed)),
    Row("5", _KILL, Reason.MEASUREMENT_INPUT_CHANGED, lambda f: bool(f.inputs_changed)),
    Row("5", _KILL, Reason.APPROVAL_FORGED, lambda f: bool(f.forged)),
    Row("5a", _KILL, Reason.CLOSED_BY_HUMAN, lambda f: f.closed is Reason.CLOSED_BY_HUMAN),
    Row("5a", _KILL, Reason.ALREADY_GREEN, lambda f: f.closed is Reason.ALREADY_GREEN),
    Row("5a", _KILL, Reason.FLAKY_BASELINE, lambda f: f.closed is Reason.FLAKY_BASELINE),
    Row("6", _KILL, Reason.CHECKPOINTS_OVER_BUDGET, lambda f: len(f.overs) >= 2),
    Row("7", _KILL, Reason.HYPOTHESIS_NOT_EXERCISED, lambda f: not f.has_diff),
    Row("8", _KILL, Reason.UNEXPLAINED_DIFF, lambda f: bool(f.unexplained)),
    Row(
        "9",
        _PARK,
        Reason.TEST_FAILED,
        lambda f: f.clean is Clean.FAILED and f.unknown_confirmed,
    ),
    Row(
        "9",
        _KILL,
        Reason.TEST_FAILED,
        lambda f: f.clean is Clean.FAILED and not f.unknown_confirmed,
    ),
    Row("9", _KILL, Reason.TESTS_NOT_RUN, lambda f: f.clean is Clean.TESTS_NOT_RUN),
    Row("9", _KILL, Reason.EVIDENCE_MISMATCH, lambda f: f.clean is Clean.EVIDENCE_MISMATCH),
    Row("10", _KILL, Reason.JUDGE_FOOLED, lambda f: f.control is Control.FOOLED),
    Row("10", _KILL, Reason.TWIN_FAILED, lambda f: f.twin is Twin.FAILED),
    Row(
        "11",
        _PARK,
        Reason.NEGATIVE_CONTROL_INCONCLUSIVE,
        lambda f: f.control is Control.INCONCLUSIVE,
    ),
    Row("11", _PARK, Reason.WRONG_TREE_IMPORTED, lambda f: f.clean is Clean.WRONG_TREE),
    Row("11", _PARK, Reason.NOT_SCORED, lambda f: f.clean is Clean.NOT_SCORED),
    Row("11", _PARK, Reason.ISOLATION_INSUFFICIENT, lambda f: f.isolation_none),
    Row("12", _PARK, Reason.CHECKPOINT_OVER_BUDGET, lambda f: _met(f) and len(f.overs) == 1),
    Row("13", _PARK, Reason.PATCH_TOO_LARGE, lambda f: _met(f) and f.lines >= f.max_lines),
    Row("13a", _PARK, Reason.CHECKPOINT_NOT_MET, lambda f: _met(f) and bool(f.lowered)),
    Row(
        "14",
        _PARK,
        Reason.HYPOTHESIS_BUDGET_EXCEEDED,
        lambda f: _met(f) and f.attempt_minutes > f.hypothesis_minutes > 0,
    ),
    Row("16", Decision.SHIP, Reason.ORACLE_UNCHANGED_AND_TEST_PASSED, _ships),
    Row("17", _KILL, Reason.UNCLASSIFIED, lambda _facts: True),
)

_ENDS_HERE = {Reason.CLOSED_BY_HUMAN, Reason.ALREADY_GREEN, Reason.FLAKY_BASELINE}


def judge(facts: Facts) -> Judgement:
    """The decision that the table gives. Total: the last row always holds.

    The rows of SHIP and `unclassified` are named only where nothing before them held; after a
    human closed the spike (row 5a) nothing was scored, so later rows say nothing.
    """
    found: list[Row] = []
    for row in ROWS:
        last = row.number in ("16", "17")
        if (last and found) or not row.holds(facts):
            continue
        found.append(row)
        if row.reason in _ENDS_HERE:
            break
    first = found[0]
    return Judgement(first.decision, first.reason, tuple(row.reason for row in found))


EXIT: dict[Reason, Exit] = {
    Reason.UNEXPLAINED_DIFF: Exit.UNEXPLAINED,
    Reason.HYPOTHESIS_NOT_EXERCISED: Exit.NO_DIFF,
    Reason.DEADLINE_EXCEEDED: Exit.OVER,
    Reason.CHECKPOINTS_OVER_BUDGET: Exit.OVER,
    Reason.TEST_FAILED: Exit.TEST_FAILED,
    Reason.TESTS_NOT_RUN: Exit.TEST_FAILED,
    Reason.EVIDENCE_MISMATCH: Exit.TEST_FAILED,
    Reason.TWIN_FAILED: Exit.TEST_FAILED,
    Reason.HYPOTHESIS_TAMPERED: Exit.TAMPERED,
    Reason.MEASUREMENT_COMMAND_CHANGED: Exit.TAMPERED,
    Reason.ORACLE_HASH_CHANGED: Exit.TAMPERED,
    Reason.CONTRACT_CHANGED: Exit.TAMPERED,
    Reason.LEDGER_DAMAGED: Exit.TAMPERED,
    Reason.WORKTREE_TAMPERED: Exit.TAMPERED,
    Reason.TEST_CONFIGURATION_CHANGED: Exit.TAMPERED,
    Reason.MEASUREMENT_INPUT_CHANGED: Exit.TAMPERED,
    Reason.APPROVAL_FORGED: Exit.TAMPERED,
    Reason.JUDGE_FOOLED: Exit.TAMPERED,
    Reason.CLOSED_BY_HUMAN: Exit.CLOSED,
    Reason.ALREADY_GREEN: Exit.CLOSED,
    Reason.FLAKY_BASELINE: Exit.CLOSED,
    Reason.UNCLASSIFIED: Exit.CLOSED,
}
"""Exit codes of the KILL reasons (spec 13); SHIP is 0 and PARK 6 whatever the reason."""


def exit_code(decision: Decision, reason: Reason) -> Exit:
    """What `spike verdict` exits with."""
    if decision is Decision.SHIP:
        return Exit.OK
    if decision is Decision.PARK:
        return Exit.PARK
    return EXIT.get(reason, Exit.CLOSED)
