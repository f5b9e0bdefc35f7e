"""`spike-mcp` with a clock that a test can put forward: the seconds in the file of argument 3.

Usage: clocked_server.py --spike ROOT SHIFT_FILE
"""

import sys
from dataclasses import replace
from pathlib import Path

from spike_mcp.edge.claim import claim_stdio

fds = claim_stdio()

from spike_mcp.core.clock import Reading  # noqa: E402
from spike_mcp.edge.connection import make_server  # noqa: E402
from spike_mcp.edge.service import AgentService  # noqa: E402
from spike_mcp.edge.stdio import run_stdio  # noqa: E402
from spike_mcp.host.clock import SystemClock  # noqa: E402

ROOT, SHIFT = Path(sys.argv[2]), Path(sys.argv[3])


class ShiftedClock(SystemClock):
    """The machine's clocks, later by what the file says."""

    def read(self) -> Reading:
        found = super().read()
        shift = float(SHIFT.read_text() or 0) if SHIFT.exists() else 0.0
        return replace(
            found,
            epoch=round(found.epoch + shift, 3),
            boot_ms=found.boot_ms + int(shift * 1000),
            mono_ms=None if found.mono_ms is None else found.mono_ms + int(shift * 1000),
        )


service = AgentService(lambda: ROOT, clock=ShiftedClock(), patience=2.0)
sys.exit(
    run_stdio(
        lambda: make_server(service),
        fds=fds,
        on_stop=service.stop,
        on_bad_frame=lambda frame: service.note_unreadable(frame.message),
    )
)
