"""Signed decisions: only the passphrase signs, anyone can verify (spec 10)."""

import itertools
import json
import subprocess
import sys

import pytest

from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.host import signing


@pytest.fixture(scope="module")
def key() -> tuple[str, bytes]:
    return signing.create_key("grüne Wiese")


def test_a_signature_holds_for_its_payload_and_key_only(key: tuple[str, bytes]) -> None:
    public, blob = key
    signer = signing.unlock(blob, "grüne Wiese")
    assert signer.public == public
    signature = signer.sign(b"payload")
    assert signing.verify(public, b"payload", signature)
    other, _ = signing.create_key("x")
    for bad in (
        (public, b"Payload", signature),
        (other, b"payload", signature),
        (public, b"payload", signature[:-2] + "00"),
        (public, b"payload", ""),
        (public, b"payload", "zz"),
        ("", b"payload", signature),
        ("no hex", b"payload", signature),
    ):
        assert not signing.verify(*bad)


def test_the_passphrase_may_be_typed_decomposed(key: tuple[str, bytes]) -> None:
    assert signing.unlock(key[1], "gru\u0308ne Wiese").public == key[0]


@pytest.mark.parametrize("wrong", ["", "grune Wiese", "grüne wiese"])
def test_a_wrong_passphrase_is_not_authorised(key: tuple[str, bytes], wrong: str) -> None:
    with pytest.raises(Problem) as caught:
        signing.unlock(key[1], wrong)
    assert caught.value.code is Refusal.NOT_AUTHORISED


def test_an_empty_passphrase_makes_no_key() -> None:
    with pytest.raises(Problem) as caught:
        signing.create_key("")
    assert caught.value.code is Usage.USAGE


def test_the_private_key_is_not_in_the_file(key: tuple[str, bytes]) -> None:
    value = json.loads(key[1])
    assert (value["kdf"], value["n"], value["r"], value["p"]) == ("scrypt", 32768, 8, 3)
    assert len(bytes.fromhex(value["sealed"])) == 32 + 16


def test_a_damaged_key_file_is_not_authorised(key: tuple[str, bytes]) -> None:
    good = json.loads(key[1])
    changes = [
        {"public": "00" * 32},
        {"public": 5},
        {"n": 1 << 30},
        {"n": 3},
        {"n": True},
        {"r": "8"},
        {"salt": "00"},
        {"kdf": "none"},
        {"sealed": ""},
        {"nonce": "00"},
        {"extra": 1},
        {"version": 2},
    ]
    blobs = [json.dumps(good | change).encode() for change in changes]
    for blob in [*blobs, b"", b"[]", b"5", b"\xff", key[1][:-20]]:
        with pytest.raises(Problem) as caught:
            signing.unlock(blob, "grüne Wiese")
        assert caught.value.code is Refusal.NOT_AUTHORISED, blob


def test_no_two_decisions_share_a_payload() -> None:
    base = ("spike", 7, "ab", "hunk_approved", ("k1", "k2"), "tag text")
    others = [
        ("spike2", *base[1:]),
        ("spike", 8, *base[2:]),
        ("spike", 7, "ba", *base[3:]),
        (*base[:3], "hunk_rejected", *base[4:]),
        (*base[:4], ("k2", "k1"), base[5]),
        (*base[:4], ("k1",), base[5]),
        (*base[:4], ("k1", "k2", "tag text"), ""),
        (*base[:4], (), "tag text"),
        (*base[:5], "tag text "),
        (*base[:5], "tag \udcff"),
    ]
    payloads = [signing.decision_payload(*each) for each in (base, *others)]
    assert all(a != b for a, b in itertools.combinations(payloads, 2))


def test_importing_the_module_does_not_import_cryptography() -> None:
    code = "import sys, spike_mcp.host.signing; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
