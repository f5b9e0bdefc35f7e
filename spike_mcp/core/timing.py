"""The clock's rules: what is left, and which checkpoint rows have fallen due (spec 5).

All functions are pure; `elapsed` is in seconds, allowances and results named `minutes` in minutes.
Nobody has to wake up at a deadline: whoever looks next appends the rows that `due` names, with the
minutes of the moment at which they fell due.
"""

import math
from collections.abc import Iterator

from spike_mcp.core import events as ev
from spike_mcp.core.codes import Checkpoint
from spike_mcp.core.contract import Budgets
from spike_mcp.core.model import State
from spike_mcp.core.state import used_minutes, visit_minutes

_EPSILON = 1e-4
"""Minutes (6 ms) that a row's rounding may hide; shorter differences are none."""


def allowance(budgets: Budgets, name: Checkpoint) -> float:
    """Minutes that a checkpoint may take over all its visits."""
    return float(getattr(budgets, name.value))


def remaining_seconds(state: State, budgets: Budgets, elapsed: float) -> float:
    """Seconds left of the total; the whole total before the start."""
    return max(0.0, budgets.total * 60 - (elapsed if state.started else 0.0))


def left_minutes(state: State, budgets: Budgets, name: Checkpoint, elapsed: float) -> float:
    """Minutes left of a checkpoint's allowance."""
    return max(0.0, allowance(budgets, name) - used_minutes(state, name, elapsed))


def writes_close_in_seconds(state: State, budgets: Budgets, elapsed: float) -> float:
    """Seconds until writes stop: the earlier of the cut-off and the attempt's allowance."""
    cut_off = max(0.0, budgets.write_cutoff * 60 - (elapsed if state.started else 0.0))
    attempt = state.checkpoints[Checkpoint.ATTEMPT]
    if attempt.extended:
        return cut_off
    return min(cut_off, left_minutes(state, budgets, Checkpoint.ATTEMPT, elapsed) * 60)


def is_over(state: State, budgets: Budgets, name: Checkpoint, elapsed: float) -> bool:
    """Whether a checkpoint has run past its allowance, its open visit included."""
    used = used_minutes(state, name, elapsed)
    return state.checkpoints[name].over or _exceeds(budgets, name, used)


def _exceeds(budgets: Budgets, name: Checkpoint, used: float) -> bool:
    return used > allowance(budgets, name) + _EPSILON


def is_spent(state: State, budgets: Budgets, name: Checkpoint, elapsed: float) -> bool:
    """Whether nothing is left of a checkpoint's allowance; at the very end it is not over yet."""
    return left_minutes(state, budgets, name, elapsed) <= _EPSILON


def ready(state: State) -> bool:
    """Whether setup and reproduce are met: before that no tool of the agent answers."""
    return all(
        state.checkpoints[name].met is True for name in (Checkpoint.SETUP, Checkpoint.REPRODUCE)
    )


def may_open_attempt(state: State, budgets: Budgets, elapsed: float, *, human: bool) -> bool:
    """Whether a write or a run opens (or resumes) the attempt.

    What a human or the agent's own `done` closed, only a human's command resumes. Nothing does
    after the verdict, or once a hidden part has started.
    """
    if state.verdict is not None or state.killed is not None or state.hidden_started:
        return False
    attempt = state.checkpoints[Checkpoint.ATTEMPT]
    if state.visit is not None or not ready(state) or attempt.over:
        return False
    if attempt.closed_by in ("done", "human") and not human:
        return False
    return not is_spent(state, budgets, Checkpoint.ATTEMPT, elapsed)


def verify_due_at(state: State, budgets: Budgets) -> float:
    """Elapsed seconds from which verify runs by itself: total minus its unspent allowance."""
    unspent = max(0.0, budgets.verify - state.checkpoints[Checkpoint.VERIFY].used)
    return (budgets.total - unspent) * 60


def stop_row(
    state: State,
    budgets: Budgets,
    elapsed: float,
    *,
    met: bool,
    why: str,
    lowered: bool = False,
) -> ev.CheckpointStopped:
    """The row that ends the open visit at `elapsed`. Needs an open visit.

    `over` stands in the row of the visit that ran past the allowance and in no later one, so that
    a reader who counts rows counts checkpoints.
    """
    if state.visit is None:
        raise ValueError("no checkpoint is open")
    name = state.visit.checkpoint
    before = state.checkpoints[name]
    minutes = round(visit_minutes(state, elapsed), 4)
    allowed = max(0.0, allowance(budgets, name) - before.used)
    known = before.over and not before.over_told
    return ev.CheckpointStopped(
        checkpoint=name.value,
        minutes=minutes,
        allowed=round(allowed, 4),
        over=known or (not before.over and _exceeds(budgets, name, before.used + minutes)),
        met=met and not lowered,
        why=why,
        lowered=lowered,
    )


def due(state: State, budgets: Budgets, elapsed: float, *, green: bool) -> Iterator[ev.Event]:
    """The next row that has fallen due by `elapsed`, at most one; call again after folding it.

    `green`: whether the tree as it is has a green measurement. Nothing falls due before the
    start, after the verdict, or past the total (the verdict's own rows end what is open). What fell
    due first comes first, however late somebody looks.
    """
    if not state.started or state.verdict or state.killed:
        return
    elapsed = min(elapsed, budgets.total * 60)
    spent_at = _attempt_spent_at(state, budgets, elapsed)
    ends_at = min(elapsed, _verify_opens_at(state, budgets))
    if green and spent_at <= ends_at:
        yield stop_row(state, budgets, spent_at, met=True, why="allowance")
    elif spent_at + _EPSILON * 60 < ends_at:
        yield ev.AllowanceSpent(Checkpoint.ATTEMPT.value)
    else:
        yield from _verify_due(state, budgets, elapsed, green=green)


def _attempt_spent_at(state: State, budgets: Budgets, elapsed: float) -> float:
    """Elapsed seconds at which the open attempt used up its allowance; infinite if it has not."""
    visit = state.visit
    if visit is None or visit.checkpoint is not Checkpoint.ATTEMPT:
        return math.inf
    if state.checkpoints[Checkpoint.ATTEMPT].over:
        return math.inf
    excess = used_minutes(state, Checkpoint.ATTEMPT, elapsed) - budgets.attempt
    return elapsed - max(0.0, excess) * 60 if excess > -_EPSILON else math.inf


def _verify_opens_at(state: State, budgets: Budgets) -> float:
    """When verify's turn ends the attempt; infinite where it has no time left to open."""
    at = verify_due_at(state, budgets)
    return at if at < budgets.total * 60 else math.inf


def _verify_due(
    state: State, budgets: Budgets, elapsed: float, *, green: bool
) -> Iterator[ev.Event]:
    at = verify_due_at(state, budgets)
    visit = state.visit
    if elapsed < at or not ready(state):
        return
    if visit is not None and visit.checkpoint is Checkpoint.VERIFY:
        return
    if visit is not None:
        is_attempt = visit.checkpoint is Checkpoint.ATTEMPT
        moment = max(at, visit.opened)
        yield stop_row(state, budgets, moment, met=green and is_attempt, why="verify")
    elif not is_spent(state, budgets, Checkpoint.VERIFY, elapsed):
        yield ev.CheckpointStarted(Checkpoint.VERIFY.value, since=at)
