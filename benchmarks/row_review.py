"""The review screen on a real pseudo-terminal: its start, and a key press, with 400 hunks."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import termios
import time
from pathlib import Path
from types import TracebackType

import world
from harness import Line, Results
from peers import Peers
from world import SPIKE

FILES, EACH = 20, 20
HUNKS = FILES * EACH
ROWS, COLUMNS = 36, 120
QUIET = 0.08
"""Seconds without a byte after which the screen counts as drawn."""
FULL_SCREEN = b"\x1b[?1049h"
KEYS = {"next hunk": b"j", "next pending": b"n", "next file": b"}", "more context": b"e"}
LIMITS = {"max_pending": HUNKS + 50, "max_blob_bytes": 1 << 30}


def measure(top: Path, _peers: Peers, results: Results, rounds: int) -> None:
    """Starts first, then keys in turns on one screen."""
    repo = world.make_repo(top / "review", more={**world.SMALL, **world.many(FILES)})
    spike = world.open_spike(repo, top / "review-root", budgets=LIMITS)
    world.fill(spike, FILES, EACH)
    argv = [SPIKE, "--spike", str(spike.root), "review"]

    starts = []
    for _round in range(rounds + 1):
        with Screen(argv) as screen:
            starts.append(screen.started)
    start = statistics.median(starts[1:]) * 1000
    what = f"`spike review` with {HUNKS} hunks, start to a drawn screen"
    results.add(Line("review", what, start, most=1000))

    taken: dict[str, list[float]] = {name: [] for name in KEYS}
    with Screen(argv) as screen:
        for _round in range(rounds * 3):
            for name, key in KEYS.items():
                taken[name].append(screen.press(key))
    for name, times in taken.items():
        middle = statistics.median(times) * 1000
        note = f"worst of {len(times)}: {max(times) * 1000:.0f} ms"
        what = f"key press to its last byte, {name}, {HUNKS} hunks"
        results.add(Line("review", what, middle, most=50, note=note))


class Screen:
    """A program on a pseudo-terminal of 120 x 36. `started` = seconds to its first drawn screen."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv

    def __enter__(self) -> Screen:
        began = time.perf_counter()
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.environ["TERM"] = "xterm-256color"
            os.execv(self._argv[0], self._argv)
        drawn, seen = self._until_quiet(b"pending", 15)
        assert FULL_SCREEN in seen, seen[-500:]  # not the line-by-line review of a poorer terminal
        self.started = drawn - began
        return self

    def press(self, key: bytes) -> float:
        """Seconds from a key to the last byte that the screen wrote because of it."""
        began = time.perf_counter()
        os.write(self._fd, key)
        drawn, seen = self._until_quiet(b"", 2)
        assert seen, key
        return drawn - began

    def _until_quiet(self, word: bytes, seconds: float) -> tuple[float, bytes]:
        """(when the last byte came, all bytes), once `word` came and then nothing for a while."""
        seen, last = b"", time.perf_counter()
        end = last + seconds
        while time.perf_counter() < end:
            waits = QUIET if seen and word in seen else end - time.perf_counter()
            if not select.select([self._fd], [], [], max(0.0, waits))[0]:
                break
            seen += os.read(self._fd, 65536)
            last = time.perf_counter()
        return last, seen

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)
