"""What `spike init` looks at first: what to warn of, and one collection of the tests (spec 4)."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Sequence

from spike_mcp.core import globs
from spike_mcp.core.codes import Isolation, Problem, Refusal
from spike_mcp.core.runners import Runner
from spike_mcp.host.evidence import RunOutcome
from spike_mcp.host.measure import Run, RunSpec
from spike_mcp.host.resolve import resolve
from spike_mcp.host.sandbox import Places
from spike_mcp.session import runs
from spike_mcp.session.spike import Spike

_PRINTED = (Runner.GO, Runner.CARGO, Runner.NODE)
"""Runners for which no negative control is generated."""


def warnings(spike: Spike, submodules: Sequence[str]) -> tuple[str, ...]:
    """What the human should know before starting; each says what would help."""
    found = list(spike.contract.hypothesis.warnings)
    contract = spike.contract
    if not contract.vectors and not contract.hidden:
        found.append(
            "no hidden vectors are sealed: code that recognises the visible cases can pass; "
            "--vectors or --hidden adds values the agent never sees"
        )
    if contract.measurement.runner is Runner.PLAIN:
        found.append(
            "evidence: exit_code - this command proves nothing but its exit status; "
            "a --negative-control that must fail shows whether it can be fooled"
        )
    elif contract.measurement.runner in _PRINTED and not contract.negative_controls:
        found.append(
            f"no negative control: {contract.measurement.runner}'s report comes out of a process "
            "that runs the agent's code and could print it; a --negative-control that must fail "
            "shows whether it did"
        )
    found += _single_literal(spike)
    found += _beside_the_measurement(spike)
    found += _converted(spike)
    if contract.isolation is Isolation.NONE:
        found.append("isolation none: the code under test can do what you can do; it can't SHIP")
    if submodules:
        named = ", ".join(submodules[:5])
        found.append(f"submodules are left alone, not checked out: {named}")
    if os.geteuid() == 0:
        found.append("running as root: an ordinary user is safer")
    return tuple(found)


def _single_literal(spike: Spike) -> list[str]:
    found = []
    for path in spike.contract.oracle:
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse(spike.base_bytes(path) or b"")
        except (SyntaxError, ValueError):
            continue
        count = sum(_is_assertion(node) for node in ast.walk(tree))
        if count <= 1:
            found.append(
                f"{path} makes {count} assertion{'' if count == 1 else 's'}: a constant can pass "
                "it; more cases, or --vectors, make that harder"
            )
    return found


def _beside_the_measurement(spike: Spike) -> list[str]:
    """Hidden files that the measurement's words pass by: a guard that never runs."""
    measurement = spike.contract.measurement
    if measurement.runner is Runner.PLAIN:  # its words name a script, not what the script tests
        return []
    words = [word.split("::")[0].removeprefix("./").rstrip("/") for word in measurement.argv]
    manifest = spike.manifest
    named = [word for word in words if word and (word in manifest or manifest.has_directory(word))]
    if not named:  # it looks at the whole tree, or chooses by other means than paths
        return []
    return [
        f"hidden {path} is not among what the measurement names ({', '.join(named[:3])}): unless "
        "that reads it, it never runs; give the measurement its place too, or hide another file"
        for path in sorted(spike.contract.hidden)
        if not any(path == name or path.startswith(name + "/") for name in named)
    ]


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.startswith("assert")
    )


def _converted(spike: Spike) -> list[str]:
    allowed = globs.matcher(spike.contract.allowed)
    names = [p for p, e in spike.manifest.under("") if e.converted and allowed.matches(p)]
    if not names:
        return []
    shown = ", ".join(names[:5])
    return [f"can't be written here, stored in another form (eol, ident, filter, LFS): {shown}"]


def dry_run(spike: Spike, on_progress: Callable[[str], None]) -> tuple[str, ...]:
    """Collect the tests once; a collection error is refused before anything stays (spec 4, 13)."""
    contract = spike.contract
    if contract.setup or contract.measurement.runner not in (Runner.PYTEST, Runner.UNITTEST):
        return ()
    on_progress("collecting the tests once")
    places = resolve(
        contract.measurement.argv, spike.work, os.environ, (str(spike.work), contract.repository)
    )
    result = Run.start(_dry_spec(spike, places)).wait()
    tail = result.ending(1500)
    if result.outcome is RunOutcome.COLLECTION_ERROR:
        if contract.accept_collection_error:
            return ("the tests can't be collected yet: recorded as a weaker red",)
        last = f" Its last output: {tail.strip()}" if tail.strip() else ""
        raise Problem(
            Refusal.NOT_RED,
            f"the test can't be collected: {result.note}",
            "add a stub so that the test runs and fails, or take it as weaker: "
            f"--accept-collection-error.{last}",
        )
    if result.outcome in (RunOutcome.NO_TESTS, RunOutcome.FAILED):
        raise Problem(
            Refusal.NOT_RED,
            f"the measurement collects no test: {result.note or result.outcome.value}",
            f"run it by hand first; its last output: {tail}" if tail.strip() else "run it by hand",
        )
    if result.outcome is not RunOutcome.PASSED:
        return (f"the dry run ended with {result.outcome.value}: {result.note}",)
    return ()


def _dry_spec(spike: Spike, places: Places) -> RunSpec:
    return runs.spec_of(spike, spike.work, places, dry=True)
