"""The transport from outside: raw bytes and the SDK's own client against a real process."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.lowlevel import Server

from spike_mcp.edge.stdio import End, serve

SCRIPT = Path(__file__).with_name("tiny_server.py")
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKES = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
PATIENCE = 20.0


class Raw:
    """A client made of bytes."""

    def __init__(self, log: Path, version: str = MODERN) -> None:
        self.version = version
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.log = log
        self._rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)

    def send(self, method: str, params: dict | None = None, request_id=None) -> None:
        params = dict(params or {})
        if self.version == MODERN:
            params["_meta"] = {**ENVELOPE, **params.get("_meta", {})}
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
        self.write(json.dumps(message).encode() + b"\n")

    def call(self, request_id, name: str, **arguments) -> None:
        self.send("tools/call", {"name": name, "arguments": arguments}, request_id)

    def line(self) -> bytes:
        end = time.monotonic() + PATIENCE
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            assert ready, "no answer"
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            assert chunk, "end of output"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def answer(self) -> dict:
        message = json.loads(self.line())
        assert message["jsonrpc"] == "2.0"
        return message

    def hello(self) -> None:
        if self.version == MODERN:
            return
        info = {"name": "raw", "version": "1"}
        hello = {"protocolVersion": self.version, "capabilities": {}, "clientInfo": info}
        self.send("initialize", hello, "hello")
        assert self.answer()["result"]["protocolVersion"] == self.version
        self.send("notifications/initialized")

    def rest(self) -> list[dict]:
        """Close the input and return every further message."""
        self.process.stdin.close()
        out = self._rest + self.process.stdout.read()
        self.process.wait(PATIENCE)
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.touch()
    return path


def text(answer: dict) -> str:
    return answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", [MODERN, *HANDSHAKES])
def test_both_eras_are_served(log, version):
    with Raw(log, version) as client:
        client.hello()
        client.send("tools/list", {}, 1)
        assert [tool["name"] for tool in client.answer()["result"]["tools"]] == ["echo"]
        client.call("two", "echo", text="hé\u2028")
        assert text(client.answer()) == "hé\u2028"
        assert client.rest() == []
        assert client.process.returncode == 0


@pytest.mark.parametrize("mode", ["auto", "legacy", MODERN])
def test_the_sdks_client_is_served(log, mode):
    async def main():
        command = StdioServerParameters(command=sys.executable, args=[str(SCRIPT), str(log)])
        async with Client(command, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            result = await client.call_tool("echo", {"text": "hello"})
            assert result.content[0].text == "hello"
            result = await client.call_tool("big", {"size": 3_000_000})
            assert len(result.content[0].text) == 3_000_000

    anyio.run(main)


@pytest.mark.security
@pytest.mark.parametrize("version", [MODERN, "2025-06-18"])
def test_every_hostile_line_is_answered_and_the_session_survives(log, version):
    hostile = [
        (b"nonsense\n", None, -32700),
        (b"\xff\xfe\n", None, -32700),
        (b'{"jsonrpc":"2.0","id":21,"method":"tools/call","params":{"x":"\xff"}}\n', 21, -32700),
        (b'{"jsonrpc":"2.0","id":22,"method":"x","params":{"x":"\\ud800"}}\n', 22, -32700),
        (b'{"jsonrpc":"2.0","id":[1],"method":"x"}\n', None, -32600),
        (b'[{"jsonrpc":"2.0","id":23,"method":"ping"}]\n', 23, -32600),
        (b'{"jsonrpc":"2.0","id":24,"method":"x","params":[]}\n', 24, -32602),
        (b'{"jsonrpc":"2.0","id":25,"method":5}\n', 25, -32600),
        (b'{"jsonrpc":"2.0","id":26,"method":"x","params":{"a":"' + b"x" * (5 << 20) + b'"}}\n', 26,
         -32600),
    ]  # fmt: skip
    with Raw(log, version) as client:
        client.hello()
        for line, request_id, code in hostile:
            client.write(line)
            answer = client.answer()
            assert (answer["id"], answer["error"]["code"]) == (request_id, code), line[:60]
        client.write(b"\n \r\n")
        for number, params in enumerate([{}, {"name": 5}, {"name": "echo", "arguments": []}]):
            client.send("tools/call", params, 40 + number)
            answer = client.answer()
            assert (answer["id"], answer["error"]["code"]) == (40 + number, -32602)
        client.send("no/such/method", {}, 50)
        assert client.answer()["error"]["code"] == -32601
        client.call(51, "leak")
        assert "judge" not in client.line().decode()
        client.call(52, "echo", text="alive")
        assert text(client.answer()) == "alive"


def test_memory_stays_flat_under_a_long_line(log):
    with Raw(log) as client:
        client.call(1, "echo", text="warm")
        client.answer()
        before = _rss(client.process.pid)
        client.write(b'{"jsonrpc":"2.0","id":2,"method":"x","params":{"a":"')
        for _ in range(64):
            client.write(b"x" * (1 << 20))
        client.write(b'"}}\n')
        assert client.answer()["id"] == 2
        assert _rss(client.process.pid) - before < 24 << 20


@pytest.mark.security
def test_nothing_but_messages_is_on_stdout_and_children_have_no_input(log):
    with Raw(log) as client:
        client.call(1, "noise")
        for number in range(2, 5):
            client.call(number, "echo", text=str(number))
        answers = [client.answer() for _ in range(4)] + client.rest()
        assert sorted(answer["id"] for answer in answers) == [1, 2, 3, 4]
        stray = client.process.stderr.read()
        assert b"child says hi" in stray
        assert b"stray print" in stray


def test_twenty_calls_before_the_end_of_input_are_all_answered(log):
    with Raw(log) as client:
        for number in range(20):
            client.call(number, "slow", seconds=0.2)
        assert sorted(answer["id"] for answer in client.rest()) == list(range(20))
        assert client.process.returncode == 0
    assert log.read_text().split() == ["slow", "began"] * 20 + ["slow", "ended"] * 20 + ["on_stop"]


def test_a_last_line_without_newline_counts(log):
    with Raw(log) as client:
        client.write(json.dumps(_ping(7)).encode())
        assert [answer["id"] for answer in client.rest()] == [7]


def test_a_call_longer_than_the_drain_is_cancelled_and_answered(log):
    with Raw(log) as client:
        client.call(1, "slow", seconds=60)
        client.call(2, "echo", text="x")
        answers = client.rest()
        assert {answer["id"] for answer in answers} == {1, 2}
        assert "error" in next(answer for answer in answers if answer["id"] == 1)
        assert client.process.returncode == 0
    assert "slow cancelled" in log.read_text()


def test_a_cancelled_call_is_not_waited_for(log):
    with Raw(log, "2025-06-18") as client:
        client.hello()
        client.call(1, "slow", seconds=60)
        _wait_for(log, "slow began")
        client.send("notifications/cancelled", {"requestId": 1})
        client.call(2, "echo", text="x")
        began = time.monotonic()
        assert [answer["id"] for answer in client.rest()] == [2]
        assert time.monotonic() - began < 1.9  # the drain would have taken 2 s


@pytest.mark.security
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_call_ends_the_process_with_its_hook(log, number):
    with Raw(log) as client:
        client.call(1, "slow", seconds=60)
        _wait_for(log, "slow began")
        client.process.send_signal(number)
        assert client.process.wait(PATIENCE) == 128 + number
        assert client.answer()["id"] == 1
    assert log.read_text().split("\n")[1:3] == ["on_stop", "slow cancelled"]


@pytest.mark.security
def test_a_second_signal_and_a_thread_that_hangs_change_nothing(log):
    with Raw(log) as client:
        client.call(1, "hang")
        client.call(2, "slow", seconds=60)
        _wait_for(log, "slow began")
        client.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(5) == 128 + signal.SIGINT


@pytest.mark.security
def test_a_client_that_stops_reading_neither_keeps_the_server_alive_nor_fills_it(log):
    with Raw(log) as client:
        client.call(0, "echo", text="warm")
        client.answer()
        before = _rss(client.process.pid)
        writer = os.dup(client.process.stdin.fileno())
        os.set_blocking(writer, False)
        for number in range(400):
            line = {"name": "big", "arguments": {"size": 1_000_000}, "_meta": ENVELOPE}
            data = _ping(number) | {"method": "tools/call", "params": line}
            try:
                os.write(writer, json.dumps(data).encode() + b"\n")
            except BlockingIOError:
                break
        os.close(writer)
        time.sleep(1)
        assert client.process.poll() is None
        assert _rss(client.process.pid) - before < 160 << 20
        client.process.stdin.close()
        assert client.process.wait(PATIENCE) == 0


def test_progress_is_dropped_rather_than_waited_for(log):
    with Raw(log, "2025-06-18") as client:
        client.hello()
        client.send(
            "tools/call",
            {"name": "progress", "arguments": {"steps": 2000}, "_meta": {"progressToken": "t"}},
            1,
        )
        time.sleep(0.5)
        seen = 0
        while "id" not in (message := client.answer()):
            seen += 1
            assert message["method"] == "notifications/progress"
        assert 0 < seen < 2000


def test_files_and_the_null_device_serve_as_input_and_output(log, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"".join(json.dumps(_ping(i)).encode() + b"\n" for i in range(3)))
    command = [sys.executable, str(SCRIPT), str(log)]
    with source.open() as stdin, target.open("w") as stdout:
        subprocess.run(command, stdin=stdin, stdout=stdout, timeout=PATIENCE, check=True)
    assert [json.loads(line)["id"] for line in target.read_text().splitlines()] == [0, 1, 2]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    closed = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *command]
    subprocess.run(closed, timeout=PATIENCE, check=True)


def _on_socket(**options):
    """Run `serve` on one end of a socket pair; returns (what it said, what the client got)."""

    async def list_tools(ctx, params):
        raise NotImplementedError

    async def main(client_side):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            stop = anyio.Event()
            end = None

            async def server():
                nonlocal end
                tiny = Server("tiny", version="1", on_list_tools=list_tools)
                end = await serve(tiny, ours.fileno(), ours.fileno(), stop=stop, **options)
                ours.shutdown(socket.SHUT_RDWR)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server)
                got = await client_side(theirs, stop)
            return end, got

    return main


async def _receive(sock: socket.socket) -> bytes:
    await anyio.wait_readable(sock)
    return sock.recv(1 << 20)


def test_one_socket_serves_both_directions_and_half_closes():
    async def client(sock, stop):
        sock.send(json.dumps(_ping(1)).encode() + b"\n")
        first = await _receive(sock)
        sock.send(json.dumps(_ping(2)).encode() + b"\n")
        sock.shutdown(socket.SHUT_WR)
        return first + await _receive(sock)

    end, got = anyio.run(_on_socket(), client)
    assert end is End.EOF
    assert [json.loads(line)["id"] for line in got.splitlines()] == [1, 2]


def test_stop_ends_a_socket_conversation():
    async def client(sock, stop):
        sock.send(json.dumps(_ping(1)).encode() + b"\n")
        got = await _receive(sock)
        stop.set()
        assert await _receive(sock) == b""
        return got

    end, _ = anyio.run(_on_socket(), client)
    assert end is End.STOPPED


@pytest.mark.security
def test_a_socket_client_that_stops_reading_is_dropped():
    async def client(sock, stop):
        line = json.dumps(_ping(1) | {"jsonrpc": "x" * 1000}).encode() + b"\n"
        with anyio.move_on_after(PATIENCE):
            while True:
                await anyio.wait_writable(sock)
                try:
                    sock.send(line * 100)
                except OSError:
                    return

    end, _ = anyio.run(_on_socket(stall=0.3), client)
    assert end is End.STUCK


def _ping(request_id) -> dict:
    meta = {"_meta": ENVELOPE}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/list", "params": meta}


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _wait_for(log: Path, words: str) -> None:
    end = time.monotonic() + PATIENCE
    while words not in log.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
