"""The bridge matrix: late, lost and restarted servers; slow, silent and vanished clients."""

import ast
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spike_mcp.edge import bridge as bridge_module

BRIDGE = Path(bridge_module.__file__)
PATIENCE = 20.0
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18"},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def dump(message: dict) -> bytes:
    return json.dumps(message).encode() + b"\n"


def call(request_id, method: str = "tools/call") -> dict:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {}}


def result(request_id, **fields) -> dict:
    return {"jsonrpc": "2.0", "id": request_id, "result": fields}


class Peer:
    """One end of something that carries lines; reading waits, but not for ever."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd, self.write_fd, self.rest = read_fd, write_fd, b""

    def send(self, *messages: dict) -> None:
        for message in messages:
            self.write(dump(message))

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.write_fd, data) :]

    def read(self) -> bytes:
        ready, _, _ = select.select([self.read_fd], [], [], PATIENCE)
        assert ready, "nothing came"
        return os.read(self.read_fd, 1 << 20)

    def line(self) -> bytes:
        while b"\n" not in self.rest:
            chunk = self.read()
            assert chunk, f"ended after {self.rest!r}"
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def message(self) -> dict:
        return json.loads(self.line())

    def silent(self, seconds: float) -> bool:
        return not self.rest and not select.select([self.read_fd], [], [], seconds)[0]

    def to_the_end(self) -> bytes:
        data, self.rest = self.rest, b""
        while chunk := self.read():
            data += chunk
        return data


class Server:
    """A listener under the test's control."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(8)
        self.listener.settimeout(PATIENCE)
        self.sock: socket.socket | None = None

    def accept(self) -> Peer:
        self.sock, _ = self.listener.accept()
        return Peer(self.sock.fileno(), self.sock.fileno())

    def drop(self) -> None:
        self.sock.close()

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
        self.listener.close()
        self.path.unlink(missing_ok=True)


class Client(Peer):
    """The process under test, seen from the agent's client."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(BRIDGE), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        super().__init__(self.process.stdout.fileno(), self.process.stdin.fileno())

    def end(self) -> tuple[int, str]:
        code = self.process.wait(PATIENCE)
        return code, self.process.stderr.read().decode()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mcp.sock"


@pytest.fixture
def server(path):
    server = Server(path)
    yield server
    server.close()


@pytest.fixture
def client(path):
    client = Client(path)
    yield client
    client.process.kill()
    client.process.wait()
    for pipe in (client.process.stdin, client.process.stdout, client.process.stderr):
        pipe.close()


def test_lines_pass_unchanged_both_ways(server, client):
    peer = server.accept()
    odd = b'{ "id":1.0,"method":"x" }  \r\nnonsense\xff\xfe\n\n{"jsonrpc":"2.0","id":[]}\n'
    client.write(odd)
    assert b"".join(peer.line() + b"\n" for _ in range(4)) == odd
    peer.write(odd)
    assert b"".join(client.line() + b"\n" for _ in range(4)) == odd


def test_four_mebibytes_pass_both_ways_with_a_slow_reader(server, client):
    peer = server.accept()
    big = dump(call(1) | {"params": {"x": "y" * (4 << 20)}})
    for sender, receiver in ((client, peer), (peer, client)):
        thread = threading.Thread(target=sender.write, args=(big,))
        thread.start()
        time.sleep(0.3)
        assert receiver.line() + b"\n" == big
        thread.join()


def test_a_line_longer_than_the_limit_is_passed_in_pieces(server, client):
    peer = server.accept()
    thread = threading.Thread(target=client.write, args=(b"z" * (12 << 20) + b"\n",))
    thread.start()
    assert len(peer.line()) == 12 << 20
    thread.join()
    client.send(call(2))
    assert peer.message()["id"] == 2


def test_memory_is_bounded_when_the_server_stalls(server, client):
    server.accept()
    os.set_blocking(client.write_fd, False)
    line = dump(call(1) | {"params": {"x": "y" * 10_000}})
    end = time.monotonic() + 1.0
    sent = 0
    while time.monotonic() < end:
        try:
            sent += os.write(client.write_fd, line)
        except BlockingIOError:
            time.sleep(0.01)
    assert sent < 4 << 20
    statm = Path(f"/proc/{client.process.pid}/statm").read_text()
    assert int(statm.split()[1]) * os.sysconf("SC_PAGESIZE") < 40 << 20


def test_a_server_a_second_late_is_waited_for(path, client):
    time.sleep(1)
    server = Server(path)
    peer = server.accept()
    client.send(call(1))
    assert peer.message()["id"] == 1
    server.close()


def test_a_socket_deep_in_the_tree_is_reached(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.chdir(deep)
    server = Server(Path("mcp.sock"))
    client = Client(deep / "mcp.sock")
    peer = server.accept()
    client.send(call(1))
    assert peer.message()["id"] == 1
    client.process.stdin.close()
    server.close()
    assert client.end() == (0, "")
    client.process.stdout.close()
    client.process.stderr.close()


def test_no_server_ends_with_69_and_one_line(client, path):
    code, said = client.end()
    assert code == 69
    assert said.count("\n") == 1
    assert str(path) in said


def test_a_late_answer_after_the_end_of_input_is_delivered(server, client):
    peer = server.accept()
    client.send(call(1))
    client.process.stdin.close()
    assert peer.message()["id"] == 1
    assert peer.read() == b""
    time.sleep(0.5)
    peer.send(result(1))
    server.drop()
    assert client.message()["id"] == 1
    assert client.end() == (0, "")


def test_a_last_line_without_newline_is_completed(server, client):
    peer = server.accept()
    client.write(dump(call(1)).rstrip())
    client.process.stdin.close()
    assert peer.message()["id"] == 1


def test_a_terminated_bridge_is_gone_and_the_server_sees_it(server, client):
    peer = server.accept()
    client.send(call(1))
    peer.message()
    client.process.terminate()
    assert client.process.wait(PATIENCE) == -15
    assert peer.read() == b""


def test_a_client_that_vanished_ends_it_with_0(server, client):
    peer = server.accept()
    client.send(call(1))
    peer.message()
    client.process.stdout.close()
    assert client.end() == (0, "")


def test_a_restart_is_invisible_but_for_the_lost_call(server, client):
    peer = server.accept()
    client.send(INITIALIZE)
    assert peer.message() == INITIALIZE
    peer.send(result(0, server="first"))
    assert client.message()["result"] == {"server": "first"}
    client.send(INITIALIZED, call(1), call("list", "tools/list"), call(2))
    assert [peer.message().get("id") for _ in range(4)] == [None, 1, "list", 2]
    peer.send(result(2))
    peer.write(b'{"jsonrpc":"2.0","id":1,"result":{"half')
    server.drop()

    assert client.message() == result(2)
    lost = client.message()
    assert lost["id"] == 1
    assert "spike_status" in lost["error"]["message"]
    peer = server.accept()
    replay = peer.message()
    assert replay["method"] == "initialize"
    assert replay["params"] == INITIALIZE["params"]
    assert replay["id"] != 0
    client.send(call(3))
    assert peer.silent(0.3), "the client's lines are held until the replay is answered"
    peer.send(result(replay["id"], server="second"))
    assert peer.message() == INITIALIZED
    assert peer.message() == call("list", "tools/list")
    assert peer.message() == call(3)
    peer.send(result("list"), result(3))
    assert [client.message()["id"] for _ in range(2)] == ["list", 3]


def test_a_handshake_that_was_never_answered_is_asked_again(server, client):
    peer = server.accept()
    client.send(INITIALIZE)
    assert peer.message() == INITIALIZE
    server.drop()
    peer = server.accept()
    assert peer.message() == INITIALIZE
    peer.send(result(0))
    assert client.message() == result(0)


def test_a_loss_during_the_replay_loses_no_held_line(server, client):
    peer = server.accept()
    client.send(INITIALIZE)
    peer.message()
    peer.send(result(0))
    client.message()
    client.send(INITIALIZED)
    peer.message()
    server.drop()
    peer = server.accept()
    peer.message()
    client.send(call(1))
    assert peer.silent(0.2)
    server.drop()
    peer = server.accept()
    peer.send(result(peer.message()["id"]))
    assert [peer.message(), peer.message()] == [INITIALIZED, call(1)]


def test_the_modern_protocol_has_nothing_to_replay(server, client):
    peer = server.accept()
    client.send(call(1))
    peer.message()
    server.drop()
    peer = server.accept()
    assert client.message()["id"] == 1
    client.send(call(2))
    assert peer.message()["id"] == 2


def test_a_cancelled_call_is_not_answered_at_a_loss(server, client):
    peer = server.accept()
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    client.send(call(1), cancel, call(2))
    assert len([peer.message() for _ in range(3)]) == 3
    server.drop()
    assert client.message()["id"] == 2


def test_the_rest_of_a_long_line_is_not_sent_to_the_next_server(server, client):
    peer = server.accept()
    thread = threading.Thread(target=client.write, args=(b"z" * (6 << 20),))
    thread.start()
    while len(peer.rest) < 5 << 20:
        peer.rest += peer.read()
    server.drop()
    thread.join()
    peer = server.accept()
    client.write(b"z" * (1 << 20) + b"\n")
    client.send(call(5))
    assert peer.message()["id"] == 5


def test_a_refused_replay_ends_it(server, client):
    peer = server.accept()
    client.send(INITIALIZE)
    peer.message()
    peer.send(result(0))
    client.message()
    server.drop()
    peer = server.accept()
    refusal = {"jsonrpc": "2.0", "id": peer.message()["id"], "error": {"code": 1, "message": "no"}}
    peer.send(refusal)
    assert client.end()[0] == 70


def test_fruitless_connections_end_with_70(server, client):
    for _ in range(6):
        server.accept()
        server.drop()
    code, said = client.end()
    assert code == 70
    assert said.count("\n") == 1


def test_a_server_lost_for_good_ends_with_70_after_its_last_words(server, client):
    peer = server.accept()
    client.send(call(1), call(2))
    peer.message()
    peer.send(result(1))
    server.close()
    assert client.message() == result(1)
    assert client.message()["error"]["code"] == -32000
    assert client.end()[0] == 70


@pytest.mark.security
def test_the_file_stands_alone():
    tree = ast.parse(BRIDGE.read_text())
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert imported <= sys.stdlib_module_names
