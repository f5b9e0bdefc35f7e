"""Fixtures for whole spikes: one small Python environment a session, one `play` a test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judge_cases import Case
from judge_player import Play, Played, Player
from slim import shared_directory, slim_environment
from toolchains import needs


@pytest.fixture(scope="session")
def slim_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment with pytest alone, shared by all workers."""
    return slim_environment(shared_directory(tmp_path_factory) / "slim")


@pytest.fixture
def human_path(slim_bin: Path) -> Callable[[str], str]:
    """PATH of a human whose measurement needs `tool`: small, so that little has to be sealed."""

    def path(tool: str) -> str:
        more = [os.path.dirname(needs(tool))] if tool else []
        return os.pathsep.join([str(slim_bin), *more, "/usr/local/bin", "/usr/bin", "/bin"])

    return path


@pytest.fixture
def play(
    tmp_path: Path,
    human_path: Callable[[str], str],
    record_property: Callable[[str, object], None],
) -> Play:
    """Play a case; what became of it goes into the table at the end of the session."""

    def run(case: Case, **options: Any) -> Played:
        played = Player(case, tmp_path, human_path(case.tool), **options).play()
        if not options:
            record_property("judge", json.dumps(played.row()))
        return played

    return run
