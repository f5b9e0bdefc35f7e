"""Signed decisions: an Ed25519 key that only a passphrase opens (spec 10).

The private key lies in judge/ as JSON: `{"version": 1, "kdf": "scrypt", "n", "r", "p", "salt",
"cipher": "chacha20-poly1305", "nonce", "sealed", "public"}`, byte strings in hex. scrypt runs with
n = 2^15, r = 8, p = 3 (32 MiB, a few tenths of a second a guess) over the passphrase in NFKC, so
that the same words typed on another keyboard open it. The header is authenticated with the key.

`cryptography` is imported inside the functions: most commands never sign.
"""

import hashlib
import json
import secrets
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spike_mcp.core.codes import Problem, Refusal, Usage

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SCRYPT = {"n": 1 << 15, "r": 8, "p": 3}
_MAX_MEMORY = 256 << 20
_LIMITS = {"n": 1 << 18, "r": 16, "p": 16}
_BYTES = ("salt", "nonce", "sealed", "public")


class Signer:
    """An unlocked key; keep it no longer than a review session."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    @property
    def public(self) -> str:
        """The public key in hex."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, payload: bytes) -> str:
        """The signature in hex."""
        return self._key.sign(payload).hex()


def create_key(passphrase: str) -> tuple[str, bytes]:
    """A new key: (public key in hex, the encrypted private key as file content).

    Raises `Problem(USAGE)` for an empty passphrase.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    if not passphrase:
        raise Problem(Usage.USAGE, "the passphrase is empty", "choose one of several words")
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    nonce = secrets.token_bytes(12)
    header: dict[str, Any] = {
        "version": 1,
        "kdf": "scrypt",
        **_SCRYPT,
        "salt": secrets.token_hex(16),
        "cipher": "chacha20-poly1305",
        "nonce": nonce.hex(),
        "public": public,
    }
    cipher = ChaCha20Poly1305(_derive(passphrase, header))
    sealed = cipher.encrypt(nonce, key.private_bytes_raw(), _header_bytes(header))
    return public, json.dumps(header | {"sealed": sealed.hex()}, indent=1).encode("ascii") + b"\n"


def unlock(blob: bytes, passphrase: str) -> Signer:
    """The signer in `blob`. `Problem(NOT_AUTHORISED)`: wrong passphrase, or no such key file."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    header = _read(blob)
    sealed = bytes.fromhex(header.pop("sealed"))
    try:
        cipher = ChaCha20Poly1305(_derive(passphrase, header))
        raw = cipher.decrypt(bytes.fromhex(header["nonce"]), sealed, _header_bytes(header))
    except InvalidTag:
        raise _refused("the passphrase does not open the approval key") from None
    except ValueError:
        raise _refused("the approval key's file is damaged") from None
    signer = Signer(Ed25519PrivateKey.from_private_bytes(raw))
    if signer.public != header["public"]:
        raise _refused("the approval key's file names another public key")
    return signer


def verify(public: str, payload: bytes, signature: str) -> bool:
    """Whether `signature` (hex) over `payload` was made with the key `public` (hex) belongs to."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), payload)
    except (InvalidSignature, ValueError):
        return False
    return True


def decision_payload(
    spike_id: str, seq: int, prev: str, event: str, region_keys: Iterable[str], tag: str
) -> bytes:
    """The bytes that are signed for a decision row: what it says and where in the chain it stands.

    Every part is length-prefixed (decimal length, ":", bytes), the keys counted: no two decisions
    share a payload. `prev` ties the signature to all rows before it.
    """
    keys = tuple(region_keys)
    head = ("spike-decision-1", spike_id, str(seq), prev, event, str(len(keys)))
    parts = [part.encode("utf-8", "surrogatepass") for part in (*head, *keys, tag)]
    return b"".join(b"%d:%s" % (len(part), part) for part in parts)


def _derive(passphrase: str, header: dict[str, Any]) -> bytes:
    words = unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(
        words,
        salt=bytes.fromhex(header["salt"]),
        n=header["n"],
        r=header["r"],
        p=header["p"],
        maxmem=_MAX_MEMORY,
        dklen=32,
    )


def _header_bytes(header: dict[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")


def _read(blob: bytes) -> dict[str, Any]:
    try:
        value = json.loads(blob)
        named = (value["version"], value["kdf"], value["cipher"])
        good = named == (1, "scrypt", "chacha20-poly1305") and all(
            type(value[name]) is int and 1 <= value[name] <= limit
            for name, limit in _LIMITS.items()
        )
        for name in _BYTES:
            bytes.fromhex(value[name])
    except (ValueError, KeyError, TypeError):
        good = False
    if not good:
        raise _refused("the approval key's file is damaged")
    return dict(value)


def _refused(message: str) -> Problem:
    return Problem(Refusal.NOT_AUTHORISED, message, "nothing was decided; try again")
