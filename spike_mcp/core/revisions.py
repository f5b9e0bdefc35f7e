"""What a revision of the map does to the folded state: files, spans, stamps, approvals (spec 9).

A part of the fold (`state.py`): pure, and true to the row's own words.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from spike_mcp.core import events as ev
from spike_mcp.core.codes import ChangeKind
from spike_mcp.core.hunks import Span, group, hunk_id
from spike_mcp.core.model import Approval, FileState, Lapse, State, changed


def revised(state: State, event: ev.Revision, patch: str = "") -> State:
    """Files, spans, stamps and approvals after a revision of the map."""
    state = changed(state, stamps=stamped(state, event, patch))
    files = dict(state.files)
    for path, _before, after, mode in event.files:
        files[path] = FileState(after, mode)
    spans = dict(state.spans)
    for row in event.spans:
        spans[row[0]] = row
        if not row[2]:
            del spans[row[0]]
    ids = state.hunk_ids.union(*(ids_of(row) for row in event.spans))
    return changed(reapproved(state, event), files=files, spans=spans, intent=None, hunk_ids=ids)


def reapproved(state: State, event: ev.Revision) -> State:
    """Approvals after a revision: lapsed, withdrawn, revived and forgotten as the row says."""
    approvals, withdrawn = dict(state.approvals), dict(state.withdrawn)
    lapsed = dict(state.lapsed)
    for key, why in event.lapsed:
        approval = approvals.pop(key, None) or withdrawn.pop(key, None)
        if approval is not None:
            lapsed[key] = Lapse(approval, why, state.seq)
    for key in event.withdrawn:
        if key in approvals:
            withdrawn[key] = approvals.pop(key)
        elif key in lapsed:
            withdrawn[key] = lapsed.pop(key).approval
    for key in event.revived:
        if key in withdrawn:
            approvals[key] = withdrawn.pop(key)
        elif key in lapsed:
            approvals[key] = lapsed.pop(key).approval
    for key in event.forgotten:
        lapsed.pop(key, None)
    return changed(state, approvals=approvals, withdrawn=withdrawn, lapsed=lapsed)


def stamped(state: State, event: ev.Revision, patch: str) -> Mapping[str, tuple[str, ...]]:
    """New regions are stamped with this patch and with those of the regions they grew from.

    A human's revision (no `patch`) makes no region, but it may cut what is left anew; a region that
    it puts back keeps its stamps.
    """
    stamps = dict(state.stamps)
    for path, _kind, spans in event.spans:
        old = state.spans[path][2] if path in state.spans else ()
        known = {span[0] for span in old} if patch else stamps.keys()
        starts = [span[1] for span in old]
        ends = [span[1] + span[2] for span in old]
        for span in spans:
            if span[0] in known:
                continue
            # Those that it touches stand together: a patch may have two thousand regions.
            near = old[bisect_left(ends, span[1]) : bisect_right(starts, span[1] + span[2])]
            origins = {p for o in near for p in stamps.get(o[0], ())}
            if patch:
                origins.add(patch)
            stamps[span[0]] = tuple(sorted(origins, key=_ordinal)[-MOST_STAMPS:])
    return stamps


MOST_STAMPS = 20
"""Patches that a region is stamped with at most, the newest: it may be rewritten without end."""


def _ordinal(identifier: str) -> int:
    return int(identifier[1:])


@dataclass(frozen=True, slots=True)
class SpanHunk:
    """A hunk as the ledger alone knows it: enough to count and name, without any bytes."""

    id: str
    path: str
    kind: str
    keys: tuple[str, ...]


@lru_cache(maxsize=256)  # a row of two thousand regions is half a megabyte
def hunks_of(row: ev.FileSpans) -> tuple[SpanHunk, ...]:
    """The hunks that one file's regions make, in order; kept, since every call counts them all."""
    path, kind, rows = row
    parts = group([Span(*span) for span in rows])
    keys = [tuple(span.key for span in part) for part in parts]
    return tuple(SpanHunk(hunk_id(each), path, kind, each) for each in keys)


def ids_of(row: ev.FileSpans) -> frozenset[str]:
    """Ids of the hunks that one file's regions make."""
    return frozenset(hunk.id for hunk in hunks_of(row))


def touches(a: ev.SpanRow, b: ev.SpanRow) -> bool:
    """Whether two places in the baseline overlap or abut (an insertion is a gap)."""
    return a[1] <= b[1] + b[2] and b[1] <= a[1] + a[2]


def stands(state: State, approval: Approval) -> bool:
    """Whether a region of the diff stands at the baseline place of an approved one."""
    row = state.spans.get(approval.path)
    if row is None:
        return False
    key, _path, kind, start, count, _removed, _added = approval.region
    if (row[1], kind) != (ChangeKind.MODIFY, ChangeKind.MODIFY):
        return True
    return any(touches((key, start, count, 0), span) for span in row[2])
