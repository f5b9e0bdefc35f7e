"""The hunk map's rules: what a revision does to approvals, and how bytes are taken back (spec 9).

Pure functions over the folded state and bytes that the caller read. `hunk-map` invariants I4-I6
are properties of this module.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spike_mcp.core import events as ev
from spike_mcp.core.codes import ChangeKind
from spike_mcp.core.hunks import Region, RegionsConflict, compose, diff, hunk_id
from spike_mcp.core.model import Approval, Lapse, State
from spike_mcp.core.revisions import SpanHunk as SpanHunk  # given out here too
from spike_mcp.core.revisions import hunks_of

Regions = tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class Consequences:
    """What a revision does to approvals that are not in the diff any more."""

    lapsed: tuple[tuple[str, str], ...] = ()
    withdrawn: tuple[str, ...] = ()


def spans_row(path: str, regions: Sequence[Region]) -> ev.FileSpans:
    """The ledger's short form of one file's regions."""
    kind = regions[0].kind.value if regions else ChangeKind.MODIFY.value
    return (path, kind, tuple((r.key, r.old_start, r.old_count, r.added_count) for r in regions))


def region_row(region: Region, removed_sha256: str, added_sha256: str) -> ev.RegionRow:
    """The ledger's long form of one region, kept with an approval or a reject."""
    return (
        region.key,
        region.path,
        region.kind.value,
        region.old_start,
        region.old_count,
        removed_sha256,
        added_sha256,
    )


def span_hunks(state: State) -> tuple[SpanHunk, ...]:
    """The current hunks in path and baseline order, from the fold alone."""
    return tuple(hunk for path in sorted(state.spans) for hunk in hunks_of(state.spans[path]))


def is_pending(state: State, hunk: SpanHunk) -> bool:
    """Whether any region of the hunk lacks an approval."""
    return any(key not in state.approvals for key in hunk.keys)


def pending_count(state: State) -> int:
    """Hunks that wait for a decision."""
    return sum(is_pending(state, hunk) for hunk in span_hunks(state))


def pending_after(state: State, rows: Iterable[ev.FileSpans]) -> int:
    """Hunks that would be pending once the given files look like `rows` (approvals unchanged)."""
    touched = {row[0]: row for row in rows}
    count = 0
    for path in {*state.spans, *touched}:
        row = touched.get(path, state.spans.get(path))
        if row is not None:
            count += sum(is_pending(state, hunk) for hunk in hunks_of(row))
    return count


def withdrawn_groups(state: State) -> Mapping[str, tuple[Approval, ...]]:
    """Withdrawn regions grouped as they were approved: hunk id (made of the keys) -> approvals."""
    groups: dict[tuple[str, str], list[Approval]] = {}
    for approval in state.withdrawn.values():
        groups.setdefault((approval.decision, approval.path), []).append(approval)
    found: dict[str, tuple[Approval, ...]] = {}
    for members in groups.values():
        members.sort(key=lambda a: a.region[3])
        found[hunk_id(a.key for a in members)] = tuple(members)
    return found


def covers(region: Region, approval: Approval) -> bool:
    """Whether a current region stands at the baseline place of an approved one."""
    if ChangeKind.MODIFY not in (region.kind, ChangeKind(approval.region[2])):
        return True
    if region.kind is not ChangeKind.MODIFY or approval.region[2] != ChangeKind.MODIFY.value:
        return True
    start, count = approval.region[3], approval.region[4]
    return region.old_start <= start + count and start <= region.old_start + region.old_count


def consequences(
    state: State,
    now: Mapping[str, Regions],
    written: Mapping[str, Regions],
    cause: str,
) -> Consequences:
    """What becomes of approvals in the files of `now`, the regions after a revision.

    `written` = regions between the file before and after this revision, whose `new_start` and
    added lines say which lines were written; `cause` names the writer ("P7", "reject of h1f..").
    A region that came back is pending again: an approval never returns by itself. What was
    approved, then changed, and is gone altogether now is withdrawn too: two steps hide no more than
    one.
    """
    lapsed: list[tuple[str, str]] = []
    withdrawn: list[str] = []
    for path, regions in now.items():
        keys = {region.key for region in regions}
        for approval in _of(path, state.approvals.values()):
            if approval.key in keys:
                continue
            over = [region for region in regions if covers(region, approval)]
            if over:
                lapsed.append((approval.key, _why(over, written.get(path, ()), cause)))
            else:
                withdrawn.append(approval.key)
        for approval in _of(path, state.withdrawn.values()):
            if approval.key in keys:
                lapsed.append((approval.key, f"came back with {cause}"))
            elif any(covers(region, approval) for region in regions):
                lapsed.append((approval.key, f"its place was changed again by {cause}"))
        withdrawn += _left_behind(state, path, regions)
    return Consequences(tuple(lapsed), tuple(withdrawn))


def _left_behind(state: State, path: str, regions: Regions) -> list[str]:
    """Lapsed approvals whose place was covered by pending regions only, and is bare now.

    The newest of each place: what it had replaced was settled when it was approved.
    """
    row = state.spans.get(path)
    if row is None:
        return []
    found: list[Approval] = []
    for lapse in sorted(state.lapsed.values(), key=lambda lapse: lapse.seq, reverse=True):
        approval = lapse.approval
        if approval.path != path or any(covers(region, approval) for region in regions):
            continue
        over = [span for span in row[2] if _covered_by(row[1], span, approval)]
        pending = over and all(span[0] not in state.approvals for span in over)
        if pending and not any(_same_place(approval, newer) for newer in found):
            found.append(approval)
    return [approval.key for approval in found]


def _covered_by(kind: str, span: ev.SpanRow, approval: Approval) -> bool:
    place = Region(approval.path, ChangeKind(kind), span[1], span[2], span[1], b"", b"")
    return covers(place, approval)


def _same_place(one: Approval, other: Approval) -> bool:
    _key, path, kind, start, count, _removed, _added = other.region
    return covers(Region(path, ChangeKind(kind), start, count, start, b"", b""), one)


def _of(path: str, approvals: Iterable[Approval]) -> list[Approval]:
    return [approval for approval in approvals if approval.path == path]


def _why(over: Sequence[Region], written: Regions, cause: str) -> str:
    for region in over:
        end = region.new_start + region.added_count
        for change in written:
            stop = change.new_start + change.added_count
            if change.new_start <= end and region.new_start <= stop:
                return f"touched by {cause}"
    if len(over) == 1 and over[0].kind is ChangeKind.MODIFY:
        return f"regrouped by {cause}: no line of it written since you approved it"
    return f"merged by {cause}"


# --- taking bytes back --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakenBack:
    """One file after a reject: its content and the approvals that came back with the old bytes."""

    content: bytes | None
    revived: tuple[str, ...]


def lapses_at(state: State, targets: Iterable[Region]) -> tuple[Lapse, ...]:
    """Lapsed approvals at the places of `targets`, the newest lapse first."""
    wanted = list(targets)
    found = [
        lapse
        for lapse in state.lapsed.values()
        if any(r.path == lapse.approval.path and covers(r, lapse.approval) for r in wanted)
    ]
    return tuple(sorted(found, key=lambda lapse: lapse.seq, reverse=True))


def take_back(
    path: str,
    base: bytes | None,
    current: Regions,
    targets: frozenset[str],
    older: Sequence[Region],
) -> TakenBack:
    """The file without the regions whose keys are in `targets`.

    `older` = regions approved earlier at those places, best first; each is put back if it fits
    beside what stays. Reject never depends on another region textually, so what stays is exact.
    """
    kept = [region for region in current if region.key not in targets]
    revived: list[str] = []
    for region in older:
        try:
            compose(base, [*kept, region])
        except RegionsConflict:
            continue
        kept.append(region)
        revived.append(region.key)
    content = compose(base, kept)
    there = {region.key for region in diff(path, base, content)}
    return TakenBack(content, tuple(key for key in revived if key in there))


def put_back(base: bytes | None, current: Regions, again: Sequence[Region]) -> bytes | None:
    """The file with `again` added to its regions; raises `RegionsConflict` where they touch others.

    Regions of `current` with the key of one in `again` are there already.
    """
    known = {region.key for region in current}
    missing = [region for region in again if region.key not in known]
    return compose(base, [*current, *missing])


def reverse(
    path: str, before: bytes | None, after: bytes | None, current: bytes | None
) -> bytes | None:
    """`current` without the change `before` -> `after`; raises `RegionsConflict` if later writes
    stand on the same bytes.
    """
    if current == after:
        return before
    if before is None or after is None or current is None:
        raise RegionsConflict(f"{path} was created, deleted or rewritten by a later write")
    later = diff(path, after, current)
    undo = diff(path, after, before)
    return compose(after, [*later, *undo])
