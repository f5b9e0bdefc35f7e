"""Fixtures shared by all tests; the helpers themselves are plain modules beside this file."""

import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from checkout import Checkout
from judge_table import pytest_terminal_summary
from toolchains import without_dead_shims

__all__ = ["pytest_terminal_summary"]


def pytest_configure() -> None:
    """What the machine's PATH lacks of what tests take for granted.

    A rustup that has no toolchain (another HOME) must not stand before a cargo that works; and
    Debian has a python3 and no python, which is what most measurements here are called by.
    """
    path = without_dead_shims(os.environ["PATH"])
    if shutil.which("python", path=path) is None:
        path += os.pathsep + os.path.dirname(sys.executable)
    os.environ["PATH"] = path


ON_DEMAND = {"heavy": "clients", "install": "install", "soak": "soak"}
"""Tests of these marks take minutes: they run where `-m` names the word beside it (Makefile)."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what nobody asked for."""
    unasked = [mark for mark, word in ON_DEMAND.items() if word not in config.option.markexpr]
    left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """An empty git repository of the user's, with a HOME of its own."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Checkout(tmp_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a security test that is skipped is a failure: a promise that nobody checked."""
    report = yield
    required = os.environ.get("SPIKE_REQUIRE_SECURITY_TESTS") == "1"
    if required and report.skipped and item.get_closest_marker("security"):
        report.outcome = "failed"
        report.longrepr = f"a security test was skipped: {report.longrepr}"
    return report
