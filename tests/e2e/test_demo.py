"""`spike demo`: both stories, from the command line to the last line of output."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from alone import Alone, alone

from spike_mcp.edge.demo.stories import STORIES

SHIP = "SHIP oracle_unchanged_and_test_passed"


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    return alone(tmp_path_factory, tmp_path / "home")


def demo(here: Alone, *words: str) -> subprocess.CompletedProcess[str]:
    """`spike demo` with its output in one stream, as a person sees it."""
    return subprocess.run(
        [str(here.bin / "spike"), "demo", *words],
        env=here.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=170,
        check=False,
    )


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("example", STORIES)
def test_the_demo_ends_in_ship(here: Alone, example: str, tmp_path: Path) -> None:
    place = tmp_path / "played"
    done = demo(here, example, "--keep", str(place))
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == SHIP
    assert done.stdout.count("refused: ") == 5, "the agent is told no before it works"
    assert all(len(line) <= 200 for line in lines)
    assert "Traceback" not in done.stdout and "(s)" not in done.stdout
    # Messages stand where a terminal would show them: before what they lead to.
    assert done.stdout.index("making the worktree") < done.stdout.index("is open")
    assert (place / "spikes" / example / "verdict" / "result.json").exists()

    again = demo(here, example, "--keep", str(place))
    assert again.returncode == 64 and "is not empty" in again.stdout


def test_an_example_that_is_not_there_names_those_that_are(here: Alone) -> None:
    done = demo(here, "nosuch")
    assert done.returncode == 64
    assert all(name in done.stdout for name in STORIES)
