"""A spike's server over HTTP on loopback, for the public suites only: the product speaks stdio.

Usage: http_app.py ROOT. Prints the URL on stdout; ends with SIGTERM.
"""

import socket
import sys
from pathlib import Path

import anyio
import uvicorn

from spike_mcp.edge.connection import make_server
from spike_mcp.edge.service import AgentService


async def main(root: Path) -> None:
    service = AgentService(lambda: root, patience=10.0)
    app = make_server(service, tend=False).streamable_http_app()
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    config = uvicorn.Config(app, log_level="warning", lifespan="on")
    async with anyio.create_task_group() as tasks:
        await tasks.start(service.run)
        print(f"http://{host}:{port}/mcp", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])
        await service.stop()
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
