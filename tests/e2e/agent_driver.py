"""Run one agent by `run_agent` in a process of its own, and write what happened to a file.

`agent_driver.py REPORT JSON`; the JSON's keys: root, argv, and what `AgentRun` may differ in.
"""

import json
import os
import sys
import time
from pathlib import Path

import anyio

from spike_mcp.host.agent.model import AgentNeverRan, AgentRun, ClientNeeds, HomeBind, HomeFile
from spike_mcp.host.agent.run import run_agent

REPORT, SPEC = Path(sys.argv[1]), json.loads(sys.argv[2])


class Referee:
    """Answers every connection with its number, then echoes lines."""

    def __init__(self) -> None:
        self._end = time.monotonic() + SPEC.get("seconds", 60.0)

    async def serve(self, peer, fd, stop):
        if SPEC.get("mcp"):
            from mcp.server.lowlevel import Server
            from mcp_types import ListToolsResult, Tool

            from spike_mcp.edge.stdio import serve

            async def list_tools(ctx, params):
                schema = {"type": "object", "properties": {}}
                return ListToolsResult(tools=[Tool(name="echo", input_schema=schema)])

            server = Server("tiny", version="1", on_list_tools=list_tools)
            await serve(server, fd, fd, stop=stop)
            return
        os.write(fd, f"{peer.number}\n".encode())
        await anyio.wait_readable(fd)

    def remaining_seconds(self) -> float:
        if SPEC.get("fault") and time.monotonic() > self._end:
            raise ValueError("the ledger is damaged")
        return self._end - time.monotonic() + (5.0 if SPEC.get("fault") else 0.0)

    def on_event(self, event, fields) -> None:
        with REPORT.open("a") as file:
            file.write(json.dumps([event, dict(fields)]) + "\n")

    def at_deadline(self) -> None:
        homes = len(list(Path(SPEC["root"]).glob("agent/private/run-*")))
        self.on_event("verdict", {"homes": homes})


def client() -> ClientNeeds | None:
    needs = SPEC.get("client")
    if needs is None:
        return None
    return ClientNeeds(
        "test",
        files=tuple(HomeFile(p, c.encode(), ro) for p, c, ro in needs.get("files", [])),
        binds=tuple(HomeBind(*pair) for pair in needs.get("binds", [])),
        read_only=tuple(needs.get("read_only", [])),
        env=needs.get("env", {}),
        transcripts=tuple(needs.get("transcripts", [])),
    )


def main() -> int:
    root = Path(SPEC["root"])
    spec = AgentRun(
        root=root,
        work=root / "work",
        git_dir=None,
        argv=tuple(SPEC["argv"]),
        client=client(),
        network="proxy",
        allow_hosts=tuple(SPEC.get("allow", [])),
        env=SPEC.get("env", {}),
        interactive=SPEC.get("interactive", False),
    )
    try:
        return run_agent(spec, Referee())
    except AgentNeverRan as problem:
        said = {"code": problem.code, "message": problem.message, "hint": problem.hint}
        Referee().on_event("never", said)
        return problem.exit_status


sys.exit(main())
