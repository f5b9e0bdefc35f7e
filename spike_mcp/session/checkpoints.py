"""`spike checkpoint start|stop|extend`: the clock by hand (spec 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spike_mcp.core import events as ev
from spike_mcp.core import timing
from spike_mcp.core.codes import Actor, Checkpoint, Problem, Refusal
from spike_mcp.core.requests import CheckpointCommand
from spike_mcp.session import decisions
from spike_mcp.session.spike import Spike
from spike_mcp.session.starting import closed, do_reproduce, do_setup, refuse_if_over
from spike_mcp.session.transaction import Transaction, transaction

_VOID = "budget void, close the spike and write the verdict"


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """The row that was written and what to tell the human about it."""

    name: str
    action: str
    over: bool
    met: bool | None
    message: str
    overruled: bool = False


def checkpoint(
    spike: Spike,
    action: str,
    name: str,
    *,
    met: str = "",
    on_progress: Callable[[str], None] = lambda _text: None,
) -> CheckpointResult:
    """`spike checkpoint start|stop|extend NAME [--met yes|no]`.

    The human can lower `met` to no, never raise it: `--met yes` against the evidence is recorded as
    no and `overruled` is set (exit 78).
    """
    which = Checkpoint(name)
    step = action == "stop" and which in (Checkpoint.SETUP, Checkpoint.REPRODUCE)
    with transaction(spike, human=True) as tx:
        decisions.gate(tx, CheckpointCommand(), f"checkpoint {action}")
        with decisions.ledgered(tx, f"checkpoint {action}"):
            refuse_if_over(tx)
            if step:
                _check_running(tx, which)
            elif action == "start":
                return _manual_start(tx, which)
            elif action == "extend":
                return _extend(tx, which)
            else:
                return _manual_stop(tx, which, met)
    _manual_step(spike, which, on_progress, lowered=met == "no")
    return _result_of(spike, which, "stop")


def _manual_step(
    spike: Spike, which: Checkpoint, on_progress: Callable[[str], None], *, lowered: bool
) -> None:
    """In manual mode stopping a step does the step: its evidence is what `met` means."""
    if which is Checkpoint.SETUP:
        do_setup(spike, on_progress, lowered=lowered)
    else:
        do_reproduce(spike, on_progress, lowered=lowered)


def _result_of(spike: Spike, which: Checkpoint, action: str) -> CheckpointResult:
    found = spike.state.checkpoints[which]
    message = _VOID if found.over else f"{which} stopped"
    return CheckpointResult(which.value, action, found.over, found.met, message)


def _manual_start(tx: Transaction, which: Checkpoint) -> CheckpointResult:
    state = tx.state
    if state.visit is not None:
        if which is Checkpoint.VERIFY and state.visit.checkpoint is Checkpoint.ATTEMPT:
            tx.append(Actor.HUMAN, tx.stop(met=tx.tree_is_green(), why="verify"))
        else:
            raise closed(
                f"{state.visit.checkpoint} is running",
                f"`spike checkpoint stop {state.visit.checkpoint}` first",
            )
    _check_order(tx, which)
    if which is not Checkpoint.VERIFY and _left(tx, which) <= 0:
        raise Problem(
            Refusal.CHECKPOINT_OVER,
            f"{which} has used its {tx.spike.contract.budgets.allowance(which):g} minutes",
            "ask for the verdict: `spike verdict`",
        )
    tx.append(Actor.HUMAN, ev.CheckpointStarted(which.value))
    return CheckpointResult(which.value, "start", False, None, f"{which} is running")


def _left(tx: Transaction, which: Checkpoint) -> float:
    return timing.left_minutes(tx.state, tx.spike.contract.budgets, which, tx.elapsed)


def _check_order(tx: Transaction, which: Checkpoint) -> None:
    states = tx.state.checkpoints
    if which is Checkpoint.SETUP and states[which].met is True:
        raise closed("setup is done", "`spike checkpoint start reproduce` comes next")
    if which is not Checkpoint.SETUP and states[Checkpoint.SETUP].met is not True:
        raise closed("setup comes first", "`spike checkpoint start setup`")
    if which is Checkpoint.REPRODUCE and states[which].met is True:
        raise closed("reproduce is done", "the attempt opens at the agent's first write")
    later = (Checkpoint.ATTEMPT, Checkpoint.VERIFY)
    if which in later and states[Checkpoint.REPRODUCE].met is not True:
        raise closed("reproduce comes first", "`spike checkpoint start reproduce`")


def _extend(tx: Transaction, which: Checkpoint) -> CheckpointResult:
    if which is not Checkpoint.ATTEMPT:
        raise closed("only the attempt can be extended", "`spike checkpoint extend attempt`")
    visit = tx.state.visit
    if visit is None or visit.checkpoint is not which:
        raise closed("the attempt is not running", "`spike verdict` comes next")
    if not tx.state.checkpoints[which].over:
        raise closed("the attempt has time left", "it goes on by itself")
    tx.append(Actor.HUMAN, ev.CheckpointExtended(which.value))
    message = "the attempt runs on to the write cut-off; it stays over, PARK is the best now"
    return CheckpointResult(which.value, "extend", True, None, message)


def _manual_stop(tx: Transaction, which: Checkpoint, met: str) -> CheckpointResult:
    _check_running(tx, which)
    proven = tx.tree_is_green() if which is Checkpoint.ATTEMPT else False
    row = tx.stop(met=proven, why="human", lowered=met == "no")
    tx.append(Actor.HUMAN, row)
    message = f"{which} stopped after {row.minutes:.1f} of {row.allowed:.1f} minutes"
    if row.over:
        message = _VOID
    overruled = met == "yes" and not row.met
    if overruled:
        message = f"{which} is recorded as not met: the evidence says no ({message})"
    return CheckpointResult(which.value, "stop", row.over, row.met, message, overruled)


def _check_running(tx: Transaction, which: Checkpoint) -> None:
    visit = tx.state.visit
    if visit is None or visit.checkpoint is not which:
        raise closed(f"{which} is not running", f"`spike checkpoint start {which}` first")
