"""No mutant of a good patch is ever applied wrong; the right ones apply, the wrong are refused."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from spike_mcp.core import patches
from spike_mcp.core.codes import Problem

sys.path.insert(0, str(Path(__file__).parent.parent / "corpus"))

import patch_mutants


def outcome(mutant: patch_mutants.Mutant) -> tuple[str, str]:
    """`applied right`, `applied wrong`, `refused right` or `refused wrong`, and why."""
    after: dict[str, bytes | None] = {}
    try:
        for one in patches.parse(mutant.patch).files:
            change = patches.place(one, mutant.files.get(one.path.text)).change
            after[one.path.text] = change.after
    except Problem as problem:
        assert problem.message
        assert problem.hint
        why = f"{problem.code}: {problem.message}"
        return ("refused right" if mutant.after is None else "refused wrong"), why
    return ("applied right" if after == mutant.after else "applied wrong"), ""


@pytest.mark.security
def test_no_mutant_is_applied_wrong(record_property: Callable[[str, object], None]) -> None:
    counts: Counter[str] = Counter()
    bad = []
    for mutant in patch_mutants.mutants():
        verdict, why = outcome(mutant)
        counts[verdict] += 1
        if verdict in ("applied wrong", "refused wrong"):
            bad.append(f"{verdict}: {mutant.family}: {mutant.name} {why}")
    for verdict, number in counts.items():
        record_property(verdict, number)
    print(dict(counts))
    assert bad == []
    assert counts["applied right"] > 500
    assert counts["refused right"] > 400
