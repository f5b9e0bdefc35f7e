"""Fixtures shared by all tests; the helpers themselves are plain modules beside this file."""

from pathlib import Path

import pytest
from checkout import Checkout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """An empty git repository of the user's, with a HOME of its own."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Checkout(tmp_path)
