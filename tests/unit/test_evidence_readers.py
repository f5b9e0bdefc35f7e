"""Readers of what runners say: lies that contradict themselves become flaws (spec 11)."""

import json

import pytest

from spike_mcp.host.evidence import RunOutcome, decide
from spike_mcp.host.evidence.cargo import CargoAdapter, CargoReader
from spike_mcp.host.evidence.go import GoAdapter, GoReader
from spike_mcp.host.evidence.node import NodeAdapter
from spike_mcp.host.evidence.python import PytestAdapter, UnittestAdapter
from spike_mcp.host.evidence.stream import EventReader
from spike_mcp.host.sandbox.model import Places


def _read(*rows: dict[str, object], numbered: bool = True) -> EventReader:
    reader = EventReader("pytest", "")
    for index, row in enumerate(rows):
        reader.event(json.dumps({**({"seq": index} if numbered else {}), **row}).encode())
    return reader


START = {"kind": "start"}
COLLECTED = {"kind": "collected", "ids": ["a"]}
FINISH = {"kind": "finish", "status": 0}


def _phases(call: str, **more: object) -> list[dict[str, object]]:
    return [
        {"kind": "report", "id": "a", "when": "setup", "outcome": "passed"},
        {"kind": "report", "id": "a", "when": "call", "outcome": call, **more},
        {"kind": "report", "id": "a", "when": "teardown", "outcome": "passed"},
    ]


@pytest.mark.parametrize(
    ("call", "more", "want"),
    [
        ("passed", {}, "passed"),
        ("failed", {}, "failed"),
        ("skipped", {}, "skipped"),
        ("skipped", {"xfail": True}, "xfailed"),
        ("passed", {"xfail": True}, "xpassed"),
        ("rerun", {}, "rerun"),
        ("nonsense", {}, "error"),
    ],
)
def test_phases_make_one_outcome(call: str, more: dict[str, object], want: str) -> None:
    evidence = _read(START, COLLECTED, *_phases(call, **more), FINISH).evidence()
    assert evidence.outcomes == {"a": want}
    assert not evidence.flaws


def test_a_rerun_that_passes_at_last_is_no_pass() -> None:
    evidence = _read(START, COLLECTED, *_phases("rerun"), *_phases("passed"), FINISH).evidence()
    assert evidence.outcomes == {"a": "rerun"}


def test_a_failed_tear_down_is_an_error_not_a_red_test() -> None:
    rows = _phases("passed")
    rows[2]["outcome"] = "failed"
    evidence = _read(START, COLLECTED, *rows, FINISH).evidence()
    assert evidence.outcomes == {"a": "error"}
    assert evidence.failed_in_call == ()


@pytest.mark.parametrize(
    "rows",
    [
        [START, COLLECTED, FINISH, *_phases("passed")],
        [START, COLLECTED, FINISH, FINISH],
        [START, {**COLLECTED, "seq": 7}],
        [START, {"kind": "unheard_of"}],
        [START, {"kind": "report", "id": "a"}],
        [START, COLLECTED, START],
        [{"kind": "collected", "ids": "a"}],
    ],
)
def test_a_story_that_does_not_fit_has_a_flaw(rows: list[dict[str, object]]) -> None:
    assert _read(*rows).evidence().flaws


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"7", b"\xff", b"[" * 100_000])
def test_garbage_is_a_flaw_and_never_an_exception(line: bytes) -> None:
    reader = EventReader("pytest", "")
    reader.event(line)
    assert reader.evidence().flaws


# -- go


def _go(*rows: tuple[str, str | None], package: str = "p") -> GoReader:
    reader = GoReader(dry=False)
    for action, test in rows:
        row = {"Action": action, "Package": package} | ({"Test": test} if test else {})
        reader.text(json.dumps(row).encode())
    return reader


def test_go_events_become_outcomes() -> None:
    evidence = _go(
        ("run", "TestA"), ("pass", "TestA"), ("run", "TestB"), ("fail", "TestB"), ("fail", None)
    ).evidence()
    assert evidence.outcomes == {"p::TestA": "passed", "p::TestB": "failed"}
    assert evidence.failed_in_call == ("p::TestB",)
    assert (evidence.finished, evidence.status) == (True, 1)


def test_go_without_the_package_end_is_unfinished() -> None:
    assert not _go(("run", "TestA"), ("pass", "TestA")).evidence().finished


@pytest.mark.parametrize(
    "rows",
    [
        [("pass", "TestA"), ("pass", None)],
        [("run", "TestA"), ("pass", "TestA"), ("pass", "TestA"), ("pass", None)],
        [("run", "TestA"), ("pass", "TestA"), ("pass", None), ("run", "TestA")],
    ],
)
def test_go_events_out_of_order_are_flaws(rows: list[tuple[str, str | None]]) -> None:
    assert _go(*rows).evidence().flaws


def test_go_shows_output_and_hides_events() -> None:
    reader = GoReader(dry=False)
    assert reader.text(b'{"Action":"output","Package":"p","Output":"hi\\n"}') == b"hi"
    assert reader.text(b'{"Action":"run","Package":"p","Test":"TestA"}') is None
    assert reader.text(b"FAIL\tp [build failed]") == b"FAIL\tp [build failed]"
    assert reader.evidence().collection_errors == ("FAIL p [build failed]",)


# -- cargo

RUST = """\
running 3 tests
test pan - should panic ... ok
test bad ... FAILED
test skipped ... ignored, slow

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s
"""


def _cargo(text: str) -> CargoReader:
    reader = CargoReader(dry=False)
    for line in text.encode().splitlines():
        assert reader.text(line) == line
    return reader


def test_cargo_lines_become_outcomes() -> None:
    evidence = _cargo(RUST).evidence()
    assert evidence.outcomes == {"pan": "passed", "bad": "failed", "skipped": "skipped"}
    assert (evidence.finished, evidence.status, evidence.flaws) == (True, 101, ())


def test_two_test_programs_may_share_a_name() -> None:
    one = (
        "running 1 test\ntest a ... ok\n"
        "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"
    )
    assert _cargo(one + one).evidence().collected == ("a", "a#2")


@pytest.mark.parametrize(
    "text",
    [
        "test forged ... ok\n",
        RUST.replace("running 3", "running 4"),
        RUST.replace("1 passed", "2 passed").replace("1 failed", "0 failed"),
        "running 1 test\n" + RUST,
        RUST + "test late ... ok\n",
    ],
)
def test_cargo_output_that_does_not_add_up_is_a_flaw(text: str) -> None:
    assert _cargo(text).evidence().flaws


def test_cargo_that_compiled_nothing_is_a_collection_error() -> None:
    evidence = _cargo("").evidence()
    assert decide(evidence, 101, ())[0] is RunOutcome.COLLECTION_ERROR
    assert decide(evidence, 0, ("a",))[0] is RunOutcome.MISMATCH


# -- how runners are started


def _places(*argv: str) -> Places:
    return Places(program=argv[0], argv=argv)


@pytest.mark.parametrize(
    ("adapter", "argv", "want"),
    [
        (
            PytestAdapter(),
            ("/p/python", "-X", "dev", "-m", "pytest", "t.py", "-q"),
            ("/p/python", "-X", "dev", "-B", "/i/pytest_run.py", "module", "t.py", "-q"),
        ),
        (
            PytestAdapter(),
            ("/p/python", "/p/pytest", "-q"),
            ("/p/python", "-B", "/i/pytest_run.py", "/p/pytest", "-q"),
        ),
        (
            UnittestAdapter(),
            ("/p/python", "-m", "unittest", "-v", "t"),
            ("/p/python", "-B", "/i/unittest_run.py", "run", "-v", "t"),
        ),
        (GoAdapter(), ("/g/go", "test", "-v", "./..."), ("/g/go", "test", "-json", "-v", "./...")),
        (GoAdapter(), ("/g/go", "test", "-json", "."), ("/g/go", "test", "-json", ".")),
        (
            CargoAdapter(),
            ("/c/cargo", "test", "-q", "--", "ties", "--format=terse"),
            ("/c/cargo", "test", "-q", "--", "--format=pretty", "--color=never", "ties"),
        ),
        (
            NodeAdapter(),
            ("/n/node", "--test", "t/"),
            (
                *("/n/node", "--test-reporter=spec", "--test-reporter-destination=stdout"),
                *("--test-reporter=/i/node_reporter.mjs", "--test-reporter-destination=stderr"),
                *("--test", "t/"),
            ),
        ),
    ],
)
def test_each_runner_keeps_its_own_arguments(
    adapter: object, argv: tuple[str, ...], want: tuple[str, ...]
) -> None:
    assert adapter.launch(_places(*argv), "/i", False).argv == want  # type: ignore[attr-defined]
