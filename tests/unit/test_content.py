"""Content rules: what a file's bytes are, and what a reader would be deceived by."""

import pytest

from spike_mcp.core import content
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.hunks import diff


def verdict(
    before: bytes | None, after: bytes, path: str = "src/a.py", allow_control: bool = False
) -> Problem | None:
    return content.deceptive(before, after, diff(path, before, after), allow_control)


def flagged(before: bytes | None, after: bytes, path: str = "src/a.py") -> list[tuple[str, int]]:
    regions = diff(path, before, after)
    return [(flag.name, flag.line) for flag in content.flags(path, regions, before, after)]


@pytest.mark.parametrize(
    ("data", "text", "encoding", "bom", "endings"),
    [
        (b"", "", "utf-8", False, "none"),
        (b"one", "one", "utf-8", False, "none"),
        (b"one\ntwo\n", "one\ntwo\n", "utf-8", False, "lf"),
        (b"one\r\ntwo", "one\r\ntwo", "utf-8", False, "crlf"),
        (b"one\r\ntwo\n", "one\r\ntwo\n", "utf-8", False, "mixed"),
        (b"a\rb\n", "a\rb\n", "utf-8", False, "lf"),
        (b"\xef\xbb\xbf\xc3\xa9\n", "é\n", "utf-8", True, "lf"),
        (b"caf\xe9\n", "café\n", "iso-8859-1", False, "lf"),
        (b"\xc3\xbc\ncaf\xe9\n", "ü\ncafé\n", "utf-8 and iso-8859-1", False, "lf"),
    ],
)
def test_decode_names_what_it_found(
    data: bytes, text: str, encoding: str, bom: bool, endings: str
) -> None:
    assert content.decode(data) == content.Text(text, encoding, bom, endings)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xfea\0", Refusal.ENCODING_UNSUPPORTED),
        (b"\xfe\xff\0a", Refusal.ENCODING_UNSUPPORTED),
        (b"\xff\xfe\0\0a\0\0\0", Refusal.ENCODING_UNSUPPORTED),
        (b"a\0b", Refusal.BINARY_CONTENT),
    ],
)
def test_decode_refuses_what_has_no_lines(data: bytes, code: Refusal) -> None:
    with pytest.raises(Problem) as caught:
        content.decode(data)
    assert caught.value.code == code


BEFORE = b"import os\n\n\ndef f():\n    return 1\n"


def with_line(line: str) -> bytes:
    return BEFORE + line.encode("utf-8", "surrogateescape") + b"\n"


DECEPTIVE = [
    ("x = 'a\rb'", "<000d>"),
    ("x = '\x1b[2K'", "<001b>"),
    ("x\x7f = 1", "<007f>"),
    ("x = '\x85'", "<0085>"),
    ("x\x0b = 1", "<000b>"),
    ("# check \u202e\u2066 \u2069\u2066", "<202e>"),
    ("ad\u200bmin = 1", "<200b>"),
    ("ad\u2060min = 1", "<2060>"),
    ("ad\u00admin = 1", "<00ad>"),
    ("a\u200db = 1", "<200d>"),
    ("x = '\u2028'", "<2028>"),
    ("x = '\u3164'", "<3164>"),
    ("x = '\U000e0041'", "<e0041>"),
    ("x = 'a\ufe00'", "<fe00>"),
    ("x = '\ufeff'", "<feff>"),
    ("x = '\ue000'", "<e000>"),
    ("\uff4f\uff53._\uff45\uff58\uff49\uff54(0)", "'os'"),
    ("\U0001d428\U0001d42c.abort()", "'os'"),
    ("print(e\uff58it)", "'exit'"),
    ("f'{\uff4f\uff53}'", "'os'"),
    ("x = 'caf\udce9'", "e9"),
]


@pytest.mark.parametrize(("line", "shown"), DECEPTIVE)
def test_added_line_that_deceives_is_refused_and_named(line: str, shown: str) -> None:
    problem = verdict(BEFORE, with_line(line))
    assert problem is not None
    assert problem.code == Refusal.CONTENT_DECEPTIVE
    assert "line 6" in problem.message
    assert shown in problem.message
    assert problem.hint
    assert problem.message.isprintable()


@pytest.mark.parametrize(("line", "shown"), DECEPTIVE)
def test_allow_control_turns_the_refusal_into_a_flag(line: str, shown: str) -> None:
    assert verdict(BEFORE, with_line(line), allow_control=True) is None
    assert flagged(BEFORE, with_line(line))[0][1] == 6


@pytest.mark.parametrize(
    "line",
    [
        "\tx = 1",
        "\f",
        "x = 1\r",
        "größe = 'é'  # Ähm",
        "Δt = μ * π",
        "名前 = '１２３'",
        "x = 'ｏｓ'  # ｏｓ",
        '"""ｏｓ"""',
        "x = f'ｏｓ {x}'",
        "x = '½ m² № 5 …'",
        "x = 'é'",
        "x = '👍🏽 1️⃣ ☀️'",
        "x = '👩\u200d💻 🏳️\u200d🌈'",
    ],
)
def test_honest_lines_pass(line: str) -> None:
    assert verdict(BEFORE, with_line(line)) is None


def test_joiner_inside_an_emoji_is_only_flagged() -> None:
    assert flagged(BEFORE, with_line("x = '👩\u200d💻'")) == [("emoji_joiner", 6)]
    assert flagged(BEFORE, with_line("x = '👩\u200d\u200d💻'"))[0][0] == "invisible_character"
    assert flagged(BEFORE, with_line("x = '☀\ufe0f\ufe0f'"))[1][0] == "invisible_character"


def test_mixed_scripts_are_only_flagged() -> None:
    line = with_line("\u0440aypal = 1")
    assert verdict(BEFORE, line) is None
    assert flagged(BEFORE, line) == [("mixed_scripts", 6)]


def test_look_alikes_count_only_where_the_language_folds_names() -> None:
    line = b"\xef\xbd\x8f\xef\xbd\x93()\n"
    assert verdict(None, line, "a.js") is None
    assert verdict(None, line, "a.py") is not None
    assert verdict(None, b"#!/usr/bin/env python3\n" + line, "tool") is not None
    assert verdict(None, b"'''\n" + line, "a.py") is not None, "unfinished Python is all code"


def test_lines_that_were_there_are_not_judged() -> None:
    old = b"x = '\x1b'\r# \xe2\x80\xae\n" + BEFORE
    assert verdict(old, old + b"y = 1\n") is None
    assert verdict(old, old.replace(b"return 1", b"return 2")) is None


def test_bytes_of_replaced_lines_may_stay() -> None:
    old = b"# caf\xe9 one\nx\n"
    assert verdict(old, b"# caf\xe9 two\nx\n") is None
    assert verdict(old, b"# caf\xe8 one\nx\n") is not None
    assert verdict(old, b"# caf\xe9 one\n# caf\xe9\nx\n") is not None


def test_crlf_is_no_lone_carriage_return() -> None:
    assert verdict(None, b"a\r\nb\r\n") is None
    assert verdict(None, b"a\r\r\n") is not None
    assert verdict(None, b"a\r") is not None


def test_bom_stays_and_can_not_be_added() -> None:
    assert verdict(b"\xef\xbb\xbfone\n", b"\xef\xbb\xbfONE\n") is None
    assert verdict(b"one\n", b"\xef\xbb\xbfone\n") is not None
    assert verdict(None, b"\xef\xbb\xbfone\n") is not None


def test_nul_is_binary_even_with_allow_control() -> None:
    problem = verdict(BEFORE, BEFORE + b"\0\n", allow_control=True)
    assert problem is not None
    assert problem.code == Refusal.BINARY_CONTENT


COOKIE = b"# -*- coding: latin-1 -*-\n"


@pytest.mark.parametrize(
    ("before", "after", "path", "refused"),
    [
        (None, COOKIE + b"x\n", "a.py", True),
        (None, b"#!/usr/bin/python\n" + COOKIE, "a", True),
        (None, b"# vim: set fileencoding=utf-7 :\n", "a.py", True),
        (None, b"\n\n" + COOKIE, "a.py", False),
        (None, b"# coding: utf-8\n", "a.py", False),
        (None, b"# coding: UTF_8\n", "a.py", False),
        (None, b"# -*- coding: utf-8-unix -*-\n", "a.py", False),
        (None, b"# content-coding: gzip\n", "a.md", False),
        (b"x\n" + COOKIE + b"y\n", b"z\n" + COOKIE + b"y\n", "a.py", False),
        (b"# a\n# b\n" + COOKIE, b"# a\n" + COOKIE, "a.py", True),
        (None, b"# a\r" + COOKIE, "a.py", True),
        (COOKIE, b"# coding: cp1252\n", "a.py", True),
    ],
)
def test_source_encoding_declarations(
    before: bytes | None, after: bytes, path: str, refused: bool
) -> None:
    problem = verdict(before, after, path)
    assert (problem is not None) is refused
    if problem is not None and b"\r" not in after:
        assert "encoding" in problem.message


def test_declaration_is_flagged_at_the_hunk_that_brings_it() -> None:
    before = b"".join(b"%d\n" % n for n in range(40))
    after = COOKIE + before[2:].replace(b"30\n", b"thirty\n")
    top, far = diff("a.py", before, after)
    assert [f.name for f in content.flags("a.py", [top], before, after)] == ["encoding_cookie"]
    assert content.flags("a.py", [far], before, after) == ()


def test_no_change_and_deletion_are_fine() -> None:
    assert content.deceptive(b"a\n", b"a\n", ()) is None
    assert content.deceptive(b"\x1b\n", None, diff("a", b"\x1b\n", None)) is None


def test_flags_are_bounded() -> None:
    after = b"\x1b" * 1000 + b"\n"
    assert len(flagged(None, after)) == content.MAX_FLAGS


@pytest.mark.security
@pytest.mark.parametrize("name", ["\u0430", "\u0441\u043e\u0440", "\u0391", "\u03bf", "\u0430_1"])
def test_names_whose_letters_only_look_latin_are_flagged_in_code(name: str) -> None:
    base = b"def f(a):\n    return a\n"
    work = f"def f(a, {name}=None):\n    return {name}\n".encode()
    regions = diff("a.py", base, work)
    assert content.deceptive(base, work, regions) is None
    found = content.flags("a.py", regions, base, work)
    assert {flag.name for flag in found} == {"mixed_scripts"}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "x = '\u0441\u043e\u0440'  # \u0441\u043e\u0440"),
        ("a.py", "\u03c1 = \u03bd * \u03b1"),
        ("a.py", "\u0442\u0435\u0441\u0442 = 1"),
        ("a.md", "\u0430 \u043e\u043d"),
    ],
)
def test_honest_words_of_other_alphabets_are_left_alone(path: str, line: str) -> None:
    work = f"{line}\n".encode()
    assert not flagged(b"\n", work, path)


@pytest.mark.security
def test_a_new_file_beside_one_that_its_name_only_looks_like_is_flagged() -> None:
    assert flagged(None, b"x = 1\n", "src/\u0430.py") == [("mixed_scripts", 1)]
    assert not flagged(b"x = 1\n", b"x = 2\n", "src/\u0430.py")


@pytest.mark.security
@pytest.mark.parametrize(
    "mark", ["\u0336", "\u20d2", "\u0301" * 4, "\u0300\u0301\u0302\u0303\u0304"]
)
def test_marks_that_strike_out_or_pile_up_are_flagged(mark: str) -> None:
    line = with_line(f"x = 'keep{mark}'")
    assert verdict(BEFORE, line) is None
    assert flagged(BEFORE, line) == [("combining_marks", 6)]


def test_letters_with_the_marks_that_languages_use_are_left_alone() -> None:
    assert not flagged(BEFORE, with_line("x = 'e\u0301 \u1ec7 a\u0323\u0302\u0301'"))
