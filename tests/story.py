"""A spike as rows alone, with a clock that moves when told: for the pure part of the rules."""

from dataclasses import dataclass, field

from spike_mcp.core import events as ev
from spike_mcp.core import timing
from spike_mcp.core.budgets import Budgets
from spike_mcp.core.codes import Actor, Checkpoint
from spike_mcp.core.model import Entry, State
from spike_mcp.core.state import evolve
from spike_mcp.host.clock import ManualClock


@dataclass
class Story:
    """Rows are folded as they are told; `settle` appends what has fallen due, as each lock does."""

    budgets: Budgets = field(default_factory=Budgets)
    clock: ManualClock = field(default_factory=ManualClock)
    state: State = field(default_factory=State)
    rows: list[ev.Event] = field(default_factory=list)
    green: bool = False

    def add(self, *rows: ev.Event, actor: Actor = Actor.HOST) -> "Story":
        """Rows at the present moment."""
        for row in rows:
            self.rows.append(row)
            entry = Entry(len(self.rows), self.clock.read(), actor, row)
            self.state = evolve(self.state, entry)
        return self

    def start(self) -> "Story":
        """Setup and reproduce, met in no time."""
        self.add(ev.Started())
        for name in (Checkpoint.SETUP, Checkpoint.REPRODUCE):
            self.open(name).stop(met=True)
        return self

    def open(self, name: Checkpoint = Checkpoint.ATTEMPT) -> "Story":
        """A visit begins."""
        return self.add(ev.CheckpointStarted(name.value))

    def stop(self, *, met: bool = False, why: str = "human", lowered: bool = False) -> "Story":
        """The open visit ends."""
        row = timing.stop_row(
            self.state, self.budgets, self.elapsed, met=met, why=why, lowered=lowered
        )
        return self.add(row)

    def tick(self, minutes: float) -> "Story":
        """Time passes; nobody looks."""
        self.clock.tick(minutes * 60)
        return self

    def settle(self) -> "Story":
        """Somebody looks."""
        for _ in range(8):
            row = next(timing.due(self.state, self.budgets, self.elapsed, green=self.green), None)
            if row is None:
                return self
            self.add(row)
        raise AssertionError("rows fall due without end")

    @property
    def elapsed(self) -> float:
        """Seconds since the start, now."""
        clock = self.state.clock
        return clock.advance(self.clock.read()).elapsed if clock else 0.0

    def stops(self, name: Checkpoint = Checkpoint.ATTEMPT) -> list[ev.CheckpointStopped]:
        """Stop rows of one checkpoint."""
        found = [row for row in self.rows if isinstance(row, ev.CheckpointStopped)]
        return [row for row in found if row.checkpoint == name]

    def over(self, name: Checkpoint = Checkpoint.ATTEMPT) -> bool:
        """Whether a checkpoint is over now."""
        return timing.is_over(self.state, self.budgets, name, self.elapsed)
