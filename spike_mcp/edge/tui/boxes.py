"""The box at the bottom that asks: a tag, flags to acknowledge, a reason, a comment, a filter.

A box holds what is being typed and says how it looks; what follows from it is the app's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spike_mcp.core import tags
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge.present import Glyphs, counted, reason_of
from spike_mcp.edge.shown import flag_words
from spike_mcp.edge.text import safe_line
from spike_mcp.edge.tui.lineedit import LineEdit
from spike_mcp.edge.tui.model import Entry
from spike_mcp.edge.tui.paint import Line, cells, clip, columns, cut, wrap
from spike_mcp.session.view import MapHunk

OWN_WORDS = 2
"""Words a reviewer types before the agent's reason is shown (review-ux 'Honest tags')."""

_CARET_ROOM = 3


@dataclass
class Box:
    """Base: a title, perhaps a line to type in, and a message under it.

    `key` gives "submit", "cancel" or "" (handled here or to be ignored).
    """

    title: str
    edit: LineEdit = field(default_factory=LineEdit)
    message: str = ""

    typing = True

    def key(self, name: str, char: str) -> str:
        """Take a key; see the class."""
        if name == "enter":
            return "submit"
        if name == "escape":
            return "cancel"
        if self.typing and not self.edit.key(name) and char:
            self.edit.insert(char)
        return ""

    def above(self, width: int, glyphs: Glyphs) -> list[Line]:
        """Lines over the typed one."""
        del width, glyphs
        return []

    def below(self, width: int, glyphs: Glyphs) -> list[Line]:
        """Lines under it, the most needed first."""
        del width, glyphs
        return []

    def keys(self) -> tuple[tuple[str, str], ...]:
        """Which key does what here."""
        return (("Enter", "decides"), ("Esc", "leaves"))

    def lines(self, width: int, rows: int, glyphs: Glyphs) -> list[Line]:
        """The box on at most `rows` lines; where they are few, the typed line and the message
        stay."""
        rule = glyphs.rule
        head: Line = [(f"{rule}{rule} ", "rule"), (self.title, "strong"), (" ", "")]
        head = clip(head, width - 2)
        head.append((rule * (width - sum(cells(t) for t, _s in head)), "rule"))
        typed = [self._typed(width, glyphs)] if self.typing else []
        said: list[Line] = [[(" ! ", "alarm"), *line] for line in self._message(width)]
        above, below = self.above(width, glyphs), self.below(width, glyphs)
        pairs = [[(key, "key"), (f" {words}", "dim")] for key, words in self.keys()]
        keys: list[Line] = [[(" ", ""), *columns(pairs, width - 1, 2)]]
        room = max(0, rows - len(typed) - len(said) - 1)
        over, under = _share(len(above), len(below), room)
        keys = keys[: max(0, room - over - under)]
        return [head, *above[:over], *typed, *said, *below[:under], *keys][:rows]

    def _message(self, width: int) -> list[Line]:
        if not self.message:
            return []
        return wrap([(self.message, "alarm")], width - 4)[:3]

    def _typed(self, width: int, glyphs: Glyphs) -> Line:
        del glyphs
        text, caret = safe_line(self.edit.text, 2000), self.edit.caret
        room = width - 4 - _CARET_ROOM
        start = 0
        while cells(text[start:caret]) > room:
            start += 1
        rest = cut(text[caret + 1 :], max(0, room - cells(text[start:caret])))
        under = text[caret : caret + 1] or " "
        return [(" > ", "key"), (text[start:caret], "strong"), (under, "caret"), (rest, "strong")]


@dataclass
class TagBox(Box):
    """Asks why hunks exist. `given`: words that stand there without having been typed."""

    hunks: tuple[MapHunk, ...] = ()
    tokens: tuple[str, ...] = ()
    acks: tuple[str, ...] = ()
    given: list[str] = field(default_factory=list)
    revealed: bool = False
    end_asked: bool = False
    changed: str = ""

    def key(self, name: str, char: str) -> str:
        """Tab completes; everything else as in every box."""
        before = self.edit.text
        if name == "tab":
            self._complete()
            return ""
        answer = super().key(name, char)
        if self.edit.text != before:
            self.message = ""
            self.end_asked = False
        if len(self.own_words()) >= OWN_WORDS:
            self.revealed = True
        return answer

    def _complete(self) -> None:
        unused = [t for t in self.tokens if t not in tags.words(self.edit.text)]
        word = self.edit.complete([*unused, *(t for t in self.tokens if t not in unused)])
        if word:
            self.given.append(word)
            self.message = ""
        else:
            self.message = "type the first letter of a word of the hypothesis, then Tab"

    def own_words(self) -> list[str]:
        """Words typed to their end: neither completed nor taken over from an old tag."""
        given = [word for text in self.given for word in tags.words(text)]
        own = []
        ended = self.edit.text.rpartition(" ")[0]
        for word in tags.words(ended):
            if word in given:
                given.remove(word)
            else:
                own.append(word)
        return own

    @property
    def rationale(self) -> str:
        """What the agent said these hunks are for."""
        return reason_of(self.hunks[0]) if self.hunks else ""

    def above(self, width: int, glyphs: Glyphs) -> list[Line]:
        """The words a tag may name; those it names already stand out."""
        used = tags.shared_tokens(self.edit.text, self.tokens)
        line: Line = [(" words: ", "dim")]
        for token in self.tokens:
            mark = glyphs.marked if token in used else ""
            line += [(f"{mark}{token}", "used" if token in used else "token"), ("  ", "")]
        lines = wrap(line, width - 1, 8)[:2]
        if self.changed:
            lines.insert(0, [(f" ! {self.changed}", "alarm")])
        return lines

    def below(self, width: int, glyphs: Glyphs) -> list[Line]:
        """How the tag stands, and the agent's reason once two own words are there."""
        lines: list[Line] = [] if self.message else [self._judged(glyphs)]
        if not self.rationale:
            return lines
        if not self.revealed:
            hint = f" the agent's reason: shown after {OWN_WORDS} words of your own"
            return [*lines, [(hint, "dim")]]
        said: Line = [(" the agent said: ", "dim"), (self.rationale, "note")]
        return [*lines, *wrap(said, width - 1, 3)[:2]]

    def _judged(self, glyphs: Glyphs) -> Line:
        found = tags.check_tag(self.edit.text, self.tokens)
        names = ", ".join(tags.shared_tokens(self.edit.text, self.tokens))
        if not isinstance(found, Problem):
            return [(f" {glyphs.approved} ", "good"), (f"names {names}", "good")]
        if found.code is Refusal.TAG_MISSING:
            return [(" say what this hunk does for the hypothesis, in three words or more", "dim")]
        if found.code is Refusal.TAG_BARE:
            return [(f" names {names}: three words or more", "pending")]
        return [(" names no word of the hypothesis yet; if none fits: Esc, then r", "pending")]

    def keys(self) -> tuple[tuple[str, str], ...]:
        """Keys of the tag box."""
        return (
            ("Enter", "approves"),
            ("Tab", "completes a word"),
            ("Esc", "leaves"),
            ("PgDn", "scrolls the hunk"),
        )


@dataclass
class FlagBox(Box):
    """Acknowledges flags one by one before the tag is asked for."""

    hunks: tuple[MapHunk, ...] = ()
    names: tuple[str, ...] = ()
    at: int = 0

    typing = False

    def key(self, name: str, char: str) -> str:
        """`y` takes the flag as read; the last one submits."""
        if name == "escape" or char in ("n", "q"):
            return "cancel"
        if char != "y":
            self.message = "y: I have read it; n: leave"
            return ""
        self.message = ""
        self.at += 1
        return "submit" if self.at >= len(self.names) else ""

    def above(self, width: int, glyphs: Glyphs) -> list[Line]:
        """The flag in question with its lines."""
        del glyphs
        if self.at >= len(self.names):
            return []
        name = self.names[self.at]
        flagged = [f for each in self.hunks for f in each.flags if f.name == name]
        which: Line = [
            (" ! ", "flag"),
            (f" {flag_words(name)}", "strong"),
            (f"  (flag {self.at + 1} of {len(self.names)})", "dim"),
        ]
        lines = [which]
        for flag in flagged[:3]:
            where = f"   line {flag.line}: "
            lines += wrap([(where, "dim"), (safe_line(flag.text, 300), "")], width - 1, 5)[:2]
        if len(flagged) > 3:
            lines.append([(f"   and {len(flagged) - 3} more", "dim")])
        return lines

    def keys(self) -> tuple[tuple[str, str], ...]:
        """Keys of the flag box."""
        return (("y", "I have read it (the verdict lists it)"), ("n", "leaves"))


@dataclass
class RejectBox(Box):
    """Asks for a reason, which may stay empty; says what else the reject would do."""

    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    has_older: bool = False
    to_baseline: bool = False

    def key(self, name: str, char: str) -> str:
        """F2 changes where the bytes go back to."""
        if name == "f2" and self.has_older:
            self.to_baseline = not self.to_baseline
            return "preview"
        return super().key(name, char)

    def below(self, width: int, glyphs: Glyphs) -> list[Line]:
        """Approvals that would be cut anew, and where the bytes go back to."""
        del glyphs
        lines: list[Line] = []
        for note in self.notes:
            lines += [[(" ", ""), *line] for line in wrap([(note, "pending")], width - 2)]
        return lines

    def keys(self) -> tuple[tuple[str, str], ...]:
        """Keys of the reject box."""
        older = (("F2", "baseline or your version"),) if self.has_older else ()
        return (("Enter", "rejects, with or without a reason"), ("Esc", "leaves"), *older)


@dataclass
class CommentBox(Box):
    """Asks for a remark."""

    hunk: MapHunk | None = None

    def keys(self) -> tuple[tuple[str, str], ...]:
        """Keys of the comment box."""
        return (("Enter", "the agent hears it at its next call"), ("Esc", "leaves"))


@dataclass
class FilterBox(Box):
    """Narrows the list while it is typed."""

    found: int = 0

    def below(self, width: int, glyphs: Glyphs) -> list[Line]:
        """How many entries are left."""
        del width, glyphs
        return [[(f" {counted(self.found, 'entry').replace('entrys', 'entries')}", "dim")]]

    def keys(self) -> tuple[tuple[str, str], ...]:
        """Keys of the filter box."""
        return (("Enter", "keeps the filter"), ("Esc", "drops it"))


@dataclass
class ConfirmBox(Box):
    """Asks for Enter: a withdrawal to accept, bytes to put back."""

    entries: tuple[Entry, ...] = ()
    what: str = ""
    notes: tuple[str, ...] = ()

    typing = False

    def above(self, width: int, glyphs: Glyphs) -> list[Line]:
        """What Enter will do."""
        del glyphs
        return [[(" ", ""), *line] for note in self.notes for line in wrap([(note, "")], width - 2)]


def _share(above: int, below: int, room: int) -> tuple[int, int]:
    """How many lines over and under the typed one are shown: one of each before more of any."""
    first_below = min(below, 1, room)
    over = min(above, room - first_below)
    if over > 1 and first_below < below:
        over = max(1, min(over, room - first_below - (below - first_below)))
    return over, min(below, room - over)


def reject_notes(
    recut: Sequence[str], revived: int, *, has_older: bool, to_baseline: bool
) -> tuple[str, ...]:
    """What a reject does besides taking the hunk away, for the box."""
    notes = []
    if recut:
        notes.append(f"cut anew, to be approved again: {', '.join(recut)}")
    if revived:
        notes.append(f"goes back to your approved version ({counted(revived, 'approval')} revived)")
    elif has_older and to_baseline:
        notes.append("goes back to the baseline, not to your approved version")
    return tuple(notes)
