"""`spike-mcp` with a clock that a test can put forward: the seconds in the file of argument 3.

Usage: clocked_server.py --spike ROOT SHIFT_FILE
"""

import sys
from pathlib import Path

from spike_mcp.edge.claim import claim_stdio

fds = claim_stdio()

from late_clock import FileClock  # noqa: E402

from spike_mcp.edge.connection import make_server  # noqa: E402
from spike_mcp.edge.service import AgentService  # noqa: E402
from spike_mcp.edge.stdio import run_stdio  # noqa: E402

ROOT, SHIFT = Path(sys.argv[2]), Path(sys.argv[3])
service = AgentService(lambda: ROOT, clock=FileClock(SHIFT), patience=2.0)
sys.exit(
    run_stdio(
        lambda: make_server(service),
        fds=fds,
        on_stop=service.stop,
        on_bad_frame=lambda frame: service.note_unreadable(frame.message),
    )
)
