"""From what a run said to what it means: green, red, and why not (spec 5, 11). Pure."""

from collections.abc import Collection, Sequence
from enum import StrEnum

from spike_mcp.host.evidence.model import Evidence


class RunOutcome(StrEnum):
    """How a run ended. The first six are the measurement's own; the rest are its circumstances."""

    PASSED = "passed"
    FAILED = "failed"
    NO_TESTS = "no_tests"
    MISMATCH = "mismatch"
    COLLECTION_ERROR = "collection_error"
    WRONG_TREE = "wrong_tree"
    TIMED_OUT = "timed_out"
    OUTPUT_CAPPED = "output_capped"
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    SANDBOX_ERROR = "sandbox_error"


_BAD = frozenset({"failed", "error"})
_RAN = frozenset({"passed", "failed", "error", "xpassed", "rerun"})


def decide(
    evidence: Evidence, exit_code: int | None, pins: Collection[str], dry: bool = False
) -> tuple[RunOutcome, str]:
    """Outcome of a run that ended by itself, and a sentence where it needs one."""
    if evidence.kind == "exit_code":
        return (RunOutcome.PASSED if exit_code == 0 else RunOutcome.FAILED), ""
    if evidence.foreign:
        names = ", ".join(evidence.foreign[:5])
        return RunOutcome.WRONG_TREE, f"imported from outside the tree under test: {names}"
    if evidence.collection_errors:
        return RunOutcome.COLLECTION_ERROR, evidence.collection_errors[0]
    if dry:
        return _decide_dry(evidence, exit_code)
    if exit_code == 0:
        return _decide_zero(evidence, pins)
    if evidence.kind == "cargo" and not evidence.collected and not evidence.finished:
        return RunOutcome.COLLECTION_ERROR, "the crate or its tests did not compile"
    if evidence.finished and not evidence.flaws and not _ran(evidence):
        return RunOutcome.NO_TESTS, "no test ran"
    return RunOutcome.FAILED, _why_failed(evidence, exit_code)


def _decide_dry(evidence: Evidence, exit_code: int | None) -> tuple[RunOutcome, str]:
    if exit_code not in (0, 5):
        return RunOutcome.COLLECTION_ERROR, f"the collection ended with exit code {exit_code}"
    if not evidence.finished or evidence.flaws:
        return RunOutcome.MISMATCH, "the runner did not finish its collection"
    if not evidence.collected:
        return RunOutcome.NO_TESTS, "no test was collected"
    return RunOutcome.PASSED, ""


def _decide_zero(evidence: Evidence, pins: Collection[str]) -> tuple[RunOutcome, str]:
    """Exit code 0 alone proves nothing: every part of the story must agree with it."""
    if not evidence.finished:
        return RunOutcome.MISMATCH, "exit code 0, but the runner never reported its end"
    if evidence.flaws:
        return RunOutcome.MISMATCH, evidence.flaws[0]
    if evidence.status != 0:
        return RunOutcome.MISMATCH, f"exit code 0, but the runner ended with {evidence.status}"
    bad = [key for key, outcome in evidence.outcomes.items() if outcome in _BAD]
    if bad:
        return RunOutcome.MISMATCH, f"exit code 0, but {bad[0]} was reported as failed"
    wanted = tuple(pins) or evidence.collected
    if not any(evidence.outcomes.get(key) in _RAN for key in wanted):
        return RunOutcome.NO_TESTS, "none of the expected tests ran"
    return _decide_pins(evidence, pins)


def _decide_pins(evidence: Evidence, pins: Collection[str]) -> tuple[RunOutcome, str]:
    collected = set(evidence.collected)
    for key in pins:
        outcome = evidence.outcomes.get(key, "not reported")
        if key not in collected:
            return RunOutcome.MISMATCH, f"{key} was not collected"
        if outcome != "passed":
            return RunOutcome.MISMATCH, f"{key} was {outcome}, not passed"
    return RunOutcome.PASSED, ""


def _why_failed(evidence: Evidence, exit_code: int | None) -> str:
    if not evidence.finished:
        return f"the runner ended with {exit_code} before it reported its end"
    if not any(outcome in _BAD for outcome in evidence.outcomes.values()):
        return f"every reported test passed, but the runner ended with {exit_code}"
    return ""


def _ran(evidence: Evidence) -> bool:
    return any(outcome in _RAN for outcome in evidence.outcomes.values())


def pins_of(evidence: Evidence) -> tuple[str, ...]:
    """The test ids that later runs are held to: collected, and passed or failed in their call.

    Tests that the project itself skips or expects to fail are no pins: they prove nothing.
    """
    in_call = set(evidence.failed_in_call)
    return tuple(
        key
        for key in evidence.collected
        if evidence.outcomes.get(key) == "passed" or key in in_call
    )


def red_ids(evidence: Evidence) -> tuple[str, ...]:
    """The ids that were collected, ran, and failed in the call phase of a finished session."""
    if not evidence.finished or evidence.flaws or evidence.collection_errors:
        return ()
    collected = set(evidence.collected)
    return tuple(sorted(key for key in evidence.failed_in_call if key in collected))


def red_codes(kind: str, codes: Sequence[int | None]) -> bool:
    """Red for a plain command: exit status 1-125, the same each time (spec 5)."""
    first = codes[0] if codes else None
    return (
        kind == "exit_code"
        and first is not None
        and 1 <= first <= 125
        and all(code == first for code in codes)
    )
