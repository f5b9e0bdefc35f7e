"""An opened spike as the server holds it: the agent's desk, its runs, its chores.

Everything in here costs imports that a server which is only started and stopped should not pay:
`edge.service` loads it with the first call (spec 15).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spike_mcp.core import layout, timing
from spike_mcp.core.clock import elapsed as elapsed_at
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge.chores import Chores
from spike_mcp.edge.replies import Answer
from spike_mcp.edge.running import Locked, Runner
from spike_mcp.host.clock import Clock
from spike_mcp.session.agent import AgentDesk, Reply
from spike_mcp.session.spike import Spike


class Opened:
    """What there is once the spike is open. Its methods are for one thread at a time."""

    def __init__(self, desk: AgentDesk, locked: Locked) -> None:
        self.desk = desk
        self.runner = Runner(desk, locked)
        self.chores = Chores(desk)
        judge, verdict = desk.spike.root / layout.JUDGE, desk.spike.root / layout.VERDICT
        self.secrets = (str(judge), str(verdict))
        """Paths that must not stand in an answer."""

    @property
    def is_gone(self) -> bool:
        """Whether the spike's judge was removed meanwhile (`spike rm`)."""
        return not (self.desk.spike.judge / layout.LEDGER).is_file()

    def ask(self, name: str, arguments: Mapping[str, Any] | None, client: str) -> Reply:
        """Pass the gate. A reply with a ticket or a joined run is not the answer yet."""
        if client and not self.desk.client:
            self.desk.client = client
        return self.runner.checked(self.desk.call(name, arguments))

    def glance(self, arguments: Mapping[str, Any] | None, client: str) -> Reply | None:
        """`spike_status` without waiting for anything: None where it is no mere look."""
        if client and not self.desk.client:
            self.desk.client = client
        return self.desk.glance(arguments)

    def told(
        self, name: str, arguments: Mapping[str, Any] | None, begun: Reply, end: Reply
    ) -> Reply:
        """The end of a run, with the news that its beginning had already taken from the ledger.

        After the total there is no result any more: the gate says so.
        """
        end = self.desk.news(end)
        if end.outcome == "accepted" and not end.remaining:
            again = self.desk.call(name, arguments)
            if again.outcome == "refused":
                return again
        before = feedback(begun)
        if not before:
            return end
        return replace(end, data={**end.data, "feedback": (*before, *feedback(end))})

    def answer(self, reply: Reply) -> Answer:
        """A reply for the wire: the human's words apart from the rest."""
        news = feedback(reply)
        lines = tuple(line for line in reply.lines if line not in news) if news else reply.lines
        data = {key: value for key, value in reply.data.items() if key != "feedback"}
        return Answer(reply.outcome, lines, data, reply.code, news, self.seconds(reply))

    def seconds(self, reply: Reply | None = None) -> tuple[float, float] | None:
        """(left of the total, until writes close); as the reply has it, if it has."""
        if reply is not None and reply.remaining:
            return reply.remaining, reply.writes_close
        spike = self.desk.spike
        state = spike.state
        try:
            budgets = spike.contract.budgets
        except Problem:
            return None
        elapsed = elapsed_at(state.clock, spike.clock.read()) if state.clock else 0.0
        return (
            timing.remaining_seconds(state, budgets, elapsed),
            timing.writes_close_in_seconds(state, budgets, elapsed),
        )


def open_spike(root: Path, clock: Clock | None, session: str, tier: str, locked: Locked) -> Opened:
    """Open the spike at `root` for the agent. `Problem` where that can't be."""
    try:
        spike = Spike(root, clock)
        spike.check_owner()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Problem(
            Refusal.NOT_AUTHORISED,
            f"the spike can't be opened: {reason}",
            "the server must run as the user that ran `spike init`",
        ) from error
    return Opened(AgentDesk(spike, session, tier), locked)


def feedback(reply: Reply) -> tuple[str, ...]:
    """What the human said since the last call; these stand among the reply's lines too."""
    return tuple(reply.data.get("feedback", ()))
