"""The hunk map as people see it: every current hunk with its state, tag, stamps and flags (spec 9).

Pure reading: bytes come from blobs, states from the fold. Texts are raw; the edge makes them safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


_REMEMBERED = 512
"""Files whose hunks are kept in memory."""

_Named = TypeVar("_Named", MapHunk, Withdrawn)


def _one(found: tuple[_Named, ...], name: str) -> _Named:
    wanted = name.removeprefix("h").lower()
    matching = [each for each in found if wanted and each.id.startswith(wanted)]
    if len(matching) == 1:
        return matching[0]
    shown = ", ".join(each.short for each in (matching or found)[:8])
    if matching:
        raise Problem(
            Refusal.HUNK_UNKNOWN, f"{name} fits several hunks: {shown}", "give more digits"
        )
    there = f"there are: {shown}" if shown else "the map is empty"
    raise Problem(Refusal.HUNK_UNKNOWN, f"there is no hunk {name} in the map now", there)


def hunk_map(spike: Spike) -> HunkMap:
    """The current map, in path and baseline order."""
    state = spike.state
    plain = [each for path in spike.changed_paths() for each in _looks(spike, path)]
    groups = mapping.withdrawn_groups(state)
    names = short_ids([each.hunk.id for each in plain] + list(groups), state.hunk_ids)
    found = [_entry(spike, each, names[each.hunk.id]) for each in plain]
    withdrawn = tuple(
        Withdrawn(key, names[key], members[0].path, members[0].tag, members)
        for key, members in sorted(groups.items(), key=lambda item: item[1][0].path)
    )
    return HunkMap(_with_twins(found), withdrawn)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a hunk's own bytes say, whatever anybody decided about it."""

    hunk: Hunk
    view: str
    flags: tuple[Flagged, ...]
    resubmission: tuple[str, ...]


def _looks(spike: Spike, path: str) -> tuple[_Look, ...]:
    """The file's hunks; kept while the file stays, so a map costs what changed since the last."""
    known: dict[str, tuple[tuple[str, str], tuple[_Look, ...]]] = spike.memo.setdefault("looks", {})
    content_now = (spike.base_sha(path), spike.expected(path)[0])
    if path not in known or known[path][0] != content_now:
        if len(known) > _REMEMBERED:
            known.clear()
        known[path] = (content_now, _look(spike, path))
    return known[path][1]


def _look(spike: Spike, path: str) -> tuple[_Look, ...]:
    base, work = spike.base_bytes(path), spike.work_bytes(path)
    return tuple(
        _Look(
            hunk,
            view_sha256(hunk),
            tuple(_signs(hunk, base, work)),
            tuple(resubmission_key(region) for region in hunk.regions),
        )
        for hunk in hunks(path, base, work, spike.regions(path))
    )


def _signs(hunk: Hunk, base: bytes | None, work: bytes | None) -> Iterator[Flagged]:
    for odd in content.flags(hunk.path, hunk.regions, base, work):
        yield Flagged(odd.name, odd.line, odd.text)
    for region in hunk.regions:
        for sign in flags.flags(hunk.path, region.removed, region.added, work):
            yield Flagged(sign.name, region.new_start + sign.line_no, sign.excerpt)


def _with_twins(found: list[MapHunk]) -> tuple[MapHunk, ...]:
    same: dict[tuple[tuple[bytes, bytes], ...], list[str]] = {}
    for each in found:
        same.setdefault(each.changed_lines, []).append(each.short)
    return tuple(
        replace(each, twins=tuple(t for t in same[each.changed_lines] if t != each.short))
        for each in found
    )


def _entry(spike: Spike, look: _Look, short: str) -> MapHunk:
    state, hunk = spike.state, look.hunk
    keys = [region.key for region in hunk.regions]
    approvals = tuple(state.approvals[key] for key in keys if key in state.approvals)
    lapses = mapping.lapses_at(state, [r for r in hunk.regions if r.key not in state.approvals])
    stamps = dict.fromkeys(p for key in keys for p in state.stamps.get(key, ()))
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
        flags=_flags(spike, look),
        comments=tuple(c for key in (hunk.id,) for c in state.comments.get(key, ())),
        view=look.view,
        context_changed=any(a.view_sha256 not in ("", look.view) for a in approvals),
        resubmitted=any(key in state.rejected for key in look.resubmission),
    )


def _region_state(spike: Spike, region: Region, lapses: Iterable[Lapse]) -> str:
    if region.key in spike.state.approvals:
        return "approved"
    if any(mapping.covers(region, lapse.approval) for lapse in lapses):
        return "lapsed"
    return "pending"


def _flags(spike: Spike, look: _Look) -> tuple[Flagged, ...]:
    """Control characters, tamper signs and resubmission: what approving needs an `--ack` for."""
    rejected = spike.state.rejected
    found = list(look.flags)
    for region, key in zip(look.hunk.regions, look.resubmission, strict=True):
        if key in rejected:
            text = f"you rejected it: {rejected[key]}"
            found.append(Flagged("resubmitted", region.new_start + 1, text))
    return tuple(dict.fromkeys(found))
