"""Properties of paths, patterns, tags, flags and safe text over hostile input."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from spike_mcp.core import globs
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.flags import flags
from spike_mcp.core.paths import RepoPath, fold
from spike_mcp.core.tags import TagAccepted, check_tag, published_share, published_tag, tokenise
from spike_mcp.edge.text import count_hidden, safe, safe_line

HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("./\\ :*?[]!-~\0\n\r\t\x1b\u202e\u200d\udcff\ufe0f\u00a0aB1_"),
    ),
    max_size=40,
)
COMPONENT = st.text(st.sampled_from("ab.*?[]!"), min_size=1, max_size=5)


@given(HOSTILE)
def test_a_parsed_path_is_canonical_and_anything_else_is_a_refusal(raw: str) -> None:
    try:
        path = RepoPath.parse(raw)
    except Problem as problem:
        assert problem.code is Refusal.PATH_INVALID
        assert safe(problem.message) == problem.message
        assert len(problem.message) < 220
        return
    assert path.text == raw
    assert raw.isprintable()
    assert not {"", ".", ".."} & set(path.parts)
    assert unicodedata.is_normalized("NFC", raw)
    assert RepoPath.trusted(raw.encode()) == path


@given(HOSTILE)
def test_folding_twice_changes_nothing_more(raw: str) -> None:
    assert fold(fold(raw)) == fold(raw)


def _component(pattern: str, name: str) -> bool:
    """A second, slow reading of `*` and `?`, to compare with."""
    if pattern == "":
        return name == ""
    if pattern[0] == "*":
        return any(_component(pattern[1:], name[n:]) for n in range(len(name) + 1))
    return name != "" and pattern[0] in ("?", name[0]) and _component(pattern[1:], name[1:])


def _whole(pattern: list[str], names: list[str]) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        rest = range(len(names) + 1)
        if len(pattern) == 1:
            return len(names) > 0
        return any(_whole(pattern[1:], names[n:]) for n in rest)
    return bool(names) and _component(pattern[0], names[0]) and _whole(pattern[1:], names[1:])


NAMES = st.lists(st.text(st.sampled_from("ab"), min_size=1, max_size=4), min_size=1, max_size=4)
GLOBS = st.lists(
    st.one_of(st.just("**"), st.text(st.sampled_from("ab*?"), min_size=1, max_size=4)),
    min_size=1,
    max_size=5,
)


@given(GLOBS, NAMES)
def test_globs_match_as_their_plain_reading_says(pattern: list[str], names: list[str]) -> None:
    expected = _whole(pattern, names)
    assert globs.matches("/".join(pattern), "/".join(names)) is expected


@given(st.lists(COMPONENT, min_size=1, max_size=4).map("/".join))
def test_every_pattern_compiles_and_names_itself(pattern: str) -> None:
    assert globs.matches(pattern, pattern)


@given(HOSTILE)
def test_safe_text_hides_nothing_and_is_stable(raw: str) -> None:
    shown = safe(raw)
    assert count_hidden(shown) == 0
    assert safe(shown) == shown
    assert "\n" not in safe_line(raw)
    assert (shown == raw) is (count_hidden(raw) == 0)


@given(st.binary(max_size=40))
def test_any_bytes_can_be_shown(raw: bytes) -> None:
    assert safe(raw).encode().isascii() or not raw.isascii()


@given(HOSTILE, HOSTILE)
def test_an_accepted_tag_names_a_token_and_the_published_rule_finds_it(
    subject: str, tag: str
) -> None:
    tokens = tokenise(subject)
    accepted = check_tag(f"{tag} {subject}"[:900], tokens)
    if isinstance(accepted, TagAccepted):
        assert tokens
        shown = published_tag(accepted.text, subject, tokens)
        assert shown.startswith(accepted.text)
        assert shown == accepted.text or published_share(shown, subject)


@given(HOSTILE, st.sampled_from(["a.py", "a.js", "a.go", "a.rs", "a.sh", "a.mk", "x", "a.c"]))
def test_flags_of_any_text_are_safe(text: str, path: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    for flag in flags(path, data, data, data):
        assert flag.line_no >= 1
        assert safe(flag.excerpt) == flag.excerpt
