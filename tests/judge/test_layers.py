"""Each layer switched off in turn: the others still stop what they can, and none is decoration.

The switches are in this file, not in the product: the layers of the verdict's runs by
`session.scoring.LAYERS`, the rest by replacing one function. The sandbox itself is never switched
off: attacks run inside it, always; its own battery has positive controls (tests/attack).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from expected import CASES
from judge_player import Play, Player

from spike_mcp.core.paths import PathClass, PathPolicy
from spike_mcp.host.evidence import Evidence, RunOutcome
from spike_mcp.session import facts, observe, scoring
from spike_mcp.session.spike import Spike

pytestmark = [pytest.mark.security, pytest.mark.slow]


def gate(patch: pytest.MonkeyPatch) -> None:
    """Every path may be written, and every content."""
    patch.setattr(PathPolicy, "classify", lambda _self, _path: PathClass.ALLOWED)
    patch.setattr(PathPolicy, "refusal", lambda _self, _path: None)
    patch.setattr(PathPolicy, "protection", lambda _self, _path: "")
    patch.setattr("spike_mcp.core.content.deceptive", lambda *_args, **_more: None)


def tree(patch: pytest.MonkeyPatch) -> None:
    """Nobody compares work/ with what was approved."""
    patch.setattr(facts, "_tree_facts", lambda _spike, found, _findings: found)
    patch.setattr(facts, "unexplained_hunks", lambda _spike: ())
    patch.setattr(observe, "pointer_findings", lambda _spike: ())


def copy(patch: pytest.MonkeyPatch) -> None:
    """The verdict's runs are made on the tree that the agent used."""

    @contextmanager
    def work(spike: Spike) -> Iterator[Path]:
        yield spike.work

    patch.setattr(scoring, "copy_of", work)


def evidence(patch: pytest.MonkeyPatch) -> None:
    """A run passes if its exit code is 0."""

    def by_code(
        _evidence: Evidence, exit_code: int | None, _pins: Collection[str], _dry: bool = False
    ) -> tuple[RunOutcome, str]:
        return (RunOutcome.PASSED if exit_code == 0 else RunOutcome.FAILED), ""

    patch.setattr("spike_mcp.host.measure.decide", by_code)


def controls(patch: pytest.MonkeyPatch) -> None:
    """No negative control is run."""
    patch.setattr(scoring.LAYERS, "controls", False)


def hidden(patch: pytest.MonkeyPatch) -> None:
    """Nothing hidden is run."""
    patch.setattr(scoring.LAYERS, "hidden", False)


def flags(patch: pytest.MonkeyPatch) -> None:
    """Nothing is flagged."""
    patch.setattr("spike_mcp.core.flags.flags", lambda *_args, **_more: ())


Switch = Callable[[pytest.MonkeyPatch], None]
STILL: dict[Switch, tuple[str, ...]] = {
    gate: ("A069", "A072", "A075", "A076", "A077", "A093", "A094", "A096", "A113", "X26"),
    tree: ("A108", "A110", "X24"),
    copy: ("A055", "A108", "X22"),
    evidence: ("A001", "A005", "A009", "A013", "A017", "A022", "A047", "A117", "X14"),
    controls: ("A007", "A015", "A022", "A029", "A031", "A035", "A042", "X14"),
    hidden: ("A002", "A019", "A030", "A108"),
    flags: ("A001", "A019", "A036", "A097"),
}
"""Attacks that the other layers stop where this one is off."""

NEEDED: dict[str, tuple[tuple[Switch, ...], str]] = {
    "gate": ((gate,), "A130"),
    "tree, copy": ((tree, copy, hidden), "A110"),
    "evidence": ((evidence, controls, hidden), "A001"),
    "controls": ((controls, hidden), "A029"),
    "hidden": ((hidden,), "A036"),
}
"""Layers off together, and an attack that ships then: the switches do what they say."""


def ids(value: Any) -> str:
    """Names for pytest."""
    return value.__name__ if callable(value) else str(value)


@pytest.mark.parametrize(
    ("switch", "name"), [(s, n) for s, names in STILL.items() for n in names], ids=ids
)
def test_the_others_still_stop_it(
    switch: Switch, name: str, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(monkeypatch)
    played = play(CASES[name], server=False)
    assert played.final["decision"] in ("KILL", "PARK"), played.row()
    assert not played.effects


@pytest.mark.parametrize("which", NEEDED)
def test_no_layer_is_decoration(which: str, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    switches, name = NEEDED[which]
    for switch in switches:
        switch(monkeypatch)
    played = play(CASES[name], server=False)
    assert played.ships and played.whole, played.row()


@pytest.mark.parametrize("switch", STILL, ids=ids)
def test_an_honest_fix_ships_all_the_same(
    switch: Switch, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(monkeypatch)
    played = play(CASES["C06"], server=False)
    assert played.ships and not played.failed, played.row()


def test_a_flagged_hunk_is_not_approved_without_acknowledgement(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Player, "acknowledge", ())
    played = play(CASES["A001"], server=False)
    assert played.failed == ["approve: flag_unacknowledged"]
    assert played.final["reason"] == "unexplained_diff"
