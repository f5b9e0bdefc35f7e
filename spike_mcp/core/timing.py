"""The clock's rules: what is left, and which checkpoint rows have fallen due (spec 5).

All functions are pure; `elapsed` is in seconds, allowances and results named `minutes` in minutes.
Nobody has to wake up at a deadline: whoever looks next appends the rows that `due` names, with the
minutes of the moment at which they fell due.
"""

from collections.abc import Iterator

from spike_mcp.core import events as ev
from spike_mcp.core.codes import Checkpoint
from spike_mcp.core.contract import Budgets
from spike_mcp.core.model import State
from spike_mcp.core.state import used_minutes, visit_minutes

_EPSILON = 1e-6


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
    return state.checkpoints[name].over or used > allowance(budgets, name) + _EPSILON


def ready(state: State) -> bool:
    """Whether setup and reproduce are met: before that no tool of the agent answers."""
    return all(
        state.checkpoints[name].met is True for name in (Checkpoint.SETUP, Checkpoint.REPRODUCE)
    )


def may_open_attempt(state: State, budgets: Budgets, elapsed: float, *, human: bool) -> bool:
    """Whether a write or a run opens (or resumes) the attempt.

    What a human or the agent's own `done` closed, only a human's command resumes.
    """
    attempt = state.checkpoints[Checkpoint.ATTEMPT]
    if state.visit is not None or not ready(state) or attempt.over:
        return False
    if attempt.closed_by in ("done", "human") and not human:
        return False
    return left_minutes(state, budgets, Checkpoint.ATTEMPT, elapsed) > _EPSILON


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
    """The row that ends the open visit at `elapsed`. Needs an open visit."""
    if state.visit is None:
        raise ValueError("no checkpoint is open")
    name = state.visit.checkpoint
    before = state.checkpoints[name]
    minutes = visit_minutes(state, elapsed)
    allowed = max(0.0, allowance(budgets, name) - before.used)
    return ev.CheckpointStopped(
        checkpoint=name.value,
        minutes=round(minutes, 4),
        allowed=round(allowed, 4),
        over=before.over or minutes > allowed + 1e-4,
        met=met and not lowered,
        why=why,
        lowered=lowered,
    )


def due(state: State, budgets: Budgets, elapsed: float, *, green: bool) -> Iterator[ev.Event]:
    """The next row that has fallen due by `elapsed`, at most one; call again after folding it.

    `green`: whether the tree as it is has a green measurement. Nothing falls due before the
    start, after the verdict, or past the total (the verdict's own rows end what is open).
    """
    if not state.started or state.verdict or state.killed:
        return
    elapsed = min(elapsed, budgets.total * 60)
    yield from _attempt_due(state, budgets, elapsed, green=green)


def _attempt_due(
    state: State, budgets: Budgets, elapsed: float, *, green: bool
) -> Iterator[ev.Event]:
    visit, attempt = state.visit, state.checkpoints[Checkpoint.ATTEMPT]
    if visit is not None and visit.checkpoint is Checkpoint.ATTEMPT and not attempt.over:
        excess = used_minutes(state, Checkpoint.ATTEMPT, elapsed) - budgets.attempt
        if excess > _EPSILON:
            at = elapsed - excess * 60
            if green:
                yield stop_row(state, budgets, at, met=True, why="allowance")
            else:
                yield ev.AllowanceSpent(Checkpoint.ATTEMPT.value)
            return
    yield from _verify_due(state, budgets, elapsed, green=green)


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
    elif left_minutes(state, budgets, Checkpoint.VERIFY, elapsed) > _EPSILON:
        yield ev.CheckpointStarted(Checkpoint.VERIFY.value, since=at)
