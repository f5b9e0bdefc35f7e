"""Servers that the benchmark itself brings: the SDK with one empty tool, and nothing else.

`python servers.py low` is the SDK's low-level server, `high` its `MCPServer`, `fastmcp` the package
of that name (in its own environment). All speak over the transport of their own library.
"""

import sys


def low() -> None:
    """The least that the SDK can serve: one tool that answers an empty text."""
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    schema = {"type": "object", "properties": {}}
    listed = types.ListToolsResult(tools=[types.Tool(name="empty", input_schema=schema)])
    answer = types.CallToolResult(content=[types.TextContent(text="")])

    async def list_tools(_ctx: object, _params: object) -> types.ListToolsResult:
        return listed

    async def call_tool(_ctx: object, _params: object) -> types.CallToolResult:
        return answer

    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)

    async def main() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(main)


def high() -> None:
    """The same by the SDK's convenience layer."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bare")

    @server.tool()
    def empty() -> str:
        return ""

    server.run()


def fastmcp() -> None:
    """The same by the fastmcp package."""
    from fastmcp import FastMCP

    server = FastMCP("bare")

    @server.tool
    def empty() -> str:
        return ""

    server.run(show_banner=False)


if __name__ == "__main__":
    {"low": low, "high": high, "fastmcp": fastmcp}[sys.argv[1]]()
