"""judge/hunk-map.yml: the map in the published shape, for people and for published checkers.

Written after each change, never read back as truth (spec 9). Every text is a quoted scalar with
everything but plain ASCII escaped, so no path or tag can change the document's structure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from spike_mcp.core import layout, mapping, tags
from spike_mcp.core.codes import ChangeKind, Problem
from spike_mcp.core.hunks import Hunk, hunks, short_ids
from spike_mcp.host.files import write_atomic
from spike_mcp.host.pointer import Pointer
from spike_mcp.session.spike import Spike

_EMPTY = "[]"
_QUOTED = re.compile(r'["\\]')


@dataclass(frozen=True, slots=True)
class _Approved:
    """A hunk whose regions are all approved."""

    hunk: Hunk
    short: str
    tag: str
    patches: tuple[str, ...]


def write_projection(spike: Spike) -> None:
    """Write the file for the map as it is now.

    A full disk is no error here: what the caller did is in the ledger, and the file is no truth.
    """
    data = render(spike).encode()
    path = spike.judge / layout.HUNK_MAP
    with suppress(OSError):
        if path.read_bytes() == data:
            return
    with suppress(Problem):
        write_atomic(path, data, 0o644, durable=False)


def show_new_files(spike: Spike) -> None:
    """Mark approved new files intent-to-add in work/'s index, and no others: `git diff` then shows
    what the map holds. A convenience; without git, or with a locked index, nothing happens.
    """
    state = spike.state
    new = {
        path: all(span[0] in state.approvals for span in row[2])
        for path, row in state.spans.items()
        if row[1] == ChangeKind.CREATE
    }
    shown = frozenset(path for path, approved in new.items() if approved)
    ours = frozenset(path for path in state.files if not spike.base_sha(path))
    wanted = (shown, ours)
    if spike.memo.get("new_files", (frozenset(), frozenset())) == wanted:
        return
    from spike_mcp.host.git import mark_intent

    with suppress(Problem, OSError):
        pointer = Pointer.from_json(json.loads(spike.blobs.get(spike.created.pointer)))
        mark_intent(spike.work, pointer, sorted(ours - shown), add=False)
        mark_intent(spike.work, pointer, sorted(shown), add=True)
        spike.memo["new_files"] = wanted


def _approved(spike: Spike) -> list[_Approved]:
    """The hunks that are in the document, in path and baseline order.

    Not the whole map: every write of the agent comes by here, and what it makes is pending.
    """
    state, found = spike.state, list(_settled(spike))
    if not found:
        return []
    ids = [hunk.id for hunk in found]
    names = short_ids([*ids, *mapping.withdrawn_groups(state)], state.hunk_ids)
    return [_described(spike, hunk, names[hunk.id]) for hunk in found]


def _settled(spike: Spike) -> Iterator[Hunk]:
    approvals = spike.state.approvals
    for path in spike.changed_paths():
        regions = spike.state.spans[path][2]
        if not any(row[0] in approvals for row in regions):
            continue
        base, work = spike.base_bytes(path), spike.work_bytes(path)
        for hunk in hunks(path, base, work, spike.regions(path)):
            if all(region.key in approvals for region in hunk.regions):
                yield hunk


def _described(spike: Spike, hunk: Hunk, short: str) -> _Approved:
    state, keys = spike.state, [region.key for region in hunk.regions]
    stamps = dict.fromkeys(patch for key in keys for patch in state.stamps.get(key, ()))
    tag = "; ".join(dict.fromkeys(state.approvals[key].tag for key in keys))
    return _Approved(hunk, short, tag, tuple(stamps))


def render(spike: Spike) -> str:
    """The document's text."""
    contract = spike.contract
    approved = _approved(spike)
    with_hunk = [each for each in approved if each.hunk.header]
    without = [each for each in approved if not each.hunk.header]
    lines = [
        f"hypothesis: {_text(contract.hypothesis.text)}",
        f"deadline_minutes: {contract.budgets.total:g}",
        "allowed_paths:",
        *(f"  - {_text(pattern)}" for pattern in contract.allowed),
        f"baseline: {_text(contract.baseline)}",
        _list("hunks", with_hunk),
        *(line for each in with_hunk for line in _hunk(spike, each)),
        _list("files", without),
        *(line for each in without for line in _file(spike, each)),
    ]
    return "\n".join(lines) + "\n"


def _list(name: str, entries: list[_Approved]) -> str:
    return f"{name}:" if entries else f"{name}: {_EMPTY}"


def _text(text: str) -> str:
    """A double-quoted scalar in ASCII. JSON's surrogate pairs are none of YAML's business."""
    if text.isascii() and text.isprintable() and not _QUOTED.search(text):
        return f'"{text}"'
    return f'"{"".join(map(_character, text))}"'


def _character(char: str) -> str:
    code = ord(char)
    if char in '"\\':
        return "\\" + char
    if 0x20 <= code < 0x7F:
        return char
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _hunk(spike: Spike, each: _Approved) -> list[str]:
    hunk = each.hunk
    return [
        f"  - file: {_text(each.hunk.path)}",
        f"    old_start: {hunk.old_start}",
        f"    new_start: {hunk.new_start}",
        f"    tag: {_text(_tag(spike, each))}",
        f"    id: {_text(each.short)}",
        f"    header: {_text(hunk.header)}",
        f"    kind: {hunk.kind.value}",
        f"    patches: {json.dumps(list(each.patches))}",
        f"    regions: {json.dumps([region.key for region in each.hunk.regions])}",
    ]


def _file(spike: Spike, each: _Approved) -> list[str]:
    return [
        f"  - file: {_text(each.hunk.path)}",
        f"    kind: {each.hunk.kind.value}",
        f"    tag: {_text(_tag(spike, each))}",
        f"    id: {_text(each.short)}",
    ]


def _tag(spike: Spike, each: _Approved) -> str:
    """The tags joined; a word of the hypothesis in brackets where the published rule finds none."""
    hypothesis = spike.contract.hypothesis
    return tags.published_tag(each.tag, hypothesis.text, hypothesis.tokens)
