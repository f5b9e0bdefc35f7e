"""A spike that can be put back to where it was: opening one takes half a second, this a few ms."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import Open, open_plain

from spike_mcp.host.clock import Clock, ManualClock
from spike_mcp.session.spike import Spike


@contextmanager
def quick_directory() -> Iterator[Path]:
    """A temporary directory in memory where there is one: thousands of synced writes follow."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="spike-test-", dir=place) as name:
        yield Path(name).resolve()


class Frozen:
    """A started spike and a copy of everything that it may change: judge, work, verdict, index."""

    def __init__(self, where: Path, clock: Clock | None = None, **more: Any) -> None:
        opened = open_plain(where, clock=clock or ManualClock(), **more)
        self.root, self.repo = opened.spike.root, opened.repo
        admin = self.repo / ".git" / "worktrees"
        self._places = [self.root / name for name in ("judge", "work", "verdict")] + [admin]
        self._copy = where / "frozen"
        self.freeze()

    def freeze(self) -> None:
        """This is the moment to come back to."""
        shutil.rmtree(self._copy, ignore_errors=True)
        for number, place in enumerate(self._places):
            shutil.copytree(place, self._copy / str(number), symlinks=True)

    def thaw(self, clock: Clock | None = None) -> Open:
        """The spike as it was then, seen by a new process. The directories stay the same ones."""
        for number, place in enumerate(self._places):
            _empty(place)
            shutil.copytree(self._copy / str(number), place, symlinks=True, dirs_exist_ok=True)
        return self.reopen(clock)

    def reopen(self, clock: Clock | None = None) -> Open:
        """The spike as it is, seen by a new process."""
        return Open(Spike(self.root, clock or ManualClock()), self.repo)


def _empty(place: Path) -> None:
    for entry in os.scandir(place):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
