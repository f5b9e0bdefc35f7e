"""edit and write: one exact place, explicit replacement, bytes kept."""

import hashlib

import pytest

from spike_mcp.core import patches
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.paths import RepoPath

PATH = RepoPath.parse("src/a.py")


def edited(before: bytes, old: str, new: str) -> bytes | None:
    return patches.edit(PATH, before, old, new).change.after


def refusal(*args: object, **kwargs: object) -> Problem:
    function = kwargs.pop("function", patches.edit)
    assert callable(function)
    with pytest.raises(Problem) as caught:
        function(PATH, *args, **kwargs)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\ntwo\n", "two", "TWO", b"one\nTWO\n"),
        (b"one\ntwo\n", "e\nt", "e\nx\nt", b"one\nx\ntwo\n"),
        (b"one\ntwo\n", "one\n", "", b"two\n"),
        (b"one\ntwo\n", "two\n", "", b"one\n"),
        (b"one\ntwo\n", "\ntwo", "", b"one\n"),
        (b"one\ntwo\n", "one\ntwo\n", "", b""),
        (b"one\ntwo", "two", "TWO", b"one\nTWO"),
        (b"one\ntwo", "two", "two\n", b"one\ntwo\n"),
        (b"one\ntwo\n", "two\n", "two", b"one\ntwo"),
        (b"one\ntwo", "two", "two\nthree", b"one\ntwo\nthree"),
        (b"one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", b"1\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", b"1\r\n2\r\n"),
        (b"one\ntwo\n", "one", "1\r\nx", b"1\nx\ntwo\n"),
        (b"a\r\nb\nc\r\n", "b", "B", b"a\r\nB\nc\r\n"),
        (b"\xef\xbb\xbfone\n", "one", "1", b"\xef\xbb\xbf1\n"),
        (b"\xef\xbb\xbfone\n", "\ufeffone", "\ufeff1", b"\xef\xbb\xbf1\n"),
        (b"caf\xe9\nx\n", "x", "y", b"caf\xe9\ny\n"),
        (b"caf\xe9\nx\n", "café", "café!", b"caf\xe9!\nx\n"),
        (b"a b a\n", "b a", "c", b"a c\n"),
        (b"x\n\n\n\ny\n", "x\n", "z\n", b"z\n\n\n\ny\n"),
        (b"a\n\n", "a\n\n", "a\n", b"a\n"),
        (b"a", "a", "a\n\n", b"a\n\n"),
    ],
)
def test_edit_changes_exactly_the_text(before: bytes, old: str, new: str, after: bytes) -> None:
    assert edited(before, old, new) == after


@pytest.mark.parametrize(
    ("before", "old", "new", "code"),
    [
        (None, "a", "b", Refusal.FILE_MISSING),
        (b"a\n", "", "b", Refusal.MALFORMED_REQUEST),
        (b"a\n", "b", "c", Refusal.NO_MATCH),
        (b"one\ntwo", "two\n", "c", Refusal.NO_MATCH),
        (b"a\na\n", "a", "c", Refusal.AMBIGUOUS_MATCH),
        (b"aaa\n", "aa", "c", Refusal.AMBIGUOUS_MATCH),
        (b"a\n", "a", "a", Refusal.NO_CHANGES),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", Refusal.NO_CHANGES),
        (b"a\x00\n", "a", "b", Refusal.BINARY_CONTENT),
        (b"a\n", "a", "b\0", Refusal.BINARY_CONTENT),
        (b"a\n", "a", "b\ud800", Refusal.ENCODING_UNSUPPORTED),
        (b"\xff\xfea\0", "a", "b", Refusal.ENCODING_UNSUPPORTED),
        (b"caf\xe9\n", "café", "→", Refusal.ENCODING_UNSUPPORTED),
    ],
)
def test_edit_refuses(before: bytes | None, old: str, new: str, code: Refusal) -> None:
    assert refusal(before, old, new).code == code


def test_edit_names_places_and_real_lines() -> None:
    assert "lines 1, 3" in refusal(b"a\nb\na\n", "a", "x").message
    near = refusal(b"def f():\n\treturn 1\n", "    return 1", "x")
    assert "white space" in near.hint
    assert "2| \treturn 1" in near.hint
    assert refusal(b"abc\n", "b", "x" * 50, limit=20).code == Refusal.TOO_LARGE
    long = b"a" * 30 + b"b\n"
    assert patches.edit(PATH, long, "b", "", limit=20).change.after == b"a" * 30 + b"\n"


def test_write_creates_and_replaces() -> None:
    made = patches.write(PATH, None, "one\r\ntwo")
    assert (made.change.before, made.change.after) == (None, b"one\r\ntwo")
    assert patches.write(PATH, None, "").change.after == b""
    before = b"one\ntwo\n"
    digest = hashlib.sha256(before).hexdigest()
    assert patches.write(PATH, before, "x\r\n", digest.upper()).change.after == b"x\r\n"


@pytest.mark.parametrize(
    ("before", "text", "after", "notes"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n", ("kept: CRLF line endings",)),
        (b"a\r\nb\r\n", "a\r\nc\n", b"a\r\nc\n", ()),
        (b"a\r\nb\n", "a\nc\n", b"a\nc\n", ()),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n", ("kept: byte order mark",)),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n", ("kept: byte order mark",)),
        (b"caf\xe9\n", "café\nü\n", b"caf\xe9\n\xfc\n", ()),
        (b"caf\xe9\n\xc3\xbc\n", "café\nü\nö\n", b"caf\xe9\n\xc3\xbc\n\xc3\xb6\n", ()),
        (b"a\n", "a", b"a", ()),
    ],
)
def test_write_keeps_what_the_text_cannot_say(
    before: bytes, text: str, after: bytes, notes: tuple[str, ...]
) -> None:
    placed = patches.write(PATH, before, text, hashlib.sha256(before).hexdigest())
    assert placed.change.after == after
    assert placed.notes == notes


@pytest.mark.parametrize(
    ("before", "text", "digest", "code"),
    [
        (b"a\n", "b\n", "", Refusal.FILE_EXISTS),
        (b"a\n", "b\n", "0" * 64, Refusal.STALE_FILE),
        (None, "b\n", "0" * 64, Refusal.FILE_MISSING),
        (b"a\n", "a\n", hashlib.sha256(b"a\n").hexdigest(), Refusal.NO_CHANGES),
        (None, "a\0", "", Refusal.BINARY_CONTENT),
        (b"\0", "a", hashlib.sha256(b"\0").hexdigest(), Refusal.BINARY_CONTENT),
    ],
)
def test_write_refuses(before: bytes | None, text: str, digest: str, code: Refusal) -> None:
    assert refusal(before, text, digest, function=patches.write).code == code


def test_patch_limits() -> None:
    with pytest.raises(Problem) as caught:
        patches.parse("x" * 101, limit=100)
    assert caught.value.code == Refusal.TOO_LARGE
    hunk = "@@\n-a\n+b\n"
    with pytest.raises(Problem) as caught:
        patches.parse("--- a/x\n+++ b/x\n" + hunk * 2001)
    assert caught.value.code == Refusal.TOO_LARGE
