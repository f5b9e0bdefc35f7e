"""Every patch vector has one of a closed set of outcomes, and the bytes it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from spike_mcp.core import patches
from spike_mcp.core.codes import Problem, Refusal

FOLDER = Path(__file__).parent.parent / "vectors" / "patches"
KEYS = {"name", "files", "patch", "outcome", "after", "dialect", "corrected", "notes"}
KEYS |= {"message", "hint"}
OUTCOMES = {"applied"} | {str(code) for code in Refusal}


def load() -> list[Any]:
    cases: list[Any] = []
    for file in sorted(FOLDER.glob("*.json")):
        found = json.loads(file.read_text())["cases"]
        cases += [pytest.param(case, id=f"{file.stem}: {case['name']}") for case in found]
    return cases


def as_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return str(value["latin1"]).encode("latin-1")
    return str(value).encode()


def apply(case: dict[str, Any]) -> tuple[patches.PatchSet, dict[str, bytes | None], list[str]]:
    raw = case["patch"]
    parsed = patches.parse(raw if isinstance(raw, str) else "\n".join(raw) + "\n")
    files = {path: as_bytes(value) for path, value in case["files"].items()}
    after: dict[str, bytes | None] = {}
    notes: list[str] = []
    for one in parsed.files:
        placed = patches.place(one, files.get(one.path.text))
        after[one.path.text] = placed.change.after
        notes += [note.partition(":")[0] for note in placed.notes]
    return parsed, after, notes


@pytest.mark.parametrize("case", load())
def test_patch_vector(case: dict[str, Any]) -> None:
    assert set(case) <= KEYS
    assert case["outcome"] in OUTCOMES
    if case["outcome"] != "applied":
        assert "after" not in case
        with pytest.raises(Problem) as caught:
            apply(case)
        problem = caught.value
        assert str(problem.code) == case["outcome"], problem.message
        assert case.get("message", "") in problem.message
        assert case.get("hint", "") in problem.hint
        assert problem.hint
        assert len(problem.message) < 600
        assert len(problem.hint) < 3000
        return
    parsed, after, notes = apply(case)
    assert after == {path: as_bytes(value) for path, value in case["after"].items()}
    if "dialect" in case:
        assert parsed.dialect == case["dialect"]
    if "corrected" in case:
        assert len(parsed.corrections) == case["corrected"], parsed.corrections
    if "notes" in case:
        assert notes == case["notes"]
