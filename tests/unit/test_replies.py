"""How a reply is put on the wire: order, size, time line, nothing of the judge."""

import pytest

from spike_mcp.edge.replies import MAX_TEXT, META_KEY, Answer, fit, render, time_line


def answer(*lines, **more):
    values = {"outcome": "accepted", "lines": lines, "data": {}, "seconds": (3600.0, 61.0)}
    return Answer(**{**values, **more})


def test_the_outcome_comes_first_then_the_human_then_the_rest_then_the_time():
    shown = render(answer("applied P1", "hunks: h1", news=("the human rejected h0: no",)))
    assert shown.text.splitlines() == [
        "applied P1",
        "the human rejected h0: no",
        "hunks: h1",
        "time left: 60 min 00 s; writes close in 1 min 01 s",
    ]
    assert shown.meta[META_KEY]["feedback"] == ["the human rejected h0: no"]
    assert not shown.is_error


def test_a_refusal_is_an_error_with_its_machine_copy():
    data = {"message": "no", "hint": "do"}
    lines = ("refused: busy", "no", "hint: do")
    shown = render(answer(*lines, outcome="refused", code="busy", data=data, seconds=(5.0, 0.0)))
    assert shown.is_error
    assert shown.text.startswith("refused: busy\nno\nhint: do\n")
    assert shown.meta == {
        META_KEY: {
            "outcome": "refused",
            "code": "busy",
            "message": "no",
            "hint": "do",
            "remaining_seconds": 5.0,
            "writes_close_in_seconds": 0.0,
        }
    }


def test_without_a_spike_no_time_is_claimed():
    shown = render(answer("refused: spike_not_found", outcome="refused", seconds=None))
    assert shown.text == "refused: spike_not_found"
    assert shown.meta[META_KEY]["remaining_seconds"] is None


@pytest.mark.security
def test_paths_of_the_judge_do_not_pass():
    line = "can't read /x/judge/blobs/ab"
    data = {"root": "/x", "files": ["/x/verdict/r", {"/x/judge": "/x/judge/1"}]}
    shown = render(answer(line, data=data), secrets=("/x/judge", "/x/verdict"))
    assert "/x/judge" not in shown.text
    assert "/x/" not in str(shown.meta)
    assert shown.meta[META_KEY]["files"] == ["<judge>/r", {"<judge>": "<judge>/1"}]


def test_hidden_characters_are_shown_except_in_a_files_own_text():
    assert "<001b>[31m" in render(answer("first", "\x1b[31m")).text
    assert "\x1b[31m" in render(answer("first\n\x1b[31m"), "spike_read_file").text


@pytest.mark.parametrize("size", [9_000, 200_000])
def test_the_longest_part_gives_way_in_its_middle(size):
    news = tuple(f"the human remarks {n}" for n in range(20))
    body = "start " + "é" * size + " the end"
    text = render(answer("first line", body, "last note", news=news)).text
    assert len(text.encode()) <= MAX_TEXT
    lines = text.splitlines()
    assert lines[0] == "first line"
    assert lines[-1].startswith("time left")
    assert "last note" in lines
    assert all(item in lines for item in news)
    assert "start " in text
    assert "the end" in text
    assert "bytes left out for want of room" in text


def test_many_long_remarks_of_the_human_are_all_there():
    news = tuple(f"the human comments {n}: " + "word " * 300 for n in range(20))
    text = render(answer("first", "x" * 7_000, news=news)).text
    assert len(text.encode()) <= MAX_TEXT
    assert all(f"the human comments {n}:" in text for n in range(20))


def test_parts_that_fit_are_left_alone():
    parts = ["a", "b" * 100, ""]
    assert fit(parts, 200) == parts
    assert fit(["x" * 100] * 100, 10) == ["x" * 100] * 100  # nothing there is worth cutting


def test_the_time_line_says_when_it_is_over():
    assert time_line(0, 0) == "time left: none; writes are closed"
    assert time_line(59.9, 0.0) == "time left: 0 min 59 s; writes are closed"
