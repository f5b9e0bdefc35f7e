"""Listing, reading, searching and cutting, on a real spike in this process."""

import os
import time

import pytest
from support import open_plain

from spike_mcp.core.codes import Problem
from spike_mcp.core.requests import ListFiles, ReadFile, SearchFiles
from spike_mcp.host.search import MAX_HITS, search
from spike_mcp.session import reads

LONG = "".join(f"line number {n} of many\n" for n in range(1, 1001))
FILES = {
    "src/a.py": "one\ntwo\nthree\n",
    "src/deep/b.py": "def beta():\n    return 'one'\n",
    "src/deep/c.txt": "tab\there\n",
    "src/crlf.txt": b"\xef\xbb\xbfa\r\nb\r\n",
    "src/latin.txt": b"caf\xe9\nplain\n",
    "src/mixed.txt": b"a\r\nb\nc",
    "src/empty.txt": "",
    "src/long.txt": LONG,
    "src/wide.txt": "x" * 20_000 + "\nshort\n",
    "data/blob.bin": b"\0\1\2",
    "data/utf16.txt": "hello".encode("utf-16"),
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": "grep -q GREEN src/a.py\n",
    ".gitignore": "ignored/\n*.log\n",
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return open_plain(tmp_path_factory.mktemp("reads"), files=FILES)


def listed(opened, path=".", pattern="", page=1):
    return reads.answer(opened.spike, ListFiles(path, pattern, page))


def read(opened, path, start=1, count=400):
    return reads.answer(opened.spike, ReadFile(path, start, count))


def found(opened, pattern, path=".", regex=False):
    return reads.answer(opened.spike, SearchFiles(pattern, path, regex))


def body(text):
    return text.partition("--- text ---\n")[2].rpartition("--- end ---")[0]


def test_a_listing_holds_what_was_committed_and_what_was_accepted(opened):
    work = opened.spike.work
    (work / "ignored").mkdir()
    (work / "ignored/cache.bin").write_text("x")
    (work / "stray.txt").write_text("x")
    text, data = listed(opened)
    assert text.splitlines()[0] == f"{len(FILES)} files, page 1 of 1"
    assert data["files"] == sorted(FILES, key=str.encode)
    assert "src/a.py  (you may write)" in text
    assert text.endswith("\ntests/test_oracle.py")
    (work / "stray.txt").unlink()
    (work / "ignored/cache.bin").unlink()
    (work / "ignored").rmdir()


@pytest.mark.parametrize(
    ("path", "pattern", "names"),
    [
        ("src/deep", "", ["src/deep/b.py", "src/deep/c.txt"]),
        ("src/deep/", "*.py", ["src/deep/b.py"]),
        ("./src", "deep/*.py", ["src/deep/b.py"]),
        ("", "src/**/*.py", ["src/a.py", "src/deep/b.py"]),
        (".", "a.py", ["src/a.py"]),
        ("src/a.py", "", ["src/a.py"]),
        (".", "nothing*", []),
    ],
)
def test_a_listing_can_be_narrowed(opened, path, pattern, names):
    assert listed(opened, path, pattern)[1]["files"] == names


def test_pages_hold_every_name_once(tmp_path):
    many = {f"src/folder_{n % 7}/some_file_name_{n}.py": "" for n in range(400)}
    opened = open_plain(tmp_path, files={**many, **FILES})
    names, page = [], 1
    while True:
        text, data = listed(opened, page=page)
        assert len(text.encode()) < 7_500
        names += data["files"]
        if page == data["pages"]:
            break
        assert f"more with page={page + 1}" in text.splitlines()[0]
        page += 1
    assert page > 2
    assert names == sorted({**many, **FILES}, key=str.encode)
    with pytest.raises(Problem, match="past the last"):
        listed(opened, page=page + 1)


def test_a_file_is_read_as_it_is(opened):
    text, data = read(opened, "src/a.py")
    assert text.splitlines()[0] == "src/a.py: lines 1-3 of 3"
    assert body(text) == "one\ntwo\nthree\n"
    assert data["sha256"] in text
    assert data["sha256"] == opened.spike.expected("src/a.py")[0]
    assert "you may write this file" in text


@pytest.mark.parametrize(
    ("path", "words", "content"),
    [
        ("src/crlf.txt", "utf-8, line endings: crlf, with BOM", "a\r\nb\r\n"),
        ("src/latin.txt", "iso-8859-1, line endings: lf, no BOM", "café\nplain\n"),
        ("src/mixed.txt", "line endings: mixed, no BOM, no newline at the end", "a\r\nb\nc\n"),
        ("src/empty.txt", "0 bytes, utf-8, line endings: none", ""),
        ("src/deep/c.txt", "9 bytes", "tab\there\n"),
    ],
)
def test_encoding_endings_and_bom_are_named(opened, path, words, content):
    text, _ = read(opened, path)
    assert words in text
    assert body(text) == content


@pytest.mark.security
def test_the_oracle_is_readable_without_its_digest(opened):
    text, data = read(opened, "tests/test_oracle.py")
    assert "assert 1" in text
    assert "read-only: protected" in text
    assert data["sha256"] == ""
    assert "sha256" not in text


def test_a_long_file_comes_in_pieces_that_join(opened):
    pieces, start = [], 1
    while start:
        text, data = read(opened, "src/long.txt", start, 2000)
        assert len(text.encode()) < 7_500
        pieces.append(body(text))
        start = data["next_start_line"]
        if start:
            assert f"continue with start_line={start}" in text.splitlines()[0]
    assert "".join(pieces) == LONG
    text, data = read(opened, "src/long.txt", 990, 5)
    assert body(text) == "".join(LONG.splitlines(True)[989:994])
    assert data["next_start_line"] == 995


def test_a_line_too_long_to_show_is_cut_and_said_so(opened):
    text, data = read(opened, "src/wide.txt")
    assert "line 1 has 20001 characters, cut here" in text
    assert data["next_start_line"] == 2
    assert body(read(opened, "src/wide.txt", 2)[0]) == "short\n"


@pytest.mark.security
@pytest.mark.parametrize(
    ("path", "code"),
    [
        (".git", "path_protected"),
        ("src/.GIT/config", "path_protected"),
        ("../judge/ledger.jsonl", "path_invalid"),
        ("/etc/passwd", "path_invalid"),
        ("src//a.py", "path_invalid"),
        ("", "path_invalid"),
        ("src", "not_a_file"),
        ("src/none.py", "file_missing"),
        ("src/a.py/b", "not_a_file"),
        ("data/blob.bin", "binary_content"),
        ("data/utf16.txt", "encoding_unsupported"),
        ("link.py", "symlink_in_path"),
        ("linked/a.py", "symlink_in_path"),
        ("hard.py", "hard_linked"),
        ("pipe", "not_a_file"),
    ],
)
def test_what_cant_be_read_is_refused(opened, path, code):
    work = opened.spike.work
    os.symlink("/etc/passwd", work / "link.py")
    os.symlink("src", work / "linked")
    os.link(opened.repo / "src/a.py", work / "hard.py")
    os.mkfifo(work / "pipe")
    try:
        with pytest.raises(Problem) as caught:
            read(opened, path)
        assert caught.value.code.value == code
    finally:
        for name in ("link.py", "linked", "hard.py", "pipe"):
            (work / name).unlink()


def test_a_line_past_the_end_is_refused_with_the_count(opened):
    with pytest.raises(Problem, match="has 3 lines"):
        read(opened, "src/a.py", 4)
    assert body(read(opened, "src/empty.txt", 1)[0]) == ""


def test_text_and_expressions_are_found_line_by_line(opened):
    text, data = found(opened, "one", "src")
    assert "src/a.py:1: one\n" in text
    assert "src/deep/b.py:2:     return 'one'" in text
    assert data["complete"]
    text, _ = found(opened, r"^t\w+$", "src/a.py", regex=True)
    assert text.splitlines()[1:] == ["src/a.py:2: two", "src/a.py:3: three"]
    assert "src/crlf.txt:2: b" in found(opened, "^b$", "src", regex=True)[0]
    assert "src/latin.txt:1: café" in found(opened, "café")[0]
    assert found(opened, "no such thing")[1]["found"] == 0


def test_hits_are_bounded_and_long_lines_cut(opened):
    text, data = found(opened, "line number", "src/long.txt")
    assert data["found"] == MAX_HITS
    assert "more than 200 matching lines" in text
    assert len(text.encode()) < 7_500
    assert len(found(opened, "xx", "src/wide.txt")[0]) < 600


@pytest.mark.security
def test_no_expression_hangs_the_caller(opened):
    began = time.monotonic()
    text, data = found(opened, "(x+x+)+y", "src/wide.txt", regex=True)
    assert time.monotonic() - began < 20  # the limit is 3 seconds
    assert text.startswith("stopped at the time limit")
    assert not data["complete"]


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "(?P<x>", "a{1,99999999999}", "\\"])
def test_a_bad_expression_is_refused(opened, pattern):
    with pytest.raises(Problem) as caught:
        found(opened, pattern, regex=True)
    assert caught.value.code.value == "malformed_request"


def test_an_empty_pattern_and_a_missing_folder_are_refused(opened):
    for pattern, path, code in [("", ".", "malformed_request"), ("x", "none", "file_missing")]:
        with pytest.raises(Problem) as caught:
            found(opened, pattern, path)
        assert caught.value.code.value == code


@pytest.mark.security
def test_a_search_follows_no_link_and_waits_for_no_pipe(tmp_path):
    (tmp_path / "secret").write_text("needle")
    root = tmp_path / "root"
    root.mkdir()
    (root / "plain").write_text("needle\n")
    os.symlink(tmp_path / "secret", root / "link")
    os.symlink(tmp_path, root / "out")
    os.link(tmp_path / "secret", root / "hard")
    os.mkfifo(root / "pipe")
    names = ["link", "out/secret", "hard", "pipe", "gone", "plain"]
    result = search(root, names, "needle", regex=False)
    assert [(hit.path, hit.line) for hit in result.hits] == [("plain", 1)]
    assert (result.searched, result.skipped, result.complete) == (1, 5, True)


def test_a_search_that_is_stopped_gives_what_it_had(tmp_path):
    (tmp_path / "a").write_text("aaaa\n")
    (tmp_path / "b").write_text("a" * 60 + "!\n")
    result = search(tmp_path, ["a", "b"], "^(a|a)*$", regex=True, seconds=0.5)
    assert [hit.path for hit in result.hits] == ["a"]
    assert not result.complete


def test_short_output_is_shown_whole():
    assert reads.clip_output("", "", 0) == "no output"
    assert reads.clip_output("hello\n", "", 0) == "output:\nhello"
    assert reads.clip_output("a\x1b[31m\r\nb", "c", 0) == "output:\na<001b>[31m\nbc"


@pytest.mark.parametrize("dropped", [0, 123_456_789])
@pytest.mark.parametrize("unit", ["x", "é", "\x1b", "word\n"])
def test_long_output_keeps_its_end_and_counts_what_is_left_out(unit, dropped):
    head, tail = unit * 9000, unit * 9000 + "assert the end"
    text = reads.clip_output(head, tail, dropped)
    assert len(text.encode()) < 4_600
    assert text.endswith("assert the end")
    total = len(head.encode()) + len(tail.encode()) + dropped
    left_out = int(text.partition("[... ")[2].partition(" bytes")[0])
    lines = text.removeprefix("output:\n").split("\n[... ")
    shown = lines[0] + lines[1].partition(" ...]\n")[2]
    raw = shown.replace("<001b>", "\x1b")
    assert abs(total - left_out - len(raw.encode())) <= 1  # a line break at the cut
    assert (f"{dropped} of them" in text) is bool(dropped)
