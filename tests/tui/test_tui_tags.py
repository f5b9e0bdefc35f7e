"""The tag box: honest tags, fast (review-ux 'Honest tags')."""

from dataclasses import replace

from drive import Screen, on_screen
from fake_desk import FakeDesk, approved, entry, make_map, map_of, sample

from spike_mcp.core.hunks import hunks
from spike_mcp.edge.tui.boxes import FlagBox, TagBox


def desk() -> FakeDesk:
    return FakeDesk(sample())


def flagged_desk() -> FakeDesk:
    work = b"import os\nos._exit(0)\nx = 1 \xe2\x80\xae429\n"
    return FakeDesk(
        current=make_map([entry(h) for h in hunks("src/new.py", None, work)]),
    )


def test_the_agents_reason_is_nowhere_before_two_own_words() -> None:
    async def story(screen: Screen) -> None:
        secret = "surface the header"
        assert secret not in screen.text()
        await screen.press("a")
        await screen.type("callers")
        assert secret not in screen.text()
        await screen.type(" see ")
        assert "the agent said: surface the header" in screen.text()
        await screen.press("?")
        assert screen.view.overlay is None, "in a box, ? is a character"

    on_screen(story, desk())


def test_completed_words_do_not_open_the_agents_reason() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a", "c", "tab", "r", "tab", "4", "tab")
        assert screen.view.box.edit.text == "client retry-after 429 "
        assert "surface the header" not in screen.text()

    on_screen(story, desk())


def test_tab_goes_through_the_words_that_fit() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a", "c", "tab")
        assert screen.view.box.edit.text == "client "
        await screen.press("tab")
        assert screen.view.box.edit.text == "callers "
        await screen.type("x")
        await screen.press("tab")
        assert screen.view.box.edit.text == "callers x"
        assert "first letter of a word of the hypothesis" in screen.text()

    on_screen(story, desk())


def test_a_tag_is_judged_while_it_is_typed_and_refused_by_the_rules() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a")
        assert "in three words or more" in screen.text()
        await screen.type("tidy up")
        assert "names no word of the hypothesis yet" in screen.text()
        await screen.press("enter")
        assert "the tag names no word of the hypothesis (client, surfaces" in screen.text()
        assert screen.desk.log == []
        await screen.press("ctrl+u")
        await screen.type("429 client")
        assert "names client, 429: three words or more" in screen.text()
        await screen.press("enter")
        assert "is too short (three words or more)" in screen.text()
        await screen.type(" done")
        assert "✓ names client, 429" in screen.text()

    on_screen(story, desk())


def test_a_tag_equal_to_the_agents_reason_is_warned_about() -> None:
    found = FakeDesk(current=map_of(sample(), rationale="surface retry-after from 429 responses"))

    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("surface retry-after from 429 responses")
        await screen.press("enter")
        assert "repeats the agent's rationale" in screen.text()

    on_screen(story, found)


def test_what_was_typed_is_offered_again_after_escape() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see it")
        await screen.press("escape", "a")
        assert screen.view.box.edit.text == "callers see it"

    on_screen(story, desk())


def test_a_lapse_says_why_and_offers_the_old_tag_which_enter_takes_again() -> None:
    first, *rest = map_of(sample()).hunks
    lapsed = replace(
        first,
        old_tags=("callers see the 429",),
        why="touched by P7",
        region_states=("lapsed",),
    )

    async def story(screen: Screen) -> None:
        text = screen.text()
        assert 'approved once, then touched by P7. Your tag: "callers see the 429"' in text
        assert "↺ lapsed" in text
        await screen.press("a")
        assert screen.view.box.edit.text == "callers see the 429"
        assert "surface the header" not in screen.text()
        await screen.press("enter")
        assert screen.desk.log == [("approve", first.short, "callers see the 429", ())]

    on_screen(story, FakeDesk(current=make_map([lapsed, *rest])))


def test_flags_are_acknowledged_one_by_one_before_the_tag() -> None:
    async def story(screen: Screen) -> None:
        assert "! process exit, line 2: os._exit(0)" in screen.text()
        await screen.press("a")
        box = screen.view.box
        assert isinstance(box, FlagBox)
        names = box.names
        assert "process_exit" in names
        assert len(names) >= 2
        for number in range(len(names)):
            assert f"(flag {number + 1} of {len(names)})" in screen.text()
            await screen.press("y")
        assert isinstance(screen.view.box, TagBox)
        await screen.type("callers get the 429")
        await screen.press("enter")
        assert screen.desk.log[0][3] == names

    on_screen(story, flagged_desk())


def test_enter_does_not_acknowledge_a_flag_and_n_leaves() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a", "enter")
        assert "y: I have read it" in screen.text()
        await screen.press("n")
        assert screen.view.box is None
        assert screen.desk.log == []

    on_screen(story, flagged_desk())


def test_hidden_characters_are_counted_above_the_hunk() -> None:
    async def story(screen: Screen) -> None:
        assert "! 1 invisible or control character in this hunk" in screen.text()
        assert "<202e>429" in screen.text()

    on_screen(story, flagged_desk())


def test_a_hunk_whose_end_was_never_on_the_screen_asks_once_more() -> None:
    work = b"".join(b"callers line %d\n" % n for n in range(80))
    found = FakeDesk(current=map_of({"src/long.py": (b"", work)}))

    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see the 429")
        await screen.press("enter")
        assert "was not on the screen" in screen.text()
        assert screen.desk.log == []
        await screen.press("enter")
        assert len(screen.desk.log) == 1

    async def scrolls(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see the 429")
        await screen.press(*["pagedown"] * 5, "enter")
        assert len(screen.desk.log) == 1

    on_screen(story, found)
    on_screen(scrolls, FakeDesk(current=map_of({"src/long.py": (b"", work)})))


def test_what_was_passed_over_too_fast_to_be_painted_was_not_seen() -> None:
    async def story(screen: Screen) -> None:
        await screen.rush("*", "a", "c", "tab", "r", "tab", "4", "tab", "enter")
        assert "was not on the screen" in screen.text()
        assert screen.desk.log == []

    on_screen(story, desk())


def test_cut_lines_were_not_seen() -> None:
    work = b"callers " + b"x" * 300 + b"\n"
    found = FakeDesk(current=map_of({"src/wide.py": (b"", work)}))

    async def story(screen: Screen) -> None:
        screen.view.review.seen.clear()
        await screen.press("w")
        screen.view.review.seen.clear()
        await screen.press("a")
        await screen.type("callers see the 429")
        await screen.press("enter")
        assert "was not on the screen" in screen.text()

    on_screen(story, found)


def test_one_tag_for_identical_hunks_approves_each_with_its_own_view() -> None:
    async def story(screen: Screen) -> None:
        shown = screen.view.review.shown[:3]
        await screen.press("*", "a")
        assert "3 identical hunks" in screen.text()
        await screen.type("callers see the 429")
        await screen.press("enter")
        assert [entry[1] for entry in screen.desk.log] == [entry.short for entry in shown]
        assert "approved 3 hunks with one tag" in screen.text()

    on_screen(story, desk())


def test_a_hunk_that_changes_while_the_box_is_open_is_refused_and_the_words_are_kept() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see the 429")
        base, work = screen.desk.files["src/backoff.py"]
        files = {
            **screen.desk.files,
            "src/backoff.py": (base, work.replace(b"(429, 500)", b"(428,)")),
        }
        screen.desk.map = map_of(files)
        await screen.poll()
        text = screen.text()
        assert "changed while you typed" in text
        assert "in (429, 500)" in text, "the pinned hunk stays on the screen"
        await screen.press("enter")
        assert "refused: " in screen.text()
        assert screen.desk.log == []
        await screen.press("escape")
        assert "(428,)" in screen.text()
        await screen.press("a")
        assert screen.view.box.edit.text == "callers see the 429"

    on_screen(story, desk())


def test_a_change_after_an_approval_is_told() -> None:
    first, *rest = map_of(sample()).hunks
    was = approved(first, "callers see the 429")

    async def story(screen: Screen) -> None:
        base, work = screen.desk.files["src/backoff.py"]
        changed = work.replace(b"(429, 500)", b"(428,)", 1)
        fresh = map_of({"src/backoff.py": (base, changed)}).hunks[0]
        lapsed = replace(
            fresh, old_tags=("callers see the 429",), why="touched by P7", region_states=("lapsed",)
        )
        screen.desk.map = make_map([lapsed, *rest])
        await screen.poll()
        text = " ".join(screen.text().split())
        assert f"{first.short} changed after you approved it" in text
        assert "It is pending again" in text

    found = FakeDesk(sample(), current=make_map([was, *rest]))
    on_screen(story, found)


def test_the_end_of_writes_and_of_the_spike_is_told() -> None:
    async def story(screen: Screen) -> None:
        screen.desk.more = {"writes_close_in": 0.0}
        await screen.poll()
        text = " ".join(screen.text().split())
        assert "agent writes are closed. 20 hunks pending: decide before 90:00 or the" in text
        screen.desk.more = {"phase": "closed", "verdict": "KILL deadline_exceeded"}
        await screen.poll()
        assert "the spike is closed: KILL deadline_exceeded" in screen.text()

    on_screen(story, desk())


def test_pasted_control_characters_never_reach_a_tag() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a")
        screen.app._keys.put_nowait(("paste", "callers \x1b[31msee\nthe\u202e 429\x07"))
        await screen.app.settled()
        assert screen.view.box.edit.text == "callers [31msee the 429"

    on_screen(story, desk())


def test_editing_keys() -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see the 429")
        await screen.press("ctrl+w", "home", "delete", "end", "backspace", "left", "right")
        assert screen.view.box.edit.text == "allers see the"
        await screen.press("ctrl+a", "ctrl+k")
        assert screen.view.box.edit.text == ""

    on_screen(story, desk())


def test_the_keystroke_table_holds() -> None:
    """approve 3 of 20 with one tag 9, reject with a reason 14, comment 9, find a file 7, undo 1."""

    async def approve(screen: Screen) -> None:
        keys = ["*", "a", "c", "tab", "r", "tab", "4", "tab", "enter"]
        await screen.press(*keys)
        assert len(keys) == 9
        assert len(screen.desk.log) == 3

    async def reject(screen: Screen) -> None:
        keys = ["r", *"out of scope".replace(" ", "_"), "enter"]
        await screen.press(*["space" if k == "_" else k for k in keys])
        assert len(keys) == 14
        assert screen.desk.log == [("reject", 1, "out of scope", False)]

    async def comment(screen: Screen) -> None:
        keys = ["c", *"why500?", "enter"]
        await screen.press(*keys)
        assert len(keys) == 9
        assert len(screen.desk.log) == 1

    async def find(screen: Screen) -> None:
        keys = ["/", *"parse", "enter"]
        await screen.press(*keys)
        assert len(keys) == 7
        assert screen.view.review.current.path == "src/parser.py"

    async def undo(screen: Screen) -> None:
        await screen.press("r", "enter", "u")
        assert screen.desk.log[-1] == ("undo",)

    for story in (approve, reject, comment, find, undo):
        on_screen(story, desk())
