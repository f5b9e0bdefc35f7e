"""The table into docs/performance.md, between its two marks, and the plot beside it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from datetime import date
from pathlib import Path

from harness import Results, table
from peers import HERE, Peers

PAGE = HERE / "docs" / "performance.md"
PLOT = HERE / "docs" / "performance.svg"
BEGIN, END = "<!-- table: made by `make bench` -->", "<!-- end of table -->"


def publish(results: Results, peers: Peers) -> None:
    """Replace the table in the page and draw the plot."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    notes = "".join(f"* {note}\n" for note in results.notes)
    made = f"{date.today().isoformat()}, {machine()}\n\n{table(results.lines)}\n{notes}"
    PAGE.write_text(f"{before}{BEGIN}\n{made}{END}{after}")
    if "plot" in peers.python and results.by_size and results.by_patch:
        draw(results, peers.python["plot"])


def machine() -> str:
    """The kind of machine, and no more of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = platform.uname()
    kernel = ".".join(system.release.split(".")[:2])
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {system.system} {kernel}, Python {python}"


def draw(results: Results, python: str) -> None:
    """Draw in the plot's own environment: matplotlib is no dependency of anything here."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as data:
        json.dump({"by_size": results.by_size, "by_patch": results.by_patch}, data)
        data.flush()
        script = Path(__file__).with_name("plot.py")
        subprocess.run([python, str(script), data.name, str(PLOT)], check=True)
