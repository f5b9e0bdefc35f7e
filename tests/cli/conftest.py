"""Places and spikes for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_desk import INIT, spike
from support import PLAIN, Open, make_repo, open_plain


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for spikes, no spike named, a short PATH, nobody's colours."""
    for name in ("SPIKE", "NO_COLOR", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPIKE_HOME", str(tmp_path / "spikes"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def repo(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository over the plain fixture; the current directory is in it."""
    made = make_repo(place / "repo", PLAIN)
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def opened(repo: Path) -> Path:
    """A spike called `plain`, not started; its root."""
    told = spike("init", "plain", "--json", *INIT)
    assert told.code == 0, told.out
    return Path(told.json["root"])


@pytest.fixture
def started(place: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """A running spike with the agent's door; $SPIKE names it."""
    made = open_plain(place)
    monkeypatch.setenv("SPIKE", str(made.spike.root))
    return made
