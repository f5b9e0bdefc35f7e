"""The end: ship, kill, rm, apply, and the offline proof `spike verify` (spec 10, 13)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spike_mcp.core import events as ev
from spike_mcp.core import layout
from spike_mcp.core.codes import Actor, Decision, Problem, Reason, Refusal, Usage
from spike_mcp.core.decide import Refused
from spike_mcp.core.requests import Apply, End
from spike_mcp.core.verdict import Facts, judge
from spike_mcp.host.files import write_atomic
from spike_mcp.host.git import Git, check_removable, remove_worktree
from spike_mcp.host.ledger import damaged
from spike_mcp.host.pointer import Pointer
from spike_mcp.session import decisions, judging, observe, result, runs, writes
from spike_mcp.session.facts import gather
from spike_mcp.session.projection import show_new_files, write_projection
from spike_mcp.session.scoring import Score
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction, transaction

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ShipResult:
    """Where the approved tree was committed and how to merge it."""

    commit: str
    branch: str
    patch: Path
    merge_hint: str


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """`findings`: what does not hold; empty = everything does. `rows`: rows of the ledger."""

    ok: bool
    findings: tuple[str, ...]
    rows: int
    decision: str


def apply(spike: Spike, patch: str, rationale: str) -> writes.Outcome:
    """`spike apply FILE`: the human's door for a patch; the same gate, clocks and map."""
    runs.cancel_agent_run(spike)
    request = Apply(patch, rationale)
    with transaction(spike, human=True) as tx:
        resumed = not spike.damage and tx.state.started and tx.start_attempt(human=True)
        seen = observe.observation(tx, human=True)
        plan = writes.Plan()
        if tx.state.started and not spike.damage and not seen.tampered:
            plan = writes.plan(spike, request)
            seen = replace(
                seen,
                out_of_band=tuple(dict.fromkeys((*seen.out_of_band, *plan.out_of_band))),
                problem=plan.problem,
                pending_after=plan.pending_after,
                adds_hunk=plan.adds_hunk,
            )
        answer = tx.decide(request, seen)
        if isinstance(answer, Refused):
            warned = plan.problem if isinstance(plan.problem, writes.Resubmitted) else None
            if answer.code is Refusal.REVIEW_BACKLOG:
                tx.begin_backlog()
            decisions.refuse(tx, "apply", answer, warned.keys if warned else ())
        outcome = writes.perform(tx, request, plan, Actor.HUMAN)
        write_projection(spike)
        show_new_files(spike)
        return replace(outcome, resumed=resumed)


# --- ship ---------------------------------------------------------------------------------------


def ship(spike: Spike) -> ShipResult:
    """Commit baseline + approved regions on spike/<name>. Only after SHIP, byte for byte."""
    spike.refresh()
    if spike.damage:
        raise damaged(spike.damage)
    refusal = _not_ship(spike)
    if refusal is not None:
        decisions.note_refused(spike, "ship", refusal)
        raise refusal
    told = judging.written(spike).result
    if spike.damage:
        raise damaged(spike.damage)
    branch = layout.branch(spike.contract.name)
    with transaction(spike, human=True) as tx, decisions.ledgered(tx, "ship"):
        if tx.state.shipped is not None:
            commit = tx.state.shipped.commit
        else:
            commit = _commit(tx, told, branch)
            tx.append(Actor.HUMAN, ev.Shipped(commit, branch))
    patch = spike.verdict_dir / layout.SHIP_PATCH
    git = Git(spike.contract.git_dir)
    data = git.patch(git.tree_of(spike.contract.baseline), git.tree_of(commit))
    write_atomic(patch, data, 0o644)
    hint = (
        f"git -C {spike.contract.repository} merge --no-ff {branch}   "
        f"(or: git -C {spike.contract.repository} apply --index {patch})"
    )
    return ShipResult(commit, branch, patch, hint)


def _not_ship(spike: Spike) -> Problem | None:
    verdict = spike.state.verdict
    if verdict is not None and verdict.decision == Decision.SHIP.value:
        return None
    said = "there is no verdict yet" if verdict is None else f"the verdict is {verdict.decision}"
    return Problem(
        Refusal.NOT_AUTHORISED if verdict else Refusal.NOT_STARTED,
        f"{said}; only SHIP can be shipped",
        "a new spike is the only appeal" if verdict else "`spike verdict` judges the spike",
    )


def _commit(tx: Transaction, told: Mapping[str, Any], branch: str) -> str:
    spike = tx.spike
    tree = result.git_tree(spike, store=True)
    if tree != told["scored_tree"]:
        raise Problem(
            Refusal.HUNK_CHANGED,
            "the approved tree is not the one that was scored; nothing was committed",
            "`spike verify` shows what differs",
        )
    git = Git(spike.contract.git_dir)
    baseline = spike.contract.baseline
    commit = git.commit_tree(tree, baseline, _message(spike, told))
    ref = f"refs/heads/{branch}"
    if git.resolve(ref) != baseline:
        raise Problem(
            Refusal.WORKTREE_TAMPERED,
            f"branch {branch} is not at the baseline any more; nothing was moved",
            f"the commit is there: git branch NAME {commit[:12]}",
        )
    git.update_ref(ref, commit, baseline, "spike ship")
    return commit


def _message(spike: Spike, told: Mapping[str, Any]) -> str:
    """The hypothesis, the tags as trailers, and the ledger's head."""
    text = spike.contract.hypothesis.text
    title = text if len(text) <= 72 else f"{spike.contract.name}: spike shipped"
    lines = [title, "", text, ""] if title != text else [title, ""]
    lines.append(f"{told['patch_lines']} changed lines, verdict {told['reason']}.")
    lines.append("")
    for hunk in told["hunks"]:
        tag = " ".join(str(hunk["tag"]).split())
        lines.append(f"Spike-Tag: {hunk['id']} {hunk['path']}: {tag}")
    lines += [
        f"Spike-Id: {told['spike_id']}",
        f"Spike-Ledger: {told['ledger_head']}",
        f"Spike-Approvals: {told['approval_strength']}",
    ]
    return "\n".join(lines) + "\n"


# --- kill and rm --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed and what was left, in sentences; `archive` for `spike rm`."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    archive: Path | None = None


def kill(spike: Spike, note: str = "", on_progress: Progress = lambda _text: None) -> Removed:
    """Close the spike: a KILL verdict if none is written, then worktree and branch go."""
    try:
        _close(spike, note)
    except Problem as problem:
        judging.unjudgeable(spike, problem)
    on_progress("removing the worktree")
    return _remove_work(spike)


def _close(spike: Spike, note: str) -> None:
    runs.cancel_agent_run(spike)
    with transaction(spike, human=True) as tx, decisions.ledgered(tx, "kill"):
        if tx.state.killed is not None:
            raise Problem(Refusal.SPIKE_CLOSED, "this spike was closed before", "`spike rm`")
        if not spike.damage and tx.state.verdict is None:
            answer = tx.decide(End(), observe.observation(tx, human=True))
            unstarted = isinstance(answer, Refused) and answer.code is Refusal.NOT_STARTED
            if isinstance(answer, Refused) and not unstarted:
                raise Problem(answer.code, answer.message, answer.hint)
            _write_closed(tx)
        if not spike.damage:
            if tx.state.shipped is not None:  # not closed halfway: its branch may have to stay
                check_removable(spike.work, _pointer(spike), tx.state.shipped.commit)
            tx.append(Actor.HUMAN, ev.Killed(note[:8000]))


def _write_closed(tx: Transaction) -> None:
    """Row 5a: no scoring run; `already_green` and `flaky_baseline` when start ended so."""
    reasons = {
        Refusal.ALREADY_GREEN.value: Reason.ALREADY_GREEN,
        Refusal.FLAKY_BASELINE.value: Reason.FLAKY_BASELINE,
    }
    closed = reasons.get(tx.state.start_failure, Reason.CLOSED_BY_HUMAN)
    observe.clear_droppings(tx)
    try:
        # Rows 1 to 5 hold whoever closes the spike, row 3 "whoever writes the verdict, and when".
        facts = replace(gather(tx), closed=closed)
    except Problem:
        facts = Facts(closed=closed)
    if tx.state.visit is not None:
        tx.append(Actor.HUMAN, tx.stop(met=False, why="closed"))
    found = judge(facts)
    total = tx.spike.contract.budgets.total * 60
    told = result.make_result(tx, facts, found, Score(), min(tx.elapsed, total))
    judging.write(tx, found, told)


def _pointer(spike: Spike) -> Pointer:
    return Pointer.from_json(json.loads(spike.blobs.get(spike.created.pointer)))


def _remove_work(spike: Spike) -> Removed:
    shipped = spike.state.shipped
    tip = shipped.commit if shipped else spike.created.baseline
    try:
        pointer = _pointer(spike)
    except Problem as problem:
        # Nothing else says which directory was made here, so nothing is removed.
        return Removed((), (f"{spike.work}: {problem.message}",))
    found = remove_worktree(spike.work, pointer, tip)
    return Removed(found.removed, found.kept)


def remove(spike: Spike) -> Removed:
    """`spike rm`: archive judge and verdict, remove the rest; not an unmerged shipped branch."""
    try:
        return _remove(spike)
    except Problem as problem:
        decisions.note_refused(spike, "rm", problem)
        raise


def _remove(spike: Spike) -> Removed:
    spike.refresh()
    # A result that no row names is the end of a spike whose judge was taken apart.
    judged = os.path.lexists(spike.verdict_dir / layout.RESULT)
    if not (spike.state.verdict or spike.state.killed or spike.damage or judged):
        raise Problem(
            Refusal.NOT_AUTHORISED,
            "this spike is still open",
            "`spike verdict --final` or `spike kill` ends it first",
        )
    found = _remove_work(spike)
    archive = _archive_path(spike.root)
    with tarfile.open(archive, "x:gz") as tar:
        for place in (spike.judge, spike.verdict_dir):
            tar.add(place, arcname=f"{spike.root.name}/{place.name}")
    shutil.rmtree(spike.root)
    return Removed(found.removed, found.kept, archive)


def _archive_path(root: Path) -> Path:
    for number in range(1, 10_000):
        suffix = "" if number == 1 else f"-{number}"
        path = root.parent / f"{root.name}{suffix}.tar.gz"
        if not path.exists():
            return path
    raise Problem(Usage.SPIKE_EXISTS, f"too many archives of {root.name}", "move some away")


# --- verify -------------------------------------------------------------------------------------


def verify(directory: Path) -> VerifyResult:
    """Chain, seals, signatures, map and verdict, offline, with nothing but the directory."""
    spike = Spike(directory)
    found: list[str] = []
    if spike.damage:
        return VerifyResult(False, (f"ledger: {spike.damage}",), spike.state.seq, "")
    try:
        found += [f"seal: {d.text}" for d in observe.seal_findings(spike)]
        found += [f"signature: {each}" for each in spike.forged]
        found += _verify_map(spike)
        found += _verify_result(spike)
    except Problem as problem:
        found.append(f"{problem.code}: {problem.message}")
    verdict = spike.state.verdict
    said = f"{verdict.decision} {verdict.reason}" if verdict else ""
    return VerifyResult(not found, tuple(found), spike.state.seq, said)


def _verify_map(spike: Spike) -> list[str]:
    """Baseline + approved regions reproduce the bytes that the ledger names, from blobs alone."""
    found = []
    for path in spike.changed_paths():
        row = spike.state.spans[path]
        keys = {span[0] for span in row[2]}
        here = {region.key for region in spike.regions(path)}
        if keys != here:
            found.append(f"map: {path} has other regions than the ledger says")
            continue
        approved = keys <= spike.state.approvals.keys()
        if approved and spike.approved_bytes(path) != spike.work_bytes(path):
            found.append(f"map: the approved regions do not reproduce {path}")
    return found


def _verify_result(spike: Spike) -> list[str]:
    path = spike.verdict_dir / layout.RESULT
    verdict = spike.state.verdict
    if verdict is None:
        return ["verdict: result.json is not in the ledger"] if path.exists() else []
    data = spike.blobs.get(verdict.result)
    if not path.exists():
        return ["verdict: result.json is missing (`spike verdict` makes it again)"]
    if hashlib.sha256(path.read_bytes()).hexdigest() != verdict.result:
        return ["verdict: result.json is not the one the ledger names"]
    told = json.loads(data)
    if told["decision"] != verdict.decision or told["reason"] != verdict.reason:
        return ["verdict: result.json contradicts the ledger"]
    fault = judging.head_fault(spike, told)
    return [f"verdict: {fault}"] if fault else []
