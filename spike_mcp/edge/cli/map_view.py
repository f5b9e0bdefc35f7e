"""The hunk map as data for scripts and as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spike_mcp.edge.cli.hunk_view import hunk_data, withdrawn_data
from spike_mcp.edge.cli.layout import clip, columns, count
from spike_mcp.edge.cli.out import Line, Part
from spike_mcp.edge.present import place_of, title_of
from spike_mcp.edge.text import safe_line
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import HunkMap

_STYLES = {
    "pending": "yellow",
    "approved": "green",
    "withdrawn": "yellow",
    "out_of_band": "red",
}


def entries(spike: Spike, current: HunkMap, outside: Iterable[str]) -> list[dict[str, Any]]:
    """Every entry of the map in the shape of `hunks` (spec 13)."""
    return [
        *(hunk_data(each) for each in current.hunks),
        *(withdrawn_data(spike, each) for each in current.withdrawn),
        *(_outside_data(text) for text in outside),
    ]


def _outside_data(text: str) -> dict[str, Any]:
    path, _, what = text.rpartition(" (")
    return {
        "id": "",
        "state": "out_of_band",
        "path": path,
        "kind": what.rstrip(")"),
        "old_start": 0,
        "old_lines": 0,
        "new_start": 0,
        "new_lines": 0,
        "header": "",
        "added": 0,
        "removed": 0,
        "tag": "",
        "patches": [],
        "rationale": "",
        "flags": [],
        "regions": [],
        "view_sha256": "",
    }


def map_lines(data: Mapping[str, Any], current: HunkMap, width: int) -> Iterator[Line]:
    """The table, what it amounts to, and what to type next."""
    rows: Sequence[Mapping[str, Any]] = data["hunks"]
    if not rows:
        yield "no hunks: nothing differs from the baseline"
        return
    yield from _table(rows, current, width)
    yield ""
    states = [row["state"] for row in rows]
    said = [
        f"{states.count(state)} {state.replace('_', ' ')}"
        for state in _STYLES
        if states.count(state)
    ]
    limit = data["max_lines"]
    yield f"{', '.join(said)}; {count(data['lines'], 'changed line')} (fewer than {limit} ship)"
    yield from _next(rows)


def _table(rows: Sequence[Mapping[str, Any]], current: HunkMap, width: int) -> Iterator[Line]:
    titles = {each.short: (title_of(each), place_of(each)) for each in current.hunks}
    cells = [["ID", "STATE", "", "+", "-", "WHERE", "WHAT"]]
    for row in rows:
        title, place = titles.get(row["id"], (safe_line(row["tag"] or row["kind"], 200), 0))
        where = safe_line(row["path"], 300)
        cells.append(
            [
                row["id"] or "-",
                row["state"].replace("_", " "),
                "!" if row["flags"] else "",
                str(row["added"]) if row["id"] else "-",
                str(row["removed"]) if row["id"] else "-",
                f"{where}:{place}" if place else where,
                title,
            ]
        )
    head, *body = columns(_narrowed(cells, width), frozenset({3, 4}))
    yield [("  ".join(head).rstrip(), "bold")]
    for row, texts in zip(rows, body, strict=True):
        yield _row(row["state"], texts, width)


def _narrowed(cells: list[list[str]], width: int) -> list[list[str]]:
    """Paths lose their beginning where they would leave no room for what was changed."""
    most = max(width // 3, 16) if width else 0
    return [[*row[:5], _tail(row[5], most), row[6]] for row in cells]


def _tail(path: str, most: int) -> str:
    return path if not most or len(path) <= most else f"…{path[-most + 1 :]}"


def _row(state: str, texts: Sequence[str], width: int) -> Line:
    left = f"{texts[0]}  "
    rest = "  ".join(texts[2:]).rstrip()
    room = width - len(left) - len(texts[1]) - 2 if width else 0
    parts: list[Part] = [left, (texts[1], _STYLES[state]), "  ", clip(rest, room)]
    return parts


def _next(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    waiting = [row for row in rows if row["state"] == "pending"]
    withdrawn = [row for row in rows if row["state"] == "withdrawn"]
    outside = [row for row in rows if row["state"] == "out_of_band"]
    if waiting:
        first = waiting[0]["id"]
        yield ["next: ", (f"spike show {first}", "bold"), ", or ", ("spike review", "bold")]
    for row in withdrawn[:3]:
        yield f"withdrawn {row['id']}: spike approve --withdrawn {row['id']} lets it go,"
        yield f"  spike reject {row['id']} puts it back"
    if outside:
        yield "changed outside the tools: spike restore PATH, or spike restore --all"
