"""Every key of the review screen, each pressed for real (review-ux 'Keys')."""

from pathlib import Path

import pytest
from drive import Screen, on_screen
from fake_desk import FakeDesk, approved, make_map, sample

from spike_mcp.edge.tui.keys import BY_KEY, KEYS
from spike_mcp.session.view import Withdrawn


def desk() -> FakeDesk:
    return FakeDesk(sample())


def ids(screen: Screen) -> list[str]:
    return [entry.short for entry in screen.view.review.shown]


def test_every_key_of_the_table_has_a_test() -> None:
    source = Path(__file__).read_text("utf-8")
    untested = [e.action for e in KEYS if f"test_{e.action}_" not in source]
    assert untested == []


def test_no_key_stands_for_two_things() -> None:
    assert len(BY_KEY) == sum(len(entry.keys) for entry in KEYS)


def test_approve_asks_for_a_tag_and_goes_on_to_the_next_pending() -> None:
    async def story(screen: Screen) -> None:
        first, second = ids(screen)[:2]
        await screen.press("a")
        assert "Why does this exist?" in screen.text()
        await screen.type("callers see the 429")
        await screen.press("enter")
        assert screen.desk.log == [("approve", first, "callers see the 429", ())]
        assert screen.current == second
        assert f"approved {first}. 19 left" in screen.text()
        assert "✓ approved" in screen.text()

    on_screen(story, desk())


def test_reject_takes_an_empty_reason() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("r", "enter")
        assert screen.desk.log == [("reject", 1, "", False)]
        assert "1 rejected" in screen.text()

    on_screen(story, desk())


def test_reject_sends_the_reason_and_leaves_with_escape() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("r", "escape")
        assert screen.desk.log == []
        await screen.press("r")
        await screen.type("out of scope")
        await screen.press("enter")
        assert screen.desk.log == [("reject", 1, "out of scope", False)]

    on_screen(story, desk())


def test_reject_takes_all_marked_hunks_at_once() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("space", "j", "j", "j", "space", "r", "enter")
        assert screen.desk.log == [("reject", 2, "", False)]

    on_screen(story, desk())


def test_reject_names_the_approvals_it_cuts_anew_and_can_go_to_the_baseline() -> None:
    found = desk()
    found.recut, found.older = ("h12345678",), True

    async def story(screen: Screen) -> None:
        await screen.press("r")
        text = screen.text()
        assert "cut anew, to be approved again: h12345678" in text
        assert "your approved version" in text
        await screen.press("f2")
        assert "goes back to the baseline" in screen.text()
        await screen.press("enter")
        assert screen.desk.log == [("reject", 1, "", True)]

    on_screen(story, found)


def test_comment_is_sent_and_marks_the_row() -> None:
    async def story(screen: Screen) -> None:
        first = screen.current
        await screen.press("c")
        await screen.type("why 500?")
        await screen.press("enter")
        assert screen.desk.log == [("comment", first, "why 500?")]
        row = next(row for row in screen.rows() if f"○ pending  {first}" in row)
        assert " c " in row.partition(first)[2][:12]
        assert "you said: why 500?" in screen.text()

    on_screen(story, desk())


def test_undo_takes_the_last_decision_back() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("r", "enter", "u")
        assert screen.desk.log[-1] == ("undo",)
        assert "took back" in screen.text()
        assert len(screen.view.snapshot.map.hunks) == 20

    on_screen(story, desk())


def test_undo_without_a_decision_says_so() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("u")
        assert "refused: there is no decision to undo" in screen.text()

    on_screen(story, desk())


def test_next_pending_and_previous_pending_skip_what_is_decided_and_go_round() -> None:
    found = desk()
    found.map = make_map(
        [
            approved(e, "callers see it") if i not in (0, 5) else e
            for i, e in enumerate(found.map.hunks)
        ]
    )

    async def story(screen: Screen) -> None:
        first = screen.current
        await screen.press("n")
        second = screen.current
        assert second != first
        await screen.press("n")
        assert screen.current == first
        await screen.press("p")
        assert screen.current == second

    on_screen(story, found)


def test_previous_pending_is_bound() -> None:
    assert BY_KEY["p"] == "previous_pending"


def test_next_and_previous_move_by_hunks_and_stop_at_the_ends() -> None:
    async def story(screen: Screen) -> None:
        order = ids(screen)
        await screen.press("j", "]")
        assert screen.current == order[2]
        await screen.press("k", "[", "k")
        assert screen.current == order[0]
        assert "this is the first hunk" in screen.text()

    on_screen(story, desk())


def test_previous_is_bound_twice() -> None:
    assert BY_KEY["k"] == BY_KEY["["] == "previous"


def test_next_file_and_previous_file_move_by_files() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("}")
        assert screen.view.review.current.path == "src/cache.py"
        await screen.press("j", "}", "{")
        assert screen.view.review.current.path == "src/cache.py"
        await screen.press("{", "{")
        assert screen.view.review.current.path == "src/backoff.py"
        assert "this is the first file" in screen.text()

    on_screen(story, desk())


def test_previous_file_goes_to_the_first_hunk_of_that_file() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("}", "}", "{")
        shown = [e for e in screen.view.review.shown if e.path == "src/cache.py"]
        assert screen.current == shown[0].short

    on_screen(story, desk())


def test_mark_shows_marked_hunks_together() -> None:
    async def story(screen: Screen) -> None:
        order = ids(screen)
        await screen.press("space", "j", "space")
        assert list(screen.view.review.marks) == [e.key for e in screen.view.review.shown[:2]]
        assert f" 2 hunks  {order[0]} {order[1]}" in screen.text()
        await screen.press("space")
        assert len(screen.view.review.marks) == 1

    on_screen(story, desk())


def test_mark_same_marks_identical_changes_only() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("*")
        assert len(screen.view.review.marks) == 3
        assert "3 hunks with identical changed lines" in screen.text()
        await screen.press("escape", "}", "*")
        assert screen.view.review.marks == {}
        assert "no other undecided hunk" in screen.text()

    on_screen(story, desk())


def test_approve_refuses_marks_that_differ() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("space", "}", "space", "a")
        assert "marked hunks differ: one tag for several hunks" in screen.text()
        assert screen.view.box is None

    on_screen(story, desk())


def test_filter_finds_a_file_and_escape_drops_it() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("/")
        await screen.type("parse")
        assert "4 entries" in screen.text()
        await screen.press("enter")
        assert screen.view.review.current.path == "src/parser.py"
        assert len(ids(screen)) == 4
        await screen.press("escape")
        assert len(ids(screen)) == 20
        await screen.press("/")
        await screen.type("nowhere")
        assert 'Nothing holds "nowhere"' in screen.text()
        await screen.press("escape")
        assert len(ids(screen)) == 20

    on_screen(story, desk())


def test_test_runs_on_the_worktree_while_something_is_pending() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("T")
        await screen.app.aside_done()
        assert screen.desk.log == [("test", True)]
        assert "test green: R3, 1.2 s" in screen.text()

    on_screen(story, desk())


def test_output_shows_the_last_run_and_any_key_closes_it() -> None:
    found = desk()
    found.green, found.output = False, "E   assert 1 == 2\n" + "x" * 300

    async def story(screen: Screen) -> None:
        await screen.press("o")
        assert "no test was run from here yet" in screen.text()
        await screen.press("T")
        await screen.app.aside_done()
        assert "test failed" in screen.text()
        await screen.press("o")
        assert "E   assert 1 == 2" in screen.text()
        await screen.press("x")
        assert "E   assert 1 == 2" not in screen.text()

    on_screen(story, found)


def long_desk() -> FakeDesk:
    base = b"".join(b"old %d\n" % n for n in range(60))
    work = b"".join(
        b"new %d is a longer line that may be cut somewhere %s\n" % (n, b"y" * 90)
        for n in range(60)
    )
    return FakeDesk({"src/long.py": (base, work)})


def test_scroll_down_scroll_up_page_down_page_up_top_bottom_move_the_hunk() -> None:
    async def story(screen: Screen) -> None:
        view = screen.view
        await screen.press("down", "down", "up")
        assert view.scroll == 1
        await screen.press("pagedown")
        assert view.scroll == 1 + view.page
        await screen.press("pageup", "end")
        assert view.rows_below == 0
        await screen.press("home")
        assert view.scroll == 0

    on_screen(story, long_desk())


@pytest.mark.parametrize(
    ("key", "action"),
    [
        ("up", "test_scroll_up_"),
        ("pagedown", "test_page_down_"),
        ("pageup", "test_page_up_"),
        ("home", "test_top_"),
        ("end", "test_bottom_"),
    ],
)
def test_scroll_keys_are_bound(key: str, action: str) -> None:
    assert f"test_{BY_KEY[key]}_" == action


def test_wrap_cuts_lines_and_sideways_scrolls_them() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("right")
        assert "lines are wrapped" in screen.text()
        await screen.press("w")
        assert not screen.view.wrap
        await screen.press("G", "right", "right")
        assert screen.view.sideways == 16
        await screen.press("left")
        assert screen.view.sideways == 8

    on_screen(story, long_desk())


def test_sideways_is_bound() -> None:
    assert BY_KEY["left"] == "sideways"


def test_expand_shows_more_context_up_to_the_next_hunk_and_shrink_takes_it_back() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("}", "j")
        height = screen.view.sheet.height
        await screen.press("e")
        assert screen.view.sheet.height > height
        await screen.press("e", "e")
        assert "that is all" in screen.text()
        await screen.press("E")
        assert screen.view.sheet.height == height

    on_screen(story, desk())


def test_shrink_is_bound() -> None:
    assert BY_KEY["E"] == "shrink"


def test_group_cycles_patch_file_state() -> None:
    async def story(screen: Screen) -> None:
        seen = []
        for _ in range(3):
            await screen.press("g")
            seen.append(screen.view.review.grouping)
        assert seen == ["file", "state", "patch"]

    on_screen(story, desk())


def test_approved_only_shows_the_diff_that_would_ship() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("v")
        assert "Nothing is approved yet" in screen.text()
        await screen.press("v", "a")
        await screen.type("callers see the 429")
        await screen.press("enter", "v")
        assert len(ids(screen)) == 1
        assert "your tag: callers see the 429" in screen.text()
        assert "the agent said: surface the header" in screen.text()

    on_screen(story, desk())


def test_list_comes_back_on_a_low_screen() -> None:
    async def story(screen: Screen) -> None:
        assert "P2 src/cache.py" not in screen.text()
        await screen.press("l")
        assert "P2 src/cache.py" in screen.text()

    on_screen(story, desk(), size=(120, 24))


def test_clear_drops_marks_first_then_the_filter() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("/", "c", "a", "c", "h", "e", "enter", "space", "escape")
        assert screen.view.review.marks == {}
        assert screen.view.review.filter == "cache"
        await screen.press("escape")
        assert screen.view.review.filter == ""

    on_screen(story, desk())


def test_help_lists_every_key() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("?")
        text = screen.text()
        assert "take the last decision back" in text
        await screen.press("pagedown")
        assert "quit; every decision is saved already" in text + screen.text()
        await screen.press("q")
        assert screen.view.overlay is None
        assert screen.app.return_value is None

    on_screen(story, desk())


def test_a_cut_help_says_how_much_follows_and_paging_shows_all_of_it() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("?")
        assert "more lines: PgDn" in screen.text()
        overlay = screen.view.overlay
        assert overlay is not None
        seen = screen.text()
        while "more lines: PgDn" in screen.text():
            await screen.press("pagedown")
            seen += screen.text()
        for line in overlay:
            assert "".join(text for text, _style in line).rstrip() in seen

    on_screen(story, desk(), size=(80, 24))


def test_quit_leaves_at_once() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("q")
        assert screen.app.return_value == 0

    on_screen(story, desk())


def test_a_withdrawn_entry_is_accepted_with_a_and_put_back_with_r() -> None:
    found = desk()
    gone = Withdrawn("f" * 64, "hffffffff", "src/old.py", "callers see it", ())
    found.map = make_map(found.map.hunks, [gone])

    async def story(screen: Screen) -> None:
        await screen.press("k", "k", "k")
        assert screen.current == "hffffffff"
        assert "the agent took it out" in screen.text().lower()
        await screen.press("a", "enter")
        assert screen.desk.log == [("accept", "hffffffff")]

    on_screen(story, found)


def test_a_change_from_outside_is_restored_with_r_and_never_approved() -> None:
    found = desk()
    found.outside = ("src/cache.py",)

    async def story(screen: Screen) -> None:
        await screen.press("home", "k", "k", "k")
        assert screen.view.review.current.state == "out of band"
        assert "can't be approved" in screen.text()
        await screen.press("a")
        assert screen.view.box is None
        await screen.press("r", "enter")
        assert screen.desk.log == [("restore", ("src/cache.py",))]

    on_screen(story, found)


def test_the_mouse_selects_and_scrolls() -> None:
    async def story(screen: Screen) -> None:
        third = ids(screen)[2]
        await screen.pilot.click(offset=(5, 5))
        await screen.pilot.pause()
        assert screen.current == third

    on_screen(story, desk())


def test_type_ahead_is_served_in_order() -> None:
    async def story(screen: Screen) -> None:
        first, second = ids(screen)[:2]
        keys = ["r", "enter", "r", "enter", "u", "j"]
        await screen.press(*keys)
        assert [entry[0] for entry in screen.desk.log] == ["reject", "reject", "undo"]
        assert first not in ids(screen)
        assert second in ids(screen)

    on_screen(story, desk())
