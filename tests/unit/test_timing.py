"""The clock's rules, without a file or a real clock (spec 5)."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published import checkpoint_verdict
from story import Story

from spike_mcp.core import events as ev
from spike_mcp.core import timing
from spike_mcp.core.budgets import Budgets
from spike_mcp.core.codes import Checkpoint
from spike_mcp.core.state import used_minutes
from spike_mcp.core.verdict import Clean, Facts, judge

ATTEMPT, VERIFY, SETUP = Checkpoint.ATTEMPT, Checkpoint.VERIFY, Checkpoint.SETUP


# --- the attempt's allowance ----------------------------------------------------------------------


@pytest.mark.parametrize("look", [30.0, 30.5, 44.0, 59.0])
def test_green_at_the_allowance_closes_met_and_not_over_whenever_somebody_looks(
    look: float,
) -> None:
    story = Story(green=True).start().open().tick(look).settle()
    (row,) = story.stops()
    assert (row.minutes, row.met, row.over, row.why) == (30.0, True, False, "allowance")
    assert not story.over()


@pytest.mark.parametrize("look", [30.5, 44.0, 59.0])
def test_not_green_at_the_allowance_is_over_and_stays_open(look: float) -> None:
    story = Story().start().open().tick(look).settle()
    assert story.over()
    assert not story.stops()
    assert story.rows[-1] == ev.AllowanceSpent("attempt")
    (row,) = story.stop(met=True).stops()
    assert row.over
    assert row.met


def test_to_the_millisecond_the_allowance_is_spent_but_not_over() -> None:
    story = Story().start().open().tick(30).settle()
    assert timing.is_spent(story.state, story.budgets, ATTEMPT, story.elapsed)
    assert not story.over()
    assert timing.writes_close_in_seconds(story.state, story.budgets, story.elapsed) == 0


def test_minutes_add_up_over_visits_and_the_time_between_belongs_to_none() -> None:
    story = Story().start().open().tick(10).stop(why="verify").tick(5).open().tick(19).settle()
    assert not story.over()
    assert used_minutes(story.state, ATTEMPT, story.elapsed) == 29
    story.tick(2).settle()
    assert story.over()


def test_over_stands_in_one_stop_row_of_a_checkpoint_at_most() -> None:
    story = Story().start()
    for minutes in (16, 3, 1):
        story.open(VERIFY).tick(minutes).stop()
    assert [row.over for row in story.stops(VERIFY)] == [True, False, False]
    assert [row.allowed for row in story.stops(VERIFY)] == [15, 0, 0]
    assert story.over(VERIFY)


def test_an_extended_attempt_stays_over_and_says_so_once() -> None:
    story = Story().start().open().tick(31).settle().add(ev.CheckpointExtended("attempt"))
    assert timing.writes_close_in_seconds(story.state, story.budgets, story.elapsed) == 39 * 60
    (row,) = story.tick(20).settle().stop().stops()
    assert row.over
    assert row.minutes == 51
    assert row.allowed == 30


def test_while_a_backlog_holds_the_attempts_clock_stands() -> None:
    story = Story().start().open().tick(10).add(ev.BacklogBegan(20)).tick(25).settle()
    assert used_minutes(story.state, ATTEMPT, story.elapsed) == 10
    story.add(ev.BacklogEnded(19)).tick(19.9).settle()
    assert not story.over()
    story.tick(0.2).settle()
    assert story.over()
    (row,) = story.stop().stops()
    assert row.minutes == pytest.approx(30.1)


def test_a_visit_that_stops_in_a_backlog_does_not_count_it() -> None:
    story = Story().start().open().tick(10).add(ev.BacklogBegan(20)).tick(7).stop(why="done")
    assert story.stops()[0].minutes == 10
    assert story.state.backlog_since is None


# --- who may open it ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "agent", "human"),
    [("verify", True, True), ("done", False, True), ("human", False, True)],
)
def test_who_resumes_the_attempt(why: str, agent: bool, human: bool) -> None:
    story = Story().start().open().tick(10).stop(why=why)
    facts = (story.state, story.budgets, story.elapsed)
    assert timing.may_open_attempt(*facts, human=False) is agent
    assert timing.may_open_attempt(*facts, human=True) is human


def test_nothing_opens_without_allowance_or_before_red() -> None:
    fresh = Story().add(ev.Started())
    assert not timing.may_open_attempt(fresh.state, fresh.budgets, 0, human=True)
    spent = Story(green=True).start().open().tick(31).settle()
    assert spent.stops()[0].why == "allowance"
    assert not timing.may_open_attempt(spent.state, spent.budgets, spent.elapsed, human=True)


# --- verify ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", [75.0, 80.0, 89.0, 120.0])
def test_verify_opens_by_itself_and_closes_the_attempt_at_its_moment(look: float) -> None:
    """The attempt has five minutes left at minute 75, so it is not over, even if nobody looks
    before minute 85: rows fall due in the order of their moments."""
    story = Story().start().tick(50).open().tick(look - 50).settle()
    (row,) = story.stops()
    assert (row.minutes, row.over, row.why) == (25.0, False, "verify")
    assert story.state.visit is not None
    assert (story.state.visit.checkpoint, story.state.visit.opened) == (VERIFY, 75 * 60)
    assert not story.over()


def test_an_allowance_that_ends_before_verify_is_over_even_if_seen_later() -> None:
    story = Story().start().tick(40).open().tick(45).settle()
    assert story.over()
    (row,) = story.stops()
    assert (row.minutes, row.over, row.why) == (35.0, True, "verify")


def test_verify_that_ran_before_opens_later() -> None:
    story = Story().start().open(VERIFY).tick(5).stop().tick(74).settle()
    assert story.state.visit is None
    story.tick(2).settle()
    assert story.state.visit is not None
    assert story.state.visit.opened == 80 * 60


def test_verify_that_is_used_up_opens_no_more() -> None:
    story = Story().start().open(VERIFY).tick(16).stop().tick(73).settle()
    assert story.state.visit is None
    assert timing.verify_due_at(story.state, story.budgets) == 90 * 60


def test_verify_from_its_moment_to_the_end_is_not_over() -> None:
    story = Story().start().tick(90).settle()
    assert not story.over(VERIFY)
    (row,) = story.stop().stops(VERIFY)
    assert (row.minutes, row.over) == (15.0, False)


def test_nothing_falls_due_before_red_or_after_the_end() -> None:
    assert Story().add(ev.Started()).open(SETUP).tick(80).settle().state.visit is not None
    for end in (ev.VerdictWritten("KILL", "deadline_exceeded", ""), ev.Killed()):
        story = Story().start().open().add(end).tick(80)
        count = len(story.rows)
        assert len(story.settle().rows) == count


# --- the clock under all this ---------------------------------------------------------------------


def test_suspended_time_counts() -> None:
    story = Story().start().tick(10)
    story.clock.suspend(30 * 60)
    assert story.elapsed == 40 * 60


def test_a_reboot_counts_and_a_wall_clock_set_back_gains_nothing() -> None:
    story = Story().start().tick(10).add(ev.FeedbackDelivered(0))
    story.clock.reboot(5 * 60)
    assert story.elapsed == 15 * 60
    story.add(ev.FeedbackDelivered(0))
    story.clock.set_wall(-3600)
    assert story.elapsed == 15 * 60
    story.tick(1)
    assert story.elapsed == 16 * 60


# --- whoever looks, and when ----------------------------------------------------------------------

MOVES = st.lists(
    st.tuples(
        st.sampled_from(["open", "done", "verify", "backlog", "relief", "extend", "nothing"]),
        st.floats(0.01, 25, allow_nan=False).map(lambda m: round(m, 2)),
    ),
    max_size=8,
)


def played(moves: list[tuple[str, float]], looks: int, green: bool) -> Story:
    """The moves, with `looks` extra looks between two of them."""
    story = Story(green=green).start()
    for move, minutes in moves:
        for _ in range(looks + 1):
            story.tick(round(minutes / (looks + 1), 6))
            if story.elapsed < 90 * 60:
                story.settle()
        if story.elapsed < 90 * 60:
            _make(story, move)
    return story.settle()


def _make(story: Story, move: str) -> None:
    visit = story.state.visit
    attempting = visit is not None and visit.checkpoint is ATTEMPT
    facts = (story.state, story.budgets, story.elapsed)
    if move == "open" and timing.may_open_attempt(*facts, human=True):
        story.open()
    elif move == "done" and attempting:
        story.stop(met=story.green, why="done")
    elif move == "verify" and visit is None:
        story.open(VERIFY).tick(0.5).stop()
    elif move == "backlog" and story.state.backlog_since is None:
        story.add(ev.BacklogBegan(20))
    elif move == "relief" and story.state.backlog_since is not None:
        story.add(ev.BacklogEnded(3))
    elif move == "extend" and attempting and story.over():
        story.add(ev.CheckpointExtended("attempt"))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(MOVES, st.booleans())
def test_how_often_somebody_looks_changes_no_checkpoint(
    moves: list[tuple[str, float]], green: bool
) -> None:
    once, often = played(moves, 0, green), played(moves, 3, green)
    for name in Checkpoint:
        one, other = once.stops(name), often.stops(name)
        assert [r.minutes for r in one] == pytest.approx([r.minutes for r in other], abs=2e-3)
        assert [(r.over, r.met) for r in one] == [(r.over, r.met) for r in other]
        assert once.over(name) == often.over(name)
        assert sum(row.over for row in one) <= 1


@settings(max_examples=100, deadline=None, derandomize=True)
@given(MOVES, st.booleans())
def test_visits_do_not_overlap_and_stay_below_the_total(
    moves: list[tuple[str, float]], green: bool
) -> None:
    story = played(moves, 0, green)
    if story.state.visit is not None:
        story.stop()
    spent = sum(row.minutes for name in Checkpoint for row in story.stops(name))
    assert spent <= story.elapsed / 60 + 1e-2
    for name in Checkpoint:
        rows = story.stops(name)
        for before, after in pairwise(rows):
            assert after.allowed <= before.allowed
        told = any(row.over for row in rows)
        assert told == timing.is_over(story.state, story.budgets, name, story.elapsed)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(MOVES, st.booleans())
def test_the_published_rule_over_the_rows_says_the_same(
    moves: list[tuple[str, float]], green: bool
) -> None:
    """KILL at two overs, SHIP when the last is met and none is over, else PARK."""
    story = played(moves, 0, green)
    if story.elapsed >= 90 * 60:
        return
    if story.state.visit is None or story.state.visit.checkpoint is not VERIFY:
        if story.state.visit is not None:
            story.stop(met=green, why="verify")
        story.open(VERIFY).tick(0.1)
    story.stop(met=True, why="verdict")
    rows = [{"event": row.NAME, **ev.encode(row)} for row in story.rows]
    overs = tuple(name.value for name in Checkpoint if story.over(name))
    facts = Facts(has_diff=True, green_measured=True, clean=Clean.GREEN, overs=overs)
    assert checkpoint_verdict(rows) == judge(facts).decision.value


def test_budgets_scale_with_the_total() -> None:
    budgets = Budgets.of({"total": 9})
    story = Story(budgets).start().open().tick(3.1).settle()
    assert story.over()
    assert timing.verify_due_at(story.state, budgets) == 7.5 * 60
