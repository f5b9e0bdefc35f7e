"""`spike`, the human's command (spec 13).

This file imports nothing of weight: `spike status` must answer in the time of a few empty
interpreters (spec 15), so every verb loads what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code; never raises."""
    from spike_mcp.edge.cli.app import run

    return run(argv)
