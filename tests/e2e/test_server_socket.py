"""One service behind several connections, as `spike run` offers it over its socket."""

import json
import socket

import anyio
import pytest
from wire import META, open_script, rows

from spike_mcp.edge.connection import make_server
from spike_mcp.edge.service import AgentService
from spike_mcp.edge.stdio import End, serve


class Caller:
    """One connection and its client."""

    def __init__(self, tasks, service):
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.end = None
        self._rest = b""
        tasks.start_soon(self._serve, service)

    async def _serve(self, service):
        fd = self.theirs.fileno()
        self.end = await serve(make_server(service, tend=False), fd, fd)

    async def ask(self, number, method, **params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.ours.sendall(json.dumps(message).encode() + b"\n")
        while b"\n" not in self._rest:
            await anyio.wait_readable(self.ours)
            chunk = self.ours.recv(1 << 16)
            assert chunk, "the connection is closed"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        answer = json.loads(line)
        assert answer["id"] == number
        return answer["result"]

    async def hello(self):
        info = {"name": "socket", "version": "2"}
        await self.ask(
            0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info
        )
        self.ours.sendall(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return self

    async def call(self, number, name, **arguments):
        return await self.ask(number, "tools/call", name=name, arguments=arguments)


@pytest.mark.security
def test_connections_share_one_session_one_run_and_one_end(tmp_path):
    opened = open_script(tmp_path)

    async def main():
        service = AgentService(lambda: opened.spike.root, tier="enforced")
        async with anyio.create_task_group() as tasks:
            await tasks.start(service.run)
            one = await Caller(tasks, service).hello()
            two = await Caller(tasks, service).hello()
            found = await one.call(
                1,
                "spike_edit_file",
                path="src/run.sh",
                old_text="exit 1",
                new_text="sleep 1; exit 0",
                rationale="slow",
            )
            assert found["_meta"][META]["patch"] == "P1"
            ends = {}

            async def run(caller, name):
                ends[name] = (await caller.call(2, "spike_run_test"))["_meta"][META]["run"]

            async with anyio.create_task_group() as calls:
                calls.start_soon(run, one, "one")
                calls.start_soon(run, two, "two")
            assert ends == {"one": "R3", "two": "R3"}
            one.ours.close()
            status = await two.call(3, "spike_status")
            assert status["_meta"][META]["writer_tier"] == "enforced"
            assert one.end in (None, End.EOF, End.STUCK)
            two.ours.shutdown(socket.SHUT_WR)
            while two.end is None:
                await anyio.sleep(0.01)
            await service.stop()
            tasks.cancel_scope.cancel()

    anyio.run(main)
    sessions = [row for row in rows(opened) if row["event"] == "session_opened"]
    assert [(row["tier"], row["client"]) for row in sessions] == [("enforced", "socket 2")]
