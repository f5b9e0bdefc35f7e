"""What the human decides and what the agent makes of it (spec 9; bugs.json B56, B58)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from acting import LONG, TAG, approve_all, current, fix, refused, rows, verdict
from acting import ask as ask_verdict
from support import Open, open_plain

from spike_mcp.core import layout
from spike_mcp.host import signing
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.measure import Run
from spike_mcp.session import decisions, ending, judging, rejecting, runs
from spike_mcp.session.spike import Spike

TYPO = "--- a/src/a.py\n+++ b/src/a.py\n@@ -9 +9 @@\n-line 9\n+line nine\n"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def o(tmp_path: Path, clock: ManualClock) -> Open:
    return open_plain(tmp_path, clock=clock, files=LONG)


def edit(o: Open, old: str, new: str) -> str:
    reply = o.edit("src/a.py", f"{old}\n", f"{new}\n")
    assert reply.outcome == "accepted", reply
    return str(reply.data["patch"])


def work(o: Open) -> bytes:
    return (o.spike.work / "src/a.py").read_bytes()


# --- what was seen is what is approved (B56) ------------------------------------------------------


def test_an_id_that_was_changed_meanwhile(o: Open) -> None:
    edit(o, "line 10", "ten")
    (seen,) = current(o).pending
    edit(o, "ten", "TEN")
    assert refused(lambda: decisions.approve(o.spike, [seen.id], TAG)) == "hunk_changed"
    approve_all(o)
    edit(o, "TEN", "TEN.")
    (again,) = current(o).pending
    assert again.old_tags == (TAG,)
    assert "touched by P3" in again.why


def test_a_view_that_looks_different_now(o: Open) -> None:
    edit(o, "line 10", "ten")
    (seen,) = current(o).pending
    edit(o, "line 14", "fourteen")
    approve_view = lambda: decisions.approve(o.spike, [seen.id], TAG, sha=seen.view)  # noqa: E731
    assert refused(approve_view) == "hunk_changed"


def test_a_new_neighbour_takes_no_approval_away(o: Open) -> None:
    edit(o, "line 10", "ten")
    approve_all(o)
    edit(o, "line 14", "fourteen")
    (both,) = current(o).hunks
    assert both.region_states == ("approved", "pending")
    assert both.tag == TAG
    edit(o, "fourteen", "line 14")
    assert not current(o).pending
    assert not current(o).withdrawn


def test_one_hunk_by_two_names_is_approved_once(o: Open) -> None:
    edit(o, "line 10", "ten")
    (seen,) = current(o).pending
    done = decisions.approve(o.spike, [seen.id, seen.short], f"  {TAG}\n now ")
    assert done.hunks == (seen.short,)
    assert [row["tag"] for row in rows(o, "hunk_approved")] == [f"{TAG} now"]


# --- rejecting (B58) ------------------------------------------------------------------------------


def test_rejects_take_back_exactly_their_own(o: Open) -> None:
    baseline = work(o)
    first = edit(o, "line 2", "two")
    second = edit(o, "line 3", "three")
    third = edit(o, "two", "zwei")
    assert refused(lambda: rejecting.reject(o.spike, [first])) == "hunk_changed"
    assert b"zwei\nthree\n" in work(o)
    rejecting.reject(o.spike, [third], "in English")
    assert b"two\nthree\n" in work(o)
    rejecting.reject(o.spike, [second])
    assert b"two\nline 3\n" in work(o)
    late = o.edit("src/a.py", "zwei\n", "2\n")
    assert late.code == "no_match"
    assert any("in English" in line for line in late.lines)
    rejecting.reject(o.spike, [], pending=True)
    assert work(o) == baseline


def test_a_rejected_hunk_is_gone_even_if_it_was_approved_once(o: Open) -> None:
    """Its own old approval is no reason to put it back."""
    baseline = work(o)
    edit(o, "line 10", "ten")
    approve_all(o)
    edit(o, "ten", "TEN")
    edit(o, "TEN", "ten")
    (again,) = current(o).pending
    rejecting.reject(o.spike, [again.id])
    assert work(o) == baseline
    assert not o.spike.state.approvals
    assert not o.spike.state.lapsed
    rejecting.undo(o.spike)
    assert len(current(o).pending) == 1


def test_a_reject_returns_to_the_last_approved_bytes(o: Open) -> None:
    edit(o, "line 10", "ten")
    approve_all(o)
    edit(o, "ten", "worse")
    (worse,) = current(o).pending
    plan = rejecting.plan_reject(o.spike, [worse.id])
    assert len(plan.revived) == 1
    rejecting.reject(o.spike, [worse.id])
    assert b"\nten\n" in work(o)
    assert not current(o).pending


def test_rejecting_one_patch_approves_nothing_else(o: Open) -> None:
    """A region that the agent brought back stays pending, whatever else is rejected."""
    edit(o, "line 10", "ten")
    approve_all(o)
    edit(o, "ten", "line 10")
    edit(o, "line 10", "ten")
    other = edit(o, "line 60", "sixty")
    assert len(current(o).pending) == 2
    rejecting.reject(o.spike, [other])
    (left,) = current(o).pending
    assert left.old_tags == (TAG,)
    assert not o.spike.state.approvals


def test_what_a_human_takes_out_asks_for_no_decision(o: Open) -> None:
    fix(o)
    edit(o, "line 9", "nine")
    approve_all(o)
    text = "--- a/src/a.py\n+++ b/src/a.py\n@@ -9 +9 @@\n-nine\n+line 9\n"
    ending.apply(o.spike, text, "not needed")
    assert not current(o).withdrawn
    assert verdict(ask_verdict(o))[0] == "SHIP"


# --- resubmitted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["agent", "human"])
def test_a_rejected_change_is_refused_once(o: Open, who: str) -> None:
    edit(o, "line 9", "line nine")
    rejecting.reject(o.spike, [], "digits, please", pending=True)

    def send() -> str:
        if who == "agent":
            return o.edit("src/a.py", "line 9\n", "line nine\n").code
        try:
            ending.apply(o.spike, TYPO, "a typo")
        except Exception as problem:
            return str(getattr(problem, "code", problem))
        return ""

    assert send() == "resubmitted"
    assert send() == ""
    (again,) = current(o).pending
    assert again.resubmitted
    assert "resubmitted" in {flag.name for flag in again.flags}
    flagged = lambda: decisions.approve(o.spike, [again.id], TAG)  # noqa: E731
    assert refused(flagged) == "flag_unacknowledged"


# --- writes ---------------------------------------------------------------------------------------


def test_a_foreign_change_is_named_before_the_content_is_compared(o: Open) -> None:
    """The agent's text does not match because somebody else wrote there: not its mistake."""
    (o.spike.work / "src/a.py").write_text("something else\n")
    for reply in (
        o.edit("src/a.py", "line 9\n", "nine\n"),
        o.call("spike_apply_patch", patch=TYPO, rationale="x"),
        o.call("spike_write_file", path="src/a.py", content="y\n", rationale="x"),
    ):
        assert reply.code == "out_of_band_change", reply
    assert o.edit(".git", "x", "y").code == "path_protected"


def test_after_the_cut_off_taking_the_middle_out_of_a_hunk_is_no_new_hunk(
    o: Open, clock: ManualClock
) -> None:
    edit(o, "line 10", "ten")
    edit(o, "line 20", "twenty")
    middle = edit(o, "line 15", "fifteen")
    assert len(current(o).hunks) == 1
    clock.tick(71 * 60)
    assert o.edit("src/a.py", "line 1\n", "one\n").code == "writes_closed"
    reply = o.call("spike_revert_patch", patch_id=middle, rationale="not needed")
    assert reply.outcome == "accepted", reply
    assert len(current(o).hunks) == 2


def test_a_run_that_began_just_before_a_reject_says_nothing_about_its_tree(
    o: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(o)
    begun = o.desk.call("spike_run_test", {})
    assert begun.ticket is not None
    monkeypatch.setattr(runs, "cancel_agent_run", lambda _spike: None)  # it came too late
    rejecting.reject(o.spike, [], pending=True)
    runs.finish(o.spike, begun.ticket, Run.start(begun.ticket.spec).wait(), human=False)
    assert [row["run"] for row in rows(o, "run_lost")] == [begun.ticket.run]
    assert not o.spike.state.green


# --- signed decisions -----------------------------------------------------------------------------


@pytest.fixture
def signed(tmp_path: Path, clock: ManualClock) -> tuple[Open, signing.Signer]:
    o = open_plain(tmp_path, clock=clock, files=LONG, passphrase="three little words")
    blob = (o.spike.judge / layout.SECRET_KEY).read_bytes()
    return o, signing.unlock(blob, "three little words")


def test_without_the_passphrase_nothing_is_even_begun(signed: tuple[Open, Any]) -> None:
    o, signer = signed
    edit(o, "line 10", "ten")
    before, count = work(o), len(rows(o))
    (each,) = current(o).pending
    for decide in (
        lambda: decisions.approve(o.spike, [each.id], TAG),
        lambda: rejecting.reject(o.spike, [each.id]),
    ):
        assert refused(decide) == "not_authorised"
    assert work(o) == before
    assert len(rows(o)) == count
    decisions.approve(o.spike, [each.id], TAG, signer=signer)
    assert not current(o).pending
    assert ending.verify(o.spike.root).findings == ()


def test_an_approval_slipped_into_the_last_row_is_forged(signed: tuple[Open, Any]) -> None:
    """The last row has no successor that would vouch for it: its signature does, for all of it."""
    o, signer = signed
    edit(o, "line 10", "ten")
    (each,) = current(o).pending
    decisions.approve(o.spike, [each.id], TAG, signer=signer)
    edit(o, "ten", "worse")
    (worse,) = current(o).pending
    rejecting.reject(o.spike, [worse.id], signer=signer)
    assert not Spike(o.spike.root).forged
    path = o.spike.judge / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    row = json.loads(lines[-1])
    assert row["event"] == "hunk_rejected"
    assert len(row["revived"]) == 1
    row["revived"] = []
    path.write_bytes(b"".join(lines[:-1]) + json.dumps(row, separators=(",", ":")).encode() + b"\n")
    assert Spike(o.spike.root).forged


def test_check_agrees_at_every_step(o: Open) -> None:
    assert judging.check(o.spike).decision == "no_diff"
    edit(o, "line 10", "ten")
    assert judging.check(o.spike).decision == "unexplained"
    approve_all(o)
    assert judging.check(o.spike).decision == "explained"
