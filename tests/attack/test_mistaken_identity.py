"""A human decides on what was shown; no name that was typed may come to mean something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from acting import LONG, TAG, current, refused
from support import Open, open_plain

from spike_mcp.session import decisions, rejecting

pytestmark = pytest.mark.security


def forged(o: Open, wanted: str) -> None:
    """Write on until the one pending hunk's id begins with `wanted` again."""
    text = "shown\n"
    for number in range(20_000):
        fresh = f"never shown {number}\n"
        assert o.edit("src/a.py", text, fresh).outcome == "accepted"
        text = fresh
        if current(o).pending[0].id.startswith(wanted):
            return
    raise AssertionError("no luck")


@pytest.mark.parametrize("decide", ["approve", "reject", "comment"])
def test_an_id_that_another_hunk_had_before_decides_nothing(tmp_path: Path, decide: str) -> None:
    """Eight digits take minutes to meet again; two do here."""
    o = open_plain(tmp_path, files=LONG)
    assert o.edit("src/a.py", "line 50\n", "shown\n").outcome == "accepted"
    shown = current(o).pending[0].id
    forged(o, shown[:2])
    acts: dict[str, Callable[[str], object]] = {
        "approve": lambda name: decisions.approve(o.spike, [name], TAG),
        "reject": lambda name: rejecting.reject(o.spike, [name]),
        "comment": lambda name: decisions.comment(o.spike, name, "why?"),
    }
    assert refused(lambda: acts[decide](f"h{shown[:2]}")) == "hunk_changed"
    assert acts[decide](current(o).pending[0].short)


def test_an_id_of_a_withdrawn_hunk_is_held_to_the_same(tmp_path: Path) -> None:
    o = open_plain(tmp_path, files=LONG)
    assert o.edit("src/a.py", "line 50\n", "shown\n").outcome == "accepted"
    shown = current(o).pending[0].id
    forged(o, shown[:2])
    decisions.approve(o.spike, [current(o).pending[0].id], TAG)
    assert o.edit("src/a.py", current(o).hunks[0].regions[0].added.decode(), "line 50\n").outcome
    assert refused(lambda: decisions.accept_withdrawal(o.spike, shown[:2])) == "hunk_changed"
    assert decisions.accept_withdrawal(o.spike, current(o).withdrawn[0].short)
