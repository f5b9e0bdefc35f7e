"""The list of hunks: a heading per group, a row per entry."""

from __future__ import annotations

from spike_mcp.edge.present import Glyphs
from spike_mcp.edge.tui.model import Entry, Review
from spike_mcp.edge.tui.paint import Line, fit, fit_path, pad, width_of


def list_line(review: Review, number: int, width: int, glyphs: Glyphs) -> tuple[Line, bool]:
    """Row `number` of the list, and whether the cursor is on it."""
    if not 0 <= number < len(review.rows):
        return [], False
    row = review.rows[number]
    if row.index < 0:
        return [(" ", ""), (_heading(row.heading, width - 2, glyphs), "heading")], False
    entry = review.entries[row.index]
    here = entry.key == review.cursor
    return _entry_line(entry, here, entry.key in review.marks, width, glyphs), here


def _heading(text: str, width: int, glyphs: Glyphs) -> str:
    lead, space, path = text.partition(" ")
    if not path or "/" not in path:
        return fit(text, width, glyphs.more)
    return lead + space + fit_path(path, width - len(lead) - 1, glyphs.more)


def _entry_line(entry: Entry, here: bool, marked: bool, width: int, glyphs: Glyphs) -> Line:
    style = "outside" if entry.state == "out of band" else entry.state
    line: Line = [
        (glyphs.cursor if here else " ", "strong"),
        (glyphs.marked if marked else " ", "key"),
        (f"{glyphs.of(entry.state)} {pad(entry.state, 8)}", style),
    ]
    if entry.short:
        line.append((f" {entry.short}", "strong"))
    if entry.hunk is not None:
        hunk = entry.hunk
        line.append((pad(f" +{hunk.added} -{hunk.removed}", 6), "dim"))
        signs = [("!", "flag")] if hunk.flags else []
        signs += [("c", "note")] if hunk.comments else []
        line += [(" ", ""), *signs]
    line.append((" ", ""))
    room = width - width_of(line) - 1
    if room > 0:
        line.append((fit(entry.title, room, glyphs.more), "dim" if entry.hunk else ""))
    return line
