"""One MCP connection: the SDK's server around the service that every call goes to (spec 7).

Parsing and printing only: what a call may do is decided by the gate, which sees every `tools/call`,
broken ones too. The SDK costs half a second to import, so this module is loaded where it is needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from spike_mcp import __version__

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from spike_mcp.edge.service import AgentService

STOP_SECONDS = 5.0
"""Longest wait for a run that has to be killed and recorded when the client has left."""


def make_server(service: AgentService, *, tend: bool = True) -> Server[dict[str, Any]]:
    """An SDK server for one connection to `service`.

    `tend`: the connection is the whole service's life, as over stdio: `service.run` lives and ends
    with it. Where several connections share a service the caller runs and stops it itself.
    """
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    from spike_mcp.edge import tools
    from spike_mcp.edge.replies import render

    listed = types.ListToolsResult.model_validate({"tools": [t.to_wire() for t in tools.TOOLS]})

    async def list_tools(
        _ctx: ServerRequestContext[dict[str, Any]], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            # There is one page, and no cursor of ours for another one.
            raise MCPError(types.INVALID_PARAMS, "there is no such page of tools")
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
