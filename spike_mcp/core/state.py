"""State of a spike: a fold over the ledger's rows, and nothing else.

`evolve(state, entry)` is total over the event union and never looks at a file or a clock: time
comes from the rows. Minutes are floats; `elapsed` is in seconds since the `started` row.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from spike_mcp.core import events as ev
from spike_mcp.core.clock import ClockState
from spike_mcp.core.codes import Actor, Checkpoint
from spike_mcp.core.model import (
    Approval,
    CheckpointState,
    Decided,
    Entry,
    Feedback,
    Patch,
    Run,
    State,
    Unknown,
    Visit,
    changed,
)
from spike_mcp.core.revisions import revised
from spike_mcp.core.undoing import undone


def visit_minutes(state: State, elapsed: float) -> float:
    """Minutes of the open visit at `elapsed` seconds; a review backlog does not count (spec 5)."""
    if state.visit is None:
        return 0.0
    stood = state.visit.stood
    if state.backlog_since is not None:
        stood += elapsed - max(state.backlog_since, state.visit.opened)
    return max(0.0, elapsed - state.visit.opened - stood) / 60


def used_minutes(state: State, name: Checkpoint, elapsed: float) -> float:
    """Minutes of a checkpoint over all visits, the open one included."""
    used = state.checkpoints[name].used
    if state.visit is not None and state.visit.checkpoint is name:
        used += visit_minutes(state, elapsed)
    return used


def fold(entries: Iterable[Entry], state: State | None = None) -> State:
    """The state after `entries`."""
    current = state or State()
    for entry in entries:
        current = evolve(current, entry)
    return current


def evolve(state: State, entry: Entry) -> State:
    """The state after one more row."""
    clock = state.clock.advance(entry.reading) if state.clock else None
    issued = state.issued_decisions + isinstance(entry.event, _DECISIVE)
    state = changed(state, seq=entry.seq, clock=clock, issued_decisions=issued)
    handler = _HANDLERS.get(type(entry.event))
    return handler(state, entry, entry.event) if handler else state


_DECISIVE = (
    ev.HunkApproved,
    ev.WithdrawalAccepted,
    ev.RejectStarted,
    ev.Commented,
)

Handler = Callable[[State, Entry, Any], State]
_HANDLERS: dict[type[ev.Event], Handler] = {}


def _on(kind: type[ev.Event]) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        _HANDLERS[kind] = handler
        return handler

    return register


# --- life ---------------------------------------------------------------------------------------


@_on(ev.Created)
def _created(state: State, _entry: Entry, event: ev.Created) -> State:
    return changed(state, created=event)


@_on(ev.Started)
def _started(state: State, entry: Entry, event: ev.Started) -> State:
    clock = state.clock or ClockState.begin(entry.reading)
    return changed(state, clock=clock, manual=event.manual)


@_on(ev.StartFailed)
def _start_failed(state: State, _entry: Entry, event: ev.StartFailed) -> State:
    return changed(state, start_failure=event.code)


@_on(ev.CheckpointStarted)
def _checkpoint_started(state: State, _entry: Entry, event: ev.CheckpointStarted) -> State:
    name = Checkpoint(event.checkpoint)
    before = state.checkpoints[name]
    visit = Visit(name, state.elapsed if event.since < 0 else event.since)
    again = name in (Checkpoint.SETUP, Checkpoint.REPRODUCE)
    failure = "" if again else state.start_failure
    return changed(
        _with_checkpoint(state, name, replace(before, visits=before.visits + 1)),
        visit=visit,
        start_failure=failure,
        done=False if name is Checkpoint.ATTEMPT else state.done,
    )


@_on(ev.CheckpointStopped)
def _checkpoint_stopped(state: State, _entry: Entry, event: ev.CheckpointStopped) -> State:
    name = Checkpoint(event.checkpoint)
    before = state.checkpoints[name]
    after = replace(
        before,
        used=before.used + event.minutes,
        over=before.over or event.over,
        over_told=before.over_told or event.over,
        met=event.met,
        lowered=before.lowered or event.lowered,
        closed_by=event.why,
    )
    since = None if name is Checkpoint.ATTEMPT else state.backlog_since
    asked = None if name is Checkpoint.VERIFY else state.asked
    state = _with_checkpoint(state, name, after)
    return changed(state, visit=None, backlog_since=since, asked=asked)


@_on(ev.AllowanceSpent)
def _allowance_spent(state: State, _entry: Entry, event: ev.AllowanceSpent) -> State:
    name = Checkpoint(event.checkpoint)
    return _with_checkpoint(state, name, replace(state.checkpoints[name], over=True))


@_on(ev.CheckpointExtended)
def _extended(state: State, _entry: Entry, event: ev.CheckpointExtended) -> State:
    name = Checkpoint(event.checkpoint)
    return _with_checkpoint(state, name, replace(state.checkpoints[name], extended=True))


def _with_checkpoint(state: State, name: Checkpoint, value: CheckpointState) -> State:
    return changed(state, checkpoints={**state.checkpoints, name: value})


@_on(ev.Sealed)
def _sealed(state: State, _entry: Entry, event: ev.Sealed) -> State:
    return changed(state, sealed={**state.sealed, event.what: event})


@_on(ev.BacklogBegan)
def _backlog_began(state: State, _entry: Entry, _event: ev.BacklogBegan) -> State:
    return changed(state, backlog_since=state.elapsed)


@_on(ev.BacklogEnded)
def _backlog_ended(state: State, entry: Entry, event: ev.BacklogEnded) -> State:
    visit = state.visit
    if entry.actor is Actor.AGENT:
        state = changed(state, relieved_itself=True)
    if visit is not None and state.backlog_since is not None and not event.counted:
        stood = state.elapsed - max(state.backlog_since, visit.opened)
        visit = replace(visit, stood=visit.stood + stood)
    return changed(state, visit=visit, backlog_since=None)


# --- runs ---------------------------------------------------------------------------------------


@_on(ev.RunStarted)
def _run_started(state: State, _entry: Entry, event: ev.RunStarted) -> State:
    run = Run(event.run, event.purpose, event.tree, event.owner, state.elapsed)
    counted = state.agent_runs + (run.purpose == "agent")
    return changed(state, runs={**state.runs, run.id: run}, agent_runs=counted)


@_on(ev.RunFinished)
def _run_finished(state: State, _entry: Entry, event: ev.RunFinished) -> State:
    run = replace(state.runs[event.run], finished=event, ended=state.elapsed)
    state = changed(state, runs={**state.runs, run.id: run})
    if run.cancel_asked and event.outcome == "cancelled":
        state = _not_counted(state, run)
    if not run.measured:
        return state
    if not event.green:
        return changed(state, green=state.green - {run.tree})
    minutes = state.green_minutes
    if minutes is None:
        minutes = used_minutes(state, Checkpoint.ATTEMPT, state.elapsed)
    return changed(state, green=state.green | {run.tree}, green_minutes=minutes)


@_on(ev.RunCancelAsked)
def _run_cancel_asked(state: State, _entry: Entry, event: ev.RunCancelAsked) -> State:
    run = replace(state.runs[event.run], cancel_asked=True)
    return changed(state, runs={**state.runs, event.run: run})


@_on(ev.RunLost)
def _run_lost(state: State, _entry: Entry, event: ev.RunLost) -> State:
    run = state.runs[event.run]
    if event.why or run.cancel_asked:
        state = _not_counted(state, run)
    return changed(state, runs={**state.runs, event.run: replace(run, lost=True)})


def _not_counted(state: State, run: Run) -> State:
    """What a human ended, or what was never made, does not cost the agent a run. What it ends by
    itself does: progress had told it how the test goes."""
    return changed(state, agent_runs=state.agent_runs - (run.purpose == "agent" and not run.lost))


# --- writes -------------------------------------------------------------------------------------


@_on(ev.PatchStarted)
def _patch_started(state: State, entry: Entry, event: ev.PatchStarted) -> State:
    stored = event.stored if entry.actor is Actor.AGENT else 0
    return changed(
        state,
        intent=(entry.seq, event),
        stored=state.stored + stored,
        issued_patches=state.issued_patches + 1,
    )


@_on(ev.RejectStarted)
def _reject_started(state: State, entry: Entry, event: ev.RejectStarted) -> State:
    return changed(state, intent=(entry.seq, event))


@_on(ev.WriteRolledBack)
def _rolled_back(state: State, _entry: Entry, _event: ev.WriteRolledBack) -> State:
    return changed(state, intent=None)


@_on(ev.PatchApplied)
def _patch_applied(state: State, entry: Entry, event: ev.PatchApplied) -> State:
    patch = Patch(
        id=event.patch,
        actor=entry.actor,
        tool=event.tool,
        rationale=event.rationale,
        files=event.files,
        elapsed=state.elapsed,
        epoch=entry.reading.epoch,
        notes=event.notes,
        resubmits=event.resubmits,
    )
    state = changed(revised(state, event, event.patch), green_minutes=None)
    return changed(state, patches={**state.patches, patch.id: patch})


# --- decisions ----------------------------------------------------------------------------------


@_on(ev.HunkApproved)
def _approved(state: State, entry: Entry, event: ev.HunkApproved) -> State:
    approvals, lapsed = dict(state.approvals), dict(state.lapsed)
    keys = [region[0] for region in event.regions]
    before = {key: approvals[key] for key in keys if key in approvals}
    settled = {key: lapsed.pop(key) for key in keys if key in lapsed}
    for region in event.regions:
        approvals[region[0]] = Approval(
            decision=event.decision,
            hunk=event.hunk,
            tag=event.tag,
            region=region,
            elapsed=state.elapsed,
            epoch=entry.reading.epoch,
            view_sha256=event.view_sha256,
        )
    decided = Decided(event.decision, event, entry.seq, before, lapsed=settled)
    return changed(state, approvals=approvals, lapsed=lapsed, decisions=(*state.decisions, decided))


@_on(ev.WithdrawalAccepted)
def _withdrawal_accepted(state: State, entry: Entry, event: ev.WithdrawalAccepted) -> State:
    gone = {k: state.withdrawn[k] for k in event.keys if k in state.withdrawn}
    left = {k: a for k, a in state.withdrawn.items() if k not in gone}
    decided = Decided(event.decision, event, entry.seq, withdrawn=gone)
    return changed(state, withdrawn=left, decisions=(*state.decisions, decided))


@_on(ev.HunkRejected)
def _rejected(state: State, entry: Entry, event: ev.HunkRejected) -> State:
    lost = [*(region[0] for region in event.regions), *(key for key, _why in event.lapsed)]
    before = {key: state.approvals[key] for key in lost if key in state.approvals}
    put_back = {key: state.withdrawn[key] for key in lost if key in state.withdrawn}
    forgotten = {key: state.lapsed[key] for key in event.forgotten if key in state.lapsed}
    decided = Decided(event.decision, event, entry.seq, before, put_back, forgotten)
    # A reject without regions takes nothing out: it puts approved bytes back that had gone.
    verb = "rejected" if event.regions else "put back"
    text = f"{verb} {event.target}: {event.reason or 'no reason given'}"
    rejected = {**state.rejected, **dict.fromkeys(event.resubmission, event.reason)}
    state = changed(
        state,
        decisions=(*state.decisions, decided),
        rejected=rejected,
        resubmission_refused=state.resubmission_refused - set(event.resubmission),
        feedback=(*state.feedback, Feedback(entry.seq, text)),
    )
    return revised(state, event)


@_on(ev.Undone)
def _undone(state: State, entry: Entry, event: ev.Undone) -> State:
    return undone(state, entry, event)


@_on(ev.Commented)
def _commented(state: State, entry: Entry, event: ev.Commented) -> State:
    texts = (*state.comments.get(event.hunk, ()), event.text)
    decided = Decided(event.decision, event, entry.seq)
    said = Feedback(entry.seq, f"comments on {event.path}: {event.text}")
    return changed(
        state,
        comments={**state.comments, event.hunk: texts},
        decisions=(*state.decisions, decided),
        feedback=(*state.feedback, said),
    )


@_on(ev.UnknownNoted)
def _unknown_noted(state: State, entry: Entry, event: ev.UnknownNoted) -> State:
    noted = Unknown(event.unknown, event.text, entry.actor)
    return changed(state, unknowns=(*state.unknowns, noted))


@_on(ev.UnknownConfirmed)
def _unknown_confirmed(state: State, _entry: Entry, event: ev.UnknownConfirmed) -> State:
    unknowns = tuple(
        replace(u, confirmed=True) if u.number == event.unknown else u for u in state.unknowns
    )
    return changed(state, unknowns=unknowns)


# --- calls --------------------------------------------------------------------------------------


@_on(ev.SessionOpened)
def _session_opened(state: State, _entry: Entry, event: ev.SessionOpened) -> State:
    return changed(state, tiers=state.tiers | {event.tier}, remarks=state.remarks + 1)


@_on(ev.CallRefused)
def _call_refused(state: State, entry: Entry, event: ev.CallRefused) -> State:
    counted = state.refusals + (entry.actor is Actor.AGENT)
    seen = state.resubmission_refused | set(event.about)
    return changed(state, refusals=counted, resubmission_refused=seen)


@_on(ev.RefusalsRepeated)
def _refusals_repeated(state: State, entry: Entry, _event: ev.RefusalsRepeated) -> State:
    return changed(state, refusals=state.refusals + (entry.actor is Actor.AGENT))


@_on(ev.Reported)
def _reported(state: State, entry: Entry, event: ev.Reported) -> State:
    state = changed(state, remarks=state.remarks + 1)
    if event.kind == "done":
        return changed(state, done=True)
    noted = Unknown(event.unknown, event.text, entry.actor)
    return changed(state, unknowns=(*state.unknowns, noted))


@_on(ev.FeedbackDelivered)
def _delivered(state: State, _entry: Entry, event: ev.FeedbackDelivered) -> State:
    return changed(state, delivered=max(state.delivered, event.upto))


# --- the end ------------------------------------------------------------------------------------


@_on(ev.VerdictAsked)
def _asked(state: State, _entry: Entry, event: ev.VerdictAsked) -> State:
    return changed(state, asked=event)


@_on(ev.HiddenStarted)
def _hidden_started(state: State, _entry: Entry, _event: ev.HiddenStarted) -> State:
    return changed(state, hidden_started=True)


@_on(ev.VerdictWritten)
def _verdict(state: State, _entry: Entry, event: ev.VerdictWritten) -> State:
    return changed(state, verdict=event, asked=None)


@_on(ev.Shipped)
def _shipped(state: State, _entry: Entry, event: ev.Shipped) -> State:
    return changed(state, shipped=event)


@_on(ev.Killed)
def _killed(state: State, _entry: Entry, event: ev.Killed) -> State:
    return changed(state, killed=event)
