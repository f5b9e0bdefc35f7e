"""Round trips over stdio: status against an empty tool, an edit against the filesystem server."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import world
from client import Client
from harness import Line, Results, Task, interleaved
from peers import Peers
from row_start import BARE
from world import EDITED, SERVER, WHY, Counter


def measure(top: Path, peers: Peers, results: Results, rounds: int) -> None:
    """Status; then edits, writes and reads, on the disk and on tmpfs."""
    spike = world.open_spike(world.make_repo(top / "calls"), top / "calls-root")
    _status(spike.root, peers, results, rounds)
    for name, where in world.places(top / "files"):
        _files(where, name, peers, results, rounds)


def _status(root: Path, peers: Peers, results: Results, rounds: int) -> None:
    commands = {
        "ours": ([SERVER, "--spike", str(root)], "spike_status"),
        "bare SDK server, empty tool": ([sys.executable, BARE, "low"], "empty"),
        "SDK MCPServer, empty tool": ([sys.executable, BARE, "high"], "empty"),
    }
    if "fastmcp" in peers.python:
        commands["fastmcp, empty tool"] = ([peers.python["fastmcp"], BARE, "fastmcp"], "empty")
    clients = {name: (Client(argv), tool) for name, (argv, tool) in commands.items()}
    try:
        tasks = {name: _caller(client, tool) for name, (client, tool) in clients.items()}
        found = interleaved(tasks, rounds * 20, warm_up=20)
    finally:
        for client, _tool in clients.values():
            client.close()
    ours = found.pop("ours") * 1000
    for name, seconds in found.items():
        most = 0.8 if name.startswith("bare") else None
        what = "`spike_status` round trip"
        results.add(Line("status", what, ours, peer=name, theirs=seconds * 1000, most=most))


def _caller(client: Client, tool: str) -> Task:
    def once() -> None:
        client.call(tool)

    return once


def _files(where: Path, disk: str, peers: Peers, results: Results, rounds: int) -> None:
    """The same edit of the same 200-line file by everybody, each in a tree of its own."""
    limits = {"max_refusals": 10_000, "max_blob_bytes": 1 << 30}
    spike = world.open_spike(world.make_repo(where / "repo"), where / "root", budgets=limits)
    theirs = where / "theirs"
    theirs.mkdir()
    (theirs / "edited.py").write_text(world.LINES)
    (theirs / "coding.py").write_text(world.LINES)

    ours = Client([SERVER, "--spike", str(spike.root)])
    clients = [ours]
    edits = Counter()

    def our_edit() -> None:
        old, new = edits.next()
        ours.call("spike_edit_file", path=EDITED, old_text=old, new_text=new, rationale=WHY)

    tasks: dict[str, Task] = {"ours": our_edit, "sync": _syncer(where)}
    reads: dict[str, Task] = {"ours": lambda: _none(ours.call("spike_read_file", path=EDITED))}
    if peers.filesystem:
        node = Client([peers.node, peers.filesystem, str(theirs)])
        clients.append(node)
        tasks["server-filesystem edit_file"] = _node_edit(node, str(theirs / "edited.py"))
        tasks["server-filesystem write_file"] = _node_write(node, str(theirs / "written.py"))
        path = str(theirs / "edited.py")
        reads["server-filesystem read_text_file"] = lambda: _none(
            node.call("read_text_file", path=path)
        )
    if "coding-tools-mcp" in peers.python:
        program = str(Path(peers.python["coding-tools-mcp"]).with_name("coding-tools-mcp"))
        coding = Client([program, "--stdio", "--workspace", str(theirs)])
        clients.append(coding)
        tasks["coding-tools-mcp apply_patch"] = _coding_edit(coding)
    try:
        found = interleaved(tasks, rounds * 5, warm_up=10)
        seen = interleaved(reads, rounds * 5, warm_up=10)
    finally:
        for client in clients:
            client.close()
    note = f"{disk}: one write + fdatasync takes {found.pop('sync') * 1000:.2f} ms"
    mine = found.pop("ours") * 1000
    for name, seconds in found.items():
        most = 1.5 if name == "server-filesystem edit_file" else None
        what = f"`spike_edit_file`, {disk}"
        line = Line("edit", what, mine, peer=name, theirs=seconds * 1000, most=most, note=note)
        results.add(line)
    mine = seen.pop("ours") * 1000
    for name, seconds in seen.items():
        what = f"`spike_read_file`, {disk}"
        results.add(Line("read", what, mine, peer=name, theirs=seconds * 1000))


def _none(_value: object) -> None:
    return None


def _node_edit(client: Client, path: str) -> Task:
    edits = Counter()

    def once() -> None:
        old, new = edits.next()
        client.call("edit_file", path=path, edits=[{"oldText": old, "newText": new}])

    return once


def _node_write(client: Client, path: str) -> Task:
    return lambda: _none(client.call("write_file", path=path, content=world.LINES))


def _coding_edit(client: Client) -> Task:
    edits = Counter()

    def once() -> None:
        old, new = edits.next()
        lines = [f" value_{at} = {at}" for at in (97, 98, 99, 101, 102, 103)]
        body = "\n".join([*lines[:3], f"-{old[:-1]}", f"+{new[:-1]}", *lines[3:]])
        patch = f"*** Begin Patch\n*** Update File: coding.py\n@@\n{body}\n*** End Patch\n"
        client.call("apply_patch", patch=patch)

    return once


def _syncer(where: Path) -> Task:
    """What the disk asks for one durable row: an append of 500 bytes and fdatasync."""
    fd = os.open(where / "sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def once() -> float:
        began = time.perf_counter()
        os.write(fd, b"x" * 500)
        os.fdatasync(fd)
        return time.perf_counter() - began

    return once
