"""What a server does between calls, after the first one (spec 5, 6, 9).

Counted refusals become a row, the worktree is looked over when nobody is calling, and at the end of
the total the verdict is asked for: by a command of its own, so that it outlives the agent's client.
"""

from __future__ import annotations

import subprocess
import sys
import time

from spike_mcp.core.clock import elapsed as elapsed_at
from spike_mcp.session import observe
from spike_mcp.session.agent import FLUSH_SECONDS, AgentDesk
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import transaction

TICK_SECONDS = 1.0
IDLE_SECONDS = 1.0
"""Nobody has called for this long: the tree may be swept."""
SWEEP_SECONDS = 15.0
"""Least time between two sweeps; a slow one is made rarer still."""
SWEEP_SHARE = 0.02
"""Most of the time that sweeping may take."""
LOCK_SECONDS = 0.5
ASK_SECONDS = 60.0
ASK_TRIES = 3
"""How often the verdict is asked for, and the pause between."""


def seconds_left(spike: Spike) -> float | None:
    """Seconds until the total is spent; None before the start and once the spike is closed."""
    state = spike.state
    if state.clock is None or state.verdict or state.killed:
        return None
    return spike.contract.budgets.total * 60 - elapsed_at(state.clock, spike.clock.read())


class Chores:
    """The chores of one server; `do` runs under the service's turn, so one thread at a time."""

    def __init__(self, desk: AgentDesk) -> None:
        self._desk = desk
        self._waiting_since: float | None = None
        self._next_sweep = time.monotonic() + SWEEP_SECONDS
        self._verdict: subprocess.Popen[bytes] | None = None
        self._asked = 0
        self._next_ask = 0.0

    def pause(self) -> float:
        """Seconds until `do` is due again: a tick, or less where the total ends before that."""
        left = seconds_left(self._desk.spike)
        return TICK_SECONDS if left is None else max(0.02, min(TICK_SECONDS, left + 0.01))

    def do(self, idle: float) -> bool:
        """Do what is due; `idle` = seconds without a call. True: the total is over, no verdict yet.

        Raises `Problem` where the lock can't be had.
        """
        spike = self._desk.spike
        spike.refresh()
        self._flush()
        left = seconds_left(spike)
        if left is None or spike.damage:
            return False
        if left <= 0:
            self._desk.flush()
            return True
        if idle > IDLE_SECONDS and time.monotonic() >= self._next_sweep:
            self._sweep(spike)
        return False

    def _flush(self) -> None:
        """Counted refusals wait a little less than the longest time allowed."""
        now = time.monotonic()
        if not self._desk.repeats_waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= FLUSH_SECONDS - 2 * TICK_SECONDS:
            self._desk.flush()
            self._waiting_since = None

    def _sweep(self, spike: Spike) -> None:
        began = time.monotonic()
        try:
            with transaction(spike, human=False, timeout=LOCK_SECONDS) as tx:
                if not spike.damage and not observe.pointer_findings(spike):
                    observe.sweep(tx)
        finally:
            now = time.monotonic()
            self._next_sweep = now + max(SWEEP_SECONDS, (now - began) / SWEEP_SHARE)

    def ask_for_verdict(self) -> None:
        """Start `spike verdict --final`, on its own: the client may end this process now.

        Called while no verdict is written: a command that came to nothing (a full disk, a busy
        lock) is tried again, a few times. Never from the worktree or the client's directory:
        Python would import from there.
        """
        now = time.monotonic()
        running = self._verdict is not None and self._verdict.poll() is None
        if running or self._asked == ASK_TRIES or now < self._next_ask:
            return
        self._asked += 1
        self._next_ask = now + ASK_SECONDS
        command = ["-m", "spike_mcp.edge.cli", "verdict", "--final"]
        self._verdict = subprocess.Popen(
            [sys.executable, "-P", *command, "--spike", str(self._desk.spike.root)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
