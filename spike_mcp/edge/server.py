"""`spike-mcp`: the MCP server that is the agent's only way to write and to run the test (spec 7).

`main` is the console script; `connection.make_server` is what speaks MCP. The SDK costs half a
second to import, so `--help` and `connect` never load it.
"""

from __future__ import annotations

import sys

from spike_mcp import __version__

TYPE_CHECKING = False  # not from `typing`: `connect` is to start in a few milliseconds (spec 15)
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

USAGE = """\
usage: spike-mcp [--spike NAME|PATH]
       spike-mcp connect SOCKET

The MCP server of a spike, over stdio: for an agent's client to start, not for a terminal.
Without --spike the spike is the one that $SPIKE names, never the current directory's.

  --spike NAME|PATH  the spike to serve, by name or by directory
  connect SOCKET     pass stdio on to the server of `spike run` at SOCKET
  --version          print the version
  --help             print this

`spike client-config CLIENT` prints how to wire it into an agent's client.
"""
USAGE_EXIT = 64


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status (0 at the end of input, 128 + n on signals)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["connect"]:
        from spike_mcp.edge.bridge import main as connect

        return connect(words[1:])
    if "--help" in words or "-h" in words:
        sys.stdout.write(USAGE)
        return 0
    if "--version" in words:
        sys.stdout.write(f"spike-mcp {__version__}\n")
        return 0
    wanted = _wanted(words)
    if wanted is None:
        sys.stderr.write(USAGE)
        return USAGE_EXIT
    return _serve(wanted)


def _wanted(words: list[str]) -> str | None:
    """The value of --spike, "" without one, None where the words make no sense."""
    wanted = ""
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name != "--spike" or (not equals and not words):
            return None
        wanted = value if equals else words.pop(0)
        if not wanted:
            return None
    return wanted


def _serve(wanted: str) -> int:
    import gc

    from spike_mcp.edge.claim import claim_stdio

    fds = claim_stdio()
    # Importing the SDK leaves eighty thousand objects to be tracked, none of them garbage:
    # looking through them again and again is a tenth of the start, and of later calls.
    gc.disable()
    from spike_mcp.edge import replies, tools  # noqa: F401  (what `make_server` will need)
    from spike_mcp.edge.connection import make_server
    from spike_mcp.edge.service import AgentService
    from spike_mcp.edge.stdio import run_stdio

    gc.freeze()
    gc.enable()
    service = AgentService(lambda: find_spike(wanted))
    return run_stdio(
        lambda: make_server(service),
        fds=fds,
        on_stop=service.stop,
        on_bad_frame=lambda frame: service.note_unreadable(frame.message),
    )


def find_spike(wanted: str) -> Path:
    """The root of the spike called `wanted`, else of $SPIKE's. `Problem(SPIKE_NOT_FOUND)`."""
    import os
    from pathlib import Path

    from spike_mcp.core.codes import Problem, Usage
    from spike_mcp.edge.find import locate

    name = wanted or os.environ.get("SPIKE", "")
    if not name:
        raise Problem(
            Usage.SPIKE_NOT_FOUND,
            "the server was started without naming a spike",
            "tell the human: start it as spike-mcp --spike NAME, or set $SPIKE",
        )
    try:
        return Path(locate(name, os.environ, ""))
    except Problem as problem:
        sys.stderr.write(f"spike-mcp: {problem.message}\n")
        raise Problem(
            Usage.SPIKE_NOT_FOUND,
            f"the spike that this server is to serve can't be found: {name[:200]}",
            "tell the human: `spike list` shows the spikes there are",
        ) from problem


if __name__ == "__main__":
    sys.exit(main())
