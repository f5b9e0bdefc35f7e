"""What happened, row by row, in words: for the watcher's lines and the report's timeline.

Every text is safe and on one line. Rows that only prepare another one tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from spike_mcp.core import events as ev
from spike_mcp.core.hunks import short_ids
from spike_mcp.core.model import State
from spike_mcp.edge.present import counted, minutes
from spike_mcp.edge.text import safe_line

LANES = ("checkpoints", "runs", "patches", "decisions", "agent", "end")
"""Where a row stands in the timeline."""

_LONG = 300
_LONGEST = 2000
E = TypeVar("E", bound=ev.Event)


@dataclass(frozen=True, slots=True)
class Told:
    """One row in words. `tone`: plain, good, bad or ask; it never says more than the text."""

    lane: str
    text: str
    tone: str = "plain"


Teller = Callable[[Any, State], Told | None]
_TELLERS: dict[type[ev.Event], Teller] = {}


def tell(event: ev.Event, state: State) -> Told | None:
    """`event` in words; `state` is the fold just after it. None: nothing worth a line."""
    teller = _TELLERS.get(type(event))
    told = teller(event, state) if teller is not None else Told("end", event.NAME)
    # Codes and names pass here too: whatever a row holds, a line is one line of safe text.
    return None if told is None else replace(told, text=safe_line(told.text, _LONGEST))


def _on(kind: type[ev.Event]) -> Callable[[Teller], Teller]:
    def register(teller: Teller) -> Teller:
        _TELLERS[kind] = teller
        return teller

    return register


def _quoted(text: str) -> str:
    return f'"{safe_line(text, _LONG)}"' if text else ""


def _name(hunk: str, state: State) -> str:
    return short_ids([hunk], state.hunk_ids)[hunk] if hunk else "?"


def _paths(rows: Iterable[tuple[Any, ...]]) -> str:
    names = list(dict.fromkeys(safe_line(str(row[0]), 120) for row in rows))
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _few(names: Iterable[str]) -> str:
    found = [safe_line(name, 120) for name in names]
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


# --- life ---------------------------------------------------------------------------------------


@_on(ev.Created)
def _created(event: ev.Created, _state: State) -> Told:
    return Told("end", f"sealed at {event.baseline[:12]}, sandbox {safe_line(event.isolation)}")


@_on(ev.Started)
def _started(event: ev.Started, _state: State) -> Told:
    return Told("checkpoints", "the clock runs" + (", steps by hand" if event.manual else ""))


@_on(ev.StartFailed)
def _start_failed(event: ev.StartFailed, _state: State) -> Told:
    return Told("checkpoints", f"start: {event.code}: {safe_line(event.detail, _LONG)}", "bad")


@_on(ev.CheckpointStarted)
def _begins(event: ev.CheckpointStarted, _state: State) -> Told:
    return Told("checkpoints", f"{event.checkpoint} begins")


@_on(ev.CheckpointStopped)
def _ends(event: ev.CheckpointStopped, _state: State) -> Told:
    word = "OVER" if event.over else "met" if event.met else "not met"
    lowered = ", lowered by hand" if event.lowered else ""
    spent = f"{minutes(event.minutes)} of {minutes(event.allowed)} min"
    tone = "good" if event.met and not event.over else "bad"
    return Told("checkpoints", f"{event.checkpoint} ends: {word}{lowered}, {spent}", tone)


@_on(ev.AllowanceSpent)
def _spent(event: ev.AllowanceSpent, _state: State) -> Told:
    return Told("checkpoints", f"{event.checkpoint} has used its minutes: over", "bad")


@_on(ev.CheckpointExtended)
def _extended(event: ev.CheckpointExtended, _state: State) -> Told:
    return Told("checkpoints", f"{event.checkpoint} runs on to the cut-off; it stays over", "bad")


@_on(ev.Sealed)
def _sealed(event: ev.Sealed, _state: State) -> Told:
    if event.what != "reproduce":
        return Told("checkpoints", f"{safe_line(event.what)} sealed")
    weak = f"; weaker: {safe_line(event.weak, _LONG)}" if event.weak else ""
    red = f"{counted(len(event.red), 'test')} red, {len(event.tests)} pinned"
    return Told("checkpoints", f"reproduced: {red}{weak}", "bad" if event.weak else "good")


@_on(ev.BacklogBegan)
def _backlog(event: ev.BacklogBegan, _state: State) -> Told:
    text = f"{event.pending} hunks wait: the attempt's clock stands until fewer do"
    return Told("agent", text, "ask")


@_on(ev.BacklogEnded)
def _no_backlog(event: ev.BacklogEnded, _state: State) -> Told:
    if event.counted:
        text = "the agent went on without waiting for the review: the time since then counts"
        return Told("agent", text)
    return Told("agent", f"{event.pending} hunks wait: the attempt's clock runs again")


@_on(ev.ClockDisagreed)
def _clocks(event: ev.ClockDisagreed, _state: State) -> Told:
    return Told("end", f"clocks disagree: {safe_line(event.detail, _LONG)}", "bad")


@_on(ev.TailDiscarded)
def _tail(event: ev.TailDiscarded, _state: State) -> Told:
    return Told("end", f"a torn last line of {event.length} bytes was moved aside", "bad")


# --- runs ---------------------------------------------------------------------------------------


@_on(ev.RunStarted)
def _run_started(event: ev.RunStarted, _state: State) -> Told:
    return Told("runs", f"{event.run} starts, for {safe_line(event.purpose)}")


@_on(ev.RunFinished)
def _run_finished(event: ev.RunFinished, _state: State) -> Told:
    word = "green" if event.green else safe_line(event.outcome)
    note = f": {safe_line(event.note, _LONG)}" if event.note else ""
    text = f"{event.run} {word} after {event.seconds:.1f} s{note}"
    return Told("runs", text, "good" if event.green else "bad")


@_on(ev.RunCancelAsked)
def _run_cancel(event: ev.RunCancelAsked, _state: State) -> Told:
    return Told("runs", f"{event.run} is stopped: a human's command needs the tree")


@_on(ev.RunLost)
def _run_lost(event: ev.RunLost, _state: State) -> Told:
    why = {"human": ": a command of the human ended it", "not_made": ": it could not be started"}
    return Told("runs", f"{event.run} ended without a result{why.get(event.why, '')}", "bad")


# --- writes -------------------------------------------------------------------------------------


def _nothing(_event: ev.Event, _state: State) -> None:
    return None


for _kind in (ev.PatchStarted, ev.RejectStarted, ev.FeedbackDelivered):
    _TELLERS[_kind] = _nothing


@_on(ev.PatchApplied)
def _applied(event: ev.PatchApplied, _state: State) -> Told:
    what = f" takes back {event.reverts}" if event.reverts else ""
    lapsed = f"; {counted(len(event.lapsed), 'approval')} lapsed" if event.lapsed else ""
    gone = f"; {counted(len(event.withdrawn), 'approval')} withdrawn" if event.withdrawn else ""
    again = "; resubmitted after a reject" if event.resubmits else ""
    text = f"{event.patch}{what} {_paths(event.files)}{lapsed}{gone}{again}"
    return Told("patches", text, "bad" if event.lapsed or event.withdrawn else "plain")


@_on(ev.WriteRolledBack)
def _rolled_back(event: ev.WriteRolledBack, _state: State) -> Told:
    return Told("patches", f"{safe_line(event.what)} was cut off and rolled back", "bad")


# --- decisions ----------------------------------------------------------------------------------


@_on(ev.HunkApproved)
def _approved(event: ev.HunkApproved, state: State) -> Told:
    acked = f"; flags read: {_few(event.acknowledged)}" if event.acknowledged else ""
    like = "; equal to the agent's own reason" if event.like_rationale else ""
    path = safe_line(event.regions[0][1], 120) if event.regions else ""
    text = f"approved {_name(event.hunk, state)} {path} {_quoted(event.tag)}{acked}{like}"
    return Told("decisions", text, "good")


@_on(ev.WithdrawalAccepted)
def _accepted(event: ev.WithdrawalAccepted, state: State) -> Told:
    return Told("decisions", f"accepted that {_name(event.hunk, state)} left the diff")


@_on(ev.HunkRejected)
def _rejected(event: ev.HunkRejected, _state: State) -> Told:
    reason = f": {_quoted(event.reason)}" if event.reason else ""
    # A reject without regions takes nothing out: it puts approved bytes back that had gone.
    verb, tone = ("rejected", "bad") if event.regions else ("put back", "good")
    return Told("decisions", f"{verb} {safe_line(event.target)}{reason}", tone)


@_on(ev.Undone)
def _undone(event: ev.Undone, _state: State) -> Told:
    return Told("decisions", f"took back {safe_line(event.undoes)}")


@_on(ev.Commented)
def _commented(event: ev.Commented, state: State) -> Told:
    return Told("decisions", f"comment on {_name(event.hunk, state)}: {_quoted(event.text)}")


@_on(ev.Restored)
def _restored(event: ev.Restored, _state: State) -> Told:
    return Told("decisions", f"restored {_few(event.paths) or 'nothing'}")


@_on(ev.DroppingsRemoved)
def _droppings(event: ev.DroppingsRemoved, _state: State) -> Told:
    return Told("decisions", f"cleared {counted(event.count, 'tool file')}: {_few(event.names)}")


@_on(ev.OutOfBandSeen)
def _outside(event: ev.OutOfBandSeen, _state: State) -> Told:
    what = counted(event.count, "file")
    return Told("agent", f"{what} changed outside the tools: {_few(event.names)}", "bad")


@_on(ev.UnknownNoted)
def _unknown(event: ev.UnknownNoted, _state: State) -> Told:
    return Told("decisions", f"unknown {event.unknown}: {_quoted(event.text)}")


@_on(ev.UnknownConfirmed)
def _confirmed(event: ev.UnknownConfirmed, _state: State) -> Told:
    return Told("decisions", f"unknown {event.unknown} confirmed")


# --- the agent ----------------------------------------------------------------------------------


@_on(ev.SessionOpened)
def _session(event: ev.SessionOpened, _state: State) -> Told:
    client = f", {safe_line(event.client, 120)}" if event.client else ""
    return Told("agent", f"the agent connected ({safe_line(event.tier)}{client})")


@_on(ev.CallRefused)
def _refused(event: ev.CallRefused, _state: State) -> Told:
    text = f"refused {safe_line(event.tool, 80)}: {event.code}: {safe_line(event.message, _LONG)}"
    return Told("agent", text, "bad")


@_on(ev.RefusalsRepeated)
def _repeated(event: ev.RefusalsRepeated, _state: State) -> Told:
    tool = safe_line(event.tool, 80)
    return Told("agent", f"refused {tool}: {event.code}, {event.count} more times", "bad")


@_on(ev.Reported)
def _reported(event: ev.Reported, _state: State) -> Told:
    if event.kind == "done":
        return Told("agent", f"the agent says it is done: {_quoted(event.text)}", "ask")
    return Told("agent", f"the agent met unknown {event.unknown}: {_quoted(event.text)}", "ask")


@_on(ev.AgentNote)
def _note(event: ev.AgentNote, _state: State) -> Told:
    detail = ", ".join(f"{k} {v}" for k, v in event.detail.items())
    return Told("agent", f"{safe_line(event.what)} {safe_line(detail, _LONG)}".rstrip())


# --- the end ------------------------------------------------------------------------------------


@_on(ev.VerdictAsked)
def _asked(event: ev.VerdictAsked, _state: State) -> Told:
    return Told("end", "the verdict is asked for" + (", final" if event.final else ""))


@_on(ev.HiddenStarted)
def _hidden(event: ev.HiddenStarted, _state: State) -> Told:
    return Told("end", f"{counted(event.parts, 'hidden part')} started")


@_on(ev.VerdictWritten)
def _verdict(event: ev.VerdictWritten, _state: State) -> Told:
    tone = "good" if event.decision == "SHIP" else "bad"
    return Told("end", f"verdict {event.decision} {event.reason}", tone)


@_on(ev.Shipped)
def _shipped(event: ev.Shipped, _state: State) -> Told:
    return Told("end", f"shipped as {event.commit[:12]} on {safe_line(event.branch)}", "good")


@_on(ev.Killed)
def _killed(event: ev.Killed, _state: State) -> Told:
    note = f": {_quoted(event.note)}" if event.note else ""
    return Told("end", f"closed by the human{note}")
