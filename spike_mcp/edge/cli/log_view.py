"""The ledger as lines for people: number, time since the start, who, what happened in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from spike_mcp.core import events as ev
from spike_mcp.core.model import Entry, State
from spike_mcp.core.rows import Row
from spike_mcp.core.state import evolve
from spike_mcp.edge.cli.layout import clock, wrap
from spike_mcp.edge.cli.out import Line
from spike_mcp.edge.story import tell
from spike_mcp.edge.text import safe_line

_NARROWEST = 24
_TONES = {"good": "green", "bad": "red", "ask": "yellow"}


class Told(NamedTuple):
    """One row in words. `elapsed`: seconds since the start, None before it."""

    row: Row
    elapsed: float | None
    text: str
    tone: str


def told_rows(rows: Iterable[Row]) -> Iterator[Told]:
    """Rows in words, folded as they are told: what a row means can depend on those before it."""
    state = State()
    for row in rows:
        text, tone = "", "plain"
        try:
            event = ev.decode(row.event, row.fields)
            state = evolve(state, Entry(row.seq, row.reading, row.actor, event))
            told = tell(event, state)
            text = _prepares(event)
            if told is not None:
                text, tone = told.text, told.tone
        except (KeyError, TypeError, ValueError):
            text = _plain(row.fields)  # a row of a newer program: its plain fields say something
        yield Told(row, state.elapsed if state.started else None, text, tone)


def _prepares(event: ev.Event) -> str:
    """What a row is for that a timeline leaves out: the ledger's listing leaves out nothing."""
    match event:
        case ev.PatchStarted():
            return f"{event.patch} is about to be written"
        case ev.RejectStarted():
            undone = event.decision.removeprefix("U")
            what = event.decision if undone == event.decision else f"taking back {undone}"
            return f"{what} is about to change files"
        case ev.FeedbackDelivered():
            return "the agent was told what the human decided"
    return ""


def _plain(fields: Mapping[str, Any]) -> str:
    found = [f"{name}={value}" for name, value in fields.items() if isinstance(value, str | int)]
    return safe_line(" ".join(found), 200)


def row_lines(told: Told, width: int) -> Iterator[Line]:
    """`  12   3:04  agent        patch_applied       P1 ...`; long texts go on below."""
    when = "-" if told.elapsed is None else clock(told.elapsed)
    row = told.row
    head = f"{row.seq:>4}  {when:>6}  {row.actor.value:<11}  "
    event = f"{safe_line(row.event, 40):<18}  "
    beside = len(head) + len(event)
    style = _TONES.get(told.tone, "")
    first, *rest = wrap(told.text, max(width - beside, _NARROWEST) if width else 0)
    yield [(head, "dim"), (f"{event}{first}".rstrip(), style)]
    for line in rest:
        yield [(f"{' ' * beside}{line}", style)]
