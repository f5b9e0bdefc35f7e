"""Runs of the measurement: claimed by a row, made outside the lock, ended by a row (spec 7, 11).

The lock is held only around `run_started` and `run_finished`, so status answers while a test runs.
A claim names its owner (boot id, pid, start time of the pid); whoever finds the owner dead appends
`run_lost`. Spawning is the caller's: it must happen on a thread that outlives the run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from spike_mcp.core import events as ev
from spike_mcp.core import layout
from spike_mcp.core.codes import Actor, Problem, Refusal
from spike_mcp.core.model import Run as RunState
from spike_mcp.core.model import State
from spike_mcp.host import process
from spike_mcp.host.evidence import RunOutcome
from spike_mcp.host.measure import RunResult, RunSpec
from spike_mcp.host.sandbox import Limits, Places
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction, owe, pay, transaction

CANCEL_SECONDS = 5.0
"""How long a human's command waits for the agent's run to end before it is declared lost."""

MAX_TESTS = 200
"""Test outcomes that one `run_finished` row lists by name; the counts cover all."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A claimed run: what to spawn, and the id under which its end is reported."""

    run: str
    purpose: str
    spec: RunSpec


def places_of(spike: Spike) -> Places:
    """Where the measurement's program and packages lie, as sealed when setup stopped."""
    row = spike.state.sealed.get("setup")
    if row is None:
        raise Problem(
            Refusal.NOT_STARTED,
            "the measurement's program has not been sealed yet",
            "`spike start` does so when setup stops",
        )
    return load_places(spike.blobs.get(row.places))


def dump_places(places: Places) -> bytes:
    """Places as bytes for a blob."""
    return json.dumps(asdict(places), sort_keys=True).encode()


def load_places(data: bytes) -> Places:
    """The reverse of `dump_places`."""
    raw = json.loads(data)
    env = tuple((name, value) for name, value in raw.pop("env"))
    return Places(
        program=raw.pop("program"), env=env, **{name: tuple(value) for name, value in raw.items()}
    )


def spec_of(
    spike: Spike,
    tree: Path,
    places: Places,
    *,
    pins: Sequence[str] = (),
    replaced: Mapping[str, Path] | None = None,
    dry: bool = False,
) -> RunSpec:
    """How the measurement is run on `tree`, shown at work/'s path and over the main checkout's."""
    contract = spike.contract
    return RunSpec(
        tree=tree,
        mount_at=(str(spike.work), contract.repository),
        places=places,
        runner=contract.measurement.runner,
        oracle=oracle_files(spike),
        replaced=replaced or {},
        read_only=contract.environment,
        hide=(str(spike.root),),
        limits=Limits(wall_seconds=contract.budgets.run_wall_seconds),
        isolation=contract.isolation,
        pins=tuple(pins),
        dry=dry,
    )


def oracle_files(spike: Spike) -> dict[str, Path]:
    """Repository path -> sealed copy, for the oracle and what was sealed with it."""
    return {
        path: spike.judge / layout.ORACLE / path
        for path in sorted(spike.sealed_paths())
        if (spike.judge / layout.ORACLE / path).exists()
    }


def claim(tx: Transaction, purpose: str, spec: RunSpec, tree: str) -> Ticket:
    """Append `run_started`; `tree` is the digest of what is measured."""
    return Ticket(claim_row(tx, purpose, tree), purpose, spec)


def claim_row(tx: Transaction, purpose: str, tree: str) -> str:
    """The row of a claim, and the run's id."""
    number = f"R{len(tx.state.runs) + 1}"
    owner = process.me()
    actor = {"agent": Actor.AGENT, "human": Actor.HUMAN}.get(purpose, Actor.HOST)
    tx.append(actor, ev.RunStarted(number, purpose, tree, (owner[0], owner[1], owner[2])))
    return number


def is_green(result: RunResult) -> bool:
    """Whether the run passed with the evidence its runner can give (host.evidence decides)."""
    return result.outcome is RunOutcome.PASSED


def finished_row(spike: Spike, run: str, result: RunResult) -> ev.RunFinished:
    """The row that ends a run; its output (head, tail, dropped count) goes to blobs."""
    output = json.dumps(
        {
            "head": result.head.decode("utf-8", "backslashreplace"),
            "tail": result.tail.decode("utf-8", "backslashreplace"),
            "dropped": result.dropped,
        }
    ).encode()
    evidence = result.evidence
    tests = tuple(sorted(evidence.outcomes.items()))[:MAX_TESTS]
    note = result.note or "; ".join((*evidence.flaws, *evidence.notes))
    return ev.RunFinished(
        run=run,
        outcome=result.outcome.value,
        green=is_green(result),
        seconds=round(result.seconds, 3),
        exit_code=result.exit_code,
        output=spike.blobs.put(output),
        dropped=result.dropped,
        evidence=evidence.kind,
        tests=tests,
        note=note[:1000],
    )


def finish(spike: Spike, ticket: Ticket, result: RunResult, *, human: bool) -> ev.RunFinished:
    """Report the end of a run, under the lock; a run that was declared lost stays lost.

    `Problem(STORAGE_FULL)`, `Problem(BUSY)`: a later transaction of this process writes the row.
    """
    owe(spike, ticket.run, lambda: finished_row(spike, ticket.run, result))
    with transaction(spike, human=human) as tx:
        return tx.state.runs[ticket.run].finished or _finish_now(tx, ticket.run, result)


def _finish_now(tx: Transaction, run: str, result: RunResult) -> ev.RunFinished:
    row = finished_row(tx.spike, run, result)
    if not tx.state.runs[run].lost:
        tx.append(Actor.HOST, tx.end_of(run, row))
    pay(tx.spike, run)
    return row


def abandon(spike: Spike, ticket: Ticket) -> None:
    """The run could not be made (no sandbox, no memory): release the claim."""
    row = ev.RunLost(ticket.run, "not_made")
    owe(spike, ticket.run, lambda: row)
    with transaction(spike, human=False) as tx:
        if tx.state.runs[ticket.run] in tx.state.open_runs:
            tx.append(Actor.HOST, row)
    pay(spike, ticket.run)


def stored(spike: Spike, tree: str) -> RunState | None:
    """The newest finished run on this very tree, if any: an unchanged tree is not run again."""
    for run in reversed(tuple(spike.state.runs.values())):
        if run.measured and run.tree == tree and run.purpose != "scoring":
            return run
    return None


def output_of(spike: Spike, run: ev.RunFinished) -> tuple[str, str, int]:
    """(head, tail, bytes dropped between them) of a run's output, as text."""
    if not run.output:
        return "", "", 0
    raw = json.loads(spike.blobs.get(run.output))
    return str(raw["head"]), str(raw["tail"]), int(raw["dropped"])


def cancel_agent_run(spike: Spike) -> None:
    """End the agent's run, if one is going on, before a human's command changes the tree (spec 7).

    Its owner polls the ledger and kills the process tree; an owner that does not answer within
    `CANCEL_SECONDS` loses its claim (a run cannot touch work/, so nothing is at risk).
    """
    asked = _ask_to_cancel(spike)
    deadline = time.monotonic() + CANCEL_SECONDS
    while asked and time.monotonic() < deadline:
        time.sleep(0.02)
        if not _open_agent_run(spike.refresh()):
            return
    if asked:
        with transaction(spike, human=True) as tx:
            drop_agent_run(tx)


def _open_agent_run(state: State) -> RunState | None:
    return next((run for run in state.open_runs if run.purpose == "agent"), None)


def _ask_to_cancel(spike: Spike) -> bool:
    """Whether there is an agent's run to wait for, now asked to end."""
    if not _open_agent_run(spike.refresh()):
        return False
    with transaction(spike, human=True) as tx:
        run = _open_agent_run(tx.state)
        if run is not None and not run.cancel_asked and tx.state.verdict is None:
            tx.append(Actor.HUMAN, ev.RunCancelAsked(run.id))
        return run is not None


def drop_agent_run(tx: Transaction) -> None:
    """Take the claim of the agent's run away: what it gives belongs to a tree that will be gone.

    For the moment at which a human's command changes the tree, should a run have begun between the
    request to end the last one and the lock.
    """
    for run in tx.state.open_runs:
        if run.purpose == "agent":
            tx.append(Actor.HOST, ev.RunLost(run.id, "human"))
