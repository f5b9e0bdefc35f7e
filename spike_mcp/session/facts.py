"""The facts that the verdict's table looks at, all but the runs (spec 12).

Gathered under the lock, afresh each time: seals, the whole tree, the map's proof, the clock.
"""

from __future__ import annotations

from dataclasses import replace

from spike_mcp.core import mapping, timing
from spike_mcp.core.codes import Checkpoint, Isolation, Problem
from spike_mcp.core.paths import PathClass, RepoPath
from spike_mcp.core.state import used_minutes
from spike_mcp.core.verdict import Facts, Unexplained
from spike_mcp.host.judge_dir import Part
from spike_mcp.host.sweep import Finding
from spike_mcp.host.trees import TreeSeal, packages, seal_trees
from spike_mcp.host.trees import diff as tree_diff
from spike_mcp.session import observe
from spike_mcp.session.spike import Spike
from spike_mcp.session.starting import ENVIRONMENT_SEAL
from spike_mcp.session.transaction import Transaction
from spike_mcp.session.view import hunk_map


def gather(
    tx: Transaction,
    *,
    environment: bool = True,
    asked: float | None = None,
    rehash: bool = False,
) -> Facts:
    """Everything the table needs except the runs. The caller holds the lock.

    `rehash` reads every file of the tree again, whatever its times say (`spike verdict --final`).
    `asked` = elapsed seconds at which the verdict was asked for, where that was earlier: a verdict
    asked for in time may finish its runs later (spec 5). Past the total only what had happened by
    then counts.
    """
    spike, state = tx.spike, tx.state
    if spike.damage:
        return Facts(ledger_damage=spike.damage)
    budgets = spike.contract.budgets
    total = budgets.total * 60
    moment = tx.elapsed if asked is None else asked
    facts = _seal_facts(spike, Facts())
    tampered = observe.pointer_findings(spike)
    found = () if tampered else observe.sweep(tx, rehash=rehash).findings
    facts = _tree_facts(spike, facts, found)
    inputs = facts.inputs_changed
    if environment and "setup" in state.sealed:
        inputs = (*inputs, *environment_changes(spike))
    unexplained = (*facts.unexplained, *unexplained_hunks(spike))
    overs = tuple(
        name.value
        for name in Checkpoint
        if timing.is_over(state, budgets, name, min(tx.elapsed, total))
    )
    hypothesis = spike.contract.hypothesis
    minutes = state.green_minutes
    if minutes is None:
        minutes = used_minutes(state, Checkpoint.ATTEMPT, min(tx.elapsed, total))
    return replace(
        facts,
        deadline=state.started and moment >= total,
        undecided=mapping.pending_count(state) > 0 or bool(state.withdrawn),
        green_measured=bool(state.spans) and state.was_green(spike.approved_digest(), by=total),
        unknown_confirmed=any(u.confirmed for u in state.unknowns),
        tampered=tampered,
        inputs_changed=inputs,
        forged=tuple(spike.forged),
        overs=overs,
        has_diff=bool(state.spans) or bool(found),
        unexplained=unexplained,
        isolation_none=spike.contract.isolation is Isolation.NONE,
        lines=changed_lines(spike),
        max_lines=budgets.max_lines,
        lowered=tuple(n.value for n in Checkpoint if state.checkpoints[n].lowered),
        attempt_minutes=minutes,
        hypothesis_minutes=hypothesis.minutes if hypothesis.full_form else 0.0,
    )


def _seal_facts(spike: Spike, facts: Facts) -> Facts:
    found = observe.seal_findings(spike)
    parts = {difference.part for difference in found}
    contract = tuple(
        d.text for d in found if d.part not in (Part.HYPOTHESIS, Part.ARGV, Part.INPUT)
    )
    return replace(
        facts,
        hypothesis_changed=Part.HYPOTHESIS in parts,
        argv_changed=Part.ARGV in parts,
        contract_changed=contract,
        inputs_changed=tuple(d.text for d in found if d.part is Part.INPUT),
    )


def _tree_facts(spike: Spike, facts: Facts, found: tuple[Finding, ...]) -> Facts:
    """Sort out-of-band findings: the oracle, test configuration, everything else."""
    sealed = spike.sealed_paths()
    oracle: list[str] = []
    protected: list[str] = []
    other: list[Unexplained] = []
    for finding in found:
        text = observe.describe(finding)
        if finding.path in sealed or any(s.startswith(finding.path + "/") for s in sealed):
            oracle.append(text)
        elif spike.policy.protection(RepoPath.trusted(finding.path)):
            protected.append(text)
        else:
            detail = f"written outside the server: {finding.what}"
            other.append(Unexplained("out_of_band", finding.path, "", detail))
    return replace(
        facts,
        oracle_changed=tuple(oracle),
        protected_changed=tuple(protected),
        unexplained=tuple(other),
    )


def environment_changes(spike: Spike) -> tuple[str, ...]:
    """Packages and files of the sealed environment that differ, by name."""
    row = spike.state.sealed["setup"]
    try:
        old = TreeSeal.load(spike.judge / ENVIRONMENT_SEAL, row.digest)
    except Problem as problem:
        return (problem.message,)
    changed = tree_diff(old, seal_trees(old.roots, old))
    return packages(changed)


def changed_lines(spike: Spike) -> int:
    """Added plus removed lines of the whole diff."""
    return sum(span[2] + span[3] for row in spike.state.spans.values() for span in row[2])


def unexplained_hunks(spike: Spike) -> tuple[Unexplained, ...]:
    """Pending and withdrawn hunks, paths outside the allowed ones, and a failed proof."""
    current = hunk_map(spike)
    found = [
        Unexplained("pending", h.path, h.short, h.hunk.header or f"whole file: {h.hunk.kind}")
        for h in current.pending
    ]
    found += [
        Unexplained("withdrawn", w.path, w.short, f"approved as {w.tag!r}, then taken out")
        for w in current.withdrawn
    ]
    for path in spike.changed_paths():
        if spike.policy.classify(RepoPath.trusted(path)) is not PathClass.ALLOWED:
            found.append(Unexplained("path_not_allowed", path))
    pending = {h.path for h in current.pending}
    for path in spike.changed_paths():
        if path not in pending and spike.approved_bytes(path) != spike.work_bytes(path):
            found.append(Unexplained("map_not_sound", path, "", "the map does not reproduce it"))
    return tuple(found)
