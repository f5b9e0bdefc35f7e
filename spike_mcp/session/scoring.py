"""The verdict's runs, each in a copy made anew: measurement, negative controls, hidden parts.

Nothing is shared between runs but the sealed judge (spec 11). What the visible runs say goes into
the ledger; counts and output of hidden parts go into the verdict only.
"""

from __future__ import annotations

import math
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from spike_mcp.core import layout, negative
from spike_mcp.core.codes import Problem
from spike_mcp.core.vectors import parse as parse_vectors
from spike_mcp.core.verdict import Clean, Control, Twin
from spike_mcp.host.evidence import (
    RunOutcome,
    judge_control,
    judge_written_control,
    passed_functions,
)
from spike_mcp.host.measure import Run, RunResult, RunSpec
from spike_mcp.host.sandbox import Places
from spike_mcp.host.scoring import scoring_copy
from spike_mcp.host.vectors import VectorRun
from spike_mcp.session import runs
from spike_mcp.session.spike import Spike

Progress = Callable[[str], None]

_CLEAN: Mapping[RunOutcome, Clean] = {
    RunOutcome.PASSED: Clean.GREEN,
    RunOutcome.FAILED: Clean.FAILED,
    RunOutcome.NO_TESTS: Clean.TESTS_NOT_RUN,
    RunOutcome.MISMATCH: Clean.EVIDENCE_MISMATCH,
    RunOutcome.COLLECTION_ERROR: Clean.FAILED,
    RunOutcome.WRONG_TREE: Clean.WRONG_TREE,
    RunOutcome.TIMED_OUT: Clean.FAILED,
    RunOutcome.OUTPUT_CAPPED: Clean.FAILED,
    RunOutcome.OUT_OF_MEMORY: Clean.FAILED,
    RunOutcome.CANCELLED: Clean.NOT_SCORED,
    RunOutcome.SANDBOX_ERROR: Clean.NOT_SCORED,
}


@dataclass(frozen=True)
class Score:
    """What the runs gave. `details`: sentences for the report, none of hidden content."""

    clean: Clean = Clean.NOT_RUN
    control: Control = Control.NONE
    twin: Twin = Twin.NONE
    result: RunResult | None = None
    tree: str = ""
    controls: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    note: str = ""


CONTROL_FACTOR = 10.0
"""How much longer than the clean run a negative control may take: it is the same test."""
LEAST_CONTROL_SECONDS = 60.0


@dataclass(slots=True)
class Layers:
    """Which layers are on. All of them, except in the tests that show what each one is worth."""

    controls: bool = True
    hidden: bool = True


LAYERS = Layers()


@contextmanager
def copy_of(spike: Spike) -> Iterator[Path]:
    """A fresh scoring copy of baseline + approved regions."""
    changed = {
        path: (spike.approved_bytes(path), spike.file_mode(path)) for path in spike.state.spans
    }
    with scoring_copy(spike.root, spike.worktree, spike.manifest, spike.blobs, changed) as tree:
        for path in spike.contract.environment:
            (tree / path.rstrip("/")).mkdir(parents=True, exist_ok=True)
        yield tree


def places_for_copy(spike: Spike) -> Places:
    """The sealed places; `environment` paths of work/ are bound over the copy, read-only."""
    places = runs.places_of(spike)
    more = tuple(str(spike.work / path.rstrip("/")) for path in spike.contract.environment)
    return replace(places, read_only=(*places.read_only, *more))


def clean_spec(spike: Spike, tree: Path, replaced: Mapping[str, Path] | None = None) -> RunSpec:
    """The measurement on a scoring copy."""
    spec = runs.spec_of(
        spike, tree, places_for_copy(spike), pins=spike.state.pins, replaced=replaced
    )
    return replace(spec, read_only=())


def run_clean(spike: Spike, on_progress: Progress) -> RunResult:
    """The measurement on a fresh copy, on this thread."""
    with copy_of(spike) as tree:
        return Run.start(clean_spec(spike, tree)).wait(on_progress)


def score(spike: Spike, *, hidden: bool, on_progress: Progress) -> Score:
    """All the runs of a verdict. A fault of the host gives `not_scored`, never an exception."""
    tree = spike.approved_digest()
    try:
        on_progress("scoring: the measurement on a fresh copy of the approved tree")
        result = run_clean(spike, on_progress)
    except (Problem, OSError) as problem:
        return Score(clean=Clean.NOT_SCORED, tree=tree, note=str(problem))
    done = Score(clean=_CLEAN[result.outcome], result=result, tree=tree, note=result.note)
    if done.clean is not Clean.GREEN:
        return done
    try:
        done = _with_controls(spike, done, on_progress)
        if hidden and LAYERS.hidden and done.control in (Control.NONE, Control.HONEST):
            return _with_hidden(spike, done, on_progress)
    except (Problem, OSError) as problem:
        return replace(done, clean=Clean.NOT_SCORED, note=str(problem))
    return done


# --- negative controls --------------------------------------------------------------------------


def _with_controls(spike: Spike, done: Score, on_progress: Progress) -> Score:
    if not LAYERS.controls:
        return done
    said: list[tuple[Control, str]] = []
    longest = _control_seconds(done)
    for path, sha in sorted(spike.contract.negative_controls.items()):
        on_progress(f"negative control: {path} must fail")
        said.append(_human_control(spike, path, sha, longest))
    for control in _generated(spike, done):
        on_progress(f"negative control: {control.path} line {control.line} must fail")
        said.append(_generated_control(spike, control, longest))
    if not said:
        return done
    worst = next(
        (w for w in (Control.FOOLED, Control.INCONCLUSIVE) if any(s[0] is w for s in said)),
        Control.HONEST,
    )
    return replace(done, control=worst, controls=tuple(text for _kind, text in said))


def _control_seconds(done: Score) -> float:
    """Wall limit of a control: code that sleeps when it is not the real thing delays no verdict."""
    clean = done.result.seconds if done.result is not None else 0.0
    return max(LEAST_CONTROL_SECONDS, CONTROL_FACTOR * clean)


def _human_control(spike: Spike, path: str, sha: str, longest: float) -> tuple[Control, str]:
    result = _run_replaced(spike, {path: spike.judge / layout.BLOBS / sha}, longest=longest)
    told = judge_written_control(result.outcome, result.evidence, result.exit_code, result.signal)
    kind = Control(told.value)
    return kind, f"{path} (written by a human): {kind.value}"


def _generated(spike: Spike, done: Score) -> tuple[negative.Control, ...]:
    result = done.result
    if result is None or result.evidence.kind not in ("pytest", "unittest"):
        return ()
    found: list[negative.Control] = []
    modules = _tree_modules(spike, result.evidence.loaded)
    for path in spike.contract.oracle:
        data = spike.base_bytes(path)
        if data is None or not path.endswith(".py"):
            continue
        functions = passed_functions(result.evidence, path, spike.state.pins)
        found += negative.controls(path, data, modules, functions, _pick)
    return tuple(found[i] for i in sorted(_pick(len(found), min(len(found), negative.MOST))))


def _tree_modules(spike: Spike, told: Iterable[str]) -> set[str]:
    """Repository paths from which the oracle may import what the agent can change.

    The run's own list is not enough: a run that forges its story may leave it empty, and controls
    are made so that such a run meets them. A file named as a standard module counts only if the
    baseline has it and the run says that it was loaded: one that shadows the standard library
    since then must not talk its way out of a control.
    """
    old, loaded = set(spike.manifest.names()), set(told)
    found = {path for path in (*old, *loaded, *spike.state.spans) if path.endswith(".py")}
    shadows = {path for path in found - (old & loaded) if _named_as_standard(path)}
    return found - shadows - spike.sealed_paths()


def _named_as_standard(path: str) -> bool:
    module = path.removesuffix("/__init__.py").removesuffix(".py")
    return module.rpartition("/")[2] in sys.stdlib_module_names


def _pick(bound: int, count: int) -> list[int]:
    return secrets.SystemRandom().sample(range(bound), min(count, bound))


def _generated_control(
    spike: Spike, control: negative.Control, longest: float
) -> tuple[Control, str]:
    sha = spike.blobs.put(control.source)
    replaced = {control.path: spike.judge / layout.BLOBS / sha}
    result = _run_replaced(spike, replaced, longest=longest)
    kind = Control(judge_control(control, result.evidence, result.outcome).value)
    where = f"{control.path}:{control.line}"
    return kind, f"{where} expecting {control.after} for {control.before}: {kind.value}"


def _run_replaced(
    spike: Spike,
    replaced: Mapping[str, Path],
    *,
    pinned: bool = True,
    longest: float = math.inf,
) -> RunResult:
    with copy_of(spike) as tree:
        spec = clean_spec(spike, tree, replaced)
        seconds = min(spec.limits.wall_seconds, longest)
        spec = replace(spec, limits=replace(spec.limits, wall_seconds=seconds))
        return Run.start(spec if pinned else replace(spec, pins=())).wait()


# --- hidden parts -------------------------------------------------------------------------------


def has_hidden(spike: Spike) -> bool:
    """Whether hidden vectors or hidden tests were sealed."""
    return bool(spike.contract.vectors or spike.contract.hidden)


def _with_hidden(spike: Spike, done: Score, on_progress: Progress) -> Score:
    if not has_hidden(spike):
        return done
    on_progress("hidden parts")
    said: list[str] = []
    passed = True
    if spike.contract.vectors:
        with copy_of(spike) as tree:
            vectors = parse_vectors(spike.blobs.get(spike.contract.vectors).decode())
            report = VectorRun.start(clean_spec(spike, tree), vectors).wait()
        passed = passed and report.passed
        wrong = len(report.failures)
        said.append(f"hidden vectors: {report.total - min(wrong, report.total)}/{report.total}")
        said += list(report.failures[:20])
    for path, sha in sorted(spike.contract.hidden.items()):
        result = _run_replaced(spike, {path: spike.judge / layout.BLOBS / sha}, pinned=False)
        dodged = _dodged(result, done)
        count = len(result.evidence.collected)
        passed = passed and result.outcome is RunOutcome.PASSED and not dodged
        counts = f" ({count - dodged} of {count} tests passed)" if count else ""
        said.append(f"hidden {path}: {result.outcome.value}{counts}")
    return replace(done, twin=Twin.PASSED if passed else Twin.FAILED, hidden=tuple(said))


def _dodged(result: RunResult, done: Score) -> int:
    """Hidden tests that were collected and did not pass.

    No pin holds them, so a skip from inside the code under test would go unseen. What the visible
    run skipped likewise is the project's own business.
    """
    seen = done.result.evidence.outcomes if done.result else {}
    told = result.evidence.outcomes
    return sum(
        told.get(key) != "passed" and (key not in told or seen.get(key) != told[key])
        for key in result.evidence.collected
    )
