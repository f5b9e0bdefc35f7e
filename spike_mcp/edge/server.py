"""`spike-mcp`: the MCP server that is the agent's only way to write and to run the test (spec 7).

`make_server` turns a service into an SDK server; `main` is the console script. Parsing and printing
only: what a call may do is decided by the gate, which sees every `tools/call`, broken ones too.
The SDK costs half a second to import, so `--help` and `connect` never load it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spike_mcp import __version__

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from spike_mcp.edge.service import AgentService

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
STOP_SECONDS = 5.0
"""Longest wait for a run that has to be killed and recorded when the client has left."""


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
    # The SDK makes a quarter of a million objects while it is imported, none of them garbage:
    # looking through them again and again is a tenth of the start, and of later calls.
    gc.disable()
    from spike_mcp.edge import replies, tools  # noqa: F401  (what `make_server` will need)
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

    from spike_mcp.core.codes import Problem, Usage
    from spike_mcp.edge.cli.find import locate

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


def make_server(service: AgentService, *, tend: bool = True) -> Server[dict[str, Any]]:
    """An SDK server for one connection to `service`.

    `tend`: the connection is the whole service's life, as over stdio: `service.run` lives and ends
    with it. Where several connections share a service the caller runs and stops it itself.
    """
    import mcp_types as types
    from mcp.server.lowlevel import Server

    from spike_mcp.edge import tools
    from spike_mcp.edge.replies import render

    listed = types.ListToolsResult.model_validate({"tools": [t.to_wire() for t in tools.TOOLS]})

    async def list_tools(
        _ctx: ServerRequestContext[dict[str, Any]], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return listed

    async def call_tool(
        ctx: ServerRequestContext[dict[str, Any]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answer = await service.call(
            params.name,
            params.arguments,
            client=_client(ctx),
            progress=ctx.session.report_progress,
        )
        shown = render(answer, params.name, service.secrets)
        return types.CallToolResult(
            content=[types.TextContent(text=shown.text)],
            is_error=shown.is_error,
            _meta=shown.meta,
        )

    @asynccontextmanager
    async def lifespan(_server: Server[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        if not tend:
            yield {}
            return
        async with _tended(service):
            yield {}

    server: Server[dict[str, Any]] = Server(
        tools.SERVER_NAME,
        version=__version__,
        title="spike-mcp",
        instructions=tools.INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # The SDK's only middleware sends a trace of each call to whatever exporter the client's
    # environment names. What the agent asks is the ledger's business alone.
    server.middleware.clear()
    return server


@asynccontextmanager
async def _tended(service: AgentService) -> AsyncIterator[None]:
    """`service.run` in the background; stopped in order at the end, whatever the end is."""
    import anyio

    async with anyio.create_task_group() as tasks:
        await tasks.start(service.run)
        try:
            yield
        finally:
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                await service.stop()
            tasks.cancel_scope.cancel()


def _client(ctx: ServerRequestContext[dict[str, Any]]) -> str:
    """Name and version that the client gives itself, for the session's row."""
    params = ctx.session.client_params
    if params is None:
        return ""
    return f"{params.client_info.name} {params.client_info.version}".strip()


if __name__ == "__main__":
    sys.exit(main())
