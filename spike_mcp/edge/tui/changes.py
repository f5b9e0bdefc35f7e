"""What happened to the map while somebody was looking: the sentences for it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from spike_mcp.edge.present import clock, counted
from spike_mcp.session.status import Status
from spike_mcp.session.view import HunkMap, MapHunk


def news(old: HunkMap, new: HunkMap) -> str:
    """The most important thing that changed between two maps, "" if nobody need be told."""
    lapsed = _lapsed(old, new)
    if lapsed:
        return lapsed
    gone = {entry.id for entry in new.withdrawn} - {entry.id for entry in old.withdrawn}
    if gone:
        return (
            f"{counted(len(gone), 'approved hunk')} left the diff: accept that (a) or put back (r)"
        )
    known = {each.id for each in old.hunks}
    fresh = [each for each in new.pending if each.id not in known]
    if fresh and old.hunks:
        names = ", ".join(each.short for each in fresh[:3])
        more = " …" if len(fresh) > 3 else ""
        return f"{counted(len(fresh), 'new hunk')} pending: {names}{more}"
    return ""


def clock_news(old: Status, new: Status) -> str:
    """What the clock did between two looks: writes closed, the spike ended."""
    if new.phase == "closed" and old.phase != "closed":
        return f"the spike is closed: {new.verdict or 'by the human'}. Nothing can be decided now"
    if old.writes_close_in > 0 >= new.writes_close_in and new.phase not in ("created", "closed"):
        end = clock(new.total_minutes * 60)
        hunks = counted(new.pending, "hunk")
        return (
            f"agent writes are closed. {hunks} pending: decide before {end} or the verdict is "
            "KILL (deadline exceeded)"
        )
    return ""


def _lapsed(old: HunkMap, new: HunkMap) -> str:
    known = {each.id for each in old.hunks}
    approved = {a.key: (each, a) for each in old.hunks for a in each.approvals}
    now = {a.key for each in new.hunks for a in each.approvals}
    lost = [pair for key, pair in approved.items() if key not in now]
    again = [e for e in new.pending if e.id not in known and e.old_tags]
    for each, approval in lost:
        for fresh in again:
            if fresh.path == each.path and approval.tag in fresh.old_tags:
                at = time.strftime("%H:%M", time.localtime(approval.epoch))
                return (
                    f'{each.short} changed after you approved it ({at}, "{approval.tag}"). '
                    f"It is pending again as {fresh.short}."
                )
    return ""


def pin_broken(pinned: Sequence[MapHunk], new: HunkMap) -> str:
    """What the tag box says when the hunks it was opened for are not what they were."""
    now = {each.id: each.view for each in new.hunks}
    gone = [each for each in pinned if each.id not in now]
    if gone:
        return f"{gone[0].short} changed while you typed: Enter will be refused; Esc, look again"
    moved = [each for each in pinned if now[each.id] != each.view]
    if moved:
        return f"the lines around {moved[0].short} changed while you typed: Esc, look again"
    return ""
