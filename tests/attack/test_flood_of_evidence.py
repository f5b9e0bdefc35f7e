"""A test that tells endless stories about itself fills no memory and keeps nobody waiting.

The readers work in the server's process, so what they keep and how long they take must have a
bound whatever is printed. None of these tests looks at a clock: what was quadratic took an hour.
"""

from __future__ import annotations

import json

import pytest

from spike_mcp.core.vectors import parse
from spike_mcp.host.evidence import cargo, go, stream
from spike_mcp.host.vectors import _VectorAdapter

pytestmark = pytest.mark.security

LONG = "x" * 100_000


def sizes(reader: object) -> list[int]:
    """How many things each collection of a reader holds."""
    return [len(value) for value in vars(reader).values() if isinstance(value, dict | list)]


def texts(reader: object) -> int:
    """Characters of all strings in a reader's collections."""
    found = 0
    for value in vars(reader).values():
        if isinstance(value, dict | list):
            found += sum(len(str(item)) for item in value)
    return found


def test_one_test_reported_a_hundred_thousand_times_is_counted_at_once() -> None:
    reader = cargo.CargoReader(dry=False)
    reader.text(b"running 100000 tests")
    for _ in range(100_000):
        reader.text(b"test same ... ok")
    assert len(reader.evidence().outcomes) == 100_000


def test_a_summary_said_over_and_over_counts_its_tests_once() -> None:
    reader = cargo.CargoReader(dry=False)
    reader.text(b"running 1 test")
    for number in range(50_000):
        reader.text(b"test t%d ... ok" % number)
    for _ in range(20_000):
        reader.text(b"test result: ok. 50000 passed; 0 failed; 0 ignored; 0 measured")
    assert reader.evidence().flaws


@pytest.mark.parametrize("dry", [False, True])
def test_test_names_of_any_length_are_kept_short_and_apart(dry: bool) -> None:
    rust, golang = cargo.CargoReader(dry), go.GoReader(dry)
    events = stream.EventReader("pytest", "")
    rust.text(b"running 50 tests")
    for number in range(50):
        name = f"{LONG}{number}"
        rust.text(f"test {name} ... ok".encode())
        rust.text(f"{name}: test".encode())
        golang.text(json.dumps({"Action": "run", "Package": name, "Test": name}).encode())
        golang.text(json.dumps({"Action": "fail", "Package": "p", "Test": name}).encode())
        golang.text(json.dumps({"Action": "output", "Package": "p", "Output": f"{name}"}).encode())
        row = {"kind": "collected", "seq": 2 * number, "ids": [name]}
        events.event(json.dumps(row).encode())
        row = {"kind": "report", "id": name, "when": "call", "outcome": "passed"}
        events.event(json.dumps({**row, "seq": 2 * number + 1}).encode())
    for reader in (rust, golang, events):
        assert texts(reader) < 500_000
    found = events.evidence()
    assert set(found.collected) == set(found.outcomes) and len(found.collected) == 50
    assert not found.flaws


def test_what_a_run_has_few_of_is_kept_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (stream, go):
        monkeypatch.setattr(module, "MAX_FEW", 100)
        monkeypatch.setattr(module, "MAX_IDS", 100)
    monkeypatch.setattr(stream, "MAX_FILES", 100)
    monkeypatch.setattr(go, "MAX_PACKAGES", 100)
    events, golang = stream.EventReader("pytest", ""), go.GoReader(dry=False)
    for number in range(0, 2500, 5):
        rows = [
            {"kind": "collect_error", "id": "a", "text": "b"},
            {"kind": "note", "text": "b"},
            {"kind": "modules", "modules": [["m", "/m"]] * 10},
            {"kind": "opened", "opened": ["a"] * 10},
            {"kind": "deselected", "ids": ["a"] * 10},
        ]
        for offset, row in enumerate(rows):
            events.event(json.dumps({**row, "seq": number + offset}).encode())
        golang.text(json.dumps({"Action": "pass", "Package": f"p{number}"}).encode())
        golang.text(json.dumps({"Action": "run", "Package": "p0", "Test": f"{number}"}).encode())
        golang.text(b"FAIL p [build failed]")
    assert max(sizes(events)) <= 100
    assert max(sizes(golang)) <= 101
    assert golang.evidence().flaws


def test_answers_to_vectors_that_nobody_asked_are_not_kept() -> None:
    vectors = parse('[[vector]]\ncall = "m:f"\nargs = [1]\nexpect = 2\n')
    reader = _VectorAdapter(vectors).found
    for number in range(1000):
        row = {"kind": "result", "seq": number, "index": number - 500, "value": ["i", "0x2"]}
        reader.event(json.dumps(row).encode())
    assert set(reader.answers) == {0}
    assert reader.evidence().flaws
