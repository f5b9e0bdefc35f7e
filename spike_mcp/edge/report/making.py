"""From a spike to the report's value: one walk over the ledger, and the map as it is now."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spike_mcp.core import events as ev
from spike_mcp.core import timing
from spike_mcp.core.clock import elapsed as elapsed_at
from spike_mcp.core.codes import Checkpoint, Decision, Problem, Reason
from spike_mcp.core.model import State
from spike_mcp.core.rows import Row
from spike_mcp.core.state import used_minutes
from spike_mcp.edge.report.value import (
    SCHEMA_VERSION,
    CheckpointLine,
    DiffLine,
    FlagLine,
    HunkLine,
    Moment,
    PatchLine,
    ReasonLine,
    RejectLine,
    Report,
    RunLine,
    VerdictLine,
    Visit,
)
from spike_mcp.edge.story import tell
from spike_mcp.edge.text import message_of, next_action
from spike_mcp.host.clock import Clock
from spike_mcp.session import runs
from spike_mcp.session.spike import Spike
from spike_mcp.session.status import phase_of, strength_of, tier_of
from spike_mcp.session.view import HunkMap, MapHunk, hunk_map

_MAX_PART = 20_000
"""Most characters of a rejected text that the report keeps."""


@dataclass(frozen=True, slots=True)
class Step:
    """A ledger row, its event, and the fold after it."""

    row: Row
    event: ev.Event
    state: State

    @property
    def minute(self) -> float:
        """Minutes since the start."""
        return round(self.state.elapsed / 60, 3)


class _Walk(Spike):
    """A second view of a spike that keeps every row it folds."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.steps: list[Step] = []
        super().__init__(root, clock)

    def take(self, row: Row) -> ev.Event | None:
        """Fold the row and keep it."""
        event = super().take(row)
        if event is not None:
            self.steps.append(Step(row, event, self.state))
        return event


def make_report(spike: Spike) -> Report:
    """The report of a spike at this moment, whatever state it is in."""
    walk = _Walk(spike.root, spike.clock)
    if walk.state.created is None:
        return _unreadable(walk)
    steps = walk.steps
    state, contract = walk.state, walk.contract
    budgets = contract.budgets
    elapsed = _elapsed(walk)
    current, problems = _map(walk)
    head, rows = walk.ledger.head
    return Report(
        schema_version=SCHEMA_VERSION,
        name=contract.name,
        phase=phase_of(state, elapsed, budgets.total),
        hypothesis=contract.hypothesis.text,
        subject=contract.hypothesis.subject,
        tag_tokens=contract.hypothesis.tokens,
        allowed_paths=contract.allowed,
        oracle=contract.oracle,
        measurement=contract.measurement.argv,
        baseline=contract.baseline,
        isolation=contract.isolation.value,
        fingerprint=walk.fingerprint,
        approval_strength=strength_of(state),
        writer_tier=tier_of(state),
        elapsed_minutes=round(elapsed / 60, 3),
        total_minutes=budgets.total,
        cutoff_minutes=budgets.write_cutoff,
        lines=current.lines,
        max_lines=budgets.max_lines,
        verdict=_verdict(walk),
        note=state.killed.note if state.killed else "",
        checkpoints=tuple(_checkpoint(walk, name, steps, elapsed) for name in Checkpoint),
        timeline=_timeline(steps),
        runs=_runs(walk, steps),
        patches=_patches(state, steps),
        hunks=_hunks(current, steps),
        rejects=_rejects(walk, steps),
        withdrawn=tuple((w.short, w.path, w.tag) for w in current.withdrawn),
        unknowns=tuple((u.number, u.text, u.confirmed) for u in state.unknowns),
        refusals=_refusals(steps),
        ledger_head=head,
        ledger_rows=rows,
        problems=problems,
    )


def _unreadable(spike: Spike) -> Report:
    """What can be said of a spike whose ledger does not read: that, and nothing it claims."""
    problem = spike.damage or "the ledger does not begin with the sealed contract"
    reason = ReasonLine(Reason.LEDGER_DAMAGED.value, message_of(Reason.LEDGER_DAMAGED).sentence)
    action = next_action(Decision.KILL, Reason.LEDGER_DAMAGED)
    return Report(
        schema_version=SCHEMA_VERSION,
        name=spike.root.name,
        phase="damaged",
        hypothesis="",
        verdict=VerdictLine(Decision.KILL.value, (reason,), action, 0.0, {}),
        problems=(problem,),
    )


def _elapsed(spike: Spike) -> float:
    """Seconds since the start; they stop with the verdict."""
    state = spike.state
    if state.clock is None:
        return 0.0
    if state.verdict or state.killed:
        return state.clock.elapsed
    return elapsed_at(state.clock, spike.clock.read())


def _map(spike: Spike) -> tuple[HunkMap, tuple[str, ...]]:
    problems = [spike.damage] if spike.damage else []
    problems += [f"{forged}: not signed, counts for nothing" for forged in spike.forged]
    try:
        return hunk_map(spike), tuple(problems)
    except Problem as problem:
        return HunkMap((), ()), (*problems, problem.message)


def _verdict(spike: Spike) -> VerdictLine | None:
    row = spike.state.verdict
    if row is None:
        return None
    try:
        result: dict[str, Any] = json.loads(spike.blobs.get(row.result))
    except (OSError, ValueError, Problem):
        result = {}
    codes = [str(code) for code in result.get("reasons", ())] or [row.reason]
    action = str(result.get("next_action", "")) or _next_action(row)
    minutes = float(result.get("elapsed_sec", 0.0)) / 60
    reasons = tuple(ReasonLine(code, _sentence(code)) for code in codes)
    details = tuple(_details(result))
    return VerdictLine(row.decision, reasons, action, round(minutes, 3), result, details)


def _details(result: dict[str, Any]) -> Iterator[str]:
    """What the verdict names: unexplained hunks, changed things, what the runs had to say."""
    for each in result.get("details", ()):
        what = " ".join(str(each[key]) for key in ("hunk", "path", "detail") if each.get(key))
        yield f"{each.get('code', '')}: {what}"
    for what, texts in result.get("changed", {}).items():
        yield from (f"{str(what).replace('_', ' ')} changed: {text}" for text in texts)
    if result.get("note"):
        yield str(result["note"])
    yield from (f"negative control: {text}" for text in result.get("negative_controls", ()))
    yield from (f"hidden part: {text}" for text in result.get("hidden", ()))


def _sentence(code: str) -> str:
    try:
        return message_of(Reason(code)).sentence
    except ValueError:
        return code


def _next_action(row: ev.VerdictWritten) -> str:
    try:
        return next_action(Decision(row.decision), Reason(row.reason))
    except ValueError:
        return ""


# --- the parts ----------------------------------------------------------------------------------


def _timeline(steps: Iterable[Step]) -> tuple[Moment, ...]:
    found = []
    for step in steps:
        told = tell(step.event, step.state)
        if told is not None:
            row = step.row
            found.append(
                Moment(
                    row.seq,
                    step.minute,
                    row.at,
                    row.actor.value,
                    told.lane,
                    told.text,
                    told.tone,
                )
            )
    return tuple(found)


def _checkpoint(
    spike: Spike, name: Checkpoint, steps: Iterable[Step], elapsed: float
) -> CheckpointLine:
    state, budgets = spike.state, spike.contract.budgets
    visits: list[Visit] = []
    for step in steps:
        event = step.event
        if isinstance(event, ev.CheckpointStarted) and event.checkpoint == name.value:
            begin = step.minute if event.since < 0 else round(event.since / 60, 3)
            visits.append(Visit(begin, None))
        elif isinstance(event, ev.CheckpointStopped) and event.checkpoint == name.value and visits:
            end = max(visits[-1].begin, min(step.minute, budgets.total))
            visits[-1] = Visit(visits[-1].begin, end)
    return CheckpointLine(
        name.value,
        round(used_minutes(state, name, min(elapsed, budgets.total * 60)), 3),
        timing.allowance(budgets, name),
        timing.is_over(state, budgets, name, min(elapsed, budgets.total * 60)),
        state.checkpoints[name].met,
        tuple(visits),
    )


def _runs(spike: Spike, steps: Iterable[Step]) -> tuple[RunLine, ...]:
    begins = {
        step.event.run: (step.minute, step.event.purpose)
        for step in steps
        if isinstance(step.event, ev.RunStarted)
    }
    found = []
    for run in spike.state.runs.values():
        begin, purpose = begins.get(run.id, (0.0, run.purpose))
        row = run.finished
        if row is None:
            word = "lost" if run.lost else "running"
            found.append(
                RunLine(run.id, purpose, begin, 0.0, word, False, "", None, (), "", "", "", 0)
            )
            continue
        head, tail, dropped = _output(spike, row)
        found.append(
            RunLine(
                id=run.id,
                purpose=purpose,
                begin=begin,
                seconds=row.seconds,
                outcome=row.outcome,
                green=row.green,
                evidence=row.evidence,
                exit_code=row.exit_code,
                tests=row.tests,
                note=row.note,
                head=head,
                tail=tail,
                dropped=dropped,
            )
        )
    return tuple(found)


def _output(spike: Spike, row: ev.RunFinished) -> tuple[str, str, int]:
    try:
        return runs.output_of(spike, row)
    except (OSError, ValueError, KeyError, Problem):
        return "", "", 0


def _patches(state: State, steps: Iterable[Step]) -> tuple[PatchLine, ...]:
    at = {s.event.patch: s.minute for s in steps if isinstance(s.event, ev.PatchApplied)}
    return tuple(
        PatchLine(
            patch.id,
            at.get(patch.id, 0.0),
            patch.actor.value,
            patch.tool,
            patch.rationale,
            tuple(row[0] for row in patch.files),
            patch.notes,
        )
        for patch in state.patches.values()
    )


def _hunks(current: HunkMap, steps: Iterable[Step]) -> tuple[HunkLine, ...]:
    decided = {
        s.event.decision: (s.minute, s.event) for s in steps if isinstance(s.event, ev.HunkApproved)
    }
    return tuple(_hunk(each, decided) for each in current.hunks)


def _hunk(each: MapHunk, decided: dict[str, tuple[float, ev.HunkApproved]]) -> HunkLine:
    names = dict.fromkeys(approval.decision for approval in each.approvals)
    rows = [decided[name] for name in names if name in decided]
    events = [event for _minute, event in rows]
    return HunkLine(
        id=each.short,
        full_id=each.id,
        path=each.path,
        kind=each.hunk.kind.value,
        header=each.hunk.header,
        state=each.state,
        tag=each.tag,
        added=each.added,
        removed=each.removed,
        patches=each.patches,
        rationale=each.rationale,
        decided=max((minute for minute, _event in rows), default=None),
        seconds=round(sum(event.seconds for event in events), 1),
        acknowledged=tuple(dict.fromkeys(a for event in events for a in event.acknowledged)),
        like_rationale=any(event.like_rationale for event in events),
        signed=bool(events) and all(event.signature for event in events),
        flags=tuple(FlagLine(f.name, f.line, f.text) for f in each.flags),
        comments=each.comments,
        lines=tuple(
            DiffLine(line.sign, line.old_no, line.new_no, _text(line.text))
            for line in each.hunk.lines
        ),
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _rejects(spike: Spike, steps: Iterable[Step]) -> tuple[RejectLine, ...]:
    undone = {d.id for d in spike.state.decisions if d.undone}
    found = []
    for step in steps:
        event = step.event
        if isinstance(event, ev.HunkRejected):
            parts = tuple(_part(spike, row) for row in event.regions)
            found.append(
                RejectLine(
                    event.decision,
                    event.target,
                    step.minute,
                    event.reason,
                    event.decision in undone,
                    parts,
                )
            )
    return tuple(found)


def _part(spike: Spike, row: ev.RegionRow) -> tuple[str, str, str]:
    return row[1], _blob_text(spike, row[5]), _blob_text(spike, row[6])


def _blob_text(spike: Spike, sha: str) -> str:
    try:
        return _text(spike.blobs.get(sha))[:_MAX_PART] if sha else ""
    except (OSError, ValueError, Problem):
        return "(these bytes are not kept any more)"


def _refusals(steps: Iterable[Step]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for step in steps:
        match step.event:
            case ev.CallRefused() as row:
                counts[row.code] += 1
            case ev.RefusalsRepeated() as row:
                counts[row.code] += row.count
            case _:
                pass
    return dict(sorted(counts.items()))
