"""Which assertions are tried by negative controls is not for the run under suspicion to choose."""

from spike_mcp.host.evidence import Evidence, passed_functions

PATH = "tests/test_a.py"
PINS = (f"{PATH}::test_one", f"{PATH}::test_two[x]", f"{PATH}::test_two[y]")


def test_an_id_that_the_run_made_up_hides_no_function() -> None:
    forged = {**dict.fromkeys(PINS, "passed"), f"{PATH}::test_one[more]": "skipped"}
    evidence = Evidence(kind="pytest", outcomes=forged)
    assert passed_functions(evidence, PATH, PINS) == {"test_one", "test_two"}


def test_a_pinned_id_that_did_not_pass_counts() -> None:
    outcomes = {**dict.fromkeys(PINS, "passed"), PINS[2]: "failed"}
    evidence = Evidence(kind="pytest", outcomes=outcomes)
    assert passed_functions(evidence, PATH, PINS) == {"test_one"}


def test_without_pins_every_reported_id_counts() -> None:
    outcomes = {PINS[0]: "passed", f"{PATH}::test_two[z]": "skipped"}
    evidence = Evidence(kind="pytest", outcomes=outcomes)
    assert passed_functions(evidence, PATH) == {"test_one"}
