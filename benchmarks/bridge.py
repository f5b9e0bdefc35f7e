"""The bridge of `spike run`: what it costs to start, and what it adds to a call.

    python benchmarks/bridge.py [--quick]

An echoing server and a real one answer on unix sockets, in processes of their own; the client talks
to them directly, through the bridge, through the bridge inside bubblewrap, and through socat where
that is installed. All in turns, medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import world
from client import Client
from harness import Line, Results, Task, interleaved, table

from spike_mcp.edge import bridge
from spike_mcp.host.agent.programs import python_inside

CALLS = 200
BIG = 4 << 20
PYTHON = python_inside()[0]
BRIDGE = [PYTHON, "-I", "-S", bridge.__file__]


# --- the servers, in processes of their own -----------------------------------------------------


def echo(path: str) -> None:
    """Answer every request on the socket with its own parameters."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    while True:
        talk, _ = listener.accept()
        threading.Thread(target=_echo_one, args=(talk,), daemon=True).start()


def _echo_one(talk: socket.socket) -> None:
    with talk, talk.makefile("rwb") as lines:
        for line in lines:
            message = json.loads(line)
            if "id" in message:
                text = message.get("params", {}).get("arguments", {}).get("text", "")
                result = {"content": [{"type": "text", "text": text}]}
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                lines.write(json.dumps(reply).encode() + b"\n")
                lines.flush()


def serve(root: str, path: str) -> None:
    """Serve a spike on the socket, as `spike run` does."""
    import anyio

    from spike_mcp.edge.connection import make_server
    from spike_mcp.edge.service import AgentService
    from spike_mcp.edge.stdio import serve as converse

    async def main() -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(16)
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.wait_readable(listener)
                talk, _ = listener.accept()
                talk.setblocking(False)
                tasks.start_soon(one, talk)

    async def one(talk: socket.socket) -> None:
        with talk:
            service = AgentService(lambda: Path(root), tier="enforced")
            await converse(make_server(service), talk.fileno(), talk.fileno())

    anyio.run(main)


# --- the ways to them ---------------------------------------------------------------------------


def ways(sock: str) -> dict[str, list[str]]:
    """Name -> the command that a client starts to reach the socket."""
    found = {"bridge": [*BRIDGE, sock], "spike-mcp connect": [world.SERVER, "connect", sock]}
    bwrap = shutil.which("bwrap")
    if bwrap:
        own = ["--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--unshare-net"]
        found["bridge in bubblewrap"] = [bwrap, *own, "--die-with-parent", "--", *BRIDGE, sock]
    if shutil.which("socat"):
        found["socat"] = ["socat", "STDIO", f"UNIX-CONNECT:{sock}"]
    return found


class Straight(Client):
    """A client on the socket itself: no process between."""

    def __init__(self, sock: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(sock)
        self._in = self._out = self._socket.fileno()
        self._rest, self._next = b"", 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _INFO}
        self.ask("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


_INFO = {"name": "bench", "version": "1"}


def openers(sock: str) -> dict[str, Callable[[], Client]]:
    """Name -> a function that makes a connected client."""
    found: dict[str, Callable[[], Client]] = {"no bridge": lambda: Straight(sock)}
    for name, argv in ways(sock).items():
        found[name] = lambda argv=argv: Client(argv)
    return found


# --- measuring ----------------------------------------------------------------------------------


def start_up(results: Results, sock: str, rounds: int) -> None:
    """From starting the way until the first answer came through it."""

    def task(opener: Callable[[], Client]) -> Task:
        def once() -> float:
            began = time.perf_counter()
            client = opener()
            seconds = time.perf_counter() - began
            client.close()
            return seconds

        return once

    found = interleaved({name: task(make) for name, make in openers(sock).items()}, rounds)
    for name, seconds in found.items():
        most = 60 if name.startswith(("bridge", "spike-mcp")) else None
        results.add(Line("bridge", f"start to first answer, {name}", seconds * 1000, most=most))


def calls(results: Results, sock: str, rounds: int, text: str, what: str, number: int) -> None:
    """One echoed call, the median of `number` in a row."""
    clients = {name: make() for name, make in openers(sock).items()}

    def task(client: Client) -> Task:
        def once() -> float:
            began = time.perf_counter()
            for _ in range(number):
                client.call("echo", text=text)
            return (time.perf_counter() - began) / number

        return once

    found = interleaved({name: task(client) for name, client in clients.items()}, rounds)
    straight = found.pop("no bridge") * 1000
    for name, seconds in found.items():
        line = Line("bridge", f"{what}, {name}", seconds * 1000, peer="no bridge", theirs=straight)
        results.add(line)
    for client in clients.values():
        client.close()


def status(results: Results, root: str, sock: str, rounds: int) -> None:
    """`spike_status` of a real spike: over stdio, and through the bridge."""
    stdio = Client([world.SERVER, "--spike", root])
    through = Client([*BRIDGE, sock])

    def task(client: Client) -> Task:
        def once() -> float:
            began = time.perf_counter()
            for _ in range(CALLS // 10):
                client.call("spike_status")
            return (time.perf_counter() - began) / (CALLS // 10)

        return once

    found = interleaved({"bridge": task(through), "stdio": task(stdio)}, rounds)
    ours, theirs = found["bridge"] * 1000, found["stdio"] * 1000
    results.add(Line("bridge", "spike_status, bridge", ours, peer="stdio", theirs=theirs))
    for client in (stdio, through):
        client.close()


def own_process(*words: str, sock: str) -> subprocess.Popen[bytes]:
    """One of the servers above; returns when its socket is there."""
    process = subprocess.Popen([sys.executable, __file__, *words])
    end = time.monotonic() + 30
    while not os.path.exists(sock):
        if time.monotonic() > end or process.poll() is not None:
            raise RuntimeError(f"{words[0]} did not start")
        time.sleep(0.01)
    return process


def measure(top: Path, rounds: int) -> Results:
    """All figures; `top` is a directory for what is needed."""
    results = Results()
    spike = world.open_spike(world.make_repo(top / "repo"), top / "root")
    echo_socket, real_socket = str(top / "echo.sock"), str(top / "real.sock")
    processes = [
        own_process("--echo", echo_socket, sock=echo_socket),
        own_process("--serve", str(spike.root), real_socket, sock=real_socket),
    ]
    try:
        start_up(results, echo_socket, rounds)
        calls(results, echo_socket, rounds, "x", "echo of one byte", CALLS)
        calls(results, echo_socket, max(3, rounds // 2), "x" * BIG, "echo of 4 MiB", 1)
        status(results, str(spike.root), real_socket, rounds)
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            process.wait()
    return results


def main(argv: Sequence[str]) -> int:
    """Measure and print, or be one of the servers."""
    if argv[:1] == ["--echo"]:
        echo(argv[1])
    elif argv[:1] == ["--serve"]:
        serve(argv[1], argv[2])
    else:
        parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
        parser.add_argument("--quick", action="store_true", help="a third of the rounds")
        rounds = 5 if parser.parse_args(argv).quick else 15
        with tempfile.TemporaryDirectory(prefix="spike-bridge-") as top:
            print(table(measure(Path(top), rounds).lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
