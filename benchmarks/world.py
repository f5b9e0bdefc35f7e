"""Repositories of any size and real, started spikes on them, for the benchmark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spike_mcp.session.agent import AgentDesk
from spike_mcp.session.opening import InitOptions, init
from spike_mcp.session.spike import Spike
from spike_mcp.session.starting import start

BIN = Path(sys.executable).parent
SPIKE = str(BIN / "spike")
SERVER = str(BIN / "spike-mcp")
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Bench",
    "GIT_AUTHOR_EMAIL": "bench@example.test",
    "GIT_COMMITTER_NAME": "Bench",
    "GIT_COMMITTER_EMAIL": "bench@example.test",
}
HYPOTHESIS = "rewriting the seven lines makes the sample file green for callers"
EDITED = "src/edited.py"
WHY = "the sample file turns green for callers"
LINES = "".join(f"value_{number} = {number}\n" for number in range(200))
SMALL = {
    EDITED: LINES,
    "src/run.sh": "exit 1\n",
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": ". src/run.sh\n",
}


def git(repo: Path, *arguments: str) -> bytes:
    """git in a repository, the user's configuration kept out."""
    command = ["git", "-C", str(repo), *arguments]
    env = {**os.environ, **GIT}
    return subprocess.run(command, check=True, capture_output=True, env=env).stdout


def make_repo(where: Path, files: int = 0, more: Mapping[str, str] = SMALL) -> Path:
    """A repository with one commit: `more`, and `files` small source files, 100 a directory."""
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main")
    for name, content in more.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for number in range(files):
        path = where / f"pkg{number // 10_000}" / f"mod{number // 100}" / f"file{number}.py"
        if number % 100 == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# file {number}\n\n\ndef answer() -> int:\n    return {number}\n")
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "baseline")
    return where


@contextmanager
def _kept(where: Path) -> Iterator[Path]:
    where.mkdir(parents=True)
    try:
        yield where
    finally:
        shutil.rmtree(where, ignore_errors=True)


def places(where: Path) -> Iterator[tuple[str, Path]]:
    """(name, fresh directory) on the disk, then on tmpfs where there is one; removed after use."""
    found = {"disk": where}
    if os.path.isdir("/dev/shm"):
        found["tmpfs"] = Path("/dev/shm") / f"spike-bench-{os.getpid()}-{where.name}"
    for name, place in found.items():
        with _kept(place):
            yield name, place


@contextmanager
def short_path() -> Iterator[None]:
    """A short PATH: a plain command seals every toolchain that it might start."""
    before = os.environ["PATH"]
    os.environ["PATH"] = "/usr/bin:/bin"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def open_spike(repo: Path, root: Path, **more: Any) -> Spike:
    """A started spike whose measurement is `sh check.sh`; below src/ all may be written."""
    values: dict[str, Any] = {
        "name": root.name,
        "hypothesis": HYPOTHESIS,
        "allow": ("src/",),
        "oracle": ("tests/test_oracle.py",),
        "argv": ("sh", "check.sh"),
        "cwd": repo,
        "root": root,
    }
    with short_path():
        result = init(InitOptions(**{**values, **more}), on_progress=_quiet)
        start(result.spike, manual=False, on_progress=_quiet)
    return result.spike


def many(files: int) -> dict[str, str]:
    """Files that `fill` may change: path -> 200 lines."""
    return {f"src/m{number}.py": LINES for number in range(files)}


def fill(spike: Spike, files: int, each: int) -> None:
    """`each` pending hunks in each of the files of `many(files)`; `each` divides 200."""
    desk = AgentDesk(spike, "bench")
    for number in range(files):
        path = f"src/m{number}.py"
        text = LINES
        for at in range(0, 200, 200 // each):
            text = text.replace(f"value_{at} = {at}\n", f"value_{at} = {at} + {number}\n")
        sha = desk.call("spike_read_file", {"path": path}).data["sha256"]
        wanted = {"path": path, "content": text, "expected_sha256": sha, "rationale": WHY}
        reply = desk.call("spike_write_file", wanted)
        assert reply.outcome == "accepted", reply


def _quiet(_text: str) -> None:
    return None


class Counter:
    """Edits of one line of one file that never repeat a content."""

    def __init__(self, at: int = 100) -> None:
        self._name = f"value_{at} = {at}"
        self._count = 0

    def next(self) -> tuple[str, str]:
        """(old text, new text) of the next edit."""
        old = f"{self._name}{self._tail()}\n"
        self._count += 1
        return old, f"{self._name}{self._tail()}\n"

    def _tail(self) -> str:
        return f" + {self._count}" if self._count else ""
