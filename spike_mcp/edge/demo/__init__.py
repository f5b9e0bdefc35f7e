"""`spike demo`: a whole spike on a bundled example, with nothing simulated (spec 13).

A real git worktree, a real server over stdio, a scripted agent that is an ordinary MCP client, and
the human side through the real command line. Only the agent's model is missing: its calls are
written down in `stories.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.edge.demo.stage import Stage
from spike_mcp.edge.demo.stories import STORIES

__all__ = ["main"]


def main(example: str = "retry-after", keep: str = "") -> int:
    """Play a story; 0 if it ended in SHIP. `keep`: directory to play in (default: a new one).

    `Problem(USAGE)` for an example that is not there, and for a directory that is not empty.
    """
    began = time.monotonic()
    if example not in STORIES:
        there = ", ".join(STORIES)
        raise Problem(Usage.USAGE, f"there is no example {example}", f"there are: {there}")
    top = _room(keep)
    repo = make_repository(example, top / example)
    stage = Stage(top, repo, example)
    try:
        STORIES[example](stage)
    except stage.Failed as failed:
        print(f"\nthe demo stopped: {failed}", file=sys.stderr)
        return 1
    stage.say(
        "",
        f"played in {time.monotonic() - began:.0f} s. Look around:",
        f"  spike --spike {stage.root} log        every row of the ledger",
        f"  spike --spike {stage.root} report     the page for the ticket",
        f"  {stage.root}/verdict/result.json",
        f"  git -C {repo} log -1 spike/{example}",
        f"remove it all: rm -rf {top}",
    )
    print(stage.verdict_line)
    return 0


def _room(keep: str) -> Path:
    """An empty directory to play in."""
    if not keep:
        return Path(tempfile.mkdtemp(prefix="spike-demo-")).resolve()
    top = Path(keep).resolve()
    try:
        top.mkdir(parents=True, exist_ok=True)
        taken = any(top.iterdir())
    except OSError as error:
        why = error.strerror or str(error)
        raise Problem(Usage.USAGE, f"{top} can't be used: {why}", "name another") from error
    if taken:
        raise Problem(Usage.USAGE, f"{top} is not empty", "name a directory that is new or empty")
    return top


def make_repository(example: str, where: Path) -> Path:
    """The example's project as a git repository with one commit."""
    source = resources.files("spike_mcp") / "examples" / example / "project"
    with resources.as_file(source) as project:
        shutil.copytree(project, where, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    identity = {
        "GIT_AUTHOR_NAME": "Demo",
        "GIT_AUTHOR_EMAIL": "demo@example.test",
        "GIT_COMMITTER_NAME": "Demo",
        "GIT_COMMITTER_EMAIL": "demo@example.test",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("commit", "-q", "-m", "The project before the spike"),
    ):
        subprocess.run(["git", *arguments], cwd=where, check=True, env={**os.environ, **identity})
    return where
