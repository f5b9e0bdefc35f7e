"""What the run of a negative control means (spec 11): only one kind of failure is an honest one."""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from spike_mcp.core.negative import Control
from spike_mcp.host.evidence.judging import RunOutcome, red_codes, red_ids
from spike_mcp.host.evidence.model import Evidence


class ControlOutcome(StrEnum):
    """`HONEST`: exactly the changed assertion failed. `FOOLED`: green. Else `INCONCLUSIVE`."""

    HONEST = "honest"
    FOOLED = "fooled"
    INCONCLUSIVE = "inconclusive"


def passed_functions(evidence: Evidence, path: str, pins: Collection[str] = ()) -> frozenset[str]:
    """Qualified names of an oracle file's test functions of which every id passed.

    With `pins` it is their functions, whatever the run says: green means that all pins passed. A
    run that forges its story can leave ids out, or add one that it calls skipped, and must not
    thereby choose what it is tried with.
    """
    good: dict[str, bool] = {}
    outcomes = dict.fromkeys(pins, "passed") if pins else evidence.outcomes
    for name, outcome in _named(evidence.kind, outcomes, path):
        good[name] = good.get(name, True) and outcome == "passed"
    return frozenset(name for name, passed in good.items() if passed)


def judge_control(control: Control, evidence: Evidence, outcome: RunOutcome) -> ControlOutcome:
    """What the run with the changed oracle says about the code under test.

    FOOLED if the run or any id of the changed function passed: its expectation was false.
    """
    named = _named(evidence.kind, evidence.outcomes, control.path)
    own = [result for name, result in named if name == control.function]
    if outcome is RunOutcome.PASSED or "passed" in own:
        return ControlOutcome.FOOLED
    if outcome is not RunOutcome.FAILED or not evidence.finished or evidence.flaws or not own:
        return ControlOutcome.INCONCLUSIVE
    honest = all(
        _is_honest(control, evidence, key) for key in evidence.outcomes if _bad(evidence, key)
    )
    return ControlOutcome.HONEST if honest else ControlOutcome.INCONCLUSIVE


def judge_written_control(
    outcome: RunOutcome,
    evidence: Evidence,
    exit_code: int | None,
    signal: int | None = None,
) -> ControlOutcome:
    """A control that a human wrote: it must fail, and as a test fails.

    Red means what it means at the baseline: ids that failed in their call, or for a plain command
    an ordinary exit status. A crash or a runner that ended early proves nothing either way.
    """
    if outcome is RunOutcome.PASSED:
        return ControlOutcome.FOOLED
    if outcome is not RunOutcome.FAILED or signal is not None:
        return ControlOutcome.INCONCLUSIVE
    red = red_codes(evidence.kind, [exit_code]) or bool(red_ids(evidence))
    return ControlOutcome.HONEST if red else ControlOutcome.INCONCLUSIVE


def _bad(evidence: Evidence, key: str) -> bool:
    return evidence.outcomes[key] in ("failed", "error")


def _is_honest(control: Control, evidence: Evidence, key: str) -> bool:
    where = evidence.failures.get(key)
    return (
        where is not None
        and key in evidence.failed_in_call
        and evidence.outcomes[key] == "failed"
        and where.exception == "AssertionError"
        and where.direct
        and where.path == control.path
        and where.function == control.function.rpartition(".")[2]
        and control.line <= where.line <= control.end_line
    )


def _named(kind: str, outcomes: Mapping[str, str], path: str) -> Iterator[tuple[str, str]]:
    """(qualified function name, outcome) of each id that belongs to a file."""
    for key, outcome in outcomes.items():
        name = _from_dotted(key, path) if kind == "unittest" else _from_node(key, path)
        if name:
            yield name, outcome


def _from_node(key: str, path: str) -> str:
    """`tests/test_a.py::TestX::test_y[1]` -> `TestX.test_y`."""
    file, _, rest = key.partition("::")
    return rest.partition("[")[0].replace("::", ".") if file == path else ""


def _from_dotted(key: str, path: str) -> str:
    """`tests.test_a.TestX.test_y` -> `TestX.test_y`; discovery may start below the top."""
    module, _, method = key.rpartition(".")
    module, _, name = module.rpartition(".")
    dotted = "." + path.removesuffix(".py").replace("/", ".")
    return f"{name}.{method}" if module and dotted.endswith("." + module) else ""
