"""Which patches a region is stamped with, and that finding out costs no more than reading them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spike_mcp.core import events as ev
from spike_mcp.core.model import State
from spike_mcp.core.revisions import MOST_STAMPS, stamped, touches

PATH = "src/a.py"


@st.composite
def rows(draw: st.DrawFn, name: str) -> tuple[ev.SpanRow, ...]:
    """Spans of one file as a diff gives them: in order, with a line between any two."""
    found, at = [], 0
    for number in range(draw(st.integers(0, 8))):
        at += draw(st.integers(0 if not number else 1, 3))
        count = draw(st.integers(0, 3))
        found.append((f"{name}{number}", at, count, 1))
        at += count
    return tuple(found)


def state(old: tuple[ev.SpanRow, ...], stamps: dict[str, tuple[str, ...]]) -> State:
    return replace(State(), spans={PATH: (PATH, "modify", old)}, stamps=stamps)


@given(rows("old"), rows("new"))
def test_a_new_region_has_the_stamps_of_all_that_it_touches(
    old: tuple[ev.SpanRow, ...], new: tuple[ev.SpanRow, ...]
) -> None:
    stamps = {span[0]: (f"P{number + 1}",) for number, span in enumerate(old)}
    event = ev.PatchApplied(spans=((PATH, "modify", new),), patch="P99")
    found = stamped(state(old, stamps), event, "P99")
    for span in new:
        wanted = {stamps[o[0]][0] for o in old if touches(o, span)} | {"P99"}
        assert set(found[span[0]]) == wanted


@pytest.mark.security
def test_a_region_that_is_rewritten_without_end_keeps_the_newest_stamps() -> None:
    span = ("old", 5, 1, 1)
    current = state((span,), {"old": ("P1",)})
    for number in range(2, 60):
        fresh = (f"k{number}", 5, 1, 1)
        event = ev.PatchApplied(spans=((PATH, "modify", (fresh,)),), patch=f"P{number}")
        current = state((fresh,), dict(stamped(current, event, f"P{number}")))
    stamps = current.stamps["k59"]
    assert len(stamps) == MOST_STAMPS and stamps[-1] == "P59"


@pytest.mark.security
def test_patches_of_thousands_of_regions_fold_in_the_time_of_reading_them() -> None:
    """Every process folds every row: what took half a second a patch kept verdicts waiting."""
    current = state((), {})
    for number in range(1, 31):
        new = tuple((f"p{number}r{index}", 2 * index, 1, 1) for index in range(2000))
        event = ev.PatchApplied(spans=((PATH, "modify", new),), patch=f"P{number}")
        current = state(new, dict(stamped(current, event, f"P{number}")))
    assert current.stamps["p30r7"][-1] == "P30"
