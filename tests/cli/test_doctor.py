"""`spike doctor`: what is missing is named with its remedy."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

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


def test_a_machine_without_the_extras_is_told_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bubblewrap in PATH and none as a wheel, no Textual, no node, no agent client."""
    git = shutil.which("git")
    assert git is not None
    (tmp_path / "git").symlink_to(git)
    version = metadata.version

    def without_textual(name: str) -> str:
        if name == "textual":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(metadata, "version", without_textual)
    monkeypatch.setattr("spike_mcp.host.sandbox.machine.find_spec", lambda _name: None)
    told = spike("doctor")
    assert told.code == 78
    lines = told.out.splitlines()
    for level, name, detail, remedy in (
        (
            "warn",
            "textual",
            "not installed: `spike review` works with --plain only",
            "pip install 'spike-referee[review]'",
        ),
        (
            "bad",
            "bubblewrap",
            "bubblewrap (bwrap) is not installed",
            "install bubblewrap 0.8 or newer (apt install bubblewrap), "
            "or pip install 'spike-referee[sandbox]'",
        ),
    ):
        at = lines.index(f"{level:<6}{name:<14}{detail}")
        assert lines[at + 1] == f"{'':20}remedy: {remedy}"
    assert f"{'ok':<6}{'clients':<14}no agent client that is known here is in your PATH" in lines
    assert told.err == "no spike runs here without bubblewrap\n"


def test_a_home_that_can_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOOKS", (doctor._home,))
    monkeypatch.setattr("os.access", lambda *_args: False)
    told = spike("doctor")
    assert told.code == 78 and "can't be written" in told.out and "$SPIKE_HOME" in told.out
