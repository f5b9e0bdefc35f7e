"""The fold: every row kind read back as written, and what each one changes (spec 10)."""

import json
from dataclasses import fields, replace
from typing import Any, get_type_hints

import pytest
from story import Story

from spike_mcp.core import events as ev
from spike_mcp.core.codes import Actor, ChangeKind, Checkpoint
from spike_mcp.core.hunks import hunk_id
from spike_mcp.core.model import State

SHA = "ab" * 32
A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


def region(key: str, start: int = 4, count: int = 1, path: str = "src/a.py") -> ev.RegionRow:
    return (key, path, ChangeKind.MODIFY.value, start, count, SHA, SHA)


def spans(*rows: ev.SpanRow, path: str = "src/a.py") -> tuple[ev.FileSpans, ...]:
    return ((path, ChangeKind.MODIFY.value, rows),)


def patch(number: int, *rows: ev.SpanRow, **more: Any) -> ev.PatchApplied:
    files = (("src/a.py", SHA, f"{number:064x}", 0o100644),)
    return ev.PatchApplied(
        files=files, spans=spans(*rows), patch=f"P{number}", tool="spike_edit_file", **more
    )


def approved(number: int, *regions: ev.RegionRow, tag: str = "serves it") -> ev.HunkApproved:
    return ev.HunkApproved(f"D{number}", hunk_id(r[0] for r in regions), regions, tag)


def here(key: str, start: int = 4) -> ev.SpanRow:
    return (key, start, 1, 1)


# --- the codec ------------------------------------------------------------------------------------

SAMPLES: dict[Any, Any] = {
    str: "a text",
    int: 7,
    float: 1.5,
    bool: True,
    int | None: 3,
    tuple[str, ...]: ("a", "b"),
    tuple[tuple[str, str], ...]: (("a", "b"), ("c", "d")),
    tuple[str, int, int]: ("boot", 12, 34),
    tuple[str, int, int] | tuple[()]: ("boot", 12, 34),
    tuple[ev.FileRow, ...]: (("src/a.py", "", SHA, 0o100644),),
    tuple[ev.FileSpans, ...]: spans(here(A), here(B, 40)),
    tuple[ev.RegionRow, ...]: (region(A),),
}
KINDS = sorted(ev.REGISTRY.values(), key=lambda kind: kind.NAME)


def sample(kind: type[ev.Event]) -> ev.Event:
    hints = get_type_hints(kind)
    values = {
        f.name: {"pid": 3} if f.name == "detail" else SAMPLES[hints[f.name]] for f in fields(kind)
    }
    return kind(**values)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.NAME)
def test_every_row_reads_back_as_it_was_written(kind: type[ev.Event]) -> None:
    event = sample(kind)
    raw = json.loads(json.dumps(ev.encode(event)))
    assert ev.decode(kind.NAME, raw) == event
    assert ev.decode(kind.NAME, {**raw, "of_a_later_version": [1]}) == event


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.NAME)
def test_what_has_a_default_may_be_missing(kind: type[ev.Event]) -> None:
    needed = {
        f.name: getattr(sample(kind), f.name)
        for f in fields(kind)
        if f.default is f.default_factory
    }
    ev.decode(kind.NAME, needed)
    for name in needed:
        with pytest.raises(TypeError):
            ev.decode(kind.NAME, {k: v for k, v in needed.items() if k != name})


def test_the_registry_holds_every_row_kind_once() -> None:
    rows = {k for k in vars(ev).values() if isinstance(k, type) and issubclass(k, ev.Event)}
    rows -= {ev.Event, ev.Revision}
    assert rows == set(KINDS)
    assert len({kind.NAME for kind in rows}) == len(rows)
    with pytest.raises(KeyError):
        ev.decode("approved_by_nobody", {})


def test_a_checkpoint_row_keeps_the_published_shape() -> None:
    started = ev.encode(ev.CheckpointStarted("setup"))
    assert (ev.CheckpointStarted.NAME, started["checkpoint"]) == ("start", "setup")
    stopped = ev.encode(ev.CheckpointStopped("setup", 11.3, 15, False, True))
    assert ev.CheckpointStopped.NAME == "stop"
    published = {"checkpoint": "setup", "minutes": 11.3, "allowed": 15, "over": False, "met": True}
    assert published.items() <= stopped.items()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.NAME)
def test_every_row_can_be_folded_into_a_running_spike(kind: type[ev.Event]) -> None:
    """Also rows that only tell something: the fold takes them and only moves on."""
    story = Story().start().open()
    story.add(ev.RunStarted("a text", "agent", "tree", ("boot", 1, 2)))
    event = sample(kind)
    if isinstance(event, ev.CheckpointStarted | ev.CheckpointStopped):
        event = replace(event, checkpoint="attempt")
    if isinstance(event, ev.AllowanceSpent | ev.CheckpointExtended):
        event = replace(event, checkpoint="attempt")
    if isinstance(event, ev.PatchApplied):
        event = replace(event, patch="P1")
    before = len(story.rows)
    assert story.add(event).state.seq == before + 1


# --- runs -----------------------------------------------------------------------------------------


def run(number: int, purpose: str, tree: str, outcome: str) -> tuple[ev.RunStarted, ev.RunFinished]:
    name = f"R{number}"
    done = ev.RunFinished(name, outcome, outcome == "passed", 0.1)
    return ev.RunStarted(name, purpose, tree, ("boot", 1, 2)), done


def test_setup_is_no_measurement() -> None:
    story = Story().add(ev.Started(), *run(1, "setup", "T", "passed"))
    assert story.state.green == frozenset()
    assert story.state.green_minutes is None
    assert not story.state.was_green("T", by=1e9)


def test_the_last_measurement_of_a_tree_says_whether_it_is_green() -> None:
    story = Story().start().add(*run(1, "agent", "T", "passed"))
    assert story.state.green == {"T"}
    story.add(*run(2, "agent", "T", "cancelled"))
    assert story.state.green == {"T"}
    story.add(*run(3, "human", "T", "failed"))
    assert story.state.green == frozenset()
    assert story.state.was_green("T", by=story.elapsed)


def test_only_the_agents_own_runs_count_and_none_that_the_human_ended() -> None:
    story = Story().start()
    for number, purpose in enumerate(("agent", "human", "scoring", "reproduce")):
        story.add(*run(number, purpose, "T", "failed"))
    began, ended = run(7, "agent", "T", "cancelled")
    story.add(began, ev.RunCancelAsked("R7"), ended)
    story.add(ev.RunStarted("R8", "agent", "T", ("boot", 1, 2)), ev.RunLost("R8", "human"))
    assert story.state.agent_runs == 1
    story.add(*run(9, "agent", "T", "cancelled"))
    story.add(ev.RunStarted("R10", "agent", "T", ("boot", 1, 2)), ev.RunLost("R10"))
    assert story.state.agent_runs == 3
    assert story.state.open_run is None


def test_a_green_run_after_the_total_did_not_happen_by_then() -> None:
    story = Story().start()
    begun, done = run(1, "agent", "T", "passed")
    story.add(begun).tick(91).add(done)
    assert not story.state.was_green("T", by=90 * 60)


def test_the_first_green_run_counts_until_the_agent_writes_again() -> None:
    story = Story().start().open().tick(5).add(patch(1, here(A)), *run(1, "agent", "T", "passed"))
    assert story.state.green_minutes == 5
    story.tick(5).add(*run(2, "agent", "T", "passed"))
    assert story.state.green_minutes == 5
    story.add(ev.HunkRejected(spans=spans(), decision="D1", target="h1", regions=(region(A),)))
    assert story.state.green_minutes == 5
    story.add(ev.Undone(spans=spans(here(A)), decision="UD1", undoes="D1"))
    assert story.state.green_minutes is None


def test_two_open_runs_are_both_known() -> None:
    story = Story().start()
    story.add(ev.RunStarted("R1", "human", "T", ("b", 1, 2)))
    story.add(ev.RunStarted("R2", "agent", "T", ("b", 1, 2)), ev.RunLost("R2"))
    assert [r.id for r in story.state.open_runs] == ["R1"]
    assert story.state.open_run is not None


# --- approvals ------------------------------------------------------------------------------------


def map_of(state: State) -> tuple[set[str], set[str], set[str]]:
    """Keys approved, withdrawn, lapsed; a key is in one of them only."""
    found = (set(state.approvals), set(state.withdrawn), set(state.lapsed))
    assert sum(map(len, found)) == len(set.union(*found))
    return found


def with_approval() -> Story:
    return Story().start().open().add(patch(1, here(A)), approved(1, region(A)))


def test_an_approval_lapses_and_does_not_come_back_by_itself() -> None:
    story = with_approval().add(patch(2, here(B), lapsed=((A, "touched by P2"),)))
    assert map_of(story.state) == (set(), set(), {A})
    assert story.add(patch(3, here(A))).state.approvals == {}


def test_withdrawn_then_accepted_then_undone() -> None:
    story = with_approval().add(patch(2, withdrawn=(A,)))
    assert map_of(story.state) == (set(), {A}, set())
    story.add(ev.WithdrawalAccepted("D2", hunk_id([A]), (A,)))
    assert map_of(story.state) == (set(), set(), set())
    story.add(ev.Undone(decision="UD2", undoes="D2"))
    assert map_of(story.state) == (set(), {A}, set())


def test_undoing_an_accepted_withdrawal_whose_place_was_changed_again() -> None:
    story = with_approval().add(patch(2, withdrawn=(A,)))
    story.add(ev.WithdrawalAccepted("D2", hunk_id([A]), (A,)), patch(3, here(B)))
    story.add(ev.Undone(decision="UD2", undoes="D2"))
    assert map_of(story.state) == (set(), set(), {A})


def test_an_undone_approval_is_gone_where_it_stands() -> None:
    story = with_approval().add(ev.Undone(decision="UD1", undoes="D1"))
    assert map_of(story.state) == (set(), set(), set())


def test_an_undone_approval_is_gone_where_it_was_withdrawn_or_lapsed() -> None:
    """It must not stay behind as something that a later reject could revive."""
    for change in (patch(2, withdrawn=(A,)), patch(2, here(B), lapsed=((A, "touched by P2"),))):
        story = with_approval().add(change, ev.Undone(decision="UD1", undoes="D1"))
        assert map_of(story.state) == (set(), set(), set())


def test_undoing_a_second_approval_gives_the_first_back_wherever_it_is() -> None:
    again = approved(2, region(A), tag="a better word")
    story = with_approval().add(again, ev.Undone(decision="UD2", undoes="D2"))
    assert story.state.approvals[A].tag == "serves it"
    gone = with_approval().add(again, patch(2, withdrawn=(A,)))
    gone.add(ev.Undone(decision="UD2", undoes="D2"))
    assert map_of(gone.state) == (set(), {A}, set())
    assert gone.state.withdrawn[A].tag == "serves it"


def test_a_reject_and_its_undo_change_nothing() -> None:
    story = Story().start().open()
    story.add(patch(1, here(A), here(B, 40)), approved(1, region(A)), approved(2, region(B, 40)))
    before = map_of(story.state)
    row = ev.HunkRejected(
        spans=spans(here(C, 40)),
        lapsed=((A, "rejected"), (B, "cut anew by reject of h1")),
        forgotten=(A,),
        decision="D3",
        target="h1",
        regions=(region(A),),
        resubmission=("r",),
    )
    story.add(row)
    assert map_of(story.state) == (set(), set(), {B})
    assert story.state.rejected == {"r": ""}
    story.add(ev.Undone(spans=spans(here(A), here(B, 40)), revived=(A, B), undoes="D3"))
    assert map_of(story.state) == before
    assert story.state.rejected == {}


def test_undoing_the_return_of_a_withdrawn_hunk_makes_it_withdrawn_again() -> None:
    story = with_approval().add(patch(2, withdrawn=(A,)))
    came_back = ev.HunkRejected(
        spans=spans(here(A)), lapsed=((A, "came back"),), revived=(A,), decision="D2", target="h1"
    )
    assert map_of(story.add(came_back).state) == ({A}, set(), set())
    story.add(ev.Undone(spans=spans(), lapsed=((A, "cut anew"),), undoes="D2"))
    assert map_of(story.state) == (set(), {A}, set())


def test_a_reject_to_the_baseline_forgets_and_its_undo_remembers() -> None:
    story = with_approval().add(patch(2, here(B), lapsed=((A, "touched by P2"),)))
    row = ev.HunkRejected(
        spans=spans(), forgotten=(A,), decision="D2", target="h2", regions=(region(B),)
    )
    assert map_of(story.add(row).state) == (set(), set(), set())
    story.add(ev.Undone(spans=spans(here(B)), undoes="D2"))
    assert map_of(story.state) == (set(), set(), {A})


def test_an_undo_of_nothing_known_changes_nothing() -> None:
    story = with_approval()
    before = story.state
    after = story.add(ev.Undone(decision="UD9", undoes="D9")).state
    assert replace(after, seq=before.seq, clock=before.clock) == before


def test_regions_that_a_human_cut_anew_keep_their_patches() -> None:
    story = Story().start().open().add(patch(1, here(A)), patch(2, here(A), here(B, 5)))
    assert story.state.stamps[B] == ("P1", "P2")
    row = ev.HunkRejected(spans=spans(here(C)), decision="D1", target="h", regions=(region(B, 5),))
    assert story.add(row).state.stamps[C] == ("P1", "P2")


# --- the rest -------------------------------------------------------------------------------------


def test_only_the_agents_writes_use_up_its_space() -> None:
    intent = ev.PatchStarted("P1", "apply", "", (), stored=500)
    assert Story().start().add(intent, actor=Actor.HUMAN).state.stored == 0
    assert Story().start().add(intent, actor=Actor.AGENT).state.stored == 500


def test_a_failed_start_is_forgotten_once_the_step_is_repeated() -> None:
    story = Story().add(ev.Started(), ev.StartFailed("already_green"))
    assert story.state.start_failure == "already_green"
    assert story.open(Checkpoint.REPRODUCE).state.start_failure == ""


def test_a_lowered_checkpoint_stays_on_the_record() -> None:
    story = Story().start().open().tick(2).stop(met=True, lowered=True)
    assert story.state.checkpoints[Checkpoint.ATTEMPT].met is False
    story.open().tick(1).stop(met=True)
    assert story.state.checkpoints[Checkpoint.ATTEMPT].lowered
    assert story.state.checkpoints[Checkpoint.ATTEMPT].met is True


def test_an_undone_comment_is_not_told_to_the_agent() -> None:
    story = Story().start().add(ev.Commented("D1", A, "src/a.py", "why?"))
    assert story.state.feedback
    story.add(ev.Undone(decision="UD1", undoes="D1"))
    assert not story.state.feedback
    assert story.state.comments == {A: ()}


def test_a_verdict_command_is_at_work_until_verify_stops() -> None:
    story = Story().start().open(Checkpoint.VERIFY)
    story.add(ev.VerdictAsked(False, 1.0, ("boot", 1, 2)))
    assert story.state.asked is not None
    assert story.stop().state.asked is None
