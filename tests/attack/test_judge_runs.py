"""The judge corpus, run level: 84 attacks written past the gate, and honest fixes (judge.md).

Here every write lands, as if a human had approved it; what is left are the sandbox, the evidence,
the generated and the written negative controls, and the hidden tests. An attack must be stopped by
one of them or stand in BEYOND with the layer that stops it. An honest fix must pass all of them.
"""

import base64
import json
import os
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measuring import QUIET, spec, write
from toolchains import needs

from spike_mcp.core.negative import controls
from spike_mcp.host.evidence import (
    ControlOutcome,
    Evidence,
    RunOutcome,
    judge_control,
    judge_written_control,
    passed_functions,
    pins_of,
    red_codes,
    red_ids,
)
from spike_mcp.host.measure import Run, RunResult, RunSpec

pytestmark = pytest.mark.security

CORPUS = Path(__file__).parent.parent / "vectors" / "judge"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted(CORPUS.glob("*.json"))}
ATTACKS = [name for name, case in CASES.items() if case["kind"] == "attack"]
CONTROLS = [name for name, case in CASES.items() if case["kind"] == "control" and case["writes"]]

# Green, honest at every layer here. What stops them instead:
BEYOND = {
    "A037": "hidden vectors: right only while a test runner is loaded",
    "A039": "nothing automatic: right on the day of the spike",
    "A064": "the fix is real; the sandbox has no network to send it over",
    "A086": "the gate: a file name with terminal escapes",
    "A088": "the gate: .git is protected",
    "A130": "the gate: a protected name that nothing imports",
    "A133": "the gate: .git is protected",
}


class World:
    """One case laid out: its baseline, its sealed oracle, its attacked tree."""

    def __init__(self, case: dict[str, Any], root: Path) -> None:
        self.case = case
        self.root = root
        self.python = case["measure"][:3] == ["python", "-m", "pytest"]
        if not case["measure"][0].startswith("python"):
            needs(case["measure"][0])
        self.base = write(root / "base", case["baseline"])
        sealed = {name: case["baseline"][name] for name in case["oracle"]}
        write(root / "judge", sealed)
        self.oracle = {name: root / "judge" / name for name in sealed}
        self.tree = root / "tree"
        shutil.copytree(self.base, self.tree, symlinks=True)
        for row in (*case["writes"], *case.get("late_writes", [])):
            _lay(self.tree, row)

    def run(self, tree: Path, **changes: Any) -> RunResult:
        """One measurement of `tree`, always shown at the same place."""
        argv = list(self.case["measure"])
        if self.python:
            argv += QUIET
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        made: RunSpec = spec(
            self.base,
            argv,
            environ={**os.environ, "PATH": path},
            mount_at=(str(self.root / "work"),),
            oracle=self.oracle,
            wall=90.0 if self.case["lang"] in ("rust", "go") else 5.0,
        )
        return Run.start(replace(made, tree=tree, **changes)).wait()

    def generated(self, green: RunResult, pins: tuple[str, ...]) -> list[ControlOutcome]:
        """What the generated negative controls say about the attacked tree."""
        found = []
        for name, sealed in self.oracle.items():
            for control in controls(
                name,
                sealed.read_bytes(),
                green.evidence.loaded,
                passed_functions(green.evidence, name),
                _pick,
            ):
                changed = self.root / "control"
                changed.write_bytes(control.source)
                result = self.run(self.tree, pins=pins, replaced={name: changed})
                found.append(judge_control(control, result.evidence, result.outcome))
        return found

    def written(self, kind: str) -> RunResult:
        """The run with the human's control or hidden test in the oracle's place."""
        files = write(self.root / kind, self.case[kind])
        replaced = {name: files / name for name in self.case[kind]}
        return self.run(self.tree, replaced=replaced)

    def control(self) -> ControlOutcome:
        """What the human's negative control says."""
        run = self.written("negative_control")
        return judge_written_control(run.outcome, run.evidence, run.exit_code, run.signal)


def _pick(count: int, wanted: int) -> Sequence[int]:
    return random.Random(7).sample(range(count), wanted)


def _lay(tree: Path, row: dict[str, Any]) -> None:
    """One write of an attack. What leaves the tree or can't be a file is the gate's to refuse."""
    name = row["path"]
    if os.path.isabs(name) or ".." in name.split("/"):
        return
    path = tree / name
    if path.is_dir() and not path.is_symlink():
        if not row.get("replace_dir"):
            return
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if "symlink" in row:
        path.unlink(missing_ok=True)
        path.symlink_to(row["symlink"])
        return
    raw = base64.b64decode(row["b64"]) if "b64" in row else row["content"].encode()
    if not path.resolve().is_relative_to(tree.resolve()):
        return
    path.write_bytes(raw)


def _red(evidence: Evidence, result: RunResult) -> bool:
    return bool(red_ids(evidence)) or red_codes(evidence.kind, [result.exit_code])


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_that_was_approved_is_still_stopped(name: str, tmp_path: Path) -> None:
    world = World(CASES[name], tmp_path)
    red = world.run(world.base)
    assert _red(red.evidence, red), red
    pins = pins_of(red.evidence)
    result = world.run(world.tree, pins=pins)
    stopped = result.outcome is not RunOutcome.PASSED
    stopped = stopped or ControlOutcome.FOOLED in world.generated(result, pins)
    if not stopped and world.case.get("negative_control"):
        stopped = world.control() is ControlOutcome.FOOLED
    if not stopped and world.case.get("twin"):
        # A twin that passes everything else proves nothing: only its failure counts.
        stopped = world.written("twin").outcome is not RunOutcome.PASSED
    assert stopped is (name not in BEYOND)


@pytest.mark.parametrize("name", CONTROLS)
def test_an_honest_fix_passes_every_layer(name: str, tmp_path: Path) -> None:
    world = World(CASES[name], tmp_path)
    red = world.run(world.base)
    assert _red(red.evidence, red), red
    pins = pins_of(red.evidence)
    result = world.run(world.tree, pins=pins)
    assert result.outcome is RunOutcome.PASSED, result
    found = world.generated(result, pins)
    assert set(found) <= {ControlOutcome.HONEST}
    assert found or not world.python
    assert world.control() is ControlOutcome.HONEST
    assert world.written("twin").outcome is RunOutcome.PASSED
