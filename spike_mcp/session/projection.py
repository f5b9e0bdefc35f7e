"""judge/hunk-map.yml: the map in the published shape, for people and for published checkers.

Written after each change, never read back as truth (spec 9). Every text is a quoted scalar with
everything but plain ASCII escaped, so no path or tag can change the document's structure.
"""

from __future__ import annotations

import json
from contextlib import suppress

from spike_mcp.core import layout, tags
from spike_mcp.core.codes import ChangeKind, Problem
from spike_mcp.host.files import write_atomic
from spike_mcp.host.pointer import Pointer
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import HunkMap, MapHunk, hunk_map

_EMPTY = "[]"


def write_projection(spike: Spike, current: HunkMap | None = None) -> None:
    """Write the file for the map as it is now.

    A full disk is no error here: what the caller did is in the ledger, and the file is no truth.
    """
    found = current or hunk_map(spike)
    data = render(spike, found).encode()
    with suppress(Problem):
        write_atomic(spike.judge / layout.HUNK_MAP, data, 0o644, durable=False)


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


def render(spike: Spike, current: HunkMap) -> str:
    """The document's text."""
    contract = spike.contract
    approved = [each for each in current.hunks if each.state == "approved"]
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


def _list(name: str, entries: list[MapHunk]) -> str:
    return f"{name}:" if entries else f"{name}: {_EMPTY}"


def _text(text: str) -> str:
    """A double-quoted scalar in ASCII. JSON's surrogate pairs are none of YAML's business."""
    return f'"{"".join(map(_character, text))}"'


def _character(char: str) -> str:
    code = ord(char)
    if char in '"\\':
        return "\\" + char
    if 0x20 <= code < 0x7F:
        return char
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _hunk(spike: Spike, each: MapHunk) -> list[str]:
    hunk = each.hunk
    return [
        f"  - file: {_text(each.path)}",
        f"    old_start: {hunk.old_start}",
        f"    new_start: {hunk.new_start}",
        f"    tag: {_text(_tag(spike, each))}",
        f"    id: {_text(each.short)}",
        f"    header: {_text(hunk.header)}",
        f"    kind: {hunk.kind.value}",
        f"    patches: {json.dumps(list(each.patches))}",
        f"    regions: {json.dumps([region.key for region in each.regions])}",
    ]


def _file(spike: Spike, each: MapHunk) -> list[str]:
    return [
        f"  - file: {_text(each.path)}",
        f"    kind: {each.hunk.kind.value}",
        f"    tag: {_text(_tag(spike, each))}",
        f"    id: {_text(each.short)}",
    ]


def _tag(spike: Spike, each: MapHunk) -> str:
    """The tags joined; a word of the hypothesis in brackets where the published rule finds none."""
    hypothesis = spike.contract.hypothesis
    return tags.published_tag(each.tag, hypothesis.text, hypothesis.tokens)
