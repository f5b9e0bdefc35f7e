"""What is looked at before a request is decided: seals, the worktree's pointer, its bytes.

Everything is measured afresh at each request. What a sweep found is kept in memory only as a list
of paths to look at again, so that a write can be refused without sweeping the whole tree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from spike_mcp.core import events as ev
from spike_mcp.core import layout
from spike_mcp.core.codes import Actor, Problem, Refusal
from spike_mcp.core.decide import Observation
from spike_mcp.core.paths import RepoPath
from spike_mcp.host import removal
from spike_mcp.host.judge_dir import Difference, SealWatch
from spike_mcp.host.manifest import GITLINK
from spike_mcp.host.pointer import Pointer, PointerWatch
from spike_mcp.host.sweep import Finding, Report, Sweeper
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction

NAMED = 100
"""Names that an `out_of_band_seen` row lists."""


class Watch:
    """One process's memory for cheap checks: stat caches and the paths of the last findings."""

    def __init__(self, spike: Spike) -> None:
        self.seals = SealWatch(spike.judge)
        self.suspects: frozenset[str] = frozenset()
        self.pointer = Pointer.from_json(json.loads(spike.blobs.get(spike.created.pointer)))
        self.tie = PointerWatch(spike.work, self.pointer)
        self.sweeper = Sweeper(
            spike.work,
            spike.manifest,
            spike.judge / layout.STATS,
            environment=spike.contract.environment,
        )


def watch(spike: Spike) -> Watch:
    """The watch of this process's `Spike`, made at first use."""
    found = spike.memo.get("watch")
    if not isinstance(found, Watch):
        found = spike.memo["watch"] = Watch(spike)
    return found


def seal_findings(spike: Spike) -> tuple[Difference, ...]:
    """What of judge/ or of the sealed inputs outside work/ differs."""
    row = spike.state.sealed.get("reproduce")
    oracle = (*row.oracle, *row.support) if row else ()
    return watch(spike).seals.check(spike.created.seals, oracle=oracle)


def pointer_findings(spike: Spike) -> tuple[str, ...]:
    """What is wrong with work/'s tie to its repository."""
    return tuple(watch(spike).tie.check())


def expected_changes(spike: Spike) -> dict[str, tuple[int, str] | None]:
    """Accepted changes over the baseline: path -> (st_mode, sha256), None = must be absent."""
    return {
        path: (state.mode, state.sha256) if state.sha256 else None
        for path, state in spike.state.files.items()
    }


def touched(spike: Spike, paths: Iterable[str]) -> tuple[str, ...]:
    """Out-of-band findings at `paths` and at what the last sweep found; cheap."""
    wanted = sorted({*paths, *watch(spike).suspects})
    if not wanted:
        return ()
    found = watch(spike).sweeper.check_paths(wanted, expected_changes(spike))
    return tuple(describe(finding) for finding in found)


def describe(finding: Finding) -> str:
    """`src/a.py (changed)`."""
    return f"{finding.path} ({str(finding.what).replace('_', ' ')})"


def sweep(tx: Transaction, *, record: bool = True, rehash: bool = False) -> Report:
    """Look at the whole tree. Findings are ledgered (once for an equal set) and remembered."""
    spike = tx.spike
    mine = watch(spike)
    swept = mine.sweeper.sweep(expected_changes(spike), rehash=rehash)
    # Under the lock nobody is writing: what is there was left by a process that was killed.
    removal.remove_files(spike.worktree, swept.temporaries)
    names = frozenset(finding.path for finding in swept.findings)
    fresh = names - mine.suspects
    mine.suspects = names
    if fresh and record and not spike.damage and tx.state.verdict is None:
        shown = tuple(describe(f) for f in swept.findings[:NAMED])
        tx.append(Actor.HOST, ev.OutOfBandSeen(len(names), shown))
    return swept


def clear_droppings(tx: Transaction) -> tuple[str, ...]:
    """Remove what test runners and editors left behind, one row; for the human's commands."""
    spike = tx.spike
    if spike.damage or pointer_findings(spike):
        return ()
    report = watch(spike).sweeper.sweep(expected_changes(spike))
    removed = removal.remove_files(spike.worktree, report.droppings)
    if removed and tx.state.started and not tx.state.verdict:
        row = ev.DroppingsRemoved(len(removed), tuple(removed[:NAMED]))
        tx.append(Actor.HUMAN, row)
    return tuple(removed)


def observation(
    tx: Transaction, *, human: bool, sweep_tree: bool = False, paths: Sequence[str] = ()
) -> Observation:
    """The observation that every request shares; the caller adds what it prepared."""
    spike = tx.spike
    if spike.damage:
        return Observation(tx.elapsed, human=human, damage=spike.damage)
    if tx.state.created is None or not tx.state.started:
        return Observation(tx.elapsed, human=human)
    tampered = pointer_findings(spike)
    if tampered:
        odd: tuple[str, ...] = ()
    elif sweep_tree:
        odd = tuple(describe(f) for f in sweep(tx).findings)
    else:
        odd = touched(spike, paths)
    run = tx.state.open_run
    return Observation(
        elapsed=tx.elapsed,
        human=human,
        seal=tuple(difference.text for difference in seal_findings(spike)),
        tampered=tampered,
        out_of_band=odd,
        running=run.id if run else "",
    )


def keep_found(spike: Spike, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Keep in blobs what stands at `paths` now: (path, sha256). Nothing in the tree changes.

    Raises `Problem` if for one of them the bytes that the ledger expects can't be had any more:
    better all of them stay as they are than some.
    """
    saved: list[tuple[str, str]] = []
    for name in dict.fromkeys(paths):
        sha, mode = spike.expected(name)
        if mode and mode != GITLINK:
            _recorded(spike, name, sha)
        found = _kept(spike, RepoPath.trusted(name))
        if found:
            saved.append((name, found))
    return tuple(saved)


def put_expected(spike: Spike, paths: Iterable[str]) -> None:
    """Give `paths` the bytes that the ledger expects; `keep_found` comes before.

    Raises `Problem` where that can't be done through the worktree's handles.
    """
    for name in dict.fromkeys(paths):
        sha, mode = spike.expected(name)
        if not mode:
            removal.discard(spike.worktree, name)
            continue
        data = b"" if mode == GITLINK else _recorded(spike, name, sha)
        removal.restore(spike.worktree, name, mode, data)


def _kept(spike: Spike, path: RepoPath) -> str:
    try:
        return spike.blobs.put(spike.worktree.read(path, 1 << 30, linked=True))
    except Problem as problem:
        if problem.code is Refusal.STORAGE_FULL:
            raise
        return ""


def _recorded(spike: Spike, name: str, sha: str) -> bytes:
    """The recorded bytes, from blobs or else from the object store."""
    if spike.blobs.has(sha):
        return spike.blobs.get(sha)
    from spike_mcp.host.git import Git, checked_out

    git = Git(spike.contract.git_dir)
    entry = git.entry(spike.created.baseline, name)
    if entry is not None:
        data = git.read("blob", entry.oid)
        if hashlib.sha256(data).hexdigest() != sha:
            # Line ends or $Id$ were converted when the baseline was checked out.
            data = checked_out(spike.work, watch(spike).pointer, name, entry.oid)
        if hashlib.sha256(data).hexdigest() == sha:
            return data
    raise Problem(
        Refusal.OUT_OF_BAND_CHANGE,
        f"the recorded bytes of {name} are nowhere to be found any more",
        "put the file back by hand, or close the spike",
    )
