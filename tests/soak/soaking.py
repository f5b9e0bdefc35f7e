"""Two hours of a spike, squeezed: three clients with a server each, a reviewer, a meddler.

All clocks are the machine's plus the seconds in one file, which is put forward between rounds. In
each round every client has one call under way. What is looked at on the way: memory, descriptors
and processes of the servers, and temporary files; at the end the ledger and the map.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from late_clock import FileClock
from wire import CLOCKED, HANDSHAKES, MODERN, Wire, open_script, processes

from spike_mcp.core.codes import Problem
from spike_mcp.session import decisions, ending, rejecting
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import hunk_map

HOURS = 2 * 3600
BUDGETS = {
    "total": 130,
    "write_cutoff": 124,
    "setup": 1,
    "reproduce": 1,
    "attempt": 122,
    "verify": 4,
    "max_refusals": 20_000,
    "max_blob_bytes": 1 << 30,
    "max_runs": 5_000,
    "max_lines": 4_000,
}
WHY = "the sample file turns green for callers"
TAG = "rewriting the lines makes the sample file green"
FILES = [f"src/part{number}.txt" for number in range(6)]


@dataclass
class Sample:
    """The servers at one moment: resident memory (kB), open descriptors, children, threads."""

    calls: int
    memory: list[int]
    descriptors: list[int]
    children: list[int]
    threads: list[int]


@dataclass
class Soak:
    """One soak below `place`; `run` plays it, then the fields tell how it went."""

    place: Path
    calls: int
    seed: int = 1
    outcomes: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    meddled: int = 0
    samples: list[Sample] = field(default_factory=list)
    seconds: float = 0.0

    def run(self) -> None:
        """Play all calls, end the servers, and look at what is left."""
        began = time.monotonic()
        self._random = random.Random(self.seed)
        self._temporary = self.place / "tmp"
        self._temporary.mkdir(parents=True)
        opened = open_script(self.place / "spike", budgets=BUDGETS)
        self.root = opened.spike.root
        self._shift = self.place / "shift"
        self._shift.write_text("0")
        self.human = Spike(self.root, FileClock(self._shift))
        self._texts: dict[str, str] = {}
        versions = (MODERN, HANDSHAKES[0], HANDSHAKES[-1])
        command = (*CLOCKED, "--spike", str(self.root), str(self._shift))
        env = {"TMPDIR": str(self._temporary)}
        wires = [Wire(None, version, command=command, env=env) for version in versions]
        try:
            self._play(wires)
            self.statuses = [wire.close() for wire in wires]
        finally:
            for wire in wires:
                wire.__exit__()
        self.seconds = time.monotonic() - began

    def _play(self, wires: list[Wire]) -> None:
        rounds = self.calls // len(wires)
        for number in range(rounds):
            self._shift.write_text(f"{HOURS * number / rounds:.3f}")
            asked = []
            for wire in wires:
                tool, arguments = self._call()
                asked.append((wire, wire.begin(tool, **arguments)))
            for wire, request in asked:
                wire.result(request)
                self.outcomes[wire.meta["code"] or wire.meta["outcome"]] += 1
            if number % 20 == 10:
                self._review()
            if number % 97 == 50:
                self._meddle()
            if number % 97 == 60:
                self._restore()
            if number % max(1, rounds // 40) == 0:
                self.samples.append(self._sample(wires, (number + 1) * len(wires)))

    # --- the agents -----------------------------------------------------------------------------

    def _call(self) -> tuple[str, dict[str, Any]]:
        pick = self._random.random()
        if pick < 0.30:
            return "spike_status", {}
        if pick < 0.45:
            return self._look()
        if pick < 0.85:
            return self._write()
        if pick < 0.88:
            return "spike_run_test", {}
        return self._nonsense()

    def _look(self) -> tuple[str, dict[str, Any]]:
        path = self._random.choice([*FILES, "src/run.sh", "tests/test_oracle.py"])
        return self._random.choice(
            [
                ("spike_read_file", {"path": path}),
                ("spike_list_files", {"pattern": "src/**"}),
                ("spike_search_files", {"pattern": "line", "path": "src"}),
            ]
        )

    def _write(self) -> tuple[str, dict[str, Any]]:
        """A write that fits the file as it is now, unless another client is faster."""
        path = self._random.choice(FILES)
        try:
            text = (self.root / "work" / path).read_text()
        except OSError:
            lines = "".join(f"line {number}\n" for number in range(40))
            return "spike_write_file", {"path": path, "content": lines, "rationale": WHY}
        lines = text.splitlines()
        at = self._random.randrange(len(lines))
        if self._random.random() < 0.1 and (last := len(self.human.state.patches)):
            patch = f"P{self._random.randint(max(1, last - 3), last)}"
            return "spike_revert_patch", {"patch_id": patch, "rationale": WHY}
        new = f"line {at} {self._random.randrange(1000)}"
        if self._random.random() < 0.3:
            patch = f"--- a/{path}\n+++ b/{path}\n@@ -{at + 1} +{at + 1} @@\n-{lines[at]}\n+{new}\n"
            return "spike_apply_patch", {"patch": patch, "rationale": WHY}
        old, new = f"{lines[at]}\n", f"{new}\n"
        wanted = {"path": path, "old_text": old, "new_text": new, "rationale": WHY}
        return "spike_edit_file", wanted

    def _nonsense(self) -> tuple[str, dict[str, Any]]:
        return self._random.choice(
            [
                ("spike_read_file", {"path": "../judge/ledger.jsonl"}),
                ("spike_write_file", {"path": "tests/x.py", "content": "x", "rationale": WHY}),
                ("spike_edit_file", {"path": 7}),
                ("spike_approve", {"hunk": "h1"}),
                ("spike_apply_patch", {"patch": "no patch", "rationale": WHY}),
                ("spike_report", {"kind": "unknown", "text": "needs the network"}),
            ]
        )

    # --- the human ------------------------------------------------------------------------------

    def _review(self) -> None:
        """Decide on all that waits: most is approved, some rejected or remarked on."""
        self.human.refresh()
        for hunk in hunk_map(self.human).pending:
            pick = self._random.random()
            try:
                if pick < 0.6:
                    decisions.approve(self.human, [hunk.id], TAG, sha=hunk.view, acks=["all"])
                    self.decided["approved"] += 1
                elif pick < 0.9:
                    rejecting.reject(self.human, [hunk.id], "not this way")
                    self.decided["rejected"] += 1
                else:
                    decisions.comment(self.human, hunk.id, "why?")
                    self.decided["comment"] += 1
            except Problem as problem:
                self.decided[str(problem.code)] += 1

    # --- somebody else --------------------------------------------------------------------------

    def _meddle(self) -> None:
        """Write into work/ past every tool."""
        self.meddled += 1
        work = self.root / "work/src"
        (work / "stray.txt").write_text("not yours\n")
        (work / "notes.txt").write_text(f"meddled {self.meddled}\n")
        (work / "__pycache__").mkdir(exist_ok=True)
        (work / "__pycache__" / "x.pyc").write_bytes(b"\0" * 16)

    def _restore(self) -> None:
        row = decisions.restore(self.human, everything=True)
        self.decided["restored"] += len(row.paths)

    # --- what is looked at ----------------------------------------------------------------------

    def _sample(self, wires: list[Wire], calls: int) -> Sample:
        pids = [wire.process.pid for wire in wires]
        facts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
        return Sample(
            calls,
            [_fact(text, "VmRSS:") for text in facts],
            [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids],
            [len(Path(f"/proc/{p}/task/{p}/children").read_text().split()) for p in pids],
            [_fact(text, "Threads:") for text in facts],
        )

    def leftovers(self) -> list[str]:
        """Temporary files and processes that nobody owns any more."""
        found = [str(path) for path in self._temporary.rglob("*")]
        found += [str(path) for path in self.root.rglob("*.tmp")]
        return found + [f"process {pid}" for pid in processes(str(self.root))]

    def verified(self) -> tuple[bool, tuple[str, ...]]:
        """`spike verify`: chain, seals, map."""
        told = ending.verify(self.root)
        return told.ok, told.findings


def _fact(status: str, name: str) -> int:
    return int(status.split(name)[1].split()[0])
