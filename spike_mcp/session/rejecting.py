"""Rejects and undos: bytes go back, approvals lapse or revive, and the row says which (spec 9).

A reject returns each region to its last approved bytes, else to the baseline. `plan_reject` works
it out without doing it; `reject` does it between an intent row and an outcome row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spike_mcp.core import events as ev
from spike_mcp.core import mapping
from spike_mcp.core.codes import Actor, Problem, Refusal
from spike_mcp.core.decide import Refused
from spike_mcp.core.hunks import Region, RegionsConflict, resubmission_key, short_ids
from spike_mcp.core.model import Decided
from spike_mcp.core.patches import Change
from spike_mcp.core.paths import RepoPath
from spike_mcp.core.requests import Decide
from spike_mcp.host.signing import Signer
from spike_mcp.session import observe, runs, writes
from spike_mcp.session.decisions import (
    chosen_hunks,
    finish,
    gate,
    next_decision,
    refuse,
    saved_region,
    withdrawn_entry,
)
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction, transaction
from spike_mcp.session.view import HunkMap, MapHunk, hunk_map
from spike_mcp.session.writes import Revised

_PATCH_NAME = re.compile(r"P\d+")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A reject or an undo: decision id, what it was about, files it changed, approvals cut anew.

    `rejected`: how many regions went; 0 where withdrawn ones were put back. `resumed`: whether it
    opened the attempt again.
    """

    decision: str
    target: str
    paths: tuple[str, ...]
    lapsed: tuple[str, ...]
    revived: tuple[str, ...]
    rejected: int = 0
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class RejectPlan:
    """What a reject would do; `recut` = short names of approved hunks that would be cut anew."""

    target: str
    hunks: tuple[str, ...]
    files: tuple[Revised, ...]
    regions: tuple[Region, ...]
    revived: tuple[str, ...]
    forgotten: tuple[str, ...]
    recut: tuple[str, ...]


def plan_reject(
    spike: Spike, targets: Sequence[str], *, pending: bool = False, to_baseline: bool = False
) -> RejectPlan:
    """Work out a reject without doing it. `targets`: hunk ids, withdrawn ids, or patch ids."""
    current = hunk_map(spike)
    if pending:
        return _plan_hunks(spike, current.pending, "all pending hunks", to_baseline=to_baseline)
    if len(targets) == 1 and targets[0] in spike.state.patches:
        return _plan_patch(spike, targets[0])
    if len(targets) == 1 and _PATCH_NAME.fullmatch(targets[0]):
        there = ", ".join(spike.state.patches) or "none yet"
        raise Problem(
            Refusal.HUNK_UNKNOWN, f"there is no patch {targets[0]}", f"there are: {there}"
        )
    if len(targets) == 1 and _is_withdrawn(current, targets[0]):
        return _plan_withdrawn(spike, current, targets[0])
    chosen = chosen_hunks(spike, current, targets)
    label = ", ".join(each.short for each in chosen)
    return _plan_hunks(spike, chosen, label, to_baseline=to_baseline)


def _is_withdrawn(current: HunkMap, name: str) -> bool:
    try:
        current.find_withdrawn(name)
    except Problem:
        return False
    return True


def _plan_hunks(
    spike: Spike, chosen: Sequence[MapHunk], label: str, *, to_baseline: bool
) -> RejectPlan:
    if not chosen:
        raise Problem(Refusal.HUNK_UNKNOWN, "there is nothing to reject", "`spike map` shows all")
    keys = frozenset(region.key for each in chosen for region in each.regions)
    regions = tuple(region for each in chosen for region in each.regions)
    # A rejected region is never its own "last approved bytes", however it was approved once.
    lapses = [each for each in mapping.lapses_at(spike.state, regions) if each.key not in keys]
    older = () if to_baseline else tuple(lapse.approval for lapse in lapses)
    files: list[Revised] = []
    revived: list[str] = []
    for path in dict.fromkeys(region.path for region in regions):
        mine = [spike.approval_region(a) for a in older if a.path == path]
        back = mapping.take_back(path, spike.base_bytes(path), spike.regions(path), keys, mine)
        files.append(_revised(spike, path, back.content))
        revived += back.revived
    forgotten = [lapse.key for lapse in lapses] if to_baseline else []
    own = _decided_before(spike, keys)
    recut = _recut(spike, files, keys)
    return RejectPlan(
        label,
        tuple(each.id for each in chosen),
        tuple(files),
        regions,
        tuple(revived),
        tuple(dict.fromkeys((*forgotten, *own))),
        recut,
    )


def _decided_before(spike: Spike, keys: Iterable[str]) -> tuple[str, ...]:
    """Those of the rejected regions that a human approved once: that is settled now."""
    known = (spike.state.approvals, spike.state.lapsed)
    return tuple(sorted(key for key in keys if any(key in place for place in known)))


def _revised(spike: Spike, path: str, after: bytes | None) -> Revised:
    change = Change(RepoPath.trusted(path), spike.work_bytes(path), after)
    return writes.revised(spike, change)


def _recut(spike: Spike, files: Iterable[Revised], leaving: frozenset[str]) -> tuple[str, ...]:
    """Approved hunks whose regions would be cut differently, by short name."""
    found = []
    for file in files:
        kept = {region.key for region in file.regions}
        for approval in spike.state.approvals.values():
            gone = approval.key not in kept and approval.key not in leaving
            if approval.path == file.path and gone:
                found.append(approval.hunk)
    return tuple(sorted(set(short_ids(found, spike.state.hunk_ids).values())))


def _plan_patch(spike: Spike, patch_id: str) -> RejectPlan:
    patch = spike.state.patches[patch_id]
    files: list[Revised] = []
    for name, before_sha, after_sha, _mode in patch.files:
        before = spike.blobs.get(before_sha) if before_sha else None
        after = spike.blobs.get(after_sha) if after_sha else None
        try:
            back = mapping.reverse(name, before, after, spike.work_bytes(name))
        except RegionsConflict as conflict:
            later = writes.later_patches(spike, patch_id, name)
            raise Problem(
                Refusal.HUNK_CHANGED,
                f"{', '.join(later)} changed the same bytes of {name} after {patch_id}",
                f"reject both, the later first: `spike reject {later[-1] if later else 'HUNK'}`, "
                f"then `spike reject {patch_id}`",
            ) from conflict
        files.append(_revised(spike, name, back))
    changed = tuple(f for f in files if f.before != f.after)
    if not changed:
        raise Problem(
            Refusal.NO_CHANGES,
            f"nothing of {patch_id} is left in the worktree",
            "`spike map` shows what there is",
        )
    gone = _gone_regions(spike, changed)
    keys = frozenset(region.key for region in gone)
    own = _decided_before(spike, keys)
    revived = _returned(spike, changed)
    return RejectPlan(patch_id, (), changed, gone, revived, own, _recut(spike, changed, keys))


def _gone_regions(spike: Spike, files: Iterable[Revised]) -> tuple[Region, ...]:
    found = []
    for file in files:
        kept = {region.key for region in file.regions}
        found += [r for r in spike.regions(file.path) if r.key not in kept]
    return tuple(found)


def _returned(spike: Spike, files: Iterable[Revised]) -> tuple[str, ...]:
    """Lapsed or withdrawn approvals whose regions this revision puts back.

    What is in the diff already came back by the agent's doing: it stays pending (spec 9).
    """
    known = {**spike.state.lapsed, **spike.state.withdrawn}
    there = {region.key for f in files for region in spike.regions(f.path)}
    return tuple(r.key for f in files for r in f.regions if r.key in known and r.key not in there)


def _plan_withdrawn(spike: Spike, current: HunkMap, name: str) -> RejectPlan:
    """Put the approved bytes of a withdrawn entry back; their approval revives."""
    entry = withdrawn_entry(spike, current, name)
    path = entry.path
    again = [spike.approval_region(a) for a in entry.approvals]
    try:
        content = mapping.put_back(spike.base_bytes(path), spike.regions(path), again)
    except RegionsConflict as conflict:
        raise Problem(
            Refusal.HUNK_CHANGED,
            f"another change stands where {entry.short} was",
            "reject that one first",
        ) from conflict
    file = _revised(spike, path, content)
    there = {region.key for region in file.regions}
    revived = tuple(a.key for a in entry.approvals if a.key in there)
    return RejectPlan(
        entry.short, (), (file,), (), revived, (), _recut(spike, (file,), frozenset())
    )


def reject(
    spike: Spike,
    targets: Sequence[str],
    reason: str = "",
    *,
    pending: bool = False,
    to_baseline: bool = False,
    signer: Signer | None = None,
) -> Rejected:
    """Return hunks (or a whole patch) to their last approved bytes, else to the baseline."""
    runs.cancel_agent_run(spike)
    with transaction(spike, human=True) as tx:
        found: list[RejectPlan] = []
        gate(
            tx,
            Decide(),
            "reject",
            lambda: found.append(
                plan_reject(spike, targets, pending=pending, to_baseline=to_baseline)
            ),
        )
        tx.check_signer(signer)
        runs.drop_agent_run(tx)
        plan = found[0]
        decision = next_decision(tx)
        saved = _clear_way(tx, plan.files)
        rows = writes.save_blobs(spike, plan.files)
        regions = tuple(saved_region(spike, region) for region in plan.regions)
        resumed = tx.start_attempt(human=True)
        tx.append(Actor.HUMAN, ev.RejectStarted(decision, rows))
        effects = _effects(spike, plan.files, f"reject of {plan.target}", plan.regions)
        row = ev.HunkRejected(
            files=rows,
            spans=tuple(mapping.spans_row(f.path, f.regions) for f in plan.files),
            lapsed=effects,
            revived=plan.revived,
            forgotten=plan.forgotten,
            decision=decision,
            hunks=plan.hunks,
            target=plan.target,
            reason=reason,
            regions=regions,
            resubmission=tuple(resubmission_key(r) for r in plan.regions),
            saved=saved,
        )
        writes.commit(tx, plan.files, lambda: tx.append_signed(row, signer), decision)
        finish(tx)
    return Rejected(
        decision,
        plan.target,
        tuple(f.path for f in plan.files),
        tuple(key for key, _why in effects if key not in (*plan.forgotten, *plan.revived)),
        plan.revived,
        len(plan.regions),
        resumed,
    )


def _effects(
    spike: Spike, files: Sequence[Revised], cause: str, own: Iterable[Region]
) -> tuple[tuple[str, str], ...]:
    """Approvals that end with a human's revision: all lapse, none is withdrawn."""
    found = writes.consequences(spike, files, cause)
    mine = {region.key for region in own}
    gone = [key for key in found.withdrawn if key in spike.state.approvals]
    lost = dict.fromkeys(gone, f"cut anew by {cause}")
    lost |= {key: "rejected" for key in lost if key in mine}
    return (*found.lapsed, *lost.items())


def _clear_way(tx: Transaction, files: Iterable[Revised]) -> tuple[tuple[str, str], ...]:
    """Out-of-band bytes in the files of a human's revision are kept in blobs and put aside."""
    paths = [file.path for file in files]
    if not observe.touched(tx.spike, paths):
        return ()
    saved = observe.keep_found(tx.spike, paths)
    observe.put_expected(tx.spike, paths)
    return saved


def undo(spike: Spike, *, signer: Signer | None = None) -> Rejected:
    """Take back the last decision that still stands, as new rows."""
    runs.cancel_agent_run(spike)
    with transaction(spike, human=True) as tx:
        found: list[Decided] = []
        gate(tx, Decide(), "undo", lambda: found.append(_last(spike)))
        tx.check_signer(signer)
        target = found[0]
        if isinstance(target.event, ev.HunkRejected):
            runs.drop_agent_run(tx)
            return _undo_reject(tx, target, target.event, signer)
        row = ev.Undone(decision=f"U{target.id}", undoes=target.id)
        tx.append_signed(row, signer)
        finish(tx)
        return Rejected(row.decision, target.id, (), (), ())


def _last(spike: Spike) -> Decided:
    for decided in reversed(spike.state.decisions):
        if not decided.undone:
            return decided
    raise Problem(
        Refusal.NO_CHANGES, "there is no decision to undo", "`spike log` shows what was decided"
    )


def _undo_reject(
    tx: Transaction, target: Decided, rejected: ev.HunkRejected, signer: Signer | None
) -> Rejected:
    spike = tx.spike
    try:
        files = _before_reject(spike, rejected)
    except RegionsConflict as conflict:
        refuse(
            tx,
            "undo",
            Refused(
                Refusal.HUNK_CHANGED,
                f"later changes stand where {rejected.target} was",
                "reject those first, or send the change again with `spike apply`",
            ),
        )
        raise AssertionError("refuse raises") from conflict
    _clear_way(tx, files)
    rows = writes.save_blobs(spike, files)
    tx.append(Actor.HUMAN, ev.RejectStarted(f"U{target.id}", rows))
    cause = f"undo of the reject of {rejected.target}"
    there = {region.key for f in files for region in f.regions}
    revived = tuple(key for key in target.before if key in there)
    effects = _effects(spike, files, cause, ())
    row = ev.Undone(
        files=rows,
        spans=tuple(mapping.spans_row(f.path, f.regions) for f in files),
        lapsed=effects,
        revived=revived,
        decision=f"U{target.id}",
        undoes=target.id,
    )
    writes.commit(tx, files, lambda: tx.append_signed(row, signer), row.decision)
    finish(tx)
    paths = tuple(f.path for f in files)
    return Rejected(row.decision, target.id, paths, tuple(k for k, _ in effects), revived)


def _before_reject(spike: Spike, rejected: ev.HunkRejected) -> tuple[Revised, ...]:
    """Files with the rejected regions put back: exactly as before if nothing followed."""
    back: dict[str, list[Region]] = {}
    for row in rejected.regions:
        back.setdefault(row[1], []).append(_region(spike, row))
    files = []
    for path, before_sha, after_sha, _mode in rejected.files:
        if spike.expected(path)[0] == after_sha:
            content = spike.blobs.get(before_sha) if before_sha else None
        else:
            kept = [r for r in spike.regions(path) if r.key not in rejected.revived]
            again = back.get(path, [])
            content = mapping.put_back(spike.base_bytes(path), tuple(kept), again)
        files.append(_revised(spike, path, content))
    return tuple(files)


def _region(spike: Spike, row: ev.RegionRow) -> Region:
    _key, path, kind, start, count, removed, added = row
    from spike_mcp.core.codes import ChangeKind

    return Region(
        path,
        ChangeKind(kind),
        start,
        count,
        start,
        spike.blobs.get(removed),
        spike.blobs.get(added),
    )
