"""A low-level server with five tools, served by our transport: what the transport tests start."""

import os
import subprocess
import sys
from pathlib import Path

import anyio

from spike_mcp.edge.claim import claim_stdio

fds = claim_stdio()
print('{"jsonrpc": "2.0", "id": 0, "result": {}}')  # a dependency that prints at import

import mcp_types as types  # noqa: E402
from mcp.server.lowlevel import Server  # noqa: E402

from spike_mcp.edge.stdio import run_stdio  # noqa: E402

LOG = Path(sys.argv[1])


def note(text: str) -> None:
    with LOG.open("a") as log:
        log.write(text + "\n")


def reply(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return reply(str(arguments.get("text", "")))
        case "slow":
            note("slow began")
            try:
                await anyio.sleep(float(arguments["seconds"]))
            except anyio.get_cancelled_exc_class():
                note("slow cancelled")
                raise
            note("slow ended")
            return reply("slept")
        case "big":
            return reply("x" * int(arguments["size"]))
        case "hang":  # a thread that nothing can stop
            return await anyio.to_thread.run_sync(lambda: anyio.run(anyio.sleep, 60))
        case "noise":  # a child and a careless library, on both standard streams
            print("\xff stray print", flush=True)
            os.write(1, b'{"jsonrpc": "2.0", "id": 99, "result": {}}\n')
            code = "import sys; sys.stdout.write('child says hi\\n'); print(len(sys.stdin.read()))"
            subprocess.run([sys.executable, "-c", code], check=True)
            return reply("\ud800 \u2028 quiet")
        case "progress":
            for step in range(int(arguments["steps"])):
                await ctx.session.send_progress_notification(
                    progress_token=(ctx.meta or {}).get("progress_token", "t"),
                    progress=float(step),
                    message="y" * 4096,
                )
            return reply("done")
        case _:
            raise RuntimeError("secret detail /judge")


async def list_tools(ctx, params):
    schema = {"type": "object", "properties": {}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])


async def on_stop() -> None:
    note("on_stop")


def make_server():
    return Server("tiny", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


if __name__ == "__main__":
    sys.exit(run_stdio(make_server, fds=fds, on_stop=on_stop))
