"""By repository size: the map after one patch, the sweep, and a whole edit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import world
from client import Client
from harness import Line, Results, Task, interleaved
from peers import Peers
from world import EDITED, SERVER, WHY, Counter

from spike_mcp.session import observe
from spike_mcp.session.agent import AgentDesk
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import hunk_map

SIZES = (100, 10_000, 100_000)
PENDING = 200
"""Hunks that are in the map already."""


def measure(top: Path, _peers: Peers, results: Results, rounds: int) -> None:
    """Every size in a repository of its own, removed before the next."""
    refreshed: dict[int, float] = {}
    for files in SIZES:
        where = top / f"tree{files}"
        refreshed[files] = _one(where, files, results, rounds)
        shutil.rmtree(where)
    small, large = refreshed[SIZES[0]] * 1000, refreshed[SIZES[-1]] * 1000
    what = f"map after one patch, {SIZES[-1]:,} files"
    peer = f"the same, {SIZES[0]:,} files"
    results.add(Line("map", what, large, peer=peer, theirs=small, most=2))


def _one(where: Path, files: int, results: Results, rounds: int) -> float:
    limits = {"max_pending": PENDING + 50, "max_blob_bytes": 1 << 30, "max_runs": 1000}
    repo = world.make_repo(where / "repo", files, {**world.SMALL, **world.many(10)})
    spike = world.open_spike(repo, where / "root", budgets=limits)
    world.fill(spike, files=10, each=PENDING // 10)
    refresh = _refresh(spike, files, results, rounds)
    _sweep(spike, files, results, rounds)
    edit = _edit(spike, rounds)
    results.point("spike_edit_file", files, edit)
    return refresh


def _refresh(spike: Spike, files: int, results: Results, rounds: int) -> float:
    """What a reviewer's screen does after a patch: new rows, and the map of all hunks."""
    desk, edits = AgentDesk(spike, "bench"), Counter()
    reader = Spike(spike.root)
    hunk_map(reader)

    def patch() -> None:
        old, new = edits.next()
        wanted = {"path": EDITED, "old_text": old, "new_text": new, "rationale": WHY}
        assert desk.call("spike_edit_file", wanted).outcome == "accepted"

    def ours() -> None:
        reader.refresh()
        found = hunk_map(reader)
        assert len(found.pending) > PENDING, len(found.pending)

    def git() -> None:
        world.git(spike.work, "diff", "HEAD")
        world.git(spike.work, "ls-files", "-o", "--exclude-standard")

    found = interleaved({"ours": _after(patch, ours), "git": _after(patch, git)}, rounds)
    mine, theirs = found["ours"] * 1000, found["git"] * 1000
    results.point("map after a patch", files, found["ours"])
    results.point("git diff HEAD + ls-files -o", files, found["git"])
    what = f"map after one patch, {files:,} files, {PENDING} hunks pending"
    most = 20 if files == SIZES[-1] else None
    peer = "`git diff HEAD` + `git ls-files -o`"
    results.add(Line("map", what, mine, peer=peer, theirs=theirs, most=most, least=True))
    return found["ours"]


def _after(first: Callable[[], None], then: Callable[[], None]) -> Task:
    """Time `then` alone."""

    def once() -> float:
        first()
        began = time.perf_counter()
        then()
        return time.perf_counter() - began

    return once


def _sweep(spike: Spike, files: int, results: Results, rounds: int) -> None:
    sweeper = observe.watch(spike).sweeper
    expected = observe.expected_changes(spike)

    def ours() -> None:
        found = sweeper.sweep(expected)
        assert not found.findings, found.findings[:3]

    def git() -> None:
        world.git(spike.work, "status", "--ignored")

    found = interleaved({"ours": ours, "git": git}, rounds, warm_up=2)
    results.point("sweep", files, found["ours"])
    results.point("git status --ignored", files, found["git"])
    what = f"sweep of {files:,} files"
    mine, theirs = found["ours"] * 1000, found["git"] * 1000
    most = 2 if files > SIZES[0] else None
    peer = "`git status --ignored`"
    results.add(Line("sweep", what, mine, peer=peer, theirs=theirs, most=most))


def _edit(spike: Spike, rounds: int) -> float:
    edits = Counter(at=150)
    with Client([SERVER, "--spike", str(spike.root)]) as client:

        def ours() -> None:
            old, new = edits.next()
            client.call("spike_edit_file", path=EDITED, old_text=old, new_text=new, rationale=WHY)

        return interleaved({"ours": ours}, rounds * 3, warm_up=5)["ours"]
