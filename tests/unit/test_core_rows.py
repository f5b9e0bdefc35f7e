"""The codec of a ledger row: strict both ways (spec 10)."""

import hashlib
import json
from typing import Any

import pytest

from spike_mcp.core.clock import Reading
from spike_mcp.core.codes import Actor
from spike_mcp.core.rows import GENESIS, MAX_ROW, BadRow, decode, encode, fits

READING = Reading(1_750_000_000.123, 5_000, "abc", 4_000)


def line(**fields: Any) -> bytes:
    return encode(1, "noted", "2025-06-15T15:06:40.123Z", READING, Actor.HUMAN, GENESIS, fields)


def test_a_row_comes_back_as_it_was_written() -> None:
    raw = line(text="Zeile ü \x1b[2J \udc80 \u202e", files=[["a", "b", 1]], minutes=11.3)
    row, spill = decode(raw, 1, GENESIS)
    assert row.event == "noted"
    assert row.reading == READING
    assert row.actor is Actor.HUMAN
    assert row.fields == {
        "text": "Zeile ü \x1b[2J \udc80 \u202e",
        "files": [["a", "b", 1]],
        "minutes": 11.3,
    }
    assert row.raw_sha256 == hashlib.sha256(raw).hexdigest()
    assert spill == {}


def test_the_keys_stand_in_the_order_of_the_specification() -> None:
    keys = list(json.loads(line(checkpoint="setup")))
    assert " ".join(keys) == (
        "seq event at epoch boot_ms boot mono_ms actor prev checkpoint schema"
    )


def test_a_line_can_not_drive_a_terminal() -> None:
    raw = line(text="\x1b]0;title\x07 \x9b2J \u202e \u200b \x00 \r")
    assert raw.isascii()
    assert raw.decode().isprintable()


def test_reserved_names_and_non_numbers_are_not_written() -> None:
    for fields in ({"seq": 1}, {"spill": {}}, {"x": float("nan")}, {"x": float("inf")}):
        with pytest.raises(ValueError):
            line(**fields) if "seq" not in fields else encode(
                1, "noted", "", READING, Actor.HOST, GENESIS, fields
            )


def changed(**changes: Any) -> bytes:
    value = json.loads(line(text="t"))
    for name, new in changes.items():
        value[name] = new
    return json.dumps(value).encode()


def without(name: str) -> bytes:
    value = json.loads(line(text="t"))
    del value[name]
    return json.dumps(value).encode()


BAD = {
    "empty": b"",
    "array": b"[]",
    "cut": line()[:-1],
    "two values": line() + b" {}",
    "space before": b" " + line(),
    "key twice": line(text="t").replace(b'"text":"t"', b'"text":"t","text":"u"'),
    "key twice inside": line(text={"a": 1}).replace(b'{"a":1}', b'{"a":1,"a":2}'),
    "NaN": line(text=1).replace(b'"text":1', b'"text":NaN'),
    "Infinity": line(text=1).replace(b'"text":1', b'"text":-Infinity'),
    "too large a float": line(text=1).replace(b'"text":1', b'"text":1e999'),
    "huge integer": line(text=1).replace(b'"text":1', b'"text":' + b"9" * 5000),
    "not UTF-8": line(text="t").replace(b'"t"', b'"\xff"'),
    "surrogate bytes": line(text="t").replace(b'"t"', b'"\xed\xb2\x80"'),
    "BOM": b"\xef\xbb\xbf" + line(),
    "nested": line(text=1).replace(b'"text":1', b'"text":' + b"[" * 8000),
    "too long": line(text="x" * MAX_ROW),
    "gap": changed(seq=2),
    "seq as text": changed(seq="1"),
    "seq as bool": changed(seq=True),
    "other prev": changed(prev="1" * 64),
    "unknown actor": changed(actor="nobody"),
    "actor as list": changed(actor=[]),
    "no event": changed(event=""),
    "clock as text": changed(epoch="now"),
    "clock as bool": changed(boot_ms=True),
    "mono as text": changed(mono_ms="1"),
    "schema 0": changed(schema=0),
    "spill as list": changed(spill=[]),
    "spill with a path": changed(spill={"y": "../../etc/passwd"}),
    "spill of a field that is there": changed(spill={"text": "0" * 64}),
    "spill of the envelope": changed(spill={"seq": "0" * 64}),
    **{
        f"without {name}": without(name)
        for name in ("seq", "event", "at", "epoch", "boot_ms", "boot", "actor", "prev", "schema")
    },
}


@pytest.mark.parametrize("name", BAD)
def test_what_would_not_be_written_is_not_read(name: str) -> None:
    with pytest.raises(BadRow):
        decode(BAD[name], 1, GENESIS)


def test_a_later_schema_and_keys_unknown_here_are_read() -> None:
    row, _ = decode(changed(schema=7, news="later"), 1, GENESIS)
    assert row.schema == 7 and row.fields["news"] == "later"
    assert decode(without("mono_ms"), 1, GENESIS)[0].mono_ms is None


def test_a_line_fits_below_sixteen_kibibytes_with_its_newline() -> None:
    assert fits(b"x" * (MAX_ROW - 2))
    assert not fits(b"x" * (MAX_ROW - 1))
