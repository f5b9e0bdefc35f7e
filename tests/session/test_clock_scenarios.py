"""The end of a spike as its clock makes it: real spikes, a clock moved by hand (spec 5, 12)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from acting import (
    LONG,
    approve_all,
    ask,
    current,
    fix,
    refused,
    rows,
    silent,
    verdict,
)
from published import checkpoint_verdict, rows_of
from support import PLAIN, Open, make_repo, open_plain, plain_options

from spike_mcp.core.codes import Checkpoint, Problem
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.evidence import RunOutcome
from spike_mcp.host.measure import Run
from spike_mcp.session import decisions, ending, judging, rejecting, runs, scoring, starting, view
from spike_mcp.session.checkpoints import checkpoint
from spike_mcp.session.opening import init
from spike_mcp.session.status import status

KILLED = ("KILL", "deadline_exceeded", 3)
SHIPPED = ("SHIP", "oracle_unchanged_and_test_passed", 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(tmp_path: Path, clock: ManualClock) -> Callable[..., Open]:
    def make(**more: Any) -> Open:
        return open_plain(tmp_path, clock=clock, files=more.pop("files", LONG), **more)

    return make


@pytest.fixture
def o(opened: Callable[..., Open]) -> Open:
    return opened()


def minutes(clock: ManualClock, amount: float) -> None:
    clock.tick(amount * 60)


# --- the total ------------------------------------------------------------------------------------


def test_a_suspended_laptop_spends_its_budget(o: Open, clock: ManualClock) -> None:
    """bugs.json B54: asleep at minute 60, awake at minute 300."""
    fix(o)
    approve_all(o)
    minutes(clock, 60)
    clock.suspend(4 * 3600)
    minutes(clock, 5)
    for tool, arguments in (
        ("spike_edit_file", {"path": "a", "old_text": "", "new_text": "", "rationale": "x"}),
        ("spike_run_test", {}),
        ("spike_status", {}),
        ("no_such_tool", {}),
    ):
        reply = o.call(tool, **arguments)
        assert reply.code == "budget_spent"
        assert "suspended 4h00m" in reply.lines[1]
    found = ask(o)
    assert verdict(found) == KILLED
    assert "suspended 4h00m" in found.result["clock"]
    last = rows(o)[-1]
    assert last["boot_ms"] - rows(o, "started")[0]["boot_ms"] == 305 * 60_000
    assert last["mono_ms"] - rows(o, "started")[0]["mono_ms"] == 65 * 60_000


def test_a_reboot_and_a_wall_clock_set_back_gain_nothing(o: Open, clock: ManualClock) -> None:
    minutes(clock, 30)
    fix(o)
    clock.reboot(20 * 60)
    assert o.call("spike_status").remaining == 40 * 60
    clock.set_wall(-3 * 3600)
    assert o.call("spike_status").remaining == 40 * 60
    assert rows(o, "clock_disagreed")
    minutes(clock, 41)
    assert o.call("spike_status").code == "budget_spent"


def test_a_wall_clock_put_forward_counts(o: Open, clock: ManualClock) -> None:
    clock.set_wall(3600)
    assert o.call("spike_status").remaining == 30 * 60


def test_undecided_at_the_deadline(o: Open, clock: ManualClock) -> None:
    fix(o)
    assert o.call("spike_run_test").data["green"]
    minutes(clock, 100)
    answer = judging.at_deadline(o.spike)
    assert answer is not None
    assert verdict(answer) == KILLED
    assert answer.result["elapsed_sec"] == answer.result["deadline_sec"] == 5400
    assert verdict(ask(o, final=True)) == KILLED
    assert o.call("spike_status").code == "budget_spent"


def test_approved_and_green_at_the_deadline_still_ships(o: Open, clock: ManualClock) -> None:
    fix(o)
    assert o.call("spike_run_test").data["green"]
    approve_all(o)
    minutes(clock, 95)
    assert verdict(ask(o)) == SHIPPED
    assert checkpoint_verdict(rows_of(o.spike.root)) == "SHIP"


def test_approved_but_never_measured_at_the_deadline(o: Open, clock: ManualClock) -> None:
    fix(o)
    approve_all(o)
    minutes(clock, 90)
    assert verdict(ask(o)) == KILLED
    assert not rows(o, "hidden_started")
    assert ask(o).result["clean_run"] == "not_run"


def test_a_run_that_ends_after_the_total_did_not_happen(o: Open, clock: ManualClock) -> None:
    fix(o)
    approve_all(o)
    minutes(clock, 89)
    begun = o.desk.call("spike_run_test", {})
    assert begun.ticket is not None
    minutes(clock, 2)
    runs.finish(o.spike, begun.ticket, Run.start(begun.ticket.spec).wait(), human=False)
    assert verdict(ask(o)) == KILLED


def test_what_is_not_looked_at_in_time_is_undecided(o: Open, clock: ManualClock) -> None:
    fix(o)
    minutes(clock, 90)
    (each,) = view.hunk_map(o.spike).pending
    for decide in (
        lambda: decisions.approve(o.spike, [each.id], "rewriting the sample lines"),
        lambda: rejecting.reject(o.spike, [each.id]),
        lambda: decisions.note_unknown(o.spike, "something else"),
        lambda: rejecting.undo(o.spike),
        lambda: checkpoint(o.spike, "start", "attempt"),
        lambda: ending.apply(o.spike, "", ""),
    ):
        assert refused(decide) == "budget_spent"
    assert verdict(ask(o)) == KILLED


def test_a_verdict_asked_for_in_time_may_finish_later(o: Open, clock: ManualClock) -> None:
    minutes(clock, 70 - 1)
    fix(o)
    approve_all(o)
    minutes(clock, 20)

    def slow(text: str) -> None:
        if text.startswith("scoring"):
            minutes(clock, 10)

    found = ask(o, on_progress=slow)
    assert verdict(found) == SHIPPED
    assert found.result["elapsed_sec"] == 89 * 60
    assert not found.result["over"]


def test_closing_a_spike_after_its_time_is_a_missed_deadline(o: Open, clock: ManualClock) -> None:
    fix(o)
    minutes(clock, 91)
    ending.kill(o.spike)
    assert o.spike.state.verdict is not None
    assert o.spike.state.verdict.reason == "deadline_exceeded"


def test_the_total_runs_out_before_the_test_was_seen_red(
    tmp_path: Path, clock: ManualClock
) -> None:
    repo = make_repo(tmp_path / "repo", PLAIN)
    spike = init(plain_options(repo, tmp_path / "root"), clock=clock).spike
    starting.start(spike, manual=True, on_progress=silent)
    checkpoint(spike, "start", "setup")
    minutes(clock, 95)
    found = judging.at_deadline(spike)
    assert found is not None
    assert found.result["reason"] == "deadline_exceeded"
    stops = [row for row in rows_of(spike.root) if row["event"] == "stop"]
    assert [(row["checkpoint"], row["minutes"], row["over"]) for row in stops] == [
        ("setup", 90, True)
    ]
    for late in (
        lambda: checkpoint(spike, "stop", "setup"),
        lambda: starting.start(spike, on_progress=silent),
    ):
        assert refused(late) in ("budget_spent", "spike_closed")


# --- the attempt ----------------------------------------------------------------------------------


def test_green_at_the_allowance(o: Open, clock: ManualClock) -> None:
    fix(o)
    assert o.call("spike_run_test").data["green"]
    minutes(clock, 45)
    assert o.edit("src/a.py", "line 9\n", "x\n").code == "checkpoint_over"
    (row,) = [r for r in rows(o, "stop") if r["checkpoint"] == "attempt"]
    assert (row["minutes"], row["met"], row["over"]) == (30, True, False)
    approve_all(o)
    assert verdict(ask(o)) == SHIPPED


def test_not_green_at_the_allowance_parks_at_best(o: Open, clock: ManualClock) -> None:
    fix(o)
    minutes(clock, 31)
    assert o.edit("src/a.py", "line 9\n", "x\n").code == "checkpoint_over"
    assert o.call("spike_run_test").data["green"]
    approve_all(o)
    assert verdict(ask(o)) == ("PARK", "checkpoint_over_budget", 10)
    assert not ask(o).written
    assert verdict(ask(o, final=True)) == ("PARK", "checkpoint_over_budget", 6)
    assert checkpoint_verdict(rows_of(o.spike.root)) == "PARK"


def test_extended_on_the_record(o: Open, clock: ManualClock) -> None:
    fix(o)
    assert refused(lambda: checkpoint(o.spike, "extend", "attempt")) == "checkpoint_closed"
    minutes(clock, 31)
    assert checkpoint(o.spike, "extend", "attempt").over
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    minutes(clock, 39)
    assert o.edit("src/a.py", "line 8\n", "x\n").code == "writes_closed"
    approve_all(o)
    assert verdict(ask(o, final=True)) == ("PARK", "checkpoint_over_budget", 6)
    overs = [r["over"] for r in rows(o, "stop") if r["checkpoint"] == "attempt"]
    assert overs == [True]


def test_stopping_after_the_allowance_voids_the_budget(o: Open, clock: ManualClock) -> None:
    fix(o)
    minutes(clock, 31)
    done = checkpoint(o.spike, "stop", "attempt")
    assert done.over
    assert done.message == "budget void, close the spike and write the verdict"


def test_two_checkpoints_over_kill(o: Open, clock: ManualClock) -> None:
    fix(o)
    assert o.call("spike_run_test").data["green"]
    approve_all(o)
    checkpoint(o.spike, "start", "verify")
    minutes(clock, 16)
    assert checkpoint(o.spike, "stop", "verify").over
    checkpoint(o.spike, "start", "attempt")
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    minutes(clock, 31)
    assert verdict(ask(o, final=True)) == ("KILL", "checkpoints_over_budget", 3)
    assert ask(o).result["over"] == ["attempt", "verify"]
    assert checkpoint_verdict(rows_of(o.spike.root)) == "KILL"


def test_done_ends_the_attempt_and_who_may_resume_it(o: Open, clock: ManualClock) -> None:
    fix(o)
    minutes(clock, 10)
    assert o.call("spike_report", kind="done", text="it is green").outcome == "accepted"
    assert o.edit("src/a.py", "line 9\n", "x\n").code == "checkpoint_closed"
    minutes(clock, 30)
    assert checkpoint(o.spike, "start", "attempt").action == "start"
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    minutes(clock, 19)
    assert o.edit("src/a.py", "no such line", "y").code == "no_match"
    minutes(clock, 1.1)
    assert o.edit("src/a.py", "line 8\n", "x\n").code == "checkpoint_over"


@pytest.mark.parametrize("how", ["reject", "apply"])
def test_a_reject_and_a_patch_of_the_human_resume_it(o: Open, clock: ManualClock, how: str) -> None:
    fix(o)
    minutes(clock, 10)
    o.call("spike_report", kind="done", text="it is green")
    if how == "reject":
        assert rejecting.reject(o.spike, [current(o).hunks[0].id], "not like this").resumed
    else:
        text = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-line 1\n+line one\n"
        assert ending.apply(o.spike, text, "a typo").resumed
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"


def test_a_verdict_command_that_writes_nothing_lets_the_attempt_go_on(
    o: Open, clock: ManualClock
) -> None:
    fix(o)
    minutes(clock, 5)
    found = ask(o)
    assert not found.written
    assert verdict(found)[1] == "unexplained_diff"
    assert int(found.exit) == 10
    minutes(clock, 5)
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    found_status = status(o.spike, clock.read())
    assert found_status.phase == "attempt"
    assert found_status.checkpoints["attempt"]["used_minutes"] == 5


def test_verify_opens_by_itself(o: Open, clock: ManualClock) -> None:
    minutes(clock, 50)
    fix(o)
    assert o.call("spike_run_test").data["green"]
    minutes(clock, 26)
    assert o.edit("src/a.py", "line 9\n", "x\n").code == "writes_closed"
    assert status(o.spike, clock.read()).phase == "verify"
    assert o.call("spike_run_test").outcome == "accepted"
    (row,) = [r for r in rows(o, "stop") if r["checkpoint"] == "attempt"]
    assert (row["minutes"], row["over"], row["met"]) == (25, False, True)
    approve_all(o)
    assert verdict(ask(o)) == SHIPPED
    assert ask(o).result["checkpoints"]["verify"]["minutes"] == 1


def test_a_backlog_stands_the_attempts_clock(
    opened: Callable[..., Open], clock: ManualClock
) -> None:
    o = opened(budgets={"max_pending": 2})
    for line in (10, 30):
        assert o.edit("src/a.py", f"line {line}\n", "x\n").outcome == "accepted"
    minutes(clock, 10)
    assert o.edit("src/a.py", "line 50\n", "GREEN\n").code == "review_backlog"
    minutes(clock, 25)
    assert o.edit("src/a.py", "line 50\n", "GREEN\n").code == "review_backlog"
    assert status(o.spike, clock.read()).checkpoints["attempt"]["used_minutes"] == 10
    approve_all(o)
    assert rows(o, "backlog_ended")
    minutes(clock, 19)
    assert o.edit("src/a.py", "line 50\n", "GREEN\n").outcome == "accepted"
    minutes(clock, 2)
    assert o.edit("src/a.py", "line 70\n", "x\n").code == "checkpoint_over"


def test_no_clock_stands_while_fewer_hunks_than_the_limit_wait(
    opened: Callable[..., Open], clock: ManualClock
) -> None:
    """One large patch must not buy time: nothing keeps the agent from sending a smaller one."""
    o = opened(budgets={"max_pending": 2})
    assert o.edit("src/a.py", "line 10\n", "x\n").outcome == "accepted"
    text = "".join("x\n" if n in (10, 30, 50, 70) else f"line {n}\n" for n in range(1, 101))
    sha = o.call("spike_read_file", path="src/a.py").data["sha256"]
    big = o.call(
        "spike_write_file", path="src/a.py", content=text, rationale="all", expected_sha256=sha
    )
    assert big.code == "review_backlog"
    minutes(clock, 31)
    assert o.edit("src/a.py", "line 30\n", "x\n").code == "checkpoint_over"
    assert not rows(o, "backlog_began")


def test_the_agents_own_revert_ends_the_backlog_at_once(
    opened: Callable[..., Open], clock: ManualClock
) -> None:
    o = opened(budgets={"max_pending": 2})
    for line in (10, 30):
        assert o.edit("src/a.py", f"line {line}\n", "x\n").outcome == "accepted"
    assert o.edit("src/a.py", "line 50\n", "GREEN\n").code == "review_backlog"
    minutes(clock, 5)
    assert o.call("spike_revert_patch", patch_id="P2", rationale="room").outcome == "accepted"
    assert rows(o, "backlog_ended")
    minutes(clock, 31)
    assert o.edit("src/a.py", "line 50\n", "GREEN\n").code == "checkpoint_over"


# --- other ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("green_at", "decision"), [(9, "SHIP"), (11, "PARK")])
def test_the_hypothesis_has_a_budget_of_its_own(
    opened: Callable[..., Open], clock: ManualClock, green_at: float, decision: str
) -> None:
    o = opened(
        hypothesis="one new line makes the sample file green within 10 minutes, "
        "measured by sh check.sh",
        argv=(),
    )
    minutes(clock, 20)
    fix(o)
    assert o.edit("src/a.py", "line 9\n", "junk\n").outcome == "accepted"
    minutes(clock, green_at)
    assert o.call("spike_run_test").data["green"]
    minutes(clock, 5)
    rejecting.reject(o.spike, [current(o).hunks[0].id])
    for each in current(o).pending:
        decisions.approve(o.spike, [each.id], "makes the sample line green")
    found = ask(o, final=True)
    assert found.result["decision"] == decision
    if decision == "PARK":
        assert found.result["reason"] == "hypothesis_budget_exceeded"


def test_closed_by_the_human(o: Open) -> None:
    fix(o)
    ending.kill(o.spike, "it missed the point")
    assert o.spike.state.verdict is not None
    assert o.spike.state.verdict.reason == "closed_by_human"
    assert rows(o)[-1]["note"] == "it missed the point"
    assert not o.spike.work.exists()
    assert o.call("spike_status").code == "spike_closed"


def test_closing_a_spike_does_not_hide_what_was_tampered_with(o: Open) -> None:
    fix(o)
    (o.spike.work / "tests/test_oracle.py").write_text("assert 0\n")
    ending.kill(o.spike)
    assert o.spike.state.verdict is not None
    assert o.spike.state.verdict.reason == "oracle_hash_changed"


def not_started(tmp_path: Path, clock: ManualClock, baseline: str) -> Open:
    files = {**PLAIN, "src/a.py": baseline}
    repo = make_repo(tmp_path / "repo", files)
    return Open(init(plain_options(repo, tmp_path / "root"), clock=clock).spike, repo)


def start(o: Open) -> starting.StartResult:
    """`spike start` with a short PATH: a plain command seals every toolchain it might start."""
    with patch.dict(os.environ, {"PATH": "/usr/bin:/bin"}):
        return starting.start(o.spike, on_progress=silent)


def test_already_green(tmp_path: Path, clock: ManualClock) -> None:
    o = not_started(tmp_path, clock, "GREEN\n")
    assert refused(lambda: start(o)) == "already_green"
    assert o.call("spike_status").outcome == "accepted"
    assert o.call("spike_list_files").code == "not_started"
    ending.kill(o.spike)
    assert verdict(ask(o)) == ("KILL", "already_green", 7)


def test_a_flaky_baseline_may_be_started_again(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    o = not_started(tmp_path, clock, "red\n")
    real, turns = starting._run, iter([RunOutcome.PASSED])

    def sometimes(*arguments: Any) -> Any:
        result = real(*arguments)
        return replace(result, outcome=next(turns, result.outcome))

    monkeypatch.setattr(starting, "_run", sometimes)
    assert refused(lambda: start(o)) == "flaky_baseline"
    minutes(clock, 3)
    assert start(o).weak == "exit_code"
    assert o.spike.state.checkpoints[Checkpoint.REPRODUCE].visits == 2
    # It was red in the end: closing it now is a human's decision and nothing else.
    ending.kill(o.spike)
    assert verdict(ask(o)) == ("KILL", "closed_by_human", 7)


def test_a_second_start_of_a_running_spike(o: Open) -> None:
    assert refused(lambda: starting.start(o.spike, on_progress=silent)) == "already_started"


def test_a_withdrawn_hunk_is_unexplained_until_somebody_says(o: Open) -> None:
    fix(o)
    assert o.edit("src/a.py", "line 9\n", "extra\n").outcome == "accepted"
    approve_all(o)
    assert o.edit("src/a.py", "extra\n", "line 9\n").outcome == "accepted"
    assert verdict(ask(o))[1] == "unexplained_diff"
    (gone,) = current(o).withdrawn
    decisions.accept_withdrawal(o.spike, gone.id)
    assert verdict(ask(o)) == SHIPPED


def test_an_approved_change_can_not_vanish_in_two_steps(o: Open) -> None:
    """First changed, then taken back: the human's approved bytes are gone all the same."""
    fix(o)
    assert o.edit("src/a.py", "line 9\n", "extra\n").outcome == "accepted"
    approve_all(o)
    assert o.edit("src/a.py", "extra\n", "extra!\n").outcome == "accepted"
    assert len(current(o).pending) == 1
    assert o.edit("src/a.py", "extra!\n", "line 9\n").outcome == "accepted"
    (gone,) = current(o).withdrawn
    assert verdict(ask(o))[1] == "unexplained_diff"
    rejecting.reject(o.spike, [gone.id])
    assert b"extra\n" in (o.spike.work / "src/a.py").read_bytes()
    assert verdict(ask(o)) == SHIPPED


def test_a_new_unknown_parks_a_red_spike(o: Open) -> None:
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    approve_all(o)
    o.call("spike_report", kind="unknown", text="the grep is in another module")
    assert verdict(ask(o)) == ("KILL", "test_failed", 10)
    decisions.confirm_unknown(o.spike, 1)
    assert verdict(ask(o, final=True)) == ("PARK", "test_failed", 6)
    assert ask(o).result["unknowns"][0]["confirmed"]


def test_a_new_unknown_at_the_deadline(o: Open, clock: ManualClock) -> None:
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    approve_all(o)
    decisions.note_unknown(o.spike, "the grep is in another module")
    minutes(clock, 90)
    assert verdict(ask(o)) == ("PARK", "test_failed", 6)


def test_the_human_can_lower_but_not_raise(o: Open) -> None:
    fix(o)
    raised = checkpoint(o.spike, "stop", "attempt", met="yes")
    assert raised.overruled
    assert raised.met is False
    checkpoint(o.spike, "start", "attempt")
    assert o.call("spike_run_test").data["green"]
    lowered = checkpoint(o.spike, "stop", "attempt", met="no")
    assert (lowered.met, lowered.overruled) == (False, False)
    approve_all(o)
    assert verdict(ask(o, final=True)) == ("PARK", "checkpoint_not_met", 6)


@pytest.mark.parametrize(("count", "decision"), [(19, "SHIP"), (20, "PARK")])
def test_forty_changed_lines_are_too_many(o: Open, count: int, decision: str) -> None:
    for number in range(1, count):
        assert o.edit("src/a.py", f"line {number}\n", f"x{number}\n").outcome == "accepted"
    fix(o, f"line {count}\n")
    approve_all(o)
    found = ask(o, final=True)
    assert found.result["patch_lines"] == 2 * count
    assert found.result["decision"] == decision
    assert found.result["reason"] != "test_failed"


def test_no_diff(o: Open) -> None:
    assert verdict(ask(o, final=True)) == ("KILL", "hypothesis_not_exercised", 2)


def test_after_the_verdict_only_what_may_follow(
    o: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CANCEL_SECONDS", 0.05)  # nobody ends this run
    fix(o)
    begun = o.desk.call("spike_run_test", {})
    assert begun.ticket is not None
    minutes(clock, 91)
    before = len(rows(o))
    assert verdict(ask(o)) == KILLED
    place = next(n for n, row in enumerate(rows(o)) if row["event"] == "verdict")
    assert place >= before
    minutes(clock, 5)
    o.call("spike_status")
    for late in (
        lambda: rejecting.undo(o.spike),
        lambda: judging.rehearse(o.spike, tree=False, on_progress=silent),
        lambda: checkpoint(o.spike, "stop", "verify"),
    ):
        assert refused(late) in ("spike_closed", "budget_spent")
    judging.check(o.spike)
    ending.kill(o.spike)
    allowed = {"call_refused", "refusals_repeated", "tail_discarded", "run_lost", "killed"}
    assert {row["event"] for row in rows(o)[place + 1 :]} <= allowed


def test_a_patch_after_the_verdict_opens_nothing(o: Open) -> None:
    fix(o)
    assert ask(o, final=True).written
    text = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-line 1\n+line one\n"
    assert refused(lambda: ending.apply(o.spike, text, "late")) == "spike_closed"
    assert [row["event"] for row in rows(o)][-2:] == ["verdict", "call_refused"]


# --- a verdict that does not come to an end -------------------------------------------------------


def test_an_interrupted_verdict_lets_the_agent_go_on(
    o: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(o)
    approve_all(o)

    def stop(*_arguments: Any, **_more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(scoring, "run_clean", stop)
        with pytest.raises(KeyboardInterrupt):
            ask(o)
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    stops = [row["why"] for row in rows(o, "stop") if row["checkpoint"] == "verify"]
    assert stops == ["interrupted"]


def test_a_decision_while_it_is_scored_asks_for_another_verdict(o: Open) -> None:
    fix(o)
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    approve_all(o)

    def meddle(text: str) -> None:
        if text.startswith("scoring"):
            rejecting.reject(type(o.spike)(o.spike.root, o.spike.clock), [current(o).hunks[0].id])

    assert refused(lambda: ask(o, final=True, on_progress=meddle)) == "hunk_changed"
    assert o.spike.state.verdict is None
    assert verdict(ask(o)) == SHIPPED


def test_once_hidden_parts_began_only_the_verdict_follows(
    opened: Callable[..., Open], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden.py"
    hidden.write_text("assert 2\n")
    o = opened(hidden={"tests/test_oracle.py": hidden})
    fix(o)
    approve_all(o)
    found = ask(o)
    assert not found.written
    assert found.todo == ("hidden parts not yet run; spike verdict --final decides",)
    assert not rows(o, "hidden_started")

    def die(*_arguments: Any, **_more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(scoring, "_with_hidden", die)
        with pytest.raises(KeyboardInterrupt):
            ask(o, final=True)
    assert rows(o, "hidden_started")
    assert o.call("spike_status").code == "spike_closed"
    assert refused(lambda: rejecting.undo(o.spike)) == "spike_closed"
    assert refused(lambda: checkpoint(o.spike, "start", "attempt")) == "spike_closed"
    assert verdict(ask(o)) == SHIPPED
    assert ask(o).result["hidden_parts"] == "passed"


def test_a_verdict_without_its_row_is_damage(o: Open) -> None:
    """result.json is made after the row: where only the file is left, rows were cut off."""
    fix(o)
    approve_all(o)
    assert verdict(ask(o)) == SHIPPED
    path = o.spike.judge / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"event":"verdict"' in line)
    path.write_bytes(b"".join(lines[:at]))
    spike = type(o.spike)(o.spike.root, o.spike.clock)
    again = Open(spike, o.repo)
    assert again.call("spike_status").code == "ledger_damaged"
    assert verdict(ask(again)) == ("KILL", "ledger_damaged", 5)
    with pytest.raises(Problem):
        ending.ship(spike)
