"""Interleaved timing, and the one table that comes out of it.

Two things are compared only within one run and in turns (ours, theirs, ours, theirs, ...), each
round in another order: whatever else the machine does hits both. A median is compared with a
median, never a best with a worst.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Task = Callable[[], float | None]
"""Does the thing once. Returns seconds if it measured itself, else it is timed from outside."""


def interleaved(tasks: Mapping[str, Task], rounds: int, warm_up: int = 1) -> dict[str, float]:
    """Median seconds of each task over `rounds` rounds; the first `warm_up` rounds do not count."""
    names = list(tasks)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + warm_up):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            began = time.perf_counter()
            own = tasks[name]()
            seconds = time.perf_counter() - began if own is None else own
            if number >= warm_up:
                taken[name].append(seconds)
    return {name: statistics.median(times) for name, times in taken.items()}


@dataclass(frozen=True)
class Line:
    """One line of the table. `ours` and `theirs` are in `unit`; `most` is what spec 15 allows.

    `most` bounds the ratio `ours / theirs` where there is a peer, `ours` itself where there is
    none; None = told for comparison, no target. `least` = True turns the ratio round: theirs must
    be that many times ours.
    """

    row: str
    what: str
    ours: float
    unit: str = "ms"
    peer: str = ""
    theirs: float | None = None
    most: float | None = None
    least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours to theirs, or theirs to ours for `least`."""
        if self.theirs is None:
            return None
        return self.theirs / self.ours if self.least else self.ours / self.theirs

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.most is None:
            return None
        found = self.ours if self.ratio is None else self.ratio
        return found >= self.most if self.least else found <= self.most

    def cells(self) -> list[str]:
        """The line as Markdown cells."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} x"
        target = ""
        if self.most is not None:
            sign = "at least" if self.least else "at most"
            unit = " x" if self.ratio is not None else f" {self.unit}"
            target = f"{sign} {self.most:g}{unit}"
        verdict = {True: "yes", False: "**no**", None: ""}[self.met]
        ours = f"{_number(self.ours)} {self.unit}"
        theirs = "" if self.theirs is None else f"{_number(self.theirs)} {self.unit}"
        return [self.row, self.what, ours, self.peer, theirs, ratio, target, verdict, self.note]


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(lines: Iterable[Line]) -> str:
    """The Markdown table."""
    head = ["row", "what", "ours", "peer", "theirs", "ratio", "target", "met", "note"]
    rows = [head, ["---"] * len(head), *(line.cells() for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


@dataclass
class Results:
    """Lines as they are made, and the points of the plots: curve -> [(x, milliseconds)]."""

    lines: list[Line] = field(default_factory=list)
    by_size: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    by_patch: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, line: Line) -> None:
        """Keep a line, and show it at once on stderr."""
        self.lines.append(line)
        print("  " + " | ".join(cell for cell in line.cells() if cell), file=sys.stderr, flush=True)

    def point(self, curve: str, x: float, seconds: float) -> None:
        """A point of the plot of cost against repository size."""
        self.by_size.setdefault(curve, []).append((x, seconds * 1000))
