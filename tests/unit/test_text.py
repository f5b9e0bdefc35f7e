"""Safe text, and a sentence for every code (spec 6, review-ux)."""

import sys
import unicodedata

import pytest

from spike_mcp.core.codes import Decision, Reason, Refusal, Usage
from spike_mcp.core.unsafe import quoted
from spike_mcp.edge.text import (
    MESSAGES,
    count_hidden,
    hidden_note,
    lookalikes,
    message_of,
    next_action,
    safe,
    safe_line,
)


@pytest.mark.security
def test_no_code_point_of_a_hidden_category_survives() -> None:
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        if (
            unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Co", "Cs")
            and char not in "\n\t"
        ):
            assert safe(f"a{char}b") == f"a<{point:04x}>b"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\n\ttext é 日本 👍", "plain\n\ttext é 日本 👍"),
        ("\x1b[31m\r\x07", "<001b>[31m<000d><0007>"),
        ("\u202e\u2066\u200b\u00ad\ufeff", "<202e><2066><200b><00ad><feff>"),
        ("👩\u200d💻❤\ufe0f", "👩<200d>💻❤<fe0f>"),
        ("\U000e0041\U000e0100", "<e0041><e0100>"),
        ("\u3164\u115f\u034f", "<3164><115f><034f>"),
        ("\ufffe\ufdd0", "<fffe><fdd0>"),
        (b"ok \xff\xc3\x28", "ok <dcff><dcc3>("),
        ("<001b>", "<001b>"),
        ("", ""),
    ],
)
def test_hidden_characters_are_shown_in_hex(raw: str | bytes, shown: str) -> None:
    assert safe(raw) == shown


def test_one_line_stays_one_line_and_short() -> None:
    assert safe_line("a\tb\nc\x1b") == "a b<000a>c<001b>"
    cut = safe_line("x" * 1000, 20)
    assert (len(cut), cut) == (20, "x" * 10 + "... (1000)")
    assert len(quoted("\x1b" * 100, 60)) <= 60
    assert safe_line(b"\xff") == "<dcff>"


def test_a_hunk_says_how_many_characters_it_hides() -> None:
    assert count_hidden("a\x1b\u202e\n\t") == 2
    assert count_hidden(b"\xff plain") == 1
    assert hidden_note(0) == ""
    assert hidden_note(12) == (
        "! 12 invisible or control characters in this hunk, shown as <hex>. "
        "Read them before approving."
    )
    assert "1 invisible or control character in" in hidden_note(1)


def test_names_that_are_not_what_they_seem_are_found() -> None:
    names = ("\u043es", "p\u0430th", "\uff4f\uff53")
    assert lookalikes("import {}; {} = {}.x".format(*names)) == names
    assert lookalikes("größe Δt μ м путь 名前 𝕊 x²") == ()


@pytest.mark.parametrize("code", [*Refusal, *Usage, *Reason])
def test_every_code_has_a_sentence_and_refusals_a_hint(code: Refusal | Usage | Reason) -> None:
    message = message_of(code)
    assert message.sentence
    assert not message.sentence.endswith(".")
    assert message.sentence[0].islower()
    assert safe(message.sentence + message.hint).isascii()
    assert isinstance(code, Reason) or message.hint
    assert "judge/" not in message.sentence + message.hint


def test_messages_hold_nothing_but_the_codes() -> None:
    assert {kind: set(table) for kind, table in MESSAGES.items()} == {
        kind: set(kind) for kind in (Refusal, Usage, Reason)
    }


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("reason", Reason)
def test_a_verdict_asks_for_one_next_action(decision: Decision, reason: Reason) -> None:
    action = next_action(decision, reason)
    assert action.endswith(".")
    assert "\n" not in action


def test_the_next_actions_are_those_of_the_method() -> None:
    assert "attach the ledger" in next_action(
        Decision.SHIP, Reason.ORACLE_UNCHANGED_AND_TEST_PASSED
    )
    assert "narrower spike" in next_action(Decision.PARK, Reason.PATCH_TOO_LARGE)
    assert "three sentences" in next_action(Decision.KILL, Reason.TEST_FAILED)
