"""Which assertions are tried by negative controls is not for the run under suspicion to choose."""

from spike_mcp.host.evidence import Evidence, passed_functions

PATH = "tests/test_a.py"
PINS = (f"{PATH}::test_one", f"{PATH}::test_two[x]", f"{PATH}::test_two[y]")


def test_an_id_that_the_run_made_up_hides_no_function() -> None:
    forged = {**dict.fromkeys(PINS, "passed"), f"{PATH}::test_one[more]": "skipped"}
    evidence = Evidence(kind="pytest", outcomes=forged)
    assert passed_functions(evidence, PATH, PINS) == {"test_one", "test_two"}


def test_ids_that_the_run_leaves_out_are_tried_all_the_same() -> None:
    evidence = Evidence(kind="pytest", outcomes={})
    assert passed_functions(evidence, PATH, PINS) == {"test_one", "test_two"}


def test_without_pins_every_reported_id_counts() -> None:
    outcomes = {PINS[0]: "passed", f"{PATH}::test_two[z]": "skipped"}
    evidence = Evidence(kind="pytest", outcomes=outcomes)
    assert passed_functions(evidence, PATH) == {"test_one"}
