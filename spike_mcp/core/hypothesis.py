"""One sentence into a Hypothesis: what changes, what is seen, in how long, measured by what.

Full form: `<change> [makes] <observable> [true] within <n> minutes|min|m [of wall clock], measured
by <command>[.]`; anything else without `measured by` is a plain sentence (spec 4).
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.core.tags import tokenise
from spike_mcp.core.unsafe import count_hidden, quoted

FEW_TOKENS = 3
MAX_CHARS = 4000

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LIMIT = (
    r"\swithin\s+(?P<minutes>\d+(?:\.\d+)?)\s*(?:minutes?|min|m)\b"
    r"(?:\s+of\s+wall[\s-]clock(?:\s+time)?)?"
)
_FULL = re.compile(
    rf"(?P<subject>\S.*?){_LIMIT}\s*,\s*measured\s+by\s+(?P<command>\S.*)", re.IGNORECASE
)
_PLAIN_LIMIT = re.compile(rf"{_LIMIT}\s*\.?\Z", re.IGNORECASE)
_MEASURED_BY = re.compile(r"\bmeasured\s+by\b", re.IGNORECASE)
_MAKES = re.compile(r"\smakes?\s", re.IGNORECASE)
_TRUE = re.compile(r"\s+true\Z", re.IGNORECASE)
_FORM_HINT = (
    'write "<change> makes <observable> true within <n> minutes, measured by <command>", '
    'or one plain sentence without "measured by" and the command after --'
)


def _refused(message: str, hint: str = _FORM_HINT) -> Problem:
    return Problem(Usage.INVALID_CONTRACT, message, hint)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The parsed sentence.

    `text` the whole sentence on one line; `subject` what stands before `within` (all of a plain
    sentence); `observable` what the change makes true; `minutes` its own budget, the spike's total
    for a plain sentence; `command` the text after `measured by`, None in a plain sentence; `argv`
    the command agreed on, () when a plain sentence came without one; `tokens` the tag tokens.
    """

    text: str
    subject: str
    observable: str
    minutes: float
    full_form: bool
    command: str | None
    argv: tuple[str, ...]
    tokens: tuple[str, ...]

    @classmethod
    def parse(cls, raw: str, total: float, argv: Sequence[str] = ()) -> "Hypothesis":
        """Parse `raw`; `total` is the spike's minutes, `argv` what stands after `--` (may be ()).

        `Problem(INVALID_CONTRACT)` for everything that spec 4 refuses.
        """
        text = _one_line(raw)
        full = _FULL.fullmatch(text)
        if full is None:
            return cls._plain(text, total, tuple(argv))
        minutes = float(full["minutes"])
        _check_minutes(minutes, total)
        subject = full["subject"].rstrip(" ,")
        command, agreed = _agree(full["command"], tuple(argv))
        return cls(
            text, subject, _observable(subject), minutes, True, command, agreed, _tokens(subject)
        )

    @classmethod
    def _plain(cls, text: str, total: float, argv: tuple[str, ...]) -> "Hypothesis":
        if _MEASURED_BY.search(text):
            raise _refused('the hypothesis says "measured by" but not in the full form')
        subject = _PLAIN_LIMIT.sub("", text).removesuffix(".")
        observable = _observable(subject)
        return cls(text, subject, observable, total, False, None, argv, _tokens(subject))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What `init` tells the human about the sentence."""
        if len(self.tokens) >= FEW_TOKENS:
            return ()
        listed = ", ".join(self.tokens)
        return (f"the hypothesis gives few words to tag hunks with ({listed}); say it fuller",)


def _one_line(raw: str) -> str:
    text = raw.removeprefix("\ufeff").replace("\r\n", "\n").strip()
    if text == "":
        raise _refused("the hypothesis is empty")
    if _BLANK_LINE.search(text):
        raise _refused("the hypothesis holds a blank line; it is one sentence")
    if len(text) > MAX_CHARS:
        raise _refused(f"the hypothesis has more than {MAX_CHARS} characters")
    line = " ".join(part.strip() for part in text.split("\n"))
    if count_hidden(line) or "\t" in line:
        raise _refused(f"the hypothesis holds control or invisible characters: {quoted(line)}")
    return line


def _check_minutes(minutes: float, total: float) -> None:
    if minutes <= 0:
        raise _refused("the hypothesis gives itself no time")
    if minutes > total:
        message = f"the hypothesis asks for {minutes:g} minutes, the spike has {total:g}"
        raise _refused(message, "narrow the hypothesis, or give the spike more with --minutes")


def _observable(subject: str) -> str:
    found = _MAKES.search(subject)
    return _TRUE.sub("", subject[found.end() :] if found else subject).strip()


def _tokens(subject: str) -> tuple[str, ...]:
    tokens = tokenise(subject)
    if not tokens:
        message = f"the hypothesis holds no word that a tag could name: {quoted(subject)}"
        raise _refused(message, "name the thing that changes in words of four letters or more")
    return tokens


def _split(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        message = f"the measurement command can't be read ({error}): {quoted(command)}"
        raise _refused(message, "quote it as for a POSIX shell") from error


def _without_stop(command: str) -> str:
    """Drop a final `.` that ends the sentence, never one that ends `./...`, `..`, `dir/.`, ` .`."""
    head = command.removesuffix(".")
    return command if head == "" or head[-1] in "./ " else head


def _agree(command: str, argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The command's text and argv: the sentence's own, or `argv` when either reading equals it."""
    short = _without_stop(command)
    if not argv:
        words = _split(short)
        if not words or words[0] in ("", "."):
            raise _refused("the hypothesis names no measurement command")
        return short, words
    for reading in (short, command, command.removesuffix(".")):
        if _split(reading) == argv:
            return reading, argv
    message = f"the hypothesis is measured by {quoted(short)}, not by {quoted(shlex.join(argv))}"
    raise _refused(message, "leave out what stands after --, or make both equal")
