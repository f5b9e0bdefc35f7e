"""Where a spike stands: one value for the agent, the terminal and scripts (spec 7, 13).

Made from the fold alone (plus a sweep where the caller has one): no pygit2, no pydantic, so that
`spike status` stays fast (spec 15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spike_mcp.core import mapping, timing
from spike_mcp.core.budgets import Budgets
from spike_mcp.core.clock import Reading
from spike_mcp.core.clock import elapsed as elapsed_at
from spike_mcp.core.codes import Checkpoint
from spike_mcp.core.model import State
from spike_mcp.core.state import used_minutes
from spike_mcp.session.spike import Spike


@dataclass(frozen=True)
class Status:
    """Seconds are floats. `out_of_band` is None where the tree was not looked at."""

    spike: str
    root: str
    phase: str
    checkpoint: str
    elapsed: float
    remaining: float
    writes_close_in: float
    pending: int
    approved: int
    withdrawn: int
    out_of_band: int | None
    hypothesis: str
    tag_tokens: tuple[str, ...]
    allowed: tuple[str, ...]
    measurement: tuple[str, ...]
    runs_left: int
    last_run: dict[str, Any] | None
    running: str
    approval_strength: str
    writer_tier: str
    checkpoints: dict[str, dict[str, Any]]
    unknowns: tuple[dict[str, Any], ...]
    verdict: str
    done: bool
    total_minutes: float

    def to_dict(self) -> dict[str, Any]:
        """The shape that scripts rely on (spec 13)."""
        return {
            "spike": self.spike,
            "root": self.root,
            "phase": self.phase,
            "checkpoint": self.checkpoint,
            "elapsed_seconds": round(self.elapsed, 3),
            "remaining_seconds": round(self.remaining, 3),
            "writes_close_in_seconds": round(self.writes_close_in, 3),
            "hunks": {
                "pending": self.pending,
                "approved": self.approved,
                "withdrawn": self.withdrawn,
                "out_of_band": self.out_of_band,
            },
            "hypothesis": self.hypothesis,
            "tag_tokens": list(self.tag_tokens),
            "allowed_paths": list(self.allowed),
            "measurement": list(self.measurement),
            "runs_left": self.runs_left,
            "last_run": self.last_run,
            "running": self.running,
            "approval_strength": self.approval_strength,
            "writer_tier": self.writer_tier,
            "checkpoints": self.checkpoints,
            "unknowns": list(self.unknowns),
            "verdict": self.verdict,
            "done": self.done,
        }

    def agent_lines(self) -> tuple[str, ...]:
        """What the agent reads: no path of judge/, no digest."""
        last = self.last_run
        run = (
            "none yet"
            if last is None
            else f"{last['run']} {'green' if last['green'] else last['outcome']}"
        )
        return (
            f"spike {self.spike}: {self.phase}, checkpoint {self.checkpoint or 'none'}",
            f"hypothesis: {self.hypothesis}",
            f"you may write: {', '.join(self.allowed)}",
            f"measurement (spike_run_test): {' '.join(self.measurement)}",
            f"hunks: {self.pending} pending, {self.approved} approved, {self.withdrawn} withdrawn",
            f"test runs left: {self.runs_left}; last run: {run}"
            + (f"; running: {self.running}" if self.running else ""),
        )


def phase_of(state: State, elapsed: float, total_minutes: float) -> str:
    """created, starting, attempt, waiting, verify, over, closed (spec 5)."""
    if state.killed or state.verdict:
        return "closed"
    if not state.started:
        return "created"
    if elapsed >= total_minutes * 60:
        return "over"
    if not timing.ready(state):
        return "starting"
    if state.visit is not None:
        return state.visit.checkpoint.value
    return "waiting"


def strength_of(state: State) -> str:
    """`signed`, `enforced` or `none` (spec 14)."""
    if state.created is not None and state.created.approval_key:
        return "signed"
    return "enforced" if tier_of(state) == "enforced" else "none"


def tier_of(state: State) -> str:
    """The weakest tier of all agent sessions; "none" before the first."""
    if not state.tiers:
        return "none"
    return "configured" if "configured" in state.tiers else "enforced"


def status(spike: Spike, reading: Reading, out_of_band: int | None = None) -> Status:
    """The status at `reading`."""
    state, budgets = spike.state, spike.contract.budgets
    elapsed = elapsed_at(state.clock, reading) if state.clock else 0.0
    fields = _told(spike)
    if state.visit is not None:  # time changes the open checkpoint only
        name = state.visit.checkpoint
        now = {name.value: _checkpoint(state, budgets, name, elapsed)}
        fields = {**fields, "checkpoints": {**fields["checkpoints"], **now}}
    return Status(
        phase=phase_of(state, elapsed, budgets.total),
        elapsed=elapsed,
        remaining=timing.remaining_seconds(state, budgets, elapsed),
        writes_close_in=timing.writes_close_in_seconds(state, budgets, elapsed),
        out_of_band=out_of_band,
        **fields,
    )


def _checkpoint(state: State, budgets: Budgets, name: Checkpoint, elapsed: float) -> dict[str, Any]:
    return {
        "used_minutes": round(used_minutes(state, name, elapsed), 3),
        "allowed_minutes": timing.allowance(budgets, name),
        "over": timing.is_over(state, budgets, name, elapsed),
        "met": state.checkpoints[name].met,
    }


def _told(spike: Spike) -> dict[str, Any]:
    """The fields that only a row can change, made once for each state: agents ask all the time."""
    known = spike.memo.get("told")
    if known is None or known[0] is not spike.state:
        known = spike.memo["told"] = (spike.state, _made(spike))
    fields: dict[str, Any] = known[1]
    return fields


def _made(spike: Spike) -> dict[str, Any]:
    state, contract = spike.state, spike.contract
    hunks = mapping.span_hunks(state)
    pending = sum(mapping.is_pending(state, hunk) for hunk in hunks)
    running = state.open_run
    return {
        "spike": contract.name,
        "root": str(spike.root),
        "checkpoint": state.visit.checkpoint.value if state.visit else "",
        "pending": pending,
        "approved": len(hunks) - pending,
        "withdrawn": len(mapping.withdrawn_groups(state)),
        "hypothesis": contract.hypothesis.text,
        "tag_tokens": contract.hypothesis.tokens,
        "allowed": contract.allowed,
        "measurement": contract.measurement.argv,
        "runs_left": max(0, contract.budgets.max_runs - state.agent_runs),
        "last_run": _last_run(state),
        "running": running.id if running else "",
        "approval_strength": strength_of(state),
        "writer_tier": tier_of(state),
        "checkpoints": {
            name.value: _checkpoint(state, contract.budgets, name, state.elapsed)
            for name in Checkpoint
        },
        "unknowns": tuple(
            {"number": u.number, "text": u.text, "by": u.actor.value, "confirmed": u.confirmed}
            for u in state.unknowns
        ),
        "verdict": f"{state.verdict.decision} {state.verdict.reason}" if state.verdict else "",
        "done": state.done,
        "total_minutes": contract.budgets.total,
    }


def _last_run(state: State) -> dict[str, Any] | None:
    last = state.last_run
    row = last.finished if last else None
    if last is None or row is None:
        return None
    return {
        "run": last.id,
        "purpose": last.purpose,
        "green": row.green,
        "outcome": row.outcome,
        "seconds": row.seconds,
    }
