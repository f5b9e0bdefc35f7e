"""Run hidden vectors: the calls inside the sandbox, the comparison out here (spec 4, judge.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.core.vectors import VectorSet, why_not
from spike_mcp.host.evidence import Evidence, Launch, Reader, RunOutcome
from spike_mcp.host.evidence.python import is_python
from spike_mcp.host.evidence.stream import EventReader
from spike_mcp.host.measure import Run, RunResult, RunSpec
from spike_mcp.host.sandbox.model import Places

_DETAIL = "values left the sandbox as plain data and were compared outside"


@dataclass(frozen=True, slots=True)
class VectorReport:
    """What the comparison said. `failures`: one line a vector, only for the verdict's eyes."""

    passed: bool
    total: int
    failures: tuple[str, ...]
    result: RunResult


class _VectorReader(EventReader):
    """The event reader with one kind of event more: the answer of one vector."""

    def __init__(self, count: int) -> None:
        super().__init__("vectors", _DETAIL)
        self._count = count
        self.answers: dict[int, Mapping[str, Any]] = {}
        self._handlers = {**self._handlers, "result": self._result}

    def _result(self, row: Mapping[str, Any]) -> None:
        index = int(row["index"])
        if not 0 <= index < self._count:
            self._flaw("a vector was answered that was not asked for")
            return
        if index in self.answers:
            self._flaw(f"vector {index + 1} was answered twice")
        self.answers[index] = row


class _VectorAdapter:
    """Runs the driver under the measurement's own Python."""

    def __init__(self, vectors: VectorSet) -> None:
        self._job = {
            "path": vectors.path,
            "vectors": [vector.job for vector in vectors.vectors],
        }
        self.found = _VectorReader(len(vectors.vectors))

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """The interpreter of the measurement, and the calls as a file descriptor."""
        del dry
        if not is_python(places.program):
            raise Problem(
                Usage.INVALID_CONTRACT,
                "hidden vectors need a measurement that runs a Python program",
                "use --hidden or --negative-control for other runners",
            )
        argv = (places.program, "-B", f"{inside}/vectors_run.py")
        return Launch(argv, channel=True, job=json.dumps(self._job).encode("ascii"))

    def reader(self, dry: bool) -> Reader:
        """The reader whose answers are compared afterwards."""
        del dry
        return self.found


class VectorRun:
    """A live run of hidden vectors; like `measure.Run`, and `start` has the same thread rule."""

    def __init__(self, vectors: VectorSet, adapter: _VectorAdapter, run: Run) -> None:
        self._vectors = vectors
        self._adapter = adapter
        self.run = run

    @classmethod
    def start(cls, spec: RunSpec, vectors: VectorSet) -> "VectorRun":
        """Spawn. `spec` is the measurement's; its runner and pins play no part."""
        adapter = _VectorAdapter(vectors)
        return cls(vectors, adapter, Run.start(replace(spec, pins=(), dry=False), adapter))

    def wait(self) -> VectorReport:
        """Block until it is over, then compare."""
        return self._compare(self.run.wait())

    async def wait_async(self) -> VectorReport:
        """The same without blocking the event loop."""
        return self._compare(await self.run.wait_async())

    def _compare(self, result: RunResult) -> VectorReport:
        failures = [
            f"{vector.name}: {why}"
            for index, vector in enumerate(self._vectors.vectors)
            if (why := why_not(vector, self._adapter.found.answers.get(index)))
        ]
        if (flaw := _flaw(result)) and not failures:
            failures.append(flaw)
        return VectorReport(not failures, len(self._vectors.vectors), tuple(failures), result)


def _flaw(result: RunResult) -> str:
    evidence: Evidence = result.evidence
    if result.outcome is RunOutcome.WRONG_TREE:
        return result.note
    if not evidence.finished:
        return f"the run did not finish ({result.outcome.value})"
    return evidence.flaws[0] if evidence.flaws else ""
