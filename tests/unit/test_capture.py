"""Head, tail, dropped: exact for any chunking, flat in memory (spec 11)."""

from hypothesis import given
from hypothesis import strategies as st

from spike_mcp.host.sandbox.capture import Capture, Lines

CHUNKS = st.lists(st.binary(max_size=60), max_size=20)


@given(CHUNKS, st.integers(0, 50), st.integers(0, 50))
def test_what_is_kept_and_dropped_adds_up(chunks: list[bytes], head: int, tail: int) -> None:
    kept = Capture(head, tail)
    for chunk in chunks:
        kept.feed(chunk)
    whole = b"".join(chunks)
    assert kept.head == whole[:head]
    rest = whole[head:]
    assert kept.tail == (rest[-tail:] if tail else b"")
    assert kept.dropped == len(whole) - len(kept.head) - len(kept.tail)


def test_a_large_stream_keeps_little() -> None:
    kept = Capture(10, 10)
    for _ in range(50):
        kept.feed(b"x" * (1 << 20))
    assert (len(kept.head), len(kept.tail), kept.dropped) == (10, 10, 50 * (1 << 20) - 20)


def test_the_last_line_is_the_last_that_says_something() -> None:
    kept = Capture(100, 100)
    assert kept.last_line() == ""
    kept.feed(b"one\ntwo \xff\r\n\n  \n")
    assert kept.last_line() == "two �"


@given(CHUNKS)
def test_lines_come_whole_whatever_the_chunks(chunks: list[bytes]) -> None:
    found: list[bytes] = []
    lines = Lines(found.append)
    for chunk in chunks:
        lines.feed(chunk)
    lines.end()
    whole = b"".join(chunks)
    assert b"\n".join(found) == whole.removesuffix(b"\n")


def test_an_endless_line_comes_in_pieces() -> None:
    found: list[bytes] = []
    lines = Lines(found.append, longest=10)
    for _ in range(5):
        lines.feed(b"x" * 8)
    lines.end()
    assert b"".join(found) == b"x" * 40
    assert max(map(len, found)) <= 18
