"""Taking a hunk apart for a reader: words, endings, regions, notes."""

from dataclasses import replace

import pytest
from fake_desk import entry, make_map
from hypothesis import given
from hypothesis import strategies as st

from spike_mcp.core.hunks import diff, hunks
from spike_mcp.edge import present
from spike_mcp.edge.shown import (
    ShownHunk,
    hidden_count,
    line_text,
    notes_of,
    tail_words,
    word_changes,
)
from spike_mcp.session.view import MapHunk


def hunk_of(base: bytes | None, work: bytes | None, path: str = "src/a.py") -> MapHunk:
    (found,) = hunks(path, base, work, diff(path, base, work))
    return entry(found)


@pytest.mark.parametrize(
    ("raw", "body", "tail", "ending"),
    [
        (b"a\n", "a", "", "lf"),
        (b"a \t\r\n", "a", " \t", "crlf"),
        (b"a", "a", "", "none"),
        (b"\n", "", "", "lf"),
        (b"a\r", "a\r", "", "none"),
        (b"\xff\n", "\udcff", "", "lf"),
    ],
)
def test_a_line_is_taken_apart_without_losing_a_byte(raw, body, tail, ending) -> None:
    line = line_text(raw)
    assert (line.body, line.tail, line.ending) == (body, tail, ending)


def test_invisible_ends_are_said_in_words() -> None:
    assert (
        tail_words(line_text(b"a  \t\n"), odd_ending=False) == "2 trailing spaces, 1 trailing tab"
    )
    assert tail_words(line_text(b"a\r\n"), odd_ending=True) == "ends in CR LF"
    assert tail_words(line_text(b"a"), odd_ending=False) == "no newline at the end of the file"
    assert tail_words(line_text(b"a\n"), odd_ending=False) == ""


def pieces(text: str, spans) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_changed_words_are_found_and_unlike_lines_are_left_alone() -> None:
    old, new = "    if status == 500:", "    if status in (429, 500):"
    gone, come = word_changes(old, new)
    assert pieces(old, gone) == ["=="]
    assert pieces(new, come) == ["in (429,", ")"]
    assert word_changes("one two", "completely different words here") == ((), ())
    assert word_changes("same", "same") == ((), ())
    assert word_changes("x" * 5000, "y" * 5000) == ((), ())


@given(st.text(max_size=40), st.text(max_size=40))
def test_spans_lie_inside_their_lines_in_order(old: str, new: str) -> None:
    for text, spans in zip((old, new), word_changes(old, new), strict=True):
        edges = [edge for span in spans for edge in span]
        assert edges == sorted(edges)
        assert all(0 <= edge <= len(text) for edge in edges)


def test_unequal_numbers_of_lines_are_paired_by_likeness() -> None:
    shown = ShownHunk(
        hunk_of(b"alpha = call(one)\n", b"# a new comment\nalpha = call(one, two)\nend = True\n")
    )
    changed = [shown.text(i).body for i in range(len(shown.lines)) if shown.changed_words(i)]
    assert changed == ["alpha = call(one, two)"]


def test_a_huge_region_is_not_compared_word_by_word() -> None:
    base = b"".join(b"old line %d here\n" % n for n in range(50))
    work = b"".join(b"new line %d here\n" % n for n in range(51))
    shown = ShownHunk(hunk_of(base, work))
    assert not any(shown.changed_words(i) for i in range(len(shown.lines)))


def test_only_odd_line_endings_stand_out() -> None:
    lf = ShownHunk(hunk_of(b"a\nb\n", b"a\nB\r\n"))
    assert [lf.odd_ending(i) for i in range(len(lf.lines))] == [False, False, True]
    crlf = ShownHunk(hunk_of(b"a\r\nb\r\nc\r\n", b"a\r\nB\nc\r\n"))
    assert [crlf.odd_ending(i) for i in range(len(crlf.lines))] == [False, False, True, False]
    assert any("CR LF" in n.line for n in notes_of(crlf.each, make_map([crlf.each])))


def test_hidden_characters_are_counted_in_context_too() -> None:
    each = hunk_of(b"\x1b[2J\na\n", "\x1b[2J\nb\u200b\n".encode())
    assert hidden_count(each) == 2
    assert notes_of(each, make_map([each]))[0].kind == "hidden"


def test_notes_say_the_gravest_first() -> None:
    each = replace(
        hunk_of(b"a\n", b"import os\nos._exit(0)\n"),
        why="touched by P7",
        old_tags=("callers see it",),
        context_changed=True,
        comments=("why?",),
    )
    kinds = [note.kind for note in notes_of(each, make_map([each]))]
    assert kinds == ["flag", "lapse", "context", "comment"]


@pytest.mark.parametrize(
    ("base", "work", "path", "noise"),
    [
        (b"a b\n", b"a  b\n", "src/a.py", "white space only"),
        (b"a b\n", b"a c\n", "src/a.py", ""),
        (None, b" \n", "src/a.py", ""),
        (b"a\n", b"b\n", "poetry.lock", "generated file"),
        (b"# DO NOT EDIT\na\n", b"# DO NOT EDIT\nb\n", "src/x.py", "generated file"),
    ],
)
def test_noise_is_labelled(base, work, path, noise) -> None:
    assert present.noise_of(hunk_of(base, work, path)) == noise


def test_titles_and_places() -> None:
    each = hunk_of(b"a\nb\n", b"a\n\n  new text\n")
    assert present.first_changed(each) == "new text"
    assert present.place_of(each) == 2
    assert present.first_changed(hunk_of(None, b"")) == "new file"
    assert present.reason_of(replace(each, rationale="one\none\ntwo")) == "one / two"


def test_clock_and_bar() -> None:
    assert present.clock(5399.9) == "89:59"
    assert present.clock(-3) == "0:00"
    assert present.minutes(11.3) == "11"
    assert present.minutes(0.44) == "0.4"
    assert present.bar(0, 10, 5, present.ASCII) == "-----"
    assert present.bar(0.01, 10, 5, present.ASCII) == "#----"
    assert present.bar(99, 10, 5, present.ASCII) == "#####"
    assert present.bar(1, 0, 5, present.ASCII) == "#----"


def test_every_glyph_is_one_cell_and_ascii_is_ascii() -> None:
    from dataclasses import astuple

    from rich.cells import cell_len

    assert all(cell_len(glyph) == 1 for glyph in astuple(present.UNICODE))
    assert all(glyph.isascii() and len(glyph) == 1 for glyph in astuple(present.ASCII))
