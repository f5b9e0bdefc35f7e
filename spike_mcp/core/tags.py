"""Hypothesis tokens and the tag rules (spec 4 'Tag tokens', spec 9 'Approve')."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.unsafe import quoted

MIN_TAG_WORDS = 3
MIN_LETTERS = 4
MIN_DIGITS = 3
MAX_TAG_CHARS = 1000

# A word: letters, digits and marks; `-` only between two of them; `_` is no part of a word.
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_HYPHENS = re.compile("[\u2010\u2011\ufe63\uff0d]")

_FORM_WORDS = "make makes making made true visible"
_STOP_WORDS = frozenset(
    f"""{_FORM_WORDS} about above after again against also although always among another anyway
    because been before being below between both cannot could does doing done down during each
    either else even ever every from given goes have having here hers herself himself how into
    itself just least less like many might more most much must neither never none nothing once only
    onto other otherwise ours ourselves over rather same shall should since some still such than
    that their theirs them themselves then there thereby these they thing things this those though
    through thus together under unless unlike until unto upon very want were what whatever when
    whenever where whereas wherever whether which while whom whose will with within without would
    your yours yourself""".split()
)


def words(text: str) -> tuple[str, ...]:
    """Every word of `text`, case-folded, in order; `Retry-After` is one, `a_b` are two."""
    plain = _HYPHENS.sub("-", unicodedata.normalize("NFKC", text)).casefold()
    return tuple(_WORD.findall(plain))


def _undouble(word: str) -> str:
    """`trimm` -> `trim`; ll, ss and zz stay, they end words of their own."""
    if word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def stem(word: str) -> str:
    """Light stem of a case-folded word: plural, -ing, -ed and a final -e go.

    Two forms of one word get one stem (surface, surfaces, surfaced, surfacing); the stem itself
    means nothing. Words with digits, and short ones, stay as they are.
    """
    if len(word) < MIN_LETTERS or not word.replace("-", "").isalpha():
        return word
    out = f"{word[:-3]}y" if word.endswith("ied") and len(word) > 4 else _without_plural(word)
    for ending in ("ing", "ed"):
        head = out.removesuffix(ending)
        if head != out and len(head) >= 3 and any(vowel in head for vowel in "aeiouy"):
            out = _undouble(head)
            break
    return out[:-1] if out.endswith("e") and len(out) > 3 else out


def _counts(word: str) -> bool:
    plain = word.replace("-", "")
    if plain.isdigit():
        return len(plain) >= MIN_DIGITS
    return len(plain) >= MIN_LETTERS and word not in _STOP_WORDS


def tokenise(subject: str) -> tuple[str, ...]:
    """Tag tokens of a hypothesis's subject, case-folded, not stemmed, each stem once, in order.

    Words of 4 letters or digits and more, numbers of 3 digits and more; no stop words.
    """
    found: dict[str, str] = {}
    for word in words(subject):
        if _counts(word):
            found.setdefault(stem(word), word)
    return tuple(found.values())


def shared_tokens(tag: str, tokens: Iterable[str]) -> tuple[str, ...]:
    """Those of `tokens` that `tag` names, whatever their inflection."""
    stems = {stem(word) for word in words(tag)}
    return tuple(token for token in tokens if stem(token) in stems)


@dataclass(frozen=True, slots=True)
class TagAccepted:
    """A tag as it is recorded (white space collapsed), and what the human is told about it."""

    text: str
    warnings: tuple[str, ...] = ()


def _same_sentence(one: str, other: str) -> bool:
    return words(one) == words(other) != ()


def check_tag(tag: str, tokens: tuple[str, ...], rationale: str = "") -> TagAccepted | Problem:
    """The rule for one tag; `rationale` is the agent's, which a tag must not just repeat.

    The Problem's code is `tag_missing`, `tag_unrelated` or `tag_bare` (in this order), or
    `malformed_request` for a tag of more than 1,000 characters.
    """
    text = " ".join(tag.split())
    if not words(text):
        hint = "say in a sentence how this hunk serves the hypothesis"
        return Problem(Refusal.TAG_MISSING, "the tag is empty", hint)
    if len(text) > MAX_TAG_CHARS:
        message = f"the tag has more than {MAX_TAG_CHARS} characters"
        return Problem(Refusal.MALFORMED_REQUEST, message, "one sentence is enough")
    if not shared_tokens(text, tokens):
        message = f"the tag names no word of the hypothesis ({', '.join(tokens)})"
        hint = "if none fits, the hunk is out of scope: reject it (r)"
        return Problem(Refusal.TAG_UNRELATED, message, hint)
    spoken = {part.casefold() for part in text.split(" ") if words(part)}
    if len(spoken) < MIN_TAG_WORDS:
        message = f'"{quoted(text)}" is too short (three words or more)'
        return Problem(Refusal.TAG_BARE, message, "say what this hunk does")
    if _same_sentence(text, rationale):
        return TagAccepted(text, ("the tag repeats the agent's rationale; this is recorded",))
    return TagAccepted(text)


_PUBLISHED_WORD = re.compile(r"[a-z]{4,}")


def _published_words(text: str) -> tuple[str, ...]:
    found = _PUBLISHED_WORD.findall(text.lower())
    return tuple(word for word in found if word not in _STOP_WORDS)


def published_share(tag: str, hypothesis: str) -> bool:
    """Whether the published checker's rule finds a common word: four letters or more, as spelled.

    Stop words don't count here, so that stricter readings of the rule agree.
    """
    return bool(set(_published_words(tag)) & set(_published_words(hypothesis)))


def published_tag(tag: str, hypothesis: str, tokens: tuple[str, ...]) -> str:
    """The tag as hunk-map.yml shows it: with a hypothesis word in brackets where needed (spec 9).

    `hypothesis` is its whole text, `tokens` its tag tokens. The word that the tag meant is taken
    first (`surface` -> `surfaces`). Without any word of four letters the tag stays as it is.
    """
    if published_share(tag, hypothesis):
        return tag
    for token in (*shared_tokens(tag, tokens), *tokens):
        for word in _published_words(token):
            return f"{tag} ({word})"
    return tag
