"""`spike doctor`: what is missing is named with its remedy."""

from __future__ import annotations

import pytest
from cli_desk import spike, valid

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge.cli import doctor


def test_doctor_looks_at_everything_and_answers_in_its_schema() -> None:
    told = spike("doctor", "--json")
    found = valid("doctor", told)
    names = {finding["name"] for finding in found["findings"]}
    assert {"python", "packages", "git", "bubblewrap", "user", "spikes"} <= names
    assert told.code == (0 if found["ok"] else 78)


def test_what_is_missing_comes_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise Problem(Refusal.SANDBOX_UNAVAILABLE, "no user namespaces", "sysctl -w some.thing=1")

    monkeypatch.setattr("spike_mcp.host.sandbox.self_test", refused)
    told = spike("doctor")
    assert told.code == 78
    assert "no user namespaces" in told.out and "remedy: sysctl -w some.thing=1" in told.out
    monkeypatch.setenv("PATH", "/nowhere")
    told = spike("doctor", "--json")
    levels = {each["name"]: each for each in told.json["findings"]}
    assert levels["git"]["level"] == "bad" and levels["git"]["remedy"]


def test_a_home_that_can_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOOKS", (doctor._home,))
    monkeypatch.setattr("os.access", lambda *_args: False)
    told = spike("doctor")
    assert told.code == 78 and "can't be written" in told.out and "$SPIKE_HOME" in told.out
