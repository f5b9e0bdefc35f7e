"""The six words of contract and approval key (spec 4)."""

from spike_mcp.core.fingerprint import fingerprint, word


def test_every_number_has_a_word_of_its_own() -> None:
    words = {word(number) for number in range(4096)}
    assert len(words) == 4096
    assert all(len(each) == 4 and each.isascii() and each.islower() for each in words)


def test_the_words_depend_on_contract_and_key_and_nothing_else() -> None:
    one = fingerprint(b"name = 'a'\n", "")
    assert one == fingerprint(b"name = 'a'\n", "")
    assert len(one.split()) == 6
    others = {
        fingerprint(b"name = 'b'\n", ""),
        fingerprint(b"name = 'a'\n", "ab"),
        fingerprint(b"name = 'a'\nab", ""),
    }
    assert len(others | {one}) == 4


def test_the_words_are_pinned() -> None:
    """A human compares them over weeks: they may never change for the same contract."""
    assert fingerprint(b"contract", "00" * 32) == PINNED


PINNED = "vola domi finu zafo vuno zasu"
