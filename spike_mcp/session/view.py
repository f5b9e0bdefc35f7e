"""The hunk map as people see it: every current hunk with its state, tag, stamps and flags (spec 9).

Pure reading: bytes come from blobs, states from the fold. Texts are raw; the edge makes them safe.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from spike_mcp.core import content, flags, mapping
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.hunks import Hunk, Region, hunks, resubmission_key, short_ids, view_sha256
from spike_mcp.core.model import Approval, Lapse
from spike_mcp.session.spike import Spike


@dataclass(frozen=True, slots=True)
class Flagged:
    """Something the reviewer must look at before approving; `name` is what `--ack` takes."""

    name: str
    line: int
    text: str


@dataclass(frozen=True)
class MapHunk:
    """One hunk of the map.

    `state`: pending or approved. `region_states`: per region pending, approved or lapsed.
    `old_tags`: tags of approvals that lapsed here, newest first, with `why`. `twins`: other current
    hunks with identical changed lines.
    """

    hunk: Hunk
    id: str
    short: str
    state: str
    tag: str
    region_states: tuple[str, ...]
    approvals: tuple[Approval, ...]
    old_tags: tuple[str, ...]
    why: str
    patches: tuple[str, ...]
    rationale: str
    flags: tuple[Flagged, ...]
    comments: tuple[str, ...]
    view: str
    context_changed: bool
    resubmitted: bool
    twins: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The file."""
        return self.hunk.path

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions, in order."""
        return self.hunk.regions

    @property
    def added(self) -> int:
        """Lines added."""
        return sum(region.added_count for region in self.regions)

    @property
    def removed(self) -> int:
        """Lines removed."""
        return sum(region.removed_count for region in self.regions)

    @property
    def changed_lines(self) -> tuple[tuple[bytes, bytes], ...]:
        """What the hunk changes, wherever it stands: one tag may serve equal ones."""
        return tuple((region.removed, region.added) for region in self.regions)


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Approved regions that left the diff by the agent's doing; undecided until a human says."""

    id: str
    short: str
    path: str
    tag: str
    approvals: tuple[Approval, ...]


@dataclass(frozen=True, slots=True)
class HunkMap:
    """The whole map at one moment."""

    hunks: tuple[MapHunk, ...]
    withdrawn: tuple[Withdrawn, ...]

    @property
    def pending(self) -> tuple[MapHunk, ...]:
        """Hunks that wait for a decision."""
        return tuple(h for h in self.hunks if h.state == "pending")

    @property
    def lines(self) -> int:
        """Changed lines, added plus removed."""
        return sum(h.added + h.removed for h in self.hunks)

    def find(self, name: str) -> MapHunk:
        """The current hunk with this id or unique prefix. `Problem(HUNK_UNKNOWN)` otherwise."""
        return _one(self.hunks, name)

    def find_withdrawn(self, name: str) -> Withdrawn:
        """The withdrawn entry with this id or unique prefix. `Problem(HUNK_UNKNOWN)` otherwise."""
        return _one(self.withdrawn, name)


_Named = TypeVar("_Named", MapHunk, Withdrawn)


def _one(found: tuple[_Named, ...], name: str) -> _Named:
    wanted = name.removeprefix("h").lower()
    matching = [each for each in found if wanted and each.id.startswith(wanted)]
    if len(matching) == 1:
        return matching[0]
    shown = ", ".join(each.short for each in (matching or found)[:8]) or "none"
    if matching:
        raise Problem(
            Refusal.HUNK_UNKNOWN, f"{name} fits several hunks: {shown}", "give more digits"
        )
    raise Problem(
        Refusal.HUNK_UNKNOWN, f"there is no hunk {name} in the map now", f"there are: {shown}"
    )


def hunk_map(spike: Spike) -> HunkMap:
    """The current map, in path and baseline order."""
    state = spike.state
    found: list[MapHunk] = []
    plain = {path: _hunks_of(spike, path) for path in spike.changed_paths()}
    groups = mapping.withdrawn_groups(state)
    names = short_ids([h.id for hs in plain.values() for h in hs] + list(groups), state.hunk_ids)
    for each in plain.values():
        found += [_entry(spike, hunk, names[hunk.id]) for hunk in each]
    withdrawn = tuple(
        Withdrawn(key, names[key], members[0].path, members[0].tag, members)
        for key, members in sorted(groups.items(), key=lambda item: item[1][0].path)
    )
    return HunkMap(_with_twins(found), withdrawn)


def _hunks_of(spike: Spike, path: str) -> tuple[Hunk, ...]:
    return hunks(path, spike.base_bytes(path), spike.work_bytes(path), spike.regions(path))


def _with_twins(found: list[MapHunk]) -> tuple[MapHunk, ...]:
    same: dict[tuple[tuple[bytes, bytes], ...], list[str]] = {}
    for each in found:
        same.setdefault(each.changed_lines, []).append(each.short)
    return tuple(
        replace(each, twins=tuple(t for t in same[each.changed_lines] if t != each.short))
        for each in found
    )


def _entry(spike: Spike, hunk: Hunk, short: str) -> MapHunk:
    state = spike.state
    keys = [region.key for region in hunk.regions]
    approvals = tuple(state.approvals[key] for key in keys if key in state.approvals)
    lapses = mapping.lapses_at(state, [r for r in hunk.regions if r.key not in state.approvals])
    stamps = dict.fromkeys(p for key in keys for p in state.stamps.get(key, ()))
    view = view_sha256(hunk)
    return MapHunk(
        hunk=hunk,
        id=hunk.id,
        short=short,
        state="approved" if len(approvals) == len(keys) else "pending",
        tag="; ".join(dict.fromkeys(a.tag for a in approvals)),
        region_states=tuple(_region_state(spike, region, lapses) for region in hunk.regions),
        approvals=approvals,
        old_tags=tuple(dict.fromkeys(lapse.approval.tag for lapse in lapses)),
        why=lapses[0].why if lapses else "",
        patches=tuple(stamps),
        rationale="\n".join(state.patches[p].rationale for p in stamps if p in state.patches),
        flags=hunk_flags(spike, hunk),
        comments=tuple(c for key in (hunk.id,) for c in state.comments.get(key, ())),
        view=view,
        context_changed=any(a.view_sha256 not in ("", view) for a in approvals),
        resubmitted=any(resubmission_key(r) in state.rejected for r in hunk.regions),
    )


def _region_state(spike: Spike, region: Region, lapses: Iterable[Lapse]) -> str:
    if region.key in spike.state.approvals:
        return "approved"
    if any(mapping.covers(region, lapse.approval) for lapse in lapses):
        return "lapsed"
    return "pending"


def _signs(spike: Spike, region: Region, after: bytes | None) -> tuple[flags.Flag, ...]:
    """Tamper signs of a region, kept as long as the file stays: reading a file costs its size."""
    known: dict[tuple[str, str], tuple[flags.Flag, ...]] = spike.memo.setdefault("signs", {})
    key = (region.key, spike.expected(region.path)[0])
    if key not in known:
        if len(known) > 4096:
            known.clear()
        known[key] = flags.flags(region.path, region.removed, region.added, after)
    return known[key]


def hunk_flags(spike: Spike, hunk: Hunk) -> tuple[Flagged, ...]:
    """Control characters, tamper signs and resubmission: what approving needs an `--ack` for."""
    path, after = hunk.path, spike.work_bytes(hunk.path)
    base = spike.base_bytes(path)
    found = [
        Flagged(f.name, f.line, f.text) for f in content.flags(path, hunk.regions, base, after)
    ]
    for region in hunk.regions:
        for sign in _signs(spike, region, after):
            at = region.new_start + sign.line_no
            found.append(Flagged(sign.name, at, sign.excerpt))
        if resubmission_key(region) in spike.state.rejected:
            reason = spike.state.rejected[resubmission_key(region)]
            found.append(Flagged("resubmitted", region.new_start + 1, f"you rejected it: {reason}"))
    return tuple(dict.fromkeys(found))
