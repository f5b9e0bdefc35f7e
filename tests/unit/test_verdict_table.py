"""The verdict's table: every row, every neighbour, and no SHIP by default (spec 12)."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from spike_mcp.core.codes import Decision, Exit, Reason
from spike_mcp.core.next_actions import next_action
from spike_mcp.core.verdict import (
    EXIT,
    ROWS,
    Clean,
    Control,
    Facts,
    Judgement,
    Twin,
    Unexplained,
    exit_code,
    judge,
)

GOOD = Facts(has_diff=True, green_measured=True, clean=Clean.GREEN, lines=12)
HIDDEN_RAN = {"control": Control.HONEST, "twin": Twin.PASSED}

CASES: list[tuple[str, str, str, int, dict[str, Any]]] = [
    ("1", "KILL", "hypothesis_tampered", 5, {"hypothesis_changed": True}),
    ("2", "KILL", "measurement_command_changed", 5, {"argv_changed": True}),
    ("3", "KILL", "deadline_exceeded", 3, {"deadline": True, "undecided": True}),
    ("4", "KILL", "oracle_hash_changed", 5, {"oracle_changed": ("tests/t.py",)}),
    ("5", "KILL", "contract_changed", 5, {"contract_changed": ("contract.toml",)}),
    ("5", "KILL", "ledger_damaged", 5, {"ledger_damage": "row 7"}),
    ("5", "KILL", "worktree_tampered", 5, {"tampered": (".git",)}),
    ("5", "KILL", "test_configuration_changed", 5, {"protected_changed": ("conftest.py",)}),
    ("5", "KILL", "measurement_input_changed", 5, {"inputs_changed": ("pytest",)}),
    ("5", "KILL", "approval_forged", 5, {"forged": ("row 9",)}),
    ("5a", "KILL", "closed_by_human", 7, {"closed": Reason.CLOSED_BY_HUMAN}),
    ("5a", "KILL", "already_green", 7, {"closed": Reason.ALREADY_GREEN}),
    ("5a", "KILL", "flaky_baseline", 7, {"closed": Reason.FLAKY_BASELINE}),
    ("6", "KILL", "checkpoints_over_budget", 3, {"overs": ("attempt", "verify")}),
    ("7", "KILL", "hypothesis_not_exercised", 2, {"has_diff": False}),
    ("8", "KILL", "unexplained_diff", 1, {"unexplained": (Unexplained("pending", "a"),)}),
    ("9", "PARK", "test_failed", 6, {"clean": Clean.FAILED, "unknown_confirmed": True}),
    ("9", "KILL", "test_failed", 4, {"clean": Clean.FAILED}),
    ("9", "KILL", "tests_not_run", 4, {"clean": Clean.TESTS_NOT_RUN}),
    ("9", "KILL", "evidence_mismatch", 4, {"clean": Clean.EVIDENCE_MISMATCH}),
    ("10", "KILL", "judge_fooled", 5, {"control": Control.FOOLED}),
    ("10", "KILL", "twin_failed", 4, {"twin": Twin.FAILED}),
    ("11", "PARK", "negative_control_inconclusive", 6, {"control": Control.INCONCLUSIVE}),
    ("11", "PARK", "wrong_tree_imported", 6, {"clean": Clean.WRONG_TREE}),
    ("11", "PARK", "not_scored", 6, {"clean": Clean.NOT_SCORED}),
    ("11", "PARK", "isolation_insufficient", 6, {"isolation_none": True}),
    ("12", "PARK", "checkpoint_over_budget", 6, {"overs": ("attempt",)}),
    ("13", "PARK", "patch_too_large", 6, {"lines": 40}),
    ("13a", "PARK", "checkpoint_not_met", 6, {"lowered": ("attempt",)}),
    (
        "14",
        "PARK",
        "hypothesis_budget_exceeded",
        6,
        {"attempt_minutes": 25.1, "hypothesis_minutes": 25.0},
    ),
    ("16", "SHIP", "oracle_unchanged_and_test_passed", 0, {}),
    ("17", "KILL", "unclassified", 7, {"clean": Clean.NOT_RUN}),
]
NAMES = [f"{number} {reason} {decision}" for number, decision, reason, _exit, _facts in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_each_row_alone(case: tuple[str, str, str, int, dict[str, Any]]) -> None:
    _number, decision, reason, code, facts = case
    found = judge(replace(GOOD, **facts))
    assert (found.decision.value, found.reason.value) == (decision, reason)
    assert found.reasons == (found.reason,)
    assert exit_code(found.decision, found.reason) == code
    assert next_action(found.decision, found.reason)


def test_the_rows_stand_in_the_specifications_order() -> None:
    assert [(r.number, r.decision.value, r.reason.value) for r in ROWS] == [
        (number, decision, reason) for number, decision, reason, _exit, _facts in CASES
    ]


@pytest.mark.parametrize("first", range(len(CASES)), ids=NAMES)
def test_every_row_goes_before_all_that_follow(first: int) -> None:
    """Where both can hold at once, the earlier one is the reason and both are named."""
    _number, decision, reason, _exit, facts = CASES[first]
    for _later, _decision, other, _code, more in CASES[first + 1 : -2]:
        both = {**more, **facts}
        if both == facts or any(facts.get(key, more[key]) != more[key] for key in more):
            continue
        if not both.get("has_diff", True) and other == "unexplained_diff":
            continue
        found = judge(replace(GOOD, **both))
        assert (found.decision.value, found.reason.value) == (decision, reason)
        needs_green = other in ("checkpoint_over_budget", "patch_too_large", "checkpoint_not_met")
        needs_green |= other == "hypothesis_budget_exceeded"
        silent = "closed" in facts or (needs_green and "clean" in facts)
        assert (Reason(other) in found.reasons) != silent


def test_deadline_needs_an_undecided_hunk_or_nothing_proven() -> None:
    at_end = replace(GOOD, deadline=True)
    assert judge(at_end).decision is Decision.SHIP
    unproven = replace(at_end, green_measured=False)
    assert judge(unproven).reason is Reason.DEADLINE_EXCEEDED
    unknown = replace(unproven, unknown_confirmed=True, clean=Clean.FAILED)
    assert judge(unknown).decision is Decision.PARK
    assert judge(replace(unknown, undecided=True)).reason is Reason.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        ({"lines": 39}, Decision.SHIP),
        ({"lines": 40}, Decision.PARK),
        ({"attempt_minutes": 25.0, "hypothesis_minutes": 25.0}, Decision.SHIP),
        ({"attempt_minutes": 300.0, "hypothesis_minutes": 0.0}, Decision.SHIP),
        ({"overs": ("setup", "verify")}, Decision.KILL),
        ({"control": Control.HONEST, "twin": Twin.PASSED}, Decision.SHIP),
        ({"twin": Twin.NOT_RUN}, Decision.KILL),
    ],
)
def test_limits_to_the_unit(facts: dict[str, Any], decision: Decision) -> None:
    assert judge(replace(GOOD, **facts)).decision is decision


FLAGS = (
    *("hypothesis_changed", "argv_changed", "deadline", "undecided", "green_measured"),
    *("unknown_confirmed", "has_diff", "isolation_none"),
)
FINDINGS = (
    *("oracle_changed", "contract_changed", "tampered", "protected_changed", "inputs_changed"),
    *("forged", "lowered"),
)


def every_combination() -> list[Facts]:
    """All flags in all ways with every result of the runs, and each finding on top of those."""
    found = []
    for flags in product((False, True), repeat=len(FLAGS)):
        base = Facts(**dict(zip(FLAGS, flags, strict=True)))
        for clean, control, twin in product(Clean, Control, Twin):
            found.append(replace(base, clean=clean, control=control, twin=twin))
    shipping = replace(GOOD, **HIDDEN_RAN)
    for holds in product((False, True), repeat=len(FINDINGS)):
        more = {name: ("x",) if on else () for name, on in zip(FINDINGS, holds, strict=True)}
        for overs, lines in product(((), ("a",), ("a", "b")), (0, 39, 40)):
            found.append(replace(shipping, overs=overs, lines=lines, **more))
    return found


def test_the_table_is_total_and_ships_only_what_it_says() -> None:
    for facts in every_combination():
        found = judge(facts)
        assert isinstance(found, Judgement)
        assert found.reasons[0] is found.reason
        in_time = not (facts.deadline and (facts.undecided or not proven(facts)))
        sound = not any(getattr(facts, name) for name in FINDINGS)
        sound = sound and not facts.hypothesis_changed and not facts.argv_changed
        passed = (
            facts.clean is Clean.GREEN
            and facts.control in (Control.NONE, Control.HONEST)
            and facts.twin in (Twin.NONE, Twin.PASSED)
            and facts.has_diff
            and not facts.isolation_none
        )
        small = not facts.overs and facts.lines < facts.max_lines
        assert (found.decision is Decision.SHIP) == (in_time and sound and passed and small)


def proven(facts: Facts) -> bool:
    return facts.green_measured or facts.unknown_confirmed


def test_nothing_parks_that_was_not_measured_green_or_parked_for_its_own_reason() -> None:
    for facts in every_combination():
        found = judge(facts)
        if found.decision is Decision.PARK and facts.clean is not Clean.GREEN:
            assert found.reason in (
                *(Reason.TEST_FAILED, Reason.NOT_SCORED, Reason.WRONG_TREE_IMPORTED),
                *(Reason.NEGATIVE_CONTROL_INCONCLUSIVE, Reason.ISOLATION_INSUFFICIENT),
            )


def test_every_reason_has_one_exit_code() -> None:
    kills = {row.reason for row in ROWS if row.decision is Decision.KILL}
    assert set(EXIT) == kills
    for reason in Reason:
        assert exit_code(Decision.PARK, reason) is Exit.PARK
        assert exit_code(Decision.SHIP, reason) is Exit.OK
        assert next_action(Decision.KILL, reason)
    assert {row.reason for row in ROWS} == set(Reason)
