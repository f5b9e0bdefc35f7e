"""`spike start`: set up, then see the test fail twice on the untouched baseline (spec 5).

Setup seals the program, its packages and the environment; reproduce pins the test ids and seals the
files that the red runs loaded. Only then does any tool of the agent answer.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from spike_mcp.core import events as ev
from spike_mcp.core import globs, timing
from spike_mcp.core.codes import Actor, Checkpoint, Problem, Refusal
from spike_mcp.core.paths import RepoPath
from spike_mcp.host import judge_dir
from spike_mcp.host.evidence import RunOutcome, pins_of, red_codes, red_ids
from spike_mcp.host.measure import Run, RunResult, RunSpec
from spike_mcp.host.resolve import resolve
from spike_mcp.host.sandbox import Places
from spike_mcp.host.trees import seal_trees
from spike_mcp.session import decisions, observe, runs
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction, transaction

ENVIRONMENT_SEAL = "environment.seal"
TEST_DIRECTORIES = frozenset({"test", "tests", "__tests__", "spec", "testdata"})

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StartResult:
    """What the red runs showed. `loaded`: repository files they read, allowed ones first."""

    red: tuple[str, ...]
    pins: tuple[str, ...]
    weak: str
    sealed: tuple[str, ...]
    loaded: tuple[str, ...]
    manual: bool


def start(spike: Spike, *, manual: bool = False, on_progress: Progress) -> StartResult:
    """Start the clock and do setup and reproduce; may be repeated while they are not met."""
    _begin(spike, manual=manual)
    if manual:
        return StartResult((), (), "", (), (), True)
    if spike.state.checkpoints[Checkpoint.SETUP].met is not True:
        _open(spike, Checkpoint.SETUP)
        do_setup(spike, on_progress)
    if spike.state.checkpoints[Checkpoint.REPRODUCE].met is not True:
        _open(spike, Checkpoint.REPRODUCE)
        return do_reproduce(spike, on_progress)
    return _told(spike)


def _begin(spike: Spike, *, manual: bool) -> None:
    with transaction(spike, human=True) as tx, decisions.ledgered(tx, "start"):
        refuse_if_over(tx)
        if timing.ready(tx.state):
            raise Problem(
                Refusal.ALREADY_STARTED,
                "the spike is running already",
                "`spike status` shows where it stands",
            )
        if tx.state.open_run is not None:
            raise Problem(
                Refusal.ALREADY_STARTED,
                "another `spike start` is at work",
                "wait until it has ended; `spike status` shows how far it is",
            )
        odd = observe.pointer_findings(spike)
        if odd:
            raise Problem(Refusal.WORKTREE_TAMPERED, odd[0], "make a new spike")
        observe.clear_droppings(tx)
        swept = observe.sweep(tx, record=tx.state.started)
        if swept.findings:
            named = ", ".join(observe.describe(f) for f in swept.findings[:5])
            raise Problem(
                Refusal.OUT_OF_BAND_CHANGE,
                f"the worktree is not the baseline: {named}",
                "remove what does not belong there and start again",
            )
        if not tx.state.started:
            tx.append(Actor.HUMAN, ev.Started(manual))


def refuse_if_over(tx: Transaction, *, seals: bool = True) -> None:
    """Refuse what comes after the end, or from a judge that was changed (`seals`)."""
    if tx.spike.damage:
        raise Problem(Refusal.LEDGER_DAMAGED, tx.spike.damage, "`spike verify` shows where")
    if tx.state.verdict or tx.state.killed:
        raise Problem(Refusal.SPIKE_CLOSED, "this spike is closed", "make a new one: `spike init`")
    if tx.state.started and tx.elapsed >= tx.spike.contract.budgets.total * 60:
        raise Problem(Refusal.BUDGET_SPENT, "the spike's time is over", "`spike verdict` ends it")
    seal = observe.seal_findings(tx.spike) if seals else ()
    if seal:
        raise Problem(
            Refusal.SEAL_BROKEN,
            f"sealed, but changed: {seal[0].text}",
            "nothing can ship from here: close the spike and open a new one",
        )


def _open(spike: Spike, name: Checkpoint) -> None:
    """Open a step, or go on with its visit where a crash or the human left it open."""
    with transaction(spike, human=True) as tx:
        refuse_if_over(tx)
        visit = tx.state.visit
        if visit is None:
            tx.append(Actor.HUMAN, ev.CheckpointStarted(name.value))
        elif visit.checkpoint is not name:
            raise closed(f"{visit.checkpoint} is running", "wait until it has stopped")


def _still_open(tx: Transaction, name: Checkpoint) -> None:
    """The step that is being done must still be open: time, a verdict or another command may have
    ended it meanwhile, and nothing that counts may follow a verdict (spec 10)."""
    refuse_if_over(tx, seals=False)
    if tx.state.visit is None or tx.state.visit.checkpoint is not name:
        raise closed(f"{name} was stopped meanwhile", "`spike status` shows where the spike is")


def _stop(tx: Transaction, *, met: bool, why: str = "", lowered: bool = False) -> None:
    tx.append(Actor.HOST, tx.stop(met=met, why=why, lowered=lowered))


def _fail(spike: Spike, name: Checkpoint, problem: Problem) -> Problem:
    """Close the open step as not met, write `start_failed`, and give the refusal to raise."""
    code = problem.code.value
    with transaction(spike, human=True) as tx:
        _still_open(tx, name)
        _stop(tx, met=False, why=code)
        tx.append(Actor.HOST, ev.StartFailed(code, problem.message[:1000]))
    return problem


# --- setup --------------------------------------------------------------------------------------


def do_setup(spike: Spike, on_progress: Progress, *, lowered: bool = False) -> None:
    """Run the setup argv as the human would, then seal program, packages and environment.

    `lowered`: the human says that it is not met, whatever the evidence.
    """
    contract = spike.contract
    if contract.setup:
        on_progress(f"setup: {shlex.join(contract.setup)}")
        _run_setup(spike, on_progress)
    try:
        places = resolve(
            contract.measurement.argv,
            spike.work,
            os.environ,
            (str(spike.work), contract.repository),
        )
    except Problem as problem:
        failed = Problem(Refusal.SETUP_FAILED, problem.message, problem.hint)
        raise _fail(spike, Checkpoint.SETUP, failed) from problem
    on_progress("sealing the program, its packages and the environment")
    seal = seal_trees(sealed_roots(spike, places))
    seal.save(spike.judge / ENVIRONMENT_SEAL)
    with transaction(spike, human=True) as tx:
        _still_open(tx, Checkpoint.SETUP)
        _check_left_behind(tx)
        kept = spike.blobs.put(runs.dump_places(places))
        tx.append(Actor.HOST, ev.Sealed("setup", digest=seal.digest, places=kept))
        _stop(tx, met=True, lowered=lowered)


def sealed_roots(spike: Spike, places: Places) -> list[str]:
    """What must not change although it lies outside the diff (spec 4)."""
    environment = [str(spike.work / path.rstrip("/")) for path in spike.contract.environment]
    return [*places.program_files, *places.packages, *environment]


def _run_setup(spike: Spike, on_progress: Progress) -> None:
    contract = spike.contract
    spec = RunSpec(
        tree=spike.work,
        mount_at=(str(spike.work),),
        places=Places(contract.setup[0], contract.setup),
        runner="plain",
        setup=True,
    )
    with transaction(spike, human=True) as tx:
        _still_open(tx, Checkpoint.SETUP)
        ticket = runs.claim(tx, "setup", spec, spike.tree_digest())
    result = _run(spike, ticket, on_progress)
    if result.outcome is not RunOutcome.PASSED:
        tail = result.ending(1500)
        failed = Problem(
            Refusal.SETUP_FAILED,
            f"the setup command ended with {result.exit_code} ({result.outcome.value})",
            f"its last output: {tail}" if tail.strip() else "mend it and run `spike start` again",
        )
        raise _fail(spike, Checkpoint.SETUP, failed)


def _check_left_behind(tx: Transaction) -> None:
    """New paths outside `environment` are refused by name."""
    observe.clear_droppings(tx)
    swept = observe.sweep(tx, record=False)
    if swept.findings:
        named = ", ".join(observe.describe(f) for f in swept.findings[:8])
        _stop(tx, met=False, why=Refusal.SETUP_FAILED.value)
        message = f"setup changed paths that are no --environment: {named}"
        tx.append(Actor.HOST, ev.StartFailed(Refusal.SETUP_FAILED.value, message))
        raise Problem(
            Refusal.SETUP_FAILED,
            message,
            "remove them and start again, or name them with --environment at init",
        )


def _run(spike: Spike, ticket: runs.Ticket, on_progress: Progress) -> RunResult:
    """Spawn a claimed run on this thread and report its end."""
    try:
        result = Run.start(ticket.spec).wait(on_progress)
    except BaseException:
        runs.abandon(spike, ticket)
        raise
    runs.finish(spike, ticket, result, human=True)
    return result


# --- reproduce ----------------------------------------------------------------------------------


def do_reproduce(spike: Spike, on_progress: Progress, *, lowered: bool = False) -> StartResult:
    """Run the measurement twice on the baseline; it must fail twice, in the same way."""
    places = runs.places_of(spike)
    spec = runs.spec_of(spike, spike.work, places)
    results = []
    for number in (1, 2):
        on_progress(f"reproduce: run {number} of 2 on the untouched baseline")
        with transaction(spike, human=True) as tx:
            _still_open(tx, Checkpoint.REPRODUCE)
            ticket = runs.claim(tx, "reproduce", spec, spike.tree_digest())
        try:
            results.append(_run(spike, ticket, on_progress))
        except Problem as problem:
            raise _fail(spike, Checkpoint.REPRODUCE, problem) from problem
    why = _not_red_twice(spike, *results)
    if why is not None:
        raise _fail(spike, Checkpoint.REPRODUCE, why)
    return _seal_red(spike, results[0], lowered=lowered)


def _not_red_twice(spike: Spike, first: RunResult, second: RunResult) -> Problem | None:
    """Why two runs are not "red twice" (spec 5); None if they are."""
    both = (first, second)
    for result in both:
        broken = _broken(result)
        if broken is not None:
            return broken
    passed = [result.outcome is RunOutcome.PASSED for result in both]
    if all(passed):
        return Problem(
            Refusal.ALREADY_GREEN,
            "the test passes on the baseline: there is nothing to find out",
            "`spike kill` closes the spike; write the failing test first",
        )
    if any(passed) or first.outcome is not second.outcome:
        return _flaky(first, second)
    kind = first.evidence.kind
    if kind == "exit_code":
        codes = [result.exit_code for result in both]
        return None if red_codes(kind, codes) else _flaky(first, second)
    if first.outcome is RunOutcome.COLLECTION_ERROR:
        return None if spike.contract.accept_collection_error else _collection(first)
    red = [set(red_ids(result.evidence)) for result in both]
    if not red[0] or not red[1]:
        return _unproven(first)
    return None if red[0] == red[1] else _flaky(first, second)


def _broken(result: RunResult) -> Problem | None:
    if result.outcome is RunOutcome.WRONG_TREE:
        return Problem(
            Refusal.WRONG_TREE_IMPORTED,
            result.note or "the run imported modules from outside the tree under test",
            "install the project editable, or let --setup make an environment in the worktree",
        )
    stopped = (
        RunOutcome.TIMED_OUT,
        RunOutcome.OUT_OF_MEMORY,
        RunOutcome.OUTPUT_CAPPED,
        RunOutcome.SANDBOX_ERROR,
        RunOutcome.CANCELLED,
    )
    code = result.exit_code
    shell = result.evidence.kind == "exit_code" and (code is None or code >= 126)
    if result.outcome in stopped or shell or result.signal is not None:
        tail = result.ending(800)
        return Problem(
            Refusal.SETUP_FAILED,
            f"the measurement did not run as a test: {result.outcome.value}, exit code {code}"
            + (f" ({result.note})" if result.note else ""),
            f"its last output: {tail}" if tail.strip() else "run the command by hand first",
        )
    return None


def _flaky(first: RunResult, second: RunResult) -> Problem:
    words = " and then ".join(
        f"{r.outcome.value} (exit code {r.exit_code})" for r in (first, second)
    )
    red = [red_ids(result.evidence) for result in (first, second)]
    once = sorted(set(red[0]) ^ set(red[1]))
    if once:
        more = f" and {len(once) - 5} more" if len(once) > 5 else ""
        words += f"; red in one of the two only: {', '.join(once[:5])}{more}"
    return Problem(
        Refusal.FLAKY_BASELINE,
        f"two runs on the same baseline differ: {words}",
        "make the test steady and start again, or close the spike with `spike kill`",
    )


def _collection(result: RunResult) -> Problem:
    return Problem(
        Refusal.NOT_RED,
        f"the test could not be collected, so it did not fail: {result.note}",
        "a stub that raises makes it collect; --accept-collection-error at init takes it as weaker",
    )


def _unproven(result: RunResult) -> Problem:
    note = result.note or "; ".join(result.evidence.flaws) or result.outcome.value
    return Problem(
        Refusal.NOT_RED,
        f"no test was seen to fail in its call phase: {note}",
        "name tests that run and fail; a test that is skipped, or fails in its set-up, proves "
        "nothing",
    )


def _seal_red(spike: Spike, result: RunResult, *, lowered: bool) -> StartResult:
    """Pin the test ids and seal what the red runs loaded (spec 4)."""
    evidence = result.evidence
    oracle, support, rest = _split_loaded(spike, evidence.loaded)
    weak = ""
    if result.outcome is RunOutcome.COLLECTION_ERROR:
        weak = "collection_error"
    elif evidence.kind == "exit_code":
        weak = "exit_code"
    with transaction(spike, human=True) as tx:
        _still_open(tx, Checkpoint.REPRODUCE)
        copies = {}
        for path in (*oracle, *support):
            data = spike.base_bytes(path) or b""
            copies[RepoPath.trusted(path)] = (data, spike.file_mode(path) & 0o777)
        stored = dict(judge_dir.store_oracle(spike.judge, copies))
        row = ev.Sealed(
            "reproduce",
            oracle=tuple((path, stored[path]) for path in oracle),
            support=tuple((path, stored[path]) for path in support),
            tests=pins_of(evidence),
            red=red_ids(evidence),
            weak=weak,
        )
        tx.append(Actor.HOST, row)
        _stop(tx, met=True, lowered=lowered)
    return StartResult(row.red, row.tests, weak, (*oracle, *support), tuple(rest), False)


def _split_loaded(spike: Spike, loaded: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """(sealed as oracle, sealed as support, the rest with allowed ones first)."""
    contract = spike.contract
    allowed = globs.matcher(contract.allowed)
    homes = [
        path.rpartition("/")[0]
        for path in contract.oracle
        if path.rpartition("/")[0].rpartition("/")[2] in TEST_DIRECTORIES
    ]
    oracle: list[str] = []
    support: list[str] = []
    rest: list[str] = []
    for path in sorted(set(loaded) - set(contract.oracle)):
        entry = spike.manifest.get(path)
        if entry is None or not entry.is_file:
            continue
        if any(path.startswith(home + "/") for home in homes):
            oracle.append(path)
        elif not allowed.matches(path):
            support.append(path)
        else:
            rest.append(path)
    return oracle, support, rest


def _told(spike: Spike) -> StartResult:
    row = spike.state.sealed["reproduce"]
    sealed = tuple(path for path, _sha in (*row.oracle, *row.support))
    return StartResult(row.red, row.tests, row.weak, sealed, (), False)


def closed(message: str, hint: str) -> Problem:
    """The refusal of a step that is not open now."""
    return Problem(Refusal.CHECKPOINT_CLOSED, message, hint)
