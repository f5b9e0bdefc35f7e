"""`spike undo` in the fold: what one decision did is taken back where it still stands (spec 9).

An approval that is undone is gone wherever it has got to meanwhile: in the diff, withdrawn or
lapsed. A reject that is undone gives back what it took, and nothing more.
"""

from dataclasses import replace

from spike_mcp.core import events as ev
from spike_mcp.core.model import Approval, Decided, Entry, Feedback, Lapse, State, changed
from spike_mcp.core.revisions import revised, stands


def undone(state: State, entry: Entry, event: ev.Undone) -> State:
    """The state after an `undone` row; a row that undoes nothing known changes nothing."""
    target = next((d for d in state.decisions if d.id == event.undoes), None)
    if target is None:
        return state
    decisions = tuple(
        replace(d, undone=True) if d.id == event.undoes else d for d in state.decisions
    )
    state = changed(state, decisions=decisions)
    match target.event:
        case ev.HunkApproved() as approved:
            return _unapproved(state, target, approved)
        case ev.WithdrawalAccepted():
            return _unaccepted(state, target, entry.seq)
        case ev.Commented() as comment:
            return _uncommented(state, target, comment)
        case ev.HunkRejected() as rejected:
            return _unrejected(state, entry, event, target, rejected)
        case _:
            return state


def _unapproved(state: State, target: Decided, approved: ev.HunkApproved) -> State:
    """The approval is gone wherever it has got to, and what it replaced stands there again."""
    approvals, withdrawn = dict(state.approvals), dict(state.withdrawn)
    lapsed = dict(state.lapsed)
    for key in (region[0] for region in approved.regions):
        older, settled = target.before.get(key), target.lapsed.get(key)
        if _is_of(approvals.get(key), approved):
            del approvals[key]
            if older is not None:
                approvals[key] = older
            elif settled is not None:
                lapsed[key] = settled
        elif _is_of(withdrawn.get(key), approved):
            del withdrawn[key]
            older = older or (settled.approval if settled is not None else None)
            if older is not None:
                withdrawn[key] = older
        elif key in lapsed and _is_of(lapsed[key].approval, approved):
            lapse = lapsed.pop(key)
            if older is not None:
                lapsed[key] = replace(lapse, approval=older)
    return changed(state, approvals=approvals, withdrawn=withdrawn, lapsed=lapsed)


def _is_of(approval: Approval | None, row: ev.HunkApproved) -> bool:
    return approval is not None and approval.decision == row.decision


def _unaccepted(state: State, target: Decided, seq: int) -> State:
    """Withdrawn again; where something stands at the place by now, that is pending instead."""
    withdrawn, lapsed = dict(state.withdrawn), dict(state.lapsed)
    for key, approval in target.withdrawn.items():
        if key in state.approvals:
            continue
        lapsed.pop(key, None)
        if stands(state, approval):
            lapsed[key] = Lapse(approval, "its place was changed again", seq)
        else:
            withdrawn[key] = approval
    return changed(state, withdrawn=withdrawn, lapsed=lapsed)


def _uncommented(state: State, target: Decided, comment: ev.Commented) -> State:
    left = tuple(t for t in state.comments.get(comment.hunk, ()) if t != comment.text)
    said = tuple(f for f in state.feedback if f.seq != target.seq)
    return changed(state, comments={**state.comments, comment.hunk: left}, feedback=said)


def _unrejected(
    state: State, entry: Entry, event: ev.Undone, target: Decided, rejected: ev.HunkRejected
) -> State:
    """The rejected bytes are back; approvals that the reject took away count again if named."""
    kept = {k: v for k, v in state.rejected.items() if k not in rejected.resubmission}
    again = "; its bytes are back" if rejected.regions else ""
    text = f"took back the reject of {rejected.target}{again}"
    lost = {k: Lapse(a, "rejected", target.seq) for k, a in target.before.items()}
    state = changed(
        state,
        rejected=kept,
        lapsed={**state.lapsed, **target.lapsed, **lost},
        green_minutes=None,
        feedback=(*state.feedback, Feedback(entry.seq, text)),
    )
    return _unaccepted(revised(state, event), target, entry.seq)
