"""Lines of the wire: what is a message, what gets the protocol's own answer."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from spike_mcp.edge.frames import BadFrame, LineSplitter, Oversized, encode, parse

LIMIT = 1 << 16


def read(line: bytes):
    return parse(line, LIMIT)


@pytest.mark.parametrize(
    ("line", "code", "ids"),
    [
        (b"nonsense", -32700, [None]),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, [1]),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', -32700, [1]),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0"}', -32700, [1]),
        (b'{"jsonrpc":"2.0","id":4,"method":"x","params":{"a":"\xff\xfe"}}', -32700, [4]),
        (b'{"method":"x","params":{"a":"\xff"},"jsonrpc":"2.0","id":"q-7"}', -32700, ["q-7"]),
        (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":"\\ud800"}}', -32700, [5]),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"x"}', -32700, [None]),
        (b'{"jsonrpc":"2.0","id":6,"method":"x","params":{"a":NaN}}', -32700, [6]),
        (b'{"jsonrpc":"2.0","id":6,"method":"x","params":{"a":1e999}}', -32700, [6]),
        (b'{"jsonrpc":"2.0","id":6,"method":"x","params":{"a":' + b"9" * 5000 + b"}}", -32700, [6]),
        (b'{"jsonrpc":"2.0","id":6,"method":"x","params":' + b"[" * 9000 + b"}", -32700, [6]),
        (b"\xff\xfe", -32700, [None]),
        (b"\x00", -32700, [None]),
        (b"5", -32600, [None]),
        (b'"text"', -32600, [None]),
        (b"{}", -32600, [None]),
        (b"[]", -32600, [None]),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"id":"b"},{"method":"n"}]', -32600, [1, "b"]),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, [1]),
        (b'{"id":1,"method":"ping"}', -32600, [1]),
        (b'{"jsonrpc":"2.0","id":1}', -32600, [1]),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, [1]),
        (b'{"jsonrpc":"2.0","method":7}', -32600, [None]),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, [None]),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, [1.5]),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, [None]),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, [None]),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', -32600, [None]),
        (b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"p"}', -32600, [2**63]),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602, [1]),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', -32602, [1]),
        (
            b'{"jsonrpc":"2.0","id":3,"method":"x","params":{"a":' + b"[" * 99 + b"]" * 99 + b"}}",
            -32600,
            [3],
        ),
    ],
)
def test_what_is_no_message_gets_the_protocols_error(line, code, ids):
    bad = read(line)
    assert isinstance(bad, BadFrame)
    assert bad.code == code
    assert list(bad.ids) == ids
    answers = [json.loads(each) for each in bad.lines().splitlines()]
    assert [answer["id"] for answer in answers] == ids
    assert all(answer["error"]["code"] == code for answer in answers)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  \r",
        b'{"jsonrpc":"2.0","id":1,"result":5}',
        b'{"jsonrpc":"2.0","id":1,"error":"no"}',
    ],
)
def test_blank_lines_and_broken_responses_are_never_answered(line):
    assert read(line) is None


def test_messages_become_the_sdks_types():
    request = read(b'{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"a":1}}\r')
    assert request == JSONRPCRequest(jsonrpc="2.0", id="7", method="tools/call", params={"a": 1})
    assert isinstance(read(b'{"jsonrpc":"2.0","method":"x","params":null}'), JSONRPCNotification)
    assert isinstance(read(b'{"jsonrpc":"2.0","id":1,"result":{}}'), JSONRPCResponse)
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}'
    assert isinstance(read(error), JSONRPCError)


def test_an_emoji_written_as_a_pair_of_escapes_is_a_character():
    request = read(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud83d\\ude00"}}')
    assert isinstance(request, JSONRPCRequest)
    assert request.params == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":12,"method":"x","params":{"a":"%s"}}', 12),
        (b'{"method":"tools/call","params":{"a":"%s"},"jsonrpc":"2.0","id":13}', 13),
        (b' { "jsonrpc" : "2.0", "method":"tools/call", "id":"a-b", "params":{"a":"%s"}}', "a-b"),
        # the id of something inside is not the message's
        (b'{"method":"x","params":{"a":"%s","id":5}}', None),
        (b'{"method":"x","params":{"id":5,"a":"%s"},"x":1}', None),
        (b'{"method":"x","params":"%s\\"id\\":5}', None),
    ],
)
def test_a_line_too_long_is_answered_by_its_id_where_its_place_leaves_no_doubt(line, expected):
    [found] = LineSplitter(LIMIT).feed(line % (b"x" * (LIMIT + 1)) + b"\n")
    assert isinstance(found, Oversized)
    bad = parse(found, LIMIT)
    assert isinstance(bad, BadFrame)
    assert bad.ids == (expected,)
    assert str(LIMIT) in bad.message


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 40), st.integers(1, 64))
def test_lines_do_not_depend_on_how_the_bytes_arrive(data, limit, size):
    data = data.replace(b"\x00", b"\n")

    def lines(chunks):
        splitter = LineSplitter(limit)
        out = [line for chunk in chunks for line in splitter.feed(chunk)]
        return out + list(splitter.close())

    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    found = lines(data[i : i + size] for i in range(0, len(data), size))
    assert len(found) == len(expected)
    for got, line in zip(found, expected, strict=True):
        assert got == (line if len(line) <= limit else Oversized(line, line))
    assert found == lines([data])


def test_a_skipped_line_is_not_collected():
    splitter = LineSplitter(LIMIT)
    for _ in range(200):
        assert not list(splitter.feed(b"x" * LIMIT))
        assert len(splitter._line) <= 2 * LIMIT
    [found] = splitter.feed(b"tail\nnext")
    assert isinstance(found, Oversized)
    assert found.tail.endswith(b"tail")
    assert list(splitter.close()) == [b"next"]


def test_encoding_escapes_what_line_readers_split_on_and_survives_lone_surrogates():
    answer = JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": "\u2028\x85\u2029é", "b": "x"})
    line = encode(answer)
    assert line.endswith(b"}\n")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line)["result"]["a"] == "\u2028\x85\u2029é"
    broken = encode(JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": "x\udc80y"}))
    assert json.loads(broken.decode("utf-8"))["result"]["a"] == "x?y"


def test_the_text_of_an_unplanned_exception_is_not_sent():
    leak = {"jsonrpc": "2.0", "id": 1, "error": {"code": 0, "message": "/judge/secret"}}
    assert b"secret" not in encode(JSONRPCError.model_validate(leak))
