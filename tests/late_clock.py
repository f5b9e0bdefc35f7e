"""Clocks that a test can put forward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spike_mcp.core.clock import Reading
from spike_mcp.host.clock import Clock, SystemClock


def put_forward(now: Reading, seconds: float) -> Reading:
    """All clocks, put forward alike."""
    moved = int(seconds * 1000)
    mono = None if now.mono_ms is None else now.mono_ms + moved
    epoch = round(now.epoch + seconds, 3)
    return replace(now, epoch=epoch, boot_ms=now.boot_ms + moved, mono_ms=mono)


class LateClock:
    """The machine's clock plus `late` seconds."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.late = 0.0

    def read(self) -> Reading:
        return put_forward(self.clock.read(), self.late)


class FileClock(SystemClock):
    """The machine's clock plus the seconds that a file holds, for several processes; none: 0."""

    def __init__(self, shift: Path) -> None:
        self._shift = shift

    def read(self) -> Reading:
        seconds = float(self._shift.read_text() or 0) if self._shift.exists() else 0.0
        return put_forward(super().read(), seconds)
