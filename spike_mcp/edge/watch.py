"""`spike watch`: one line per event, a bell when the human is needed, the verdict at the deadline.

It rings (BEL and `--exec CMD`) when a hunk becomes pending, when the agent reports, and 10, 5 and 1
minutes before writes stop and before the end. CMD is no shell line: it is split like one, and run
with SPIKE_NAME, SPIKE_ROOT, SPIKE_EVENT (pending, reported, outside, writes, end, verdict) and
SPIKE_MESSAGE in its environment; nobody waits for it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from spike_mcp.core import events as ev
from spike_mcp.core import mapping
from spike_mcp.core.codes import Exit, Problem, Refusal, Usage
from spike_mcp.core.hunks import short_ids
from spike_mcp.edge.present import clock, counted
from spike_mcp.edge.story import tell
from spike_mcp.edge.text import safe_line
from spike_mcp.session import judging
from spike_mcp.session.spike import Spike
from spike_mcp.session.status import Status, status

POLL_SECONDS = 0.5
MARKS = (10, 5, 1)
"""Minutes before the cut-off and before the end at which it rings."""

AfterVerdict = Callable[[Spike], object]


class Ringer(Protocol):
    """How the human is called."""

    def __call__(self, event: str, message: str) -> None:
        """Ring for `event`; `message` is safe text on one line."""


@dataclass
class Bell:
    """BEL on the terminal, and a command of the human's."""

    out: TextIO
    name: str
    root: str
    bell: bool = True
    argv: tuple[str, ...] = ()
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __call__(self, event: str, message: str) -> None:
        """Ring; a command that can't be started is said, not raised."""
        if self.bell and self.out.isatty():
            self.out.write("\a")
            self.out.flush()
        self._children = [child for child in self._children if child.poll() is None]
        if not self.argv:
            return
        env = {
            **os.environ,
            "SPIKE_NAME": self.name,
            "SPIKE_ROOT": self.root,
            "SPIKE_EVENT": event,
            "SPIKE_MESSAGE": message,
        }
        try:
            child = subprocess.Popen(
                self.argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self.out.write(f"could not run {safe_line(self.argv[0])}: {error.strerror}\n")
            return
        self._children.append(child)


@dataclass
class Watcher:
    """Follows one spike. `step` does everything that is due and says whether to go on."""

    spike: Spike
    out: TextIO
    ring: Ringer
    after_verdict: AfterVerdict = lambda _spike: None
    _pending: frozenset[str] = frozenset()
    _told: set[tuple[str, int]] = field(default_factory=set)
    _end_tried: float = -1e9

    def begin(self) -> bool:
        """Say where the spike stands; False if there is nothing to watch any more."""
        now = self._status()
        self._pending = self._pending_ids()
        self._skip_marks(now)
        name = safe_line(now.spike)
        if now.phase == "closed":
            self.say(f"{name} is closed: {safe_line(now.verdict or 'killed')}")
            return False
        self.say(f"watching {name}: {now.phase}; {self._counts(now)}")
        if self._pending:
            self._ring_pending(self._pending, now)
        return True

    def step(self) -> bool:
        """New rows, bells that are due, the verdict at the deadline; False at the end."""
        self._follow()
        now = self._status()
        pending = self._pending_ids()
        fresh, self._pending = pending - self._pending, pending
        if fresh:
            self._ring_pending(fresh, now)
        self._ring_marks(now)
        if self.spike.damage:
            self.say(f"the ledger is damaged: {safe_line(self.spike.damage)}")
            return False
        if now.phase == "over":
            self._end()
            return True
        if now.phase == "closed":
            self._closed(now)
            return False
        return True

    def say(self, text: str) -> None:
        """One line, with the spike's own clock before it."""
        now = self.spike.state.clock
        stamp = clock(now.advance(self.spike.clock.read()).elapsed) if now else "-"
        coding = self.out.encoding or "utf-8"
        line = f"{stamp:>6}  {text}".encode(coding, "backslashreplace").decode(coding)
        self.out.write(line + "\n")
        self.out.flush()

    def _follow(self) -> None:
        """Fold rows one by one, so that each can be told with the state after it."""
        spike = self.spike
        try:
            rows = spike.ledger.read()
        except Problem as problem:
            if problem.code is not Refusal.LEDGER_DAMAGED:
                raise
            spike.damage = problem.message
            return
        for row in rows:
            event = spike.take(row)
            if event is None:
                self.say(f"row {row.seq} ({safe_line(row.event)}) counts for nothing")
                continue
            told = tell(event, spike.state)
            if told is not None:
                self.say(f"{row.actor.value}: {told.text}")
                if isinstance(event, ev.Reported | ev.OutOfBandSeen):
                    self.ring("reported" if told.tone == "ask" else "outside", told.text)

    def _status(self) -> Status:
        return status(self.spike, self.spike.clock.read())

    def _pending_ids(self) -> frozenset[str]:
        state = self.spike.state
        return frozenset(h.id for h in mapping.span_hunks(state) if mapping.is_pending(state, h))

    def _counts(self, now: Status) -> str:
        writes = now.writes_close_in
        stop = f"writes stop in {clock(writes)}" if writes > 0 else "writes closed"
        return f"{counted(now.pending, 'hunk')} pending, {stop}, {clock(now.remaining)} left"

    def _ring_pending(self, fresh: frozenset[str], now: Status) -> None:
        state = self.spike.state
        paths = {h.id: h.path for h in mapping.span_hunks(state)}
        names = short_ids(fresh, state.hunk_ids)
        first = sorted(fresh, key=lambda each: paths[each])[:3]
        shown = ", ".join(f"{names[each]} {safe_line(paths[each], 80)}" for each in first)
        more = " …" if len(fresh) > 3 else ""
        count = counted(len(self._pending), "hunk")
        stop = f"   writes stop in {clock(now.writes_close_in)}" if now.writes_close_in > 0 else ""
        message = f"{count} pending ({shown}{more}). Review: spike review{stop}"
        self.say(message)
        self.ring("pending", message)

    # --- the clock ------------------------------------------------------------------------------

    def _left(self, now: Status) -> dict[str, float]:
        if now.phase in ("created", "closed"):
            return {}
        return {"writes": now.writes_close_in, "end": now.remaining}

    def _skip_marks(self, now: Status) -> None:
        for what, left in self._left(now).items():
            self._told |= {(what, mark) for mark in (*MARKS, 0) if left <= mark * 60}

    def _ring_marks(self, now: Status) -> None:
        words = {"writes": "writes stop in", "end": "the spike ends in"}
        for what, left in self._left(now).items():
            due = [m for m in (*MARKS, 0) if left <= m * 60 and (what, m) not in self._told]
            self._told |= {(what, mark) for mark in due}
            if due and left > 0:
                message = f"{words[what]} {clock(left)}; {counted(now.pending, 'hunk')} pending"
                self.say(message)
                self.ring(what, message)
            elif due and what == "writes":
                end = clock(self.spike.contract.budgets.total * 60)
                message = (
                    f"agent writes are closed. {counted(now.pending, 'hunk')} pending: decide "
                    f"before {end} or the verdict is KILL (deadline exceeded)"
                )
                self.say(message)
                self.ring(what, message)

    def _end(self) -> None:
        """The total is spent: have the verdict written, by whoever gets the lock."""
        if time.monotonic() - self._end_tried < 5.0:
            return
        self._end_tried = time.monotonic()
        self.say("the time is spent; the state at this moment is judged")
        try:
            judging.at_deadline(self.spike)
        except Problem as problem:
            self.say(f"not written yet: {safe_line(problem.message)}")

    def _closed(self, now: Status) -> None:
        text = f"{safe_line(now.verdict or 'closed by the human')}"
        self.ring("verdict", text)
        self.after_verdict(self.spike)
        self.say(f"{text}. Evidence: {safe_line(str(self.spike.verdict_dir))}")


def main(
    spike: Spike,
    exec_cmd: str | None = None,
    bell: bool = True,
    out: TextIO | None = None,
    after_verdict: AfterVerdict = lambda _spike: None,
) -> int:
    """`spike watch`: until the spike is closed; the exit code.

    `after_verdict` is called once the verdict is there (the command line writes the report then).
    `Problem(USAGE)` for a command that can't be split into words.
    """
    stdout = out or sys.stdout
    try:
        argv = tuple(shlex.split(exec_cmd)) if exec_cmd else ()
    except ValueError as error:
        raise Problem(Usage.USAGE, f"--exec: {error}", "quote the command's words") from error
    ring = Bell(stdout, safe_line(spike.contract.name), str(spike.root), bell, argv)
    watcher = Watcher(spike, stdout, ring, after_verdict)
    if not watcher.begin():
        return int(Exit.OK)
    while watcher.step():
        time.sleep(POLL_SECONDS)
    return int(Exit.TAMPERED if spike.damage else Exit.OK)
