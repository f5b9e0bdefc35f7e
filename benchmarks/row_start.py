"""Start to the first answer, and `spike-mcp connect`."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import world
from client import Client
from harness import Line, Results, Task, interleaved
from peers import Peers
from world import SERVER

HERE = Path(__file__).parent
BARE = str(HERE / "servers.py")


def measure(top: Path, peers: Peers, results: Results, rounds: int) -> None:
    """From spawning the process until its answer to `initialize` is read."""
    spike = world.open_spike(world.make_repo(top / "start"), top / "start-root")
    commands = {
        "ours": [SERVER, "--spike", str(spike.root)],
        "bare SDK server": [sys.executable, BARE, "low"],
        "SDK MCPServer": [sys.executable, BARE, "high"],
    }
    if "fastmcp" in peers.python:
        commands["fastmcp"] = [peers.python["fastmcp"], BARE, "fastmcp"]
    if "mcp-server-git" in peers.python:
        program = str(Path(peers.python["mcp-server-git"]).with_name("mcp-server-git"))
        commands["mcp-server-git"] = [program, "--repository", str(top / "start")]
    if "coding-tools-mcp" in peers.python:
        program = str(Path(peers.python["coding-tools-mcp"]).with_name("coding-tools-mcp"))
        commands["coding-tools-mcp"] = [program, "--stdio", "--workspace", str(top / "start")]
    if peers.filesystem:
        commands["server-filesystem"] = [peers.node, peers.filesystem, str(top / "start")]

    found = interleaved({name: _starter(argv) for name, argv in commands.items()}, rounds)
    ours = found.pop("ours") * 1000
    for name, seconds in found.items():
        most = 1.1 if name == "bare SDK server" else None
        what = "start to first answer"
        results.add(Line("start", what, ours, peer=name, theirs=seconds * 1000, most=most))
    _connect(top, results, rounds)


def _starter(argv: list[str]) -> Task:
    def once() -> float:
        began = time.perf_counter()
        client = Client(argv)
        seconds = time.perf_counter() - began
        client.close()
        return seconds

    return once


def _connect(top: Path, results: Results, rounds: int) -> None:
    with _canned(top / "bench.sock") as path:
        argv = [SERVER, "connect", str(path)]
        bare = [sys.executable, "-I", "-S", "-c", "pass"]

        def nothing() -> None:
            subprocess.run(bare, check=True)

        tasks = {"connect": _starter(argv), "python": nothing}
        found = interleaved(tasks, rounds)
    note = f"`python -I -S -c pass` takes {found['python'] * 1000:.0f} ms here"
    ours = found["connect"] * 1000
    results.add(Line("start", "`spike-mcp connect` to its first answer", ours, most=60, note=note))


@contextlib.contextmanager
def _canned(path: Path) -> Iterator[Path]:
    """A socket whose other end answers every request at once: only the bridge is measured."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(4)

    def answer() -> None:
        while True:
            try:
                talk, _ = listener.accept()
            except OSError:
                return
            with talk, talk.makefile("rwb") as lines:
                for line in lines:
                    message = json.loads(line)
                    if "id" in message:
                        reply = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
                        lines.write(json.dumps(reply).encode() + b"\n")
                        lines.flush()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        listener.close()
