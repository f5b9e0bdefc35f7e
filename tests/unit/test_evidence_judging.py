"""What a run's words mean: exit code 0 alone is never a pass (spec 5, 11; judge.md)."""

from dataclasses import replace
from typing import Any

import pytest

from spike_mcp.host.evidence import Evidence, RunOutcome, decide, pins_of, red_codes, red_ids

A, B = "t.py::a", "t.py::b"
GOOD = Evidence(
    kind="pytest",
    collected=(A, B),
    outcomes={A: "passed", B: "passed"},
    finished=True,
    status=0,
)


def _but(**changes: Any) -> Evidence:
    return replace(GOOD, **changes)


@pytest.mark.parametrize(
    ("evidence", "code", "want"),
    [
        (GOOD, 0, RunOutcome.PASSED),
        (GOOD, 1, RunOutcome.FAILED),
        (_but(finished=False), 0, RunOutcome.MISMATCH),
        (_but(status=1), 0, RunOutcome.MISMATCH),
        (_but(flaws=("x",)), 0, RunOutcome.MISMATCH),
        (_but(outcomes={A: "failed", B: "passed"}), 0, RunOutcome.MISMATCH),
        (_but(outcomes={A: "error", B: "passed"}), 0, RunOutcome.MISMATCH),
        (_but(outcomes={A: "skipped", B: "passed"}), 0, RunOutcome.MISMATCH),
        (_but(outcomes={A: "xfailed", B: "passed"}), 0, RunOutcome.MISMATCH),
        (_but(outcomes={A: "xpassed", B: "passed"}), 0, RunOutcome.MISMATCH),
        (_but(outcomes={A: "rerun", B: "passed"}), 0, RunOutcome.MISMATCH),
        (_but(outcomes={B: "passed"}), 0, RunOutcome.MISMATCH),
        (_but(collected=(B,)), 0, RunOutcome.MISMATCH),
        (_but(outcomes={A: "skipped", B: "skipped"}), 0, RunOutcome.NO_TESTS),
        (_but(outcomes={}), 0, RunOutcome.NO_TESTS),
        (_but(collected=(), outcomes={}, status=5), 5, RunOutcome.NO_TESTS),
        (_but(collection_errors=("t.py: x",)), 2, RunOutcome.COLLECTION_ERROR),
        (_but(collection_errors=("t.py: x",)), 0, RunOutcome.COLLECTION_ERROR),
        (_but(foreign=("invoice (/x)",)), 0, RunOutcome.WRONG_TREE),
        (_but(foreign=("invoice (/x)",)), 1, RunOutcome.WRONG_TREE),
        (_but(finished=False, outcomes={}), 139, RunOutcome.FAILED),
    ],
)
def test_every_part_of_the_story_must_agree(
    evidence: Evidence, code: int, want: RunOutcome
) -> None:
    assert decide(evidence, code, (A, B))[0] is want


def test_a_test_that_joined_later_may_pass_but_not_fail() -> None:
    more = _but(collected=(A, B, "t.py::c"), outcomes={**GOOD.outcomes, "t.py::c": "passed"})
    assert decide(more, 0, (A, B))[0] is RunOutcome.PASSED
    bad = _but(collected=(A, B, "t.py::c"), outcomes={**GOOD.outcomes, "t.py::c": "failed"})
    assert decide(bad, 0, (A, B))[0] is RunOutcome.MISMATCH


def test_a_plain_command_has_only_its_exit_code() -> None:
    assert decide(Evidence(), 0, ())[0] is RunOutcome.PASSED
    assert decide(Evidence(), 3, ())[0] is RunOutcome.FAILED


@pytest.mark.parametrize(
    ("evidence", "code", "want"),
    [
        (_but(outcomes={}), 0, RunOutcome.PASSED),
        (_but(collected=(), outcomes={}), 5, RunOutcome.NO_TESTS),
        (_but(finished=False), 0, RunOutcome.MISMATCH),
        (_but(), 3, RunOutcome.COLLECTION_ERROR),
        (_but(collection_errors=("x",)), 2, RunOutcome.COLLECTION_ERROR),
    ],
)
def test_a_dry_run_wants_a_collection(evidence: Evidence, code: int, want: RunOutcome) -> None:
    assert decide(evidence, code, (), dry=True)[0] is want


def test_red_is_a_failure_in_the_call_of_a_finished_session() -> None:
    red = _but(outcomes={A: "failed", B: "error"}, failed_in_call=(A,), status=1)
    assert red_ids(red) == (A,)
    assert red_ids(replace(red, finished=False)) == ()
    assert red_ids(replace(red, flaws=("x",))) == ()
    assert red_ids(replace(red, collected=(B,))) == ()


def test_pins_are_what_ran_not_what_the_project_skips() -> None:
    mixed = _but(
        collected=(A, B, "c", "d"),
        outcomes={A: "failed", B: "passed", "c": "skipped", "d": "xfailed"},
        failed_in_call=(A,),
    )
    assert pins_of(mixed) == (A, B)


@pytest.mark.parametrize(
    ("codes", "want"),
    [
        ((1, 1), True),
        ((125, 125), True),
        ((1, 2), False),
        ((126, 126), False),
        ((0, 0), False),
        ((139, 139), False),
        ((None, None), False),
        ((), False),
    ],
)
def test_red_for_a_plain_command(codes: tuple[int | None, ...], want: bool) -> None:
    assert red_codes("exit_code", codes) is want
    assert red_codes("pytest", codes) is False
