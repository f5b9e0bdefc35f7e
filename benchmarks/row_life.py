"""A spike that grows: 1,000 patches, and `spike status` by the length of the ledger."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import world
from client import Client
from harness import Line, Results, Task, interleaved
from peers import Peers
from world import EDITED, SERVER, SPIKE, WHY, Counter

from spike_mcp.core import events as ev
from spike_mcp.core.codes import Actor
from spike_mcp.session.agent import AgentDesk
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import transaction

PATCHES = 1_000
PART = 50
"""Patches at the beginning and at the end whose medians are compared."""
ROWS = (100, 500, 10_000)
LIBRARY = (
    "argparse, bisect, contextlib, dataclasses, datetime, enum, fcntl, functools, hashlib, json, "
    "mmap, pathlib, random, re, shlex, tomllib, typing, unicodedata"
)
"""What `spike status` imports of Python's own library."""


def measure(top: Path, _peers: Peers, results: Results, rounds: int) -> None:
    """1,000 patches over stdio on two kinds of disk, then ledgers of three lengths."""
    for disk, where in world.places(top / "life"):
        _patches(where, disk, results)
    _status(top, results, rounds)


def _patches(where: Path, disk: str, results: Results) -> None:
    limits = {"max_blob_bytes": 1 << 30, "max_refusals": 20_000}
    spike = world.open_spike(world.make_repo(where / "repo"), where / "root", budgets=limits)
    edits, taken = Counter(), []
    with Client([SERVER, "--spike", str(spike.root)]) as client:
        for _number in range(10):  # what is loaded at the first call is no patch
            client.call("spike_status")
        for _number in range(PATCHES):
            old, new = edits.next()
            began = time.perf_counter()
            client.call("spike_edit_file", path=EDITED, old_text=old, new_text=new, rationale=WHY)
            taken.append(time.perf_counter() - began)
    for start in range(0, PATCHES, PART):
        part = statistics.median(taken[start : start + PART])
        results.by_patch.setdefault(disk, []).append((start + PART / 2, part * 1000))
    first = statistics.median(taken[:PART]) * 1000
    last = statistics.median(taken[-PART:]) * 1000
    what, peer = f"patch {PATCHES:,} of one spike, {disk}", "patch 1"
    note = f"medians of {PART} patches"
    results.add(Line("patches", what, last, peer=peer, theirs=first, most=1.5, note=note))


def _status(top: Path, results: Results, rounds: int) -> None:
    tasks: dict[str, Task] = {
        "python": lambda: _run([sys.executable, "-c", "pass"]),
        "library": lambda: _run([sys.executable, "-c", f"import {LIBRARY}"]),
    }
    for rows in ROWS:
        name = f"rows{rows}"
        spike = world.open_spike(world.make_repo(top / name), top / f"{name}-root")
        _lengthen(spike, rows)
        argv = [SPIKE, "--spike", str(spike.root), "status"]
        tasks[name] = partial(_run, argv)
    found = interleaved(tasks, rounds * 2)
    note = f"the standard library that it needs, alone: {found['library'] * 1000:.0f} ms"
    for rows in ROWS:
        ours = found[f"rows{rows}"] * 1000
        what = f"`spike status`, {rows:,} ledger rows"
        most = 4 if rows == 500 else None
        theirs = found["python"] * 1000
        results.add(
            Line(
                "spike status",
                what,
                ours,
                peer="`python -c pass`",
                theirs=theirs,
                most=most,
                note=note,
            )
        )


def _run(argv: list[str]) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _lengthen(spike: Spike, rows: int) -> None:
    """Patches there and back, as a long spike has them; written without their syncs' worth."""
    desk, edits = AgentDesk(spike, "bench"), Counter()
    for _number in range(min(20, rows // 4)):
        old, new = edits.next()
        wanted = {"path": EDITED, "old_text": old, "new_text": new, "rationale": WHY}
        assert desk.call("spike_edit_file", wanted).outcome == "accepted"
    with transaction(spike, human=False) as tx:
        missing = rows - tx.state.seq
        refused = ev.CallRefused(
            "spike_edit_file", "no_match", "old_text does not occur in the file"
        )
        for start in range(0, missing, 500):
            tx.append(Actor.AGENT, *[refused] * min(500, missing - start))
