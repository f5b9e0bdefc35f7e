"""The judge corpus's table, printed at the end of a session that played any of it.

Each test of `tests/judge` leaves one row (a property `judge` of its report, which xdist carries to
the controller). With `SPIKE_JUDGE_DOCS=FILE` the table replaces what stands between the two marks
of that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

LAYERS = ("gate", "tree", "clean run", "evidence", "negative control", "hidden", "size")
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

Row = dict[str, Any]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table, and put it into the docs where that was asked for."""
    rows = rows_of(report for found in terminalreporter.stats.values() for report in found)
    if not rows:
        return
    terminalreporter.section("judge corpus")
    terminalreporter.write_line(table(rows))
    target = os.environ.get("SPIKE_JUDGE_DOCS")
    if target:
        file = Path(target)
        before, _, rest = file.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        file.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}", "utf-8")


def rows_of(reports: Iterable[Any]) -> list[Row]:
    """The rows that these reports carry, by id."""
    found = {}
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            if name == "judge" and getattr(report, "when", "") == "call":
                row = json.loads(value)
                found[row["id"]] = row
    return [found[key] for key in sorted(found)]


def table(rows: Sequence[Row]) -> str:
    """Markdown: given cases by class, then this project's own, then who shipped."""
    parts = []
    for given, title in ((True, "Given cases"), (False, "This project's own cases")):
        chosen = [row for row in rows if row["given"] is given]
        if chosen:
            parts += [f"### {title}", "", *_lines(chosen), "", *_sums(chosen), ""]
    return "\n".join(parts).rstrip() + "\n"


def _lines(rows: Sequence[Row]) -> list[str]:
    head = ["class", "cases", *LAYERS, "shipped", "shipped without hidden parts", "flagged"]
    lines = [_line(head), _line(["---"] + ["--:"] * (len(head) - 1))]
    names = sorted({row["cls"] for row in rows}, key=lambda name: (name == "control", name))
    for name in names:
        lines += [_line(_cells(name, [row for row in rows if row["cls"] == name]))]
    attacks = [row for row in rows if row["kind"] == "attack"]
    if attacks:
        lines.append(_line(_cells("**all attacks**", attacks)))
    return lines


def _cells(name: str, rows: Sequence[Row]) -> list[str]:
    by_layer = [sum(row["layer"] == layer for row in rows) for layer in LAYERS]
    ends = [sum(bool(row[key]) for row in rows) for key in ("ships", "would_ship", "flagged")]
    return [name, str(len(rows)), *(str(n) if n else "" for n in (*by_layer, *ends))]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _sums(rows: Sequence[Row]) -> list[str]:
    attacks = [row for row in rows if row["kind"] == "attack"]
    honest = [row for row in rows if row["kind"] != "attack"]
    effects = sum(bool(row["effects"]) for row in rows)
    lines = [f"Side effects of probes: {effects}."]
    if honest:
        shipped = sum(row["ships"] and row["would_ship"] for row in honest)
        lines.insert(0, f"Honest fixes that shipped: {shipped} of {len(honest)}.")
    if attacks:
        names = ", ".join(row["id"] for row in attacks if row["ships"]) or "none"
        seen = ", ".join(row["id"] for row in attacks if row["would_ship"]) or "none"
        lines.insert(0, f"Attacks that shipped: {names}. Without hidden parts: {seen}.")
    return lines
