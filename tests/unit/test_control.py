"""Only one kind of failure of a negative control is an honest one (spec 11)."""

from dataclasses import replace

import pytest

from spike_mcp.core.negative import Control
from spike_mcp.host.evidence import (
    ControlOutcome,
    Evidence,
    Failure,
    RunOutcome,
    judge_control,
    judge_written_control,
    passed_functions,
)

CONTROL = Control("tests/t.py", "T.test_a", 5, 6, "2", "3", b"")
KEY = "tests/t.py::T::test_a[1]"
OTHER = "tests/t.py::test_b"
HONEST = Failure("AssertionError", "tests/t.py", 6, "test_a", True)
RED = Evidence(
    kind="pytest",
    collected=(KEY, OTHER),
    outcomes={KEY: "failed", OTHER: "passed"},
    failed_in_call=(KEY,),
    failures={KEY: HONEST},
    finished=True,
    status=1,
)


def test_exactly_the_changed_assertion_failed() -> None:
    assert judge_control(CONTROL, RED, RunOutcome.FAILED) is ControlOutcome.HONEST


@pytest.mark.parametrize(
    "failure",
    [
        replace(HONEST, exception="TypeError"),
        replace(HONEST, line=4),
        replace(HONEST, line=7),
        replace(HONEST, path="invoice.py"),
        replace(HONEST, function="helper"),
        replace(HONEST, direct=False),
    ],
)
def test_any_other_failure_is_inconclusive(failure: Failure) -> None:
    evidence = replace(RED, failures={KEY: failure})
    assert judge_control(CONTROL, evidence, RunOutcome.FAILED) is ControlOutcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("evidence", "outcome", "want"),
    [
        (RED, RunOutcome.PASSED, ControlOutcome.FOOLED),
        (
            replace(RED, outcomes={KEY: "passed", OTHER: "failed"}),
            RunOutcome.FAILED,
            ControlOutcome.FOOLED,
        ),
        (replace(RED, finished=False), RunOutcome.FAILED, ControlOutcome.INCONCLUSIVE),
        (replace(RED, flaws=("x",)), RunOutcome.FAILED, ControlOutcome.INCONCLUSIVE),
        (replace(RED, outcomes={OTHER: "failed"}), RunOutcome.FAILED, ControlOutcome.INCONCLUSIVE),
        (
            replace(RED, outcomes={KEY: "failed", OTHER: "error"}),
            RunOutcome.FAILED,
            ControlOutcome.INCONCLUSIVE,
        ),
        (RED, RunOutcome.TIMED_OUT, ControlOutcome.INCONCLUSIVE),
        (RED, RunOutcome.MISMATCH, ControlOutcome.INCONCLUSIVE),
    ],
)
def test_green_is_fooled_and_noise_is_inconclusive(
    evidence: Evidence, outcome: RunOutcome, want: ControlOutcome
) -> None:
    assert judge_control(CONTROL, evidence, outcome) is want


def test_unittest_ids_are_found_by_their_dotted_names() -> None:
    keys = ("tests.t.T.test_a", "t.T.test_a", "other.t.T.test_a")
    for key, known in zip(keys, (True, True, False), strict=True):
        evidence = Evidence(kind="unittest", outcomes={key: "passed"})
        assert passed_functions(evidence, "tests/t.py") == ({"T.test_a"} if known else set())


def test_a_function_passed_only_if_every_parameter_set_did() -> None:
    outcomes = {KEY: "passed", "tests/t.py::T::test_a[2]": "failed", OTHER: "passed"}
    assert passed_functions(Evidence(kind="pytest", outcomes=outcomes), "tests/t.py") == {"test_b"}


@pytest.mark.parametrize(
    ("outcome", "code", "want"),
    [
        (RunOutcome.PASSED, 0, ControlOutcome.FOOLED),
        (RunOutcome.FAILED, 1, ControlOutcome.HONEST),
        (RunOutcome.FAILED, 127, ControlOutcome.INCONCLUSIVE),
        (RunOutcome.MISMATCH, 0, ControlOutcome.INCONCLUSIVE),
        (RunOutcome.COLLECTION_ERROR, 2, ControlOutcome.INCONCLUSIVE),
    ],
)
def test_a_written_control_must_fail_as_a_test_fails(
    outcome: RunOutcome, code: int, want: ControlOutcome
) -> None:
    assert judge_written_control(outcome, Evidence(), code) is want


def test_a_written_control_that_crashed_proves_nothing() -> None:
    found = judge_written_control(RunOutcome.FAILED, Evidence(), 139, signal=11)
    assert found is ControlOutcome.INCONCLUSIVE
