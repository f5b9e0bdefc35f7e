"""Six words a human can compare by eye: a fingerprint of contract and approval key (spec 4).

A word is four letters, consonant and vowel twice, from sixteen consonants and four vowels: 4,096
words that can be said aloud and need no table. `e` is left out because it is so often silent;
`c q w x y` because they sound like others. Six words are 72 bits.
"""

import hashlib

CONSONANTS = "bdfghjklmnprstvz"
VOWELS = "aiou"
WORDS = 6

_BITS = 12


def fingerprint(contract: bytes, approval_key: str) -> str:
    """The words for the bytes of contract.toml and the public key in hex ("" = no key)."""
    digest = hashlib.sha256()
    for part in (b"spike-fingerprint-1", contract, approval_key.encode("ascii")):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    number = int.from_bytes(digest.digest(), "big") >> (256 - _BITS * WORDS)
    places = range((WORDS - 1) * _BITS, -1, -_BITS)
    return " ".join(word(number >> place & (1 << _BITS) - 1) for place in places)


def word(number: int) -> str:
    """The word for 0..4095; different numbers, different words."""
    letters = []
    for _ in range(2):
        number, vowel = divmod(number, len(VOWELS))
        number, consonant = divmod(number, len(CONSONANTS))
        letters += [VOWELS[vowel], CONSONANTS[consonant]]
    return "".join(reversed(letters))
