"""result.json: what the verdict says, for scripts and the report (spec 12)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from spike_mcp.core import timing
from spike_mcp.core.codes import Checkpoint
from spike_mcp.core.next_actions import next_action
from spike_mcp.core.state import used_minutes
from spike_mcp.core.verdict import Facts, Judgement
from spike_mcp.session.scoring import Score
from spike_mcp.session.spike import Spike
from spike_mcp.session.status import strength_of, tier_of
from spike_mcp.session.transaction import Transaction
from spike_mcp.session.view import hunk_map

SCHEMA_VERSION = 1


def make_result(
    tx: Transaction, facts: Facts, found: Judgement, done: Score, elapsed: float
) -> dict[str, Any]:
    """The content of result.json (spec 12)."""
    spike, state = tx.spike, tx.state
    contract = spike.contract
    oracles = {p: spike.base_sha(p) for p in sorted(contract.oracle)}
    head, rows = spike.ledger.head
    current = hunk_map(spike)
    result = done.result
    return {
        "schema_version": SCHEMA_VERSION,
        "spike": contract.name,
        "spike_id": contract.spike_id,
        "decision": found.decision.value,
        "reason": found.reason.value,
        "reasons": [reason.value for reason in found.reasons],
        "details": [asdict(each) for each in facts.unexplained],
        "changed": {
            "oracle": list(facts.oracle_changed),
            "contract": list(facts.contract_changed),
            "worktree": list(facts.tampered),
            "test_configuration": list(facts.protected_changed),
            "inputs": list(facts.inputs_changed),
            "approvals": list(facts.forged),
        },
        "elapsed_sec": round(elapsed, 3),
        "deadline_sec": contract.budgets.total * 60,
        "oracle_sha256": oracle_digest(oracles),
        "oracles": oracles,
        "over": list(facts.overs),
        "checkpoints": {
            name.value: {
                "minutes": round(used_minutes(state, name, tx.elapsed), 3),
                "allowed": timing.allowance(contract.budgets, name),
                "over": name.value in facts.overs,
                "met": state.checkpoints[name].met,
            }
            for name in Checkpoint
        },
        "patch_lines": facts.lines,
        "max_lines": facts.max_lines,
        "hunks": [
            {
                "id": h.short,
                "path": h.path,
                "state": h.state,
                "tag": h.tag,
                "header": h.hunk.header,
                "patches": list(h.patches),
                "flags": [f.name for f in h.flags],
            }
            for h in current.hunks
        ],
        "withdrawn": [w.short for w in current.withdrawn],
        "baseline": contract.baseline,
        "scored_tree": git_tree(spike) if done.result is not None else "",
        "tree_digest": spike.approved_digest(),
        "measurement": list(contract.measurement.argv),
        "evidence": result.evidence.kind if result else "none",
        "evidence_detail": result.evidence.detail if result else "",
        "clean_run": done.clean.value,
        "note": done.note,
        "negative_controls": list(done.controls),
        "negative_control": done.control.value,
        "hidden": list(done.hidden),
        "hidden_parts": done.twin.value,
        "isolation": contract.isolation.value,
        "writer_tier": tier_of(state),
        "approval_strength": strength_of(state),
        "fingerprint": spike.fingerprint,
        "tamper_flags": [
            {"hunk": h.short, "path": h.path, "flag": f.name, "line": f.line}
            for h in current.hunks
            for f in h.flags
        ],
        "unknowns": [
            {"number": u.number, "text": u.text, "confirmed": u.confirmed} for u in state.unknowns
        ],
        "clock": state.clock.note if state.clock else "",
        "ledger_head": head,
        "ledger_rows": rows,
        "next_action": next_action(found.decision, found.reason),
    }


def oracle_digest(oracles: Mapping[str, str]) -> str:
    """One file: its sha256; several: sha256 over the sorted lines `sha256  path` (spec 12)."""
    if len(oracles) == 1:
        return next(iter(oracles.values()))
    lines = sorted(f"{sha}  {path}\n" for path, sha in oracles.items())
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def git_tree(spike: Spike, *, store: bool = False) -> str:
    """Id of the git tree of baseline + approved regions; untouched paths keep their entries."""
    from spike_mcp.host.git import Git, TreeChange

    git = Git(spike.contract.git_dir)
    changes: dict[str, TreeChange | None] = {}
    for path in spike.changed_paths():
        data = spike.approved_bytes(path)
        if data != spike.base_bytes(path):
            changes[path] = None if data is None else TreeChange(data=data)
    base = git.tree_of(spike.contract.baseline)
    return git.tree_with(base, changes, store=store)


def result_bytes(result: Mapping[str, Any]) -> bytes:
    """result.json as bytes."""
    return (json.dumps(result, indent=2, ensure_ascii=True) + "\n").encode("ascii")
