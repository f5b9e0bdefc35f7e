"""Hostile text in every place it can stand, through every review output (bugs B60)."""

import io
from dataclasses import replace

import pytest
from drive import Screen, on_screen
from fake_desk import FakeDesk, approved, entry, make_map
from hostile import ALL, CORPUS, bad_characters, encoded

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.hunks import diff, hunks
from spike_mcp.edge import plain
from spike_mcp.edge.desk import Done
from spike_mcp.edge.present import UNICODE
from spike_mcp.edge.tui.paint import width_of
from spike_mcp.edge.tui.view import View
from spike_mcp.session.view import Flagged, Withdrawn

pytestmark = pytest.mark.security


def hostile_desk(text: str) -> FakeDesk:
    """Hunks whose path, lines, rationale, tag, comment, flags and reasons all hold `text`."""
    path = f"src/{text.replace(chr(10), ' ')[:200]}.py"
    line = encoded(text)
    base = b"keep\nold %s\nkeep\n" % line[:100].replace(b"\n", b" ")
    found = []
    for hunk in hunks(
        path, base, b"keep\n" + line + b"\nkeep\n", diff(path, base, b"keep\n" + line + b"\nkeep\n")
    ):
        each = entry(hunk, patch="P1", rationale=text)
        found.append(
            replace(
                each,
                comments=(text,),
                flags=(*each.flags, Flagged("odd", 2, text)),
                old_tags=(text,),
                why=f"touched by {text}",
                region_states=("lapsed",) * len(each.regions),
            )
        )
    (other,) = hunks("src/b.py", b"", line + b"\n", diff("src/b.py", b"", line + b"\n"))
    found.append(approved(entry(other, rationale=text), text))
    gone = Withdrawn("cd" * 32, "hcdcdcdcd", path, text, ())
    desk = FakeDesk(current=make_map(found, [gone]), verdict=text, phase="attempt")
    desk.outside = (path + "x",)
    desk.output = text
    desk.green = False
    desk.recut = ("h12345678",)
    return desk


KEYS = ("j", "j", "j", "k", "w", "right", "w", "a", "y", "y", "y", "y", "escape", "r", "escape")


@pytest.mark.parametrize("size", [(120, 36), (72, 30), (40, 12)])
def test_nothing_on_the_screen_is_a_control_or_format_character(size: tuple[int, int]) -> None:
    desk = hostile_desk(ALL[:3000] + ALL[-40:])

    async def story(screen: Screen) -> None:
        seen = []
        for key in ("home", *KEYS, "c", "escape", "v", "v", "g", "g", "T"):
            await screen.press(key)
            seen += screen.rows()
        await screen.app.aside_done()
        await screen.press("o")
        seen += screen.rows()
        await screen.press("pagedown")
        seen += screen.rows()
        await screen.press("x")
        screen.app.actions.refused(Problem(Refusal.HUNK_CHANGED, ALL, ALL))
        screen.app.paint()
        seen += screen.rows()
        screen.app.actions.say(Done(ALL).text)
        screen.app.paint()
        seen += screen.rows()
        assert bad_characters("\n".join(seen)) == []
        assert any("<001b>" in row for row in seen)

    on_screen(story, desk, size=size)


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("width", [40, 120])
def test_each_text_is_shown_not_stripped_and_rows_keep_their_width(name: str, width: int) -> None:
    text = CORPUS[name]
    desk = hostile_desk(text)
    snapshot = desk.look()
    view = View(desk.sealed, snapshot, UNICODE, width=width, height=40)
    view.review.take(snapshot)
    shown = []
    for entry_ in list(view.review.shown):
        view.review.go_to(entry_.key)
        view.reveal()
        while True:
            frame = view.frame()
            assert {width_of(row) for row in frame} == {width}
            shown += ["".join(piece for piece, _style in row) for row in frame]
            if not view.rows_below or len(shown) > 4000:
                break
            view.scroll_by(view.page)
    whole = "\n".join(shown)
    assert bad_characters(whole) == []
    for char in bad_characters(text):
        assert f"<{char[2:].lower()}>" in whole.replace("\n", ""), char


@pytest.mark.parametrize("name", CORPUS)
def test_plain_review_prints_no_control_or_format_character(name: str) -> None:
    desk = hostile_desk(CORPUS[name])
    out = io.StringIO()
    answers = "l\na\ny\ny\ny\ny\ncallers see the 429\nu\nr\nno\nc\n" + CORPUS[name].replace(
        "\n", " "
    )
    plain.review(desk, io.StringIO(answers + "\nt\ng src\ng zz\nb\np\nq\n"), out)
    assert bad_characters(out.getvalue()) == []


def test_plain_review_shows_refusals_safely() -> None:
    desk = hostile_desk("x")

    def refuse(*_args: object, **_named: object) -> Done:
        raise Problem(Refusal.HUNK_CHANGED, ALL, ALL)

    desk.undo = refuse
    out = io.StringIO()
    plain.review(desk, io.StringIO("u\nq\n"), out)
    assert bad_characters(out.getvalue()) == []
    assert "refused: " in out.getvalue()


def test_markup_is_text() -> None:
    desk = hostile_desk(CORPUS["rich_markup"])

    async def story(screen: Screen) -> None:
        await screen.press("j")
        assert "[bold red]markup[/] [@click=app.quit]click[/]" in screen.text().replace("\n", "")

    on_screen(story, desk, size=(200, 40))


def test_look_alike_names_are_noted() -> None:
    line = "p\u0430ssword = 1\n".encode()
    (hunk,) = hunks("src/a.txt", b"", line, diff("src/a.txt", b"", line))
    desk = FakeDesk(current=make_map([replace(entry(hunk), flags=())]))

    async def story(screen: Screen) -> None:
        assert "names that are not what they look like: p\u0430ssword" in screen.text()

    on_screen(story, desk)


def test_a_megabyte_line_is_shown_and_can_be_scrolled_to_its_end() -> None:
    line = b"z" * (1 << 20) + b"END\n"
    (hunk,) = hunks("src/big.txt", b"", line, diff("src/big.txt", b"", line))
    desk = FakeDesk(current=make_map([replace(entry(hunk), flags=())]))

    async def story(screen: Screen) -> None:
        assert "zzzzzzzz" in screen.text()
        await screen.press("end")
        assert "END" in screen.text()

    on_screen(story, desk)
