"""`spike check`, `spike test` and `spike verdict`: facts in, the table's decision out (spec 12).

The verdict is written once. Its bytes go into blobs first, then the row with their digest, then the
file is renamed into place: whatever crashes between, the next look makes the file again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spike_mcp.core import events as ev
from spike_mcp.core import layout, timing
from spike_mcp.core.codes import (
    Actor,
    Checkpoint,
    Decision,
    Exit,
    Problem,
    Reason,
    Refusal,
)
from spike_mcp.core.decide import Refused
from spike_mcp.core.next_actions import next_action
from spike_mcp.core.requests import End, HumanRun
from spike_mcp.core.verdict import (
    Clean,
    Facts,
    Judgement,
    Twin,
    Unexplained,
    exit_code,
    judge,
)
from spike_mcp.host import process
from spike_mcp.host.files import write_atomic
from spike_mcp.host.measure import Run
from spike_mcp.session import decisions, observe, runs, scoring
from spike_mcp.session.facts import gather
from spike_mcp.session.projection import show_new_files, write_projection
from spike_mcp.session.result import SCHEMA_VERSION, make_result, result_bytes
from spike_mcp.session.scoring import Score
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction, transaction

Progress = Callable[[str], None]

_STATIC_ROWS = frozenset(
    {
        Reason.HYPOTHESIS_TAMPERED,
        Reason.MEASUREMENT_COMMAND_CHANGED,
        Reason.DEADLINE_EXCEEDED,
        Reason.ORACLE_HASH_CHANGED,
        Reason.CONTRACT_CHANGED,
        Reason.LEDGER_DAMAGED,
        Reason.WORKTREE_TAMPERED,
        Reason.TEST_CONFIGURATION_CHANGED,
        Reason.MEASUREMENT_INPUT_CHANGED,
        Reason.APPROVAL_FORGED,
        Reason.CHECKPOINTS_OVER_BUDGET,
        Reason.HYPOTHESIS_NOT_EXERCISED,
        Reason.UNEXPLAINED_DIFF,
    }
)
"""Reasons that need no run: where one of them holds, nothing is scored."""


@dataclass(frozen=True)
class CheckResult:
    """`spike check`. `decision`: explained, unexplained, no_diff or tampered."""

    decision: str
    reasons: tuple[Unexplained, ...]
    exit: Exit


@dataclass(frozen=True)
class Answer:
    """`spike verdict`: the verdict that was written, or what it would be and what is left to do."""

    written: bool
    result: Mapping[str, Any]
    exit: Exit
    todo: tuple[str, ...] = ()


# --- check and rehearsal ------------------------------------------------------------------------


def check(spike: Spike) -> CheckResult:
    """Is every byte of the diff explained? Proves the map against the worktree."""
    with transaction(spike, human=True) as tx:
        if not spike.damage:
            observe.clear_droppings(tx)
        facts = gather(tx, environment=False)
        if not spike.damage:
            write_projection(spike)
            show_new_files(spike)
    tampered = [
        *(("hypothesis_tampered", "") for _ in range(facts.hypothesis_changed)),
        *(("measurement_command_changed", "") for _ in range(facts.argv_changed)),
        *((Reason.ORACLE_HASH_CHANGED.value, each) for each in facts.oracle_changed),
        *((Reason.CONTRACT_CHANGED.value, each) for each in facts.contract_changed),
        *((Reason.LEDGER_DAMAGED.value, each) for each in filter(None, [facts.ledger_damage])),
        *((Reason.WORKTREE_TAMPERED.value, each) for each in facts.tampered),
        *((Reason.TEST_CONFIGURATION_CHANGED.value, each) for each in facts.protected_changed),
        *((Reason.MEASUREMENT_INPUT_CHANGED.value, each) for each in facts.inputs_changed),
        *((Reason.APPROVAL_FORGED.value, each) for each in facts.forged),
    ]
    if tampered:
        reasons = tuple(Unexplained(code, "", "", each) for code, each in tampered)
        return CheckResult("tampered", (*reasons, *facts.unexplained), Exit.TAMPERED)
    if facts.unexplained:
        return CheckResult("unexplained", facts.unexplained, Exit.UNEXPLAINED)
    if not facts.has_diff:
        return CheckResult("no_diff", (), Exit.NO_DIFF)
    return CheckResult("explained", (), Exit.OK)


def rehearse(spike: Spike, *, tree: bool, on_progress: Progress) -> ev.RunFinished:
    """`spike test`: the measurement on the scoring copy, or with `tree` on the worktree."""
    runs.cancel_agent_run(spike)
    with transaction(spike, human=True) as tx:
        decisions.gate(tx, HumanRun(), "test")
        digest = spike.tree_digest() if tree else spike.approved_digest()
        if tree:
            found = observe.sweep(tx).findings
            if found:
                named = ", ".join(observe.describe(f) for f in found[:5])
                refused = Refused(
                    Refusal.OUT_OF_BAND_CHANGE,
                    f"changed outside the tools: {named}",
                    "`spike restore --all` puts the recorded bytes back",
                )
                decisions.refuse(tx, "test", refused)
        places = runs.places_of(spike)
        spec = runs.spec_of(spike, spike.work, places, pins=tx.state.pins)
        ticket = runs.claim(tx, "human", spec, digest)
    try:
        result = (
            Run.start(ticket.spec).wait(on_progress)
            if tree
            else scoring.run_clean(spike, on_progress)
        )
    except BaseException:
        runs.abandon(spike, ticket)
        raise
    return runs.finish(spike, ticket, result, human=True)


# --- verdict ------------------------------------------------------------------------------------


def ask(spike: Spike, *, final: bool, on_progress: Progress) -> Answer:
    """Judge the spike. SHIP is written at once; anything else only with `final` or at the end."""
    spike.refresh()
    if spike.damage:
        return _damaged(spike)
    if spike.state.verdict is not None:
        return written(spike)
    try:
        return _ask(spike, final=final, on_progress=on_progress)
    except Problem as problem:
        if not final:
            raise
        return unjudgeable(spike, problem)


def unjudgeable(spike: Spike, problem: Problem) -> Answer:
    """The KILL of a spike from whose judge/ something was taken that judging needs.

    That keeps no spike from its end. Raises `problem` again where it says something else.
    """
    if problem.code not in (Refusal.LEDGER_DAMAGED, Refusal.SEAL_BROKEN):
        raise problem
    spike.damage = spike.damage or problem.message
    return _damaged(spike)


def _ask(spike: Spike, *, final: bool, on_progress: Progress) -> Answer:
    runs.cancel_agent_run(spike)
    opened = _open_verdict(spike, final=final)
    if isinstance(opened, Answer):
        return opened
    facts, elapsed, final = opened
    done = Score()
    hidden = final and scoring.has_hidden(spike)
    try:
        if not _decided(facts):
            if hidden:
                _announce_hidden(spike)
            done = scoring.score(spike, hidden=hidden, on_progress=on_progress)
        return _close_verdict(spike, done, elapsed, final=final)
    except BaseException:
        _interrupted(spike)
        raise


def _decided(facts: Facts) -> bool:
    """Whether a row that needs no run decides already."""
    return bool(_STATIC_ROWS & set(judge(replace(facts, clean=Clean.GREEN)).reasons))


def _interrupted(spike: Spike) -> None:
    """No verdict was written: verify is closed again, so that the agent can go on (spec 5)."""
    with suppress(Problem, OSError), transaction(spike, human=True) as tx:
        if not spike.damage and tx.state.verdict is None and tx.state.asked is not None:
            _stop_open(tx, met=False, why="interrupted")


def at_deadline(spike: Spike, on_progress: Progress = lambda _text: None) -> Answer | None:
    """Write the verdict if the total is spent and none is written; None if it is not time."""
    spike.refresh()
    clock = spike.state.clock
    if clock is None or spike.state.verdict is not None or spike.state.killed is not None:
        return None
    now = clock.advance(spike.clock.read()).elapsed
    if now < spike.contract.budgets.total * 60:
        return None
    return ask(spike, final=True, on_progress=on_progress)


def _open_verdict(spike: Spike, *, final: bool) -> Answer | tuple[Facts, float, bool]:
    """Begin verify, note the time that counts, and look at everything but the runs."""
    with transaction(spike, human=True) as tx:
        if spike.damage:
            return _damaged(spike)
        if tx.state.verdict is not None:
            return written(spike)
        decisions.gate(tx, End(), "verdict")
        total = spike.contract.budgets.total * 60
        over = tx.elapsed >= total
        elapsed = min(tx.elapsed, total)
        opening = [] if over else _begin_verify(tx)
        owner = process.me() if opening else ()
        # Once a hidden part has started, only the verdict can follow (spec 11).
        asked = ev.VerdictAsked(final or over or tx.state.hidden_started, elapsed, owner)
        # In one write: a verify that nobody asked for would keep the agent out for good.
        tx.append(Actor.HUMAN, *opening, asked)
        try:
            observe.clear_droppings(tx)
            return gather(tx, rehash=final), elapsed, asked.final
        except BaseException:
            if opening:
                with suppress(Problem, OSError):
                    _stop_open(tx, met=False, why="interrupted")
            raise


def _begin_verify(tx: Transaction) -> list[ev.Event]:
    """Rows that open verify and close the attempt; a step that runs before it stops as not met.

    Empty: verify is open already, by the clock or by the human.
    """
    visit = tx.state.visit
    if visit is not None and visit.checkpoint is Checkpoint.VERIFY:
        return []
    rows: list[ev.Event] = []
    if visit is not None:
        met = visit.checkpoint is Checkpoint.ATTEMPT and tx.tree_is_green()
        rows.append(tx.stop(met=met, why="verify"))
    return [*rows, ev.CheckpointStarted(Checkpoint.VERIFY.value)]


def _announce_hidden(spike: Spike) -> None:
    count = len(spike.contract.hidden) + bool(spike.contract.vectors)
    with transaction(spike, human=True) as tx:
        # Two sandboxes at work can signal to each other, if only by how busy the machine is.
        runs.drop_agent_run(tx)
        tx.append(Actor.SCOREKEEPER, ev.HiddenStarted(count))


def _close_verdict(spike: Spike, done: Score, elapsed: float, *, final: bool) -> Answer:
    with transaction(spike, human=True) as tx:
        if tx.state.verdict is not None:
            return written(spike)
        _record_clean(tx, done)
        facts = replace(
            gather(tx, asked=elapsed),
            clean=done.clean,
            control=done.control,
            twin=_twin(spike, done),
        )
        if _moved(spike, done, facts):
            _stop_open(tx, met=False, why="map_changed")
            raise Problem(
                Refusal.HUNK_CHANGED,
                "the map was changed while the approved tree was being scored",
                "ask again: `spike verdict`",
            )
        ready = judge(facts).decision is Decision.SHIP or final
        green = done.clean is Clean.GREEN
        _stop_open(tx, met=green, why="verdict" if ready else "not_final")
        # The rows that were just written count: a stop after the allowance is over.
        facts = replace(facts, overs=gather_overs(tx))
        found = judge(facts)
        result = make_result(tx, facts, found, done, elapsed)
        if found.decision is Decision.SHIP or final:
            return write(tx, found, result)
    todo = what_is_left(facts, found)
    return Answer(False, result, Exit.NOT_FINAL, todo)


def _moved(spike: Spike, done: Score, facts: Facts) -> bool:
    """Whether a decision came in between: another tree was scored, or what made runs needless is
    gone. A verdict on something that nobody asked about would be written otherwise.
    """
    if done.tree:
        return done.tree != spike.approved_digest()
    return not _decided(facts)


def gather_overs(tx: Transaction) -> tuple[str, ...]:
    """Checkpoints that are over now."""
    budgets = tx.spike.contract.budgets
    elapsed = min(tx.elapsed, budgets.total * 60)
    return tuple(n.value for n in Checkpoint if timing.is_over(tx.state, budgets, n, elapsed))


def _twin(spike: Spike, done: Score) -> Twin:
    if done.twin is Twin.NONE and scoring.has_hidden(spike) and scoring.LAYERS.hidden:
        return Twin.NOT_RUN
    return done.twin


def _record_clean(tx: Transaction, done: Score) -> None:
    """The clean run is a run like others: it is ledgered with its tree."""
    if done.result is None:
        return
    run = runs.claim_row(tx, "scoring", done.tree)
    tx.append(Actor.SCOREKEEPER, runs.finished_row(tx.spike, run, done.result))


def _stop_open(tx: Transaction, *, met: bool, why: str) -> None:
    """End the open visit: verify, or at the deadline whatever the total ran out on."""
    visit = tx.state.visit
    if visit is not None:
        mine = visit.checkpoint is Checkpoint.VERIFY
        tx.append(Actor.SCOREKEEPER, tx.stop(met=met and mine, why=why))


def what_is_left(facts: Facts, found: Judgement) -> tuple[str, ...]:
    """What the human could still do, one sentence a reason."""
    todo: list[str] = []
    if facts.twin is Twin.NOT_RUN and found.reason is Reason.UNCLASSIFIED:
        return ("hidden parts not yet run; spike verdict --final decides",)
    words = {
        "pending": "review {hunk} {path}: spike review",
        "withdrawn": "{hunk} {path} was approved and is gone: spike approve --withdrawn {hunk}, "
        "or spike reject {hunk} to put it back",
        "out_of_band": "{path} was written outside the server: spike restore {path}",
    }
    todo += [
        words[each.code].format(hunk=each.hunk, path=each.path)
        for each in facts.unexplained
        if each.code in words
    ]
    if facts.oracle_changed or facts.protected_changed:
        todo.append("put the recorded bytes back: spike restore --all")
    if facts.inputs_changed:
        todo.append("what the measurement reads differs (named above): put it back as it was")
    if facts.clean in (Clean.FAILED, Clean.TESTS_NOT_RUN, Clean.EVIDENCE_MISMATCH):
        todo.append("the measurement is not green on the approved tree: spike test shows it")
    if facts.lines >= facts.max_lines:
        todo.append(f"{facts.lines} changed lines, fewer than {facts.max_lines} ship: reject some")
    todo.append("spike verdict --final writes it as it stands")
    return tuple(todo)


# --- written once -------------------------------------------------------------------------------


def write(tx: Transaction, found: Judgement, result: Mapping[str, Any]) -> Answer:
    """Bytes to blobs, then the row, then the file: nothing can contradict the ledger."""
    spike = tx.spike
    head, rows = spike.ledger.head
    full = {**result, "ledger_head": head, "ledger_rows": rows}
    data = result_bytes(full)
    sha = spike.blobs.put(data)
    row = ev.VerdictWritten(found.decision.value, found.reason.value, sha)
    tx.append(Actor.SCOREKEEPER, row)
    write_atomic(spike.verdict_dir / layout.RESULT, data, 0o444)
    return Answer(True, full, exit_code(found.decision, found.reason))


def written(spike: Spike) -> Answer:
    """The verdict that stands; result.json is made again from its blob where it is missing."""
    row = spike.state.verdict
    assert row is not None
    try:
        data = spike.blobs.get(row.result)
        result = json.loads(data)
        fault = head_fault(spike, result)
    except (Problem, ValueError, KeyError) as error:
        fault = f"the verdict's own content is lost: {error}"
    if fault:
        spike.damage = fault
        return _damaged(spike)
    path = spike.verdict_dir / layout.RESULT
    try:
        same = path.read_bytes() == data
    except OSError:
        same = False
    if not same:
        write_atomic(path, data, 0o444)
    return Answer(True, result, exit_code(Decision(row.decision), Reason(row.reason)))


def head_fault(spike: Spike, result: Mapping[str, Any]) -> str:
    """Why the head that result.json names is not the chain's hash at that row; "" if it is."""
    lines = (spike.judge / layout.LEDGER).read_bytes().split(b"\n")
    number = int(result["ledger_rows"])
    if not 0 < number < len(lines):
        return "ledger_rows is not a row of this ledger"
    if hashlib.sha256(lines[number - 1]).hexdigest() != result["ledger_head"]:
        return "ledger_head is not in the chain"
    return ""


def _damaged(spike: Spike) -> Answer:
    """A damaged ledger takes no more rows; its KILL is a file that names the damage."""
    found = judge(Facts(ledger_damage=spike.damage or "damaged"))
    result = {
        "schema_version": SCHEMA_VERSION,
        "decision": found.decision.value,
        "reason": found.reason.value,
        "reasons": [reason.value for reason in found.reasons],
        "details": [],
        "damage": spike.damage,
        "next_action": next_action(found.decision, found.reason),
    }
    path, data = spike.verdict_dir / layout.RESULT, result_bytes(result)
    if _aside(path, data):
        write_atomic(path, data, 0o444)
    return Answer(True, result, exit_code(found.decision, found.reason))


def _aside(path: Path, data: bytes) -> bool:
    """Whether result.json has to be written: a file that no intact ledger vouches for is kept
    under another name, since who reads result.json alone would believe it."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    if found != data and _decision_in(found) != Decision.KILL.value:
        write_atomic(path.with_name(layout.DISPUTED), found, 0o444)
        return True
    return False


def _decision_in(data: bytes) -> str:
    """The decision that a result.json names, "" where it is none."""
    try:
        return str(json.loads(data)["decision"])
    except (ValueError, KeyError, TypeError):
        return ""
