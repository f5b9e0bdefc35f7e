"""What the human decides: approve, reject, undo, comment, restore (spec 9).

A decision is made on content that was seen: an id, and from the screens the digest of the view.
Under the lock the map is made again and everything is checked by the same gate as the agent's
calls. Each function raises `Problem` for "no" and returns what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from spike_mcp.core import events as ev
from spike_mcp.core import mapping, tags
from spike_mcp.core.codes import Actor, Problem, Refusal
from spike_mcp.core.decide import Refused
from spike_mcp.core.hunks import Region, RegionsConflict, resubmission_key, short_ids
from spike_mcp.core.model import Decided
from spike_mcp.core.patches import Change
from spike_mcp.core.paths import RepoPath
from spike_mcp.core.requests import Approve, Decide, Request
from spike_mcp.host.signing import Signer
from spike_mcp.session import observe, runs, writes
from spike_mcp.session.projection import show_new_files, write_projection
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction, transaction
from spike_mcp.session.view import HunkMap, MapHunk, hunk_map
from spike_mcp.session.writes import Revised


@dataclass(frozen=True, slots=True)
class Approved:
    """Hunks that are approved now, and what the reviewer should be warned about."""

    hunks: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A reject or an undo: decision id, what it was about, files it changed, approvals cut anew.

    `rejected`: how many regions went; 0 where withdrawn ones were put back.
    """

    decision: str
    target: str
    paths: tuple[str, ...]
    lapsed: tuple[str, ...]
    revived: tuple[str, ...]
    rejected: int = 0


def gate(
    tx: Transaction,
    request: Request,
    name: str,
    prepare: Callable[[], None] | None = None,
    *,
    swept: bool = False,
) -> None:
    """Ask the gate for a human's request; a refusal is ledgered and raised as `Problem`.

    `prepare` makes what is to be decided and raises the `Problem` that speaks against it.
    """
    problem: Problem | None = None
    if prepare is not None and not tx.spike.damage and tx.state.started:
        try:
            prepare()
        except Problem as found:
            problem = found
    seen = observe.observation(tx, human=True, sweep_tree=swept)
    answer = tx.decide(request, replace(seen, problem=problem))
    if isinstance(answer, Refused):
        refuse(tx, name, answer)


def refuse(tx: Transaction, name: str, answer: Refused, about: Sequence[str] = ()) -> None:
    """Ledger a human's refusal (where a row can be written) and raise it.

    `about`: resubmission keys that this refusal was the one warning for.
    """
    if answer.code not in (Refusal.LEDGER_DAMAGED, Refusal.STORAGE_FULL, Refusal.BUSY):
        row = ev.CallRefused(name, answer.code.value, answer.message[:500], tuple(about))
        tx.append(Actor.HUMAN, row)
    raise Problem(answer.code, answer.message, answer.hint)


def _finish(tx: Transaction) -> None:
    with suppress(Problem):  # the decision stands; the next transaction writes the row too
        tx.end_backlog()
    write_projection(tx.spike)
    show_new_files(tx.spike)


# --- approve ------------------------------------------------------------------------------------


def approve(
    spike: Spike,
    names: Sequence[str],
    tag: str,
    *,
    sha: str = "",
    acks: Iterable[str] = (),
    seconds: float = 0.0,
    signer: Signer | None = None,
) -> Approved:
    """Tie hunks to the hypothesis. `sha` pins the view that was shown; `acks` = flags seen."""
    chosen: list[MapHunk] = []
    said: list[tags.TagAccepted] = []
    acknowledged = frozenset(acks)
    with transaction(spike, human=True) as tx:

        def prepare() -> None:
            chosen.extend(_chosen(spike, hunk_map(spike), names))
            said.append(_check_approval(spike, chosen, tag, sha, acknowledged))

        gate(tx, Approve(), "approve", prepare, swept=True)
        tx.check_signer(signer)
        for each in chosen:
            row = _approval_row(tx, each, said[0].text, acknowledged, seconds)
            tx.append_signed(row, signer)
        _finish(tx)
    return Approved(tuple(each.short for each in chosen), said[0].warnings)


def _chosen(spike: Spike, current: HunkMap, names: Sequence[str]) -> list[MapHunk]:
    found: dict[str, MapHunk] = {}
    for name in names:
        try:
            each = current.find(name)
        except Problem as problem:
            raise _gone(spike, name) or problem from None
        found[each.id] = each
    return list(found.values())


def _gone(spike: Spike, name: str) -> Problem | None:
    """`hunk_changed` for an id that the map had once: what was seen is not what is there now."""
    wanted = name.removeprefix("h").lower()
    if not wanted or not any(known.startswith(wanted) for known in spike.state.hunk_ids):
        return None
    return Problem(
        Refusal.HUNK_CHANGED,
        f"{name} is not in the diff any more: it changed or went away since it was shown",
        "look at it again: `spike map`, `spike show`",
    )


def _check_approval(
    spike: Spike, chosen: Sequence[MapHunk], tag: str, sha: str, acks: frozenset[str]
) -> tags.TagAccepted:
    for each in chosen:
        if sha and not each.view.startswith(sha.lower()):
            raise Problem(
                Refusal.HUNK_CHANGED,
                f"{each.short} looks different now from what was shown",
                "look at it again, then decide",
            )
    if len({each.changed_lines for each in chosen}) > 1:
        raise Problem(
            Refusal.HUNKS_DIFFER,
            "these hunks differ: one tag for several hunks needs identical changed lines",
            "approve them one by one, each with its own tag",
        )
    rationale = chosen[0].rationale if chosen else ""
    checked = tags.check_tag(tag, spike.contract.hypothesis.tokens, rationale)
    if isinstance(checked, Problem):
        raise checked
    _check_flags(chosen, acks)
    return checked


def _check_flags(chosen: Sequence[MapHunk], acks: frozenset[str]) -> None:
    if "all" in acks:
        return
    for each in chosen:
        missing = sorted({flag.name for flag in each.flags} - acks)
        if missing:
            lines = ", ".join(f"{f.name} at line {f.line}" for f in each.flags[:5])
            raise Problem(
                Refusal.FLAG_UNACKNOWLEDGED,
                f"{each.short} is flagged: {lines}",
                f"read those lines, then add --ack {' --ack '.join(missing)}",
            )


def _approval_row(
    tx: Transaction, each: MapHunk, tag: str, acks: frozenset[str], seconds: float
) -> ev.HunkApproved:
    flagged = tuple(dict.fromkeys(flag.name for flag in each.flags))
    return ev.HunkApproved(
        decision=next_decision(tx),
        hunk=each.id,
        regions=tuple(saved_region(tx.spike, region) for region in each.regions),
        tag=tag,
        flags=flagged,
        acknowledged=flagged if "all" in acks else tuple(a for a in acks if a in flagged),
        view_sha256=each.view,
        like_rationale=bool(each.rationale) and tag.strip() == each.rationale.strip(),
        seconds=round(seconds, 1),
    )


def next_decision(tx: Transaction) -> str:
    """The id of the next decision, D1, D2, ..."""
    return f"D{tx.state.issued_decisions + 1}"


def saved_region(spike: Spike, region: Region) -> ev.RegionRow:
    """The ledger's form of a region, its bytes kept in blobs."""
    removed, added = spike.blobs.put_all((region.removed, region.added))
    return mapping.region_row(region, removed, added)


def accept_withdrawal(spike: Spike, name: str, *, signer: Signer | None = None) -> str:
    """Accept that an approved region is gone. Returns the entry's short name."""
    with transaction(spike, human=True) as tx:
        found = []
        gate(
            tx,
            Approve(),
            "approve --withdrawn",
            lambda: found.append(hunk_map(spike).find_withdrawn(name)),
            swept=True,
        )
        tx.check_signer(signer)
        entry = found[0]
        keys = tuple(a.key for a in entry.approvals)
        tx.append_signed(ev.WithdrawalAccepted(next_decision(tx), entry.id, keys), signer)
        _finish(tx)
        return entry.short


# --- reject -------------------------------------------------------------------------------------


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
    if len(targets) == 1 and _is_withdrawn(current, targets[0]):
        return _plan_withdrawn(spike, current, targets[0])
    chosen = _chosen(spike, current, targets)
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
    lapses = mapping.lapses_at(spike.state, regions)
    older = () if to_baseline else tuple(lapse.approval for lapse in lapses)
    files: list[Revised] = []
    revived: list[str] = []
    for path in dict.fromkeys(region.path for region in regions):
        mine = [spike.approval_region(a) for a in older if a.path == path]
        back = mapping.take_back(path, spike.base_bytes(path), spike.regions(path), keys, mine)
        files.append(_revised(spike, path, back.content))
        revived += back.revived
    forgotten = [lapse.approval.key for lapse in lapses] if to_baseline else []
    own = [key for key in keys if key in spike.state.approvals]
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
        raise Problem(Refusal.NO_CHANGES, f"nothing of {patch_id} is left in the worktree")
    gone = _gone_regions(spike, changed)
    keys = frozenset(region.key for region in gone)
    own = tuple(key for key in keys if key in spike.state.approvals)
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
    entry = current.find_withdrawn(name)
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
        tx.start_attempt(human=True)
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
        _finish(tx)
    return Rejected(
        decision,
        plan.target,
        tuple(f.path for f in plan.files),
        tuple(key for key, _why in effects if key not in (*plan.forgotten, *plan.revived)),
        plan.revived,
        len(plan.regions),
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
    return observe.put_expected(tx.spike, paths)


# --- undo ---------------------------------------------------------------------------------------


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
        _finish(tx)
        return Rejected(row.decision, target.id, (), (), ())


def _last(spike: Spike) -> Decided:
    for decided in reversed(spike.state.decisions):
        if not decided.undone:
            return decided
    raise Problem(Refusal.NO_CHANGES, "there is no decision to undo")


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
    _finish(tx)
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


# --- words --------------------------------------------------------------------------------------


def comment(spike: Spike, name: str, text: str) -> str:
    """A remark on a hunk; the agent hears it at its next call. Returns the hunk's short name."""
    with transaction(spike, human=True) as tx:
        found: list[MapHunk] = []

        def prepare() -> None:
            found.extend(_chosen(spike, hunk_map(spike), [name]))
            if not text.strip():
                raise Problem(Refusal.MALFORMED_REQUEST, "the comment is empty")

        gate(tx, Decide(), "comment", prepare)
        each = found[0]
        row = ev.Commented(next_decision(tx), each.id, each.path, text[:4000])
        tx.append(Actor.HUMAN, row)
        return each.short


def note_unknown(spike: Spike, text: str) -> int:
    """Note (and thereby confirm) a new unknown. Returns its number."""
    with transaction(spike, human=True) as tx:
        gate(tx, Decide(), "unknown", lambda: _filled(text))
        number = len(tx.state.unknowns) + 1
        tx.append(Actor.HUMAN, ev.UnknownNoted(number, text[:4000]), ev.UnknownConfirmed(number))
        return number


def _filled(text: str) -> None:
    if not text.strip():
        raise Problem(Refusal.MALFORMED_REQUEST, "say in a sentence what is unknown")


def confirm_unknown(spike: Spike, number: int) -> None:
    """Confirm an unknown that the agent reported: it counts in the verdict."""
    with transaction(spike, human=True) as tx:
        gate(tx, Decide(), "unknown", lambda: _known_unknown(spike, number))
        tx.append(Actor.HUMAN, ev.UnknownConfirmed(number))


def _known_unknown(spike: Spike, number: int) -> None:
    known: Mapping[int, str] = {u.number: u.text for u in spike.state.unknowns}
    if number not in known:
        listed = ", ".join(map(str, known)) or "none"
        raise Problem(
            Refusal.MALFORMED_REQUEST, f"there is no unknown {number}", f"noted: {listed}"
        )


def restore(spike: Spike, paths: Sequence[str] = (), *, everything: bool = False) -> ev.Restored:
    """Put recorded bytes back over out-of-band changes; what was found is kept in blobs."""
    runs.cancel_agent_run(spike)
    with transaction(spike, human=True) as tx:
        found: list[str] = []

        def prepare() -> None:
            odd = [finding.path for finding in observe.sweep(tx).findings]
            wanted = odd if everything else list(dict.fromkeys(paths))
            unknown = [path for path in wanted if path not in odd]
            if unknown:
                raise Problem(
                    Refusal.NO_CHANGES,
                    f"not changed outside the tools: {', '.join(unknown[:5])}",
                    f"changed: {', '.join(odd[:5]) or 'nothing'}",
                )
            found.extend(wanted)

        gate(tx, Decide(), "restore", prepare)
        runs.drop_agent_run(tx)
        saved = observe.put_expected(spike, found)
        row = ev.Restored(tuple(found), saved)
        if found:
            tx.append(Actor.HUMAN, row)
        _finish(tx)
        return row
