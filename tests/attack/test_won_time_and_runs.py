"""An agent that wants more time, more runs or more rows than the contract gives gets none."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from acting import LONG, approve_all, ask, rows, verdict
from support import INVOICE_FIX, Open, open_invoice, open_plain
from wire import Wire, open_script, wait_for_row

from spike_mcp.core import events as ev
from spike_mcp.core import patches
from spike_mcp.core.codes import Actor
from spike_mcp.host.clock import ManualClock
from spike_mcp.session import scoring
from spike_mcp.session.agent import LATE_ROWS, AgentDesk
from spike_mcp.session.spike import Spike
from spike_mcp.session.status import status
from spike_mcp.session.transaction import transaction

pytestmark = pytest.mark.security

Opener = Callable[..., Open]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(tmp_path: Path, clock: ManualClock) -> Opener:
    def make(**more: object) -> Open:
        return open_plain(tmp_path, clock=clock, files=LONG, **more)

    return make


def used(o: Open, clock: ManualClock) -> float:
    """Minutes of the attempt so far."""
    return float(status(o.spike, clock.read()).checkpoints["attempt"]["used_minutes"])


def revert(o: Open, patch: str) -> str:
    return o.call("spike_revert_patch", patch_id=patch, rationale="back").code


# --- the cut-off ----------------------------------------------------------------------------------


def test_reverts_do_not_let_an_agent_choose_between_versions_after_the_cut_off(
    opened: Opener, clock: ManualClock
) -> None:
    o = opened()
    assert o.edit("src/a.py", "line 50\n", "one way\n").code == ""
    assert o.edit("src/a.py", "one way\n", "another\n").code == ""
    clock.tick(71 * 60)
    assert revert(o, "P2") == "writes_closed"
    assert o.spike.work.joinpath("src/a.py").read_text().count("another\n") == 1


def test_after_the_cut_off_an_agent_may_still_take_out_what_it_wrote(
    opened: Opener, clock: ManualClock
) -> None:
    o = opened()
    assert o.edit("src/a.py", "line 50\n", "one way\n").code == ""
    assert o.edit("src/a.py", "line 52\n", "near by\n").code == ""
    clock.tick(71 * 60)
    assert revert(o, "P1") == ""
    assert o.spike.work.joinpath("src/a.py").read_text().count("near by\n") == 1


# --- the backlog ----------------------------------------------------------------------------------


@pytest.fixture
def full(opened: Opener) -> Open:
    """Two hunks wait and no third may; a write was refused for that."""
    o = opened(budgets={"max_pending": 2})
    for line in (10, 30):
        assert o.edit("src/a.py", f"line {line}\n", "decoy\n").code == ""
    assert o.edit("src/a.py", "line 50\n", "x\n").code == "review_backlog"
    return o


def test_who_writes_on_in_a_backlog_did_not_wait_for_anybody(
    full: Open, clock: ManualClock
) -> None:
    clock.tick(10 * 60)
    assert full.edit("src/a.py", "line 11\n", "work goes on\n").code == ""
    assert rows(full, "backlog_ended")[-1]["counted"]
    assert used(full, clock) == pytest.approx(10, abs=0.1)


def test_decoys_do_not_stop_the_attempts_clock_for_good(full: Open, clock: ManualClock) -> None:
    """Hunks that nobody asked for, a refusal, and then work on another one in peace."""
    texts = ["line 11\n", *(f"version {number}.\n" for number in range(6))]
    codes = []
    for old, new in pairwise(texts):
        clock.tick(9 * 60)
        codes.append(full.edit("src/a.py", old, new).code)
        full.edit("src/a.py", "line 50\n", "x\n")
    assert codes == ["", "", "", *["review_backlog"] * 3]
    assert used(full, clock) == pytest.approx(27, abs=0.1)


def test_a_long_wait_may_not_be_broken_by_a_write_but_by_the_human(
    full: Open, clock: ManualClock
) -> None:
    clock.tick(40 * 60)
    assert full.edit("src/a.py", "line 11\n", "x\n").code == "review_backlog"
    assert used(full, clock) == pytest.approx(0, abs=0.1)
    approve_all(full)
    assert full.edit("src/a.py", "line 11\n", "x\n").code == ""


def test_making_room_by_reverts_stops_the_clock_once_and_not_again_and_again(
    full: Open, clock: ManualClock
) -> None:
    for waited in (5, 10):
        clock.tick(waited * 60)
        assert revert(full, list(full.spike.state.patches)[-1]) == ""
        assert full.edit("src/a.py", "line 70\n", "decoy\n").code == ""
        assert full.edit("src/a.py", "line 90\n", "x\n").code == "review_backlog"
    assert [row["counted"] for row in rows(full, "backlog_ended")] == [False, True]
    assert used(full, clock) == pytest.approx(10, abs=0.1)


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_that_the_agent_cancels_costs_it_a_run(tmp_path: Path) -> None:
    """Progress tells the last line of output: to look and then to cancel would be free."""
    opened = open_script(tmp_path)
    with Wire(opened.spike.root) as wire:
        wire.script("echo the-answer; sleep 30\n")
        run = wire.begin("spike_run_test", token=7)
        while "the-answer" not in str(wire.others):
            wire.others.append({"line": wire.line().decode()})
        wire.cancel(run)
        wait_for_row(opened, "run_finished", outcome="cancelled")
        wire.call("spike_status")
        assert wire.meta["runs_left"] == 59


def test_a_run_whose_server_was_killed_costs_a_run_and_one_ended_by_the_human_none(
    opened: Opener,
) -> None:
    o = opened()
    for run, why in (("R8", ""), ("R9", "human")):
        with transaction(o.spike, human=False) as tx:
            tx.append(Actor.AGENT, ev.RunStarted(run, "agent", "T", ("another boot", 1, 2)))
            assert tx.state.agent_runs == (1 if run == "R8" else 2)
            tx.append(Actor.HOST, ev.RunLost(run, why))
    assert o.spike.state.agent_runs == 1


# --- rows and blobs -------------------------------------------------------------------------------


def test_reports_without_end_are_calls_without_end(opened: Opener) -> None:
    o = opened(budgets={"max_refusals": 20})
    codes = [o.call("spike_report", kind="unknown", text="x" * 4000).code for _ in range(30)]
    assert codes[:15] == [""] * 15
    assert codes[25:] == ["call_limit_spent"] * 5
    before = len(o.ledger())
    for number in range(LATE_ROWS * 3):
        o.call(f"tool {number}")
    assert len(o.ledger()) <= before + LATE_ROWS


def test_servers_started_again_and_again_leave_no_more_rows_than_refusals(opened: Opener) -> None:
    o = opened(budgets={"max_refusals": 20})
    for number in range(40):
        desk = AgentDesk(Spike(o.spike.root, o.spike.clock), f"s{number}")
        assert desk.call("spike_status", {}).outcome == "accepted"
    assert len(rows(o, "session_opened")) <= 20
    assert o.edit("src/a.py", "line 50\n", "x\n").code == "call_limit_spent"


def test_a_short_file_written_over_and_over_uses_up_the_space_like_a_long_one(
    opened: Opener,
) -> None:
    o = opened(budgets={"max_blob_bytes": 1 << 16})
    texts = ["line 50\n", *(f"version {number}.\n" for number in range(20))]
    codes = [o.edit("src/a.py", *pair).code for pair in pairwise(texts)]
    assert codes[:5] == [""] * 5
    assert codes[-1] == "call_limit_spent"


# --- the lock -------------------------------------------------------------------------------------


def test_a_megabyte_of_patch_is_read_before_anybody_is_kept_waiting(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patches that take seconds, one after the other, would keep the human's commands out."""
    o = opened()
    held: list[bool] = []
    real = patches.parse

    def parse(text: str, limit: int) -> patches.PatchSet:
        with open(o.spike.judge / "lock", "r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.append(False)
            except BlockingIOError:
                held.append(True)
        return real(text, limit)

    monkeypatch.setattr(patches, "parse", parse)
    text = "--- a/src/a.py\n+++ b/src/a.py\n@@\n-line 50\n" + "+more\n" * 4000
    assert o.call("spike_apply_patch", patch=text, rationale="all of it").outcome == "accepted"
    broken = text.replace("-line 50", "?line 50")
    assert o.call("spike_apply_patch", patch=broken, rationale="again").code == "patch_malformed"
    assert held == [False, False]


# --- the verdict ----------------------------------------------------------------------------------


def test_code_that_sleeps_in_a_negative_control_delays_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five controls of ten minutes each would keep the human waiting for an hour."""
    monkeypatch.setattr(scoring, "LEAST_CONTROL_SECONDS", 2.0)
    monkeypatch.setattr(scoring, "CONTROL_FACTOR", 0.0)
    o = open_invoice(tmp_path)
    old, new = INVOICE_FIX
    sleeps = (
        "    import time\n"
        '    text = open("tests/test_invoice.py").read()\n'
        '    if text.count("1.00") + text.count("1.02") < 3:\n'
        "        time.sleep(500)\n"
    )
    assert o.edit("invoice.py", old, sleeps + new).outcome == "accepted"
    approve_all(o, "banker's rounding for the test")
    found = ask(o, final=True)
    assert verdict(found)[:2] == ("PARK", "negative_control_inconclusive")
