"""Hypothesis tokens and tag rules (spec 4, spec 9, review-ux messages 2 and 3)."""

import pytest

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.tags import (
    TagAccepted,
    check_tag,
    published_share,
    published_tag,
    shared_tokens,
    stem,
    tokenise,
)

HYPOTHESIS = "the client surfaces Retry-After from 429 responses to callers"
TOKENS = tokenise(HYPOTHESIS)


@pytest.mark.parametrize(
    ("subject", "tokens"),
    [
        (HYPOTHESIS, ("client", "surfaces", "retry-after", "429", "responses", "callers")),
        (
            "reading the header makes Retry-After of a 429 visible",
            ("reading", "header", "retry-after", "429"),
        ),
        (
            "banker's rounding in round_money makes test_rounding true",
            ("banker", "rounding", "money", "test"),
        ),
        ("per-line tax makes vat exact", ("per-line", "exact")),
        ("tie handling makes half_even correct", ("handling", "half", "correct")),
        ("a 42 of 4290 in x2y3", ("4290", "x2y3")),
        ("Retry\u2011After and retry-after", ("retry-after",)),
        ("makes it true and visible", ()),
        ("Straße STRASSE", ("strasse",)),
    ],
)
def test_tokens_of_a_subject(subject: str, tokens: tuple[str, ...]) -> None:
    assert tokenise(subject) == tokens


@pytest.mark.parametrize(
    "forms",
    [
        "surface surfaces surfaced surfacing", "merge merges merged merging", "trim trims trimming",
        "query queries queried querying", "box boxes boxed", "class classes", "cache caches cached",
        "response responses", "retry retries retried", "call calls called calling",
    ],
)  # fmt: skip
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize("word", ["status", "analysis", "bring", "429", "utf8s", "is", "process"])
def test_words_that_only_look_inflected_stay(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("", Refusal.TAG_MISSING),
        (" \n\t ", Refusal.TAG_MISSING),
        ("--- !!", Refusal.TAG_MISSING),
        ("add a cache layer here", Refusal.TAG_UNRELATED),
        ("fix", Refusal.TAG_UNRELATED),
        ("we retry after that", Refusal.TAG_UNRELATED),
        ("429 retry-after", Refusal.TAG_BARE),
        ("429 429 429", Refusal.TAG_BARE),
        ("retry-after+429+responses", Refusal.TAG_BARE),
        ("429 - retry-after !", Refusal.TAG_BARE),
        ("client " * 200, Refusal.MALFORMED_REQUEST),
    ],
)
def test_a_tag_is_refused(tag: str, code: Refusal) -> None:
    refused = check_tag(tag, TOKENS)
    assert isinstance(refused, Problem)
    assert refused.code is code
    assert refused.hint


def test_the_messages_are_those_of_the_design() -> None:
    unrelated = check_tag("add a cache layer", TOKENS)
    assert isinstance(unrelated, Problem)
    assert unrelated.message == (
        "the tag names no word of the hypothesis "
        "(client, surfaces, retry-after, 429, responses, callers)"
    )
    assert unrelated.hint == "if none fits, the hunk is out of scope: reject it (r)"
    bare = check_tag("429 retry-after", TOKENS)
    assert isinstance(bare, Problem)
    assert bare.message == '"429 retry-after" is too short (three words or more)'
    assert bare.hint == "say what this hunk does"


@pytest.mark.parametrize(
    "tag",
    ["surface Retry-After from 429 responses", "surfacing it for\n  callers", "a CLIENT change"],
)
def test_a_tag_is_taken_in_any_inflection_with_white_space_collapsed(tag: str) -> None:
    assert check_tag(tag, TOKENS) == TagAccepted(" ".join(tag.split()))


def test_a_tag_that_repeats_the_rationale_is_warned_about() -> None:
    accepted = check_tag("Surface the 429 header.", TOKENS, "surface the 429 header")
    assert isinstance(accepted, TagAccepted)
    assert len(accepted.warnings) == 1
    other = check_tag("Surface the 429 header now", TOKENS, "surface the 429 header")
    assert isinstance(other, TagAccepted)
    assert other.warnings == ()


def test_a_word_in_brackets_makes_the_published_rule_agree() -> None:
    assert published_tag("keep the client thin", HYPOTHESIS, TOKENS) == "keep the client thin"
    assert not published_share("surface it now please", HYPOTHESIS)
    assert published_tag("surface it now please", HYPOTHESIS, TOKENS) == (
        "surface it now please (surfaces)"
    )
    assert published_tag("a 429 says so", HYPOTHESIS, TOKENS) == "a 429 says so (client)"
    assert published_share(published_tag("a 429 says so", HYPOTHESIS, TOKENS), HYPOTHESIS)
    assert published_tag("the 429 x", "429 is 5xx", ("429",)) == "the 429 x"


def test_shared_tokens_are_named_as_the_hypothesis_has_them() -> None:
    assert shared_tokens("responding with a response to each caller", TOKENS) == (
        "responses",
        "callers",
    )
