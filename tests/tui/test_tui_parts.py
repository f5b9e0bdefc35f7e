"""The screen's pure parts: cells, wrapping, typing, the review's memory, syntax, the sheet."""

from dataclasses import replace
from itertools import pairwise

import pytest
from fake_desk import FakeDesk, approved, make_map, map_of, sample
from hypothesis import given
from hypothesis import strategies as st

from spike_mcp.core.hunks import diff, hunks
from spike_mcp.edge.present import UNICODE
from spike_mcp.edge.shown import ShownHunk
from spike_mcp.edge.text import safe_line
from spike_mcp.edge.tui import context, syntax
from spike_mcp.edge.tui.lineedit import LineEdit
from spike_mcp.edge.tui.model import Review
from spike_mcp.edge.tui.paint import (
    cells,
    clip,
    columns,
    cut,
    filled,
    fit,
    fit_path,
    width_of,
    wrap,
)
from spike_mcp.edge.tui.sheet import Options, Sheet, cut_points
from spike_mcp.edge.tui.theme import Theme

visible = st.text(max_size=60).map(lambda text: safe_line(text, 200))


@given(visible, st.integers(0, 30))
def test_cut_and_fit_never_exceed_their_width(text: str, width: int) -> None:
    assert cells(cut(text, width)) <= width
    assert cells(fit(text, width, "~")) <= width
    assert width == 0 or cells(fit_path(text, width, "~")) <= width


@given(st.lists(visible, max_size=4), st.integers(1, 40), st.integers(0, 20))
def test_clip_and_filled_keep_widths(texts: list[str], width: int, start: int) -> None:
    line = [(text, "") for text in texts]
    assert width_of(clip(line, width, start)) <= width
    assert width_of(filled(line, width, "text")) == width


@given(visible, st.integers(8, 40), st.integers(0, 4))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int, indent: int) -> None:
    lines = wrap([(text, "")], width, indent)
    assert all(width_of(line) <= width for line in lines)
    joined = "".join(piece for line in lines for piece, _style in line)
    assert joined.replace(" ", "") == text.replace(" ", "")


@given(visible, st.integers(2, 30), st.integers(2, 30))
def test_cut_points_give_parts_that_fit(text: str, first: int, rest: int) -> None:
    points = [*cut_points(text, first, rest), len(text)]
    parts = [text[a:b] for a, b in pairwise(points)]
    assert "".join(parts) == text
    for number, part in enumerate(parts):
        assert cells(part) <= (first if number == 0 else rest)


def test_columns_leave_out_whole_parts() -> None:
    parts = [[("one", "")], [], [("two", "")], [("three", "")]]
    assert "".join(text for text, _s in columns(parts, 9)) == "one  two"


def test_typing_filters_what_cannot_be_seen() -> None:
    edit = LineEdit()
    edit.insert("a\x1bb\u202ec\nd\te")
    assert edit.text == "abc d e"
    edit.insert("x" * 5000)
    assert len(edit.text) == 1000


@given(
    st.lists(
        st.sampled_from(
            [
                *"ab ",
                "left",
                "right",
                "home",
                "end",
                "backspace",
                "delete",
                "ctrl+w",
                "ctrl+u",
                "ctrl+k",
                "tab",
            ]
        ),
        max_size=40,
    )
)
def test_the_caret_stays_inside_the_text(keys: list[str]) -> None:
    edit = LineEdit()
    for key in keys:
        if len(key) == 1:
            edit.insert(key)
        elif key == "tab":
            edit.complete(("abba", "baab"))
        else:
            assert edit.key(key)
        assert 0 <= edit.caret <= len(edit.text)


def test_completion_replaces_the_word_before_the_caret() -> None:
    edit = LineEdit()
    edit.insert("see Ca")
    assert edit.complete(("client", "callers")) == "callers"
    assert edit.text == "see callers "
    assert edit.complete(("client", "callers")) == "callers"
    edit = LineEdit("x retry", 7)
    assert edit.complete(("retry-after",)) == "retry-after"
    edit = LineEdit()
    assert edit.complete(("client",)) == ""


def review() -> tuple[Review, FakeDesk]:
    desk = FakeDesk(sample())
    made = Review()
    made.take(desk.look())
    made.start()
    return made, desk


def test_the_cursor_stays_on_its_hunk_and_goes_to_its_heir() -> None:
    made, desk = review()
    made.step(4)
    before = made.current
    desk.map = make_map([e for e in desk.map.hunks if e.id != before.key])
    made.take(desk.look())
    assert made.current.path == before.path
    desk.map = make_map([e for e in desk.map.hunks if e.path != before.path])
    made.take(desk.look())
    assert made.current is not None
    desk.map = make_map([])
    made.take(desk.look())
    assert made.current is None
    assert not made.step_pending()
    assert not made.step(1)
    assert not made.step_file(1)
    assert made.chosen == []


def test_marks_vanish_with_their_hunks() -> None:
    made, desk = review()
    made.mark_same()
    assert len(made.marks) == 3
    desk.map = make_map(desk.map.hunks[1:])
    made.take(desk.look())
    assert len(made.marks) == 2


def test_same_changes_that_are_approved_already_are_not_marked() -> None:
    made, desk = review()
    second = desk.map.hunks[1]
    desk.map = make_map(
        [approved(e, "callers see it") if e.id == second.id else e for e in desk.map.hunks]
    )
    made.take(desk.look())
    assert made.mark_same() == 2


@pytest.mark.parametrize("grouping", ["patch", "file", "state"])
def test_every_entry_is_listed_once_under_a_heading(grouping: str) -> None:
    made, desk = review()
    desk.outside = ("src/x.py",)
    made.take(desk.look())
    while made.grouping != grouping:
        made.cycle_grouping()
    assert made.rows[0].heading == "changed outside the tools"
    assert sorted(e.key for e in made.shown) == sorted(e.key for e in made.entries)


def test_a_filter_takes_words_in_any_order_and_any_field() -> None:
    made, _desk = review()
    made.set_filter("py CACHE pending")
    assert {e.path for e in made.shown} == {"src/cache.py"}
    short = made.shown[0].short
    made.set_filter(short)
    assert [e.short for e in made.shown] == [short]


def test_time_is_shared_among_what_is_shown() -> None:
    made, desk = review()
    one, two = desk.map.hunks[:2]
    made.spend((one, two), 4.0)
    made.spend((one,), 1.0)
    assert made.spent == {one.id: 3.0, two.id: 2.0}


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        (
            "a.py",
            'def f(x): return "s" # c',
            {"def": "keyword", "f": "name", "return": "keyword", '"s"': "string", "# c": "remark"},
        ),
        ("a.ts", "const x = 12; // no", {"const": "keyword", "12": "literal", "// no": "remark"}),
        ("Makefile", "if x # y", {"if": "keyword", "# y": "remark"}),
        ("a.unknown", "def f", {}),
        ("a.py", 'x = "unclosed', {'"unclosed': "string"}),
    ],
)
def test_syntax(path: str, text: str, wanted: dict[str, str]) -> None:
    assert {text[a:b]: name for a, b, name in syntax.spans(path, text)} == wanted


@given(st.text(max_size=200))
def test_syntax_spans_are_in_order_and_inside(text: str) -> None:
    edges = [edge for start, end, _n in syntax.spans("a.py", text) for edge in (start, end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= len(text) for edge in edges)


@given(
    st.lists(
        st.sampled_from(
            [
                b"a\n",
                b"\tb  \n",
                b"c\r\n",
                "d\u202e\u6f22\n".encode(),
                b"\xff\n",
                b"long " * 40 + b"\n",
                b"e",
            ]
        ),
        max_size=8,
    ),
    st.integers(20, 130),
    st.booleans(),
)
def test_every_row_of_a_sheet_fits_and_paints_what_was_measured(lines, width, wrapped) -> None:
    work = b"".join(lines)
    if not work:
        return
    current = map_of({"src/a.py": (b"a\nb\nc\n", work)}) if work != b"a\nb\nc\n" else make_map([])
    if not current.hunks:
        return
    each = current.hunks[0]
    sheet = Sheet([ShownHunk(each)], current, Options(width, wrapped, UNICODE))
    for y in range(sheet.height):
        assert width_of(sheet.row(y)) <= width or not wrapped
        assert all("\t" not in text and "\n" not in text for text, _style in sheet.row(y))
    assert set(sheet.ends) == {sheet.height - 1}
    for index in range(len(each.hunk.lines)):
        painted = "".join(text for text, _style in sheet._painted(sheet.hunks[0], index))
        assert painted == sheet._display(sheet.hunks[0], index)


def test_approved_regions_of_a_pending_hunk_step_back() -> None:
    base = b"a\nb\nc\n"
    (found,) = hunks("src/a.py", base, b"A\nb\nC\n", diff("src/a.py", base, b"A\nb\nC\n"))
    current = map_of({"src/a.py": (base, b"A\nb\nC\n")})
    each = replace(current.hunks[0], region_states=("approved", "pending"))
    sheet = Sheet([ShownHunk(each)], current, Options(80, True, UNICODE))
    styles = {}
    for y in range(sheet.height):
        text = "".join(piece for piece, _s in sheet.row(y)).rstrip()
        styles[text[-1:]] = " ".join(style for _t, style in sheet.row(y))
    assert "settled" in styles["A"]
    assert "add" in styles["C"].split()
    assert found.id == each.id


def test_more_context_stops_at_the_next_hunk_and_is_the_same_in_both_files() -> None:
    base = [b"line %d\n" % n for n in range(60)]
    work = list(base)
    work[10], work[40] = b"changed 10\n", b"changed 40\n"
    current = map_of({"src/a.py": (b"".join(base), b"".join(work))})
    first, second = current.hunks
    above, below = context.around(first, current, base, work, 100)
    assert [line.text for line in above] == base[:7]
    assert [line.text for line in below] == base[14:37]
    assert all(line.old_no == line.new_no for line in (*above, *below))
    above, below = context.around(second, current, base, work, 5)
    assert [line.old_no for line in above] == [33, 34, 35, 36, 37]
    assert [line.old_no for line in below] == [45, 46, 47, 48, 49]


def test_new_files_have_no_more_context() -> None:
    current = map_of({"src/new.py": (None, b"a\n")})
    assert context.around(current.hunks[0], current, [], [b"a\n"], 10) == ((), ())


def test_without_colour_no_style_has_one() -> None:
    theme = Theme(color=False)
    for name in ("add addword keyword", "del delword", "cursor pending", "message alarm", "bar"):
        style = theme.style(name)
        assert style.color is None
        assert style.bgcolor is None
    assert theme.style("add addword").underline
    assert Theme(color=True).style("add addword").underline, "never colour alone"
    assert Theme(color=True).style("del delword").bold


def test_both_themes_know_the_same_names() -> None:
    from spike_mcp.edge.tui import theme

    assert set(theme._PLAIN) <= set(theme._COLOUR)
