"""A clock that a test can put forward."""

from __future__ import annotations

from dataclasses import replace

from spike_mcp.core.clock import Reading
from spike_mcp.host.clock import Clock, SystemClock


class LateClock:
    """The machine's clock plus `late` seconds."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.late = 0.0

    def read(self) -> Reading:
        """All clocks, put forward alike."""
        now = self.clock.read()
        late = int(self.late * 1000)
        mono = None if now.mono_ms is None else now.mono_ms + late
        return replace(now, epoch=now.epoch + self.late, boot_ms=now.boot_ms + late, mono_ms=mono)
