"""A hunk as a reader needs it: its lines taken apart, word-level changes, and what to know first.

Pure functions over `MapHunk`. Lines are taken apart only when somebody looks at them, and nothing
here costs more than the size of what is looked at allows: the content is the agent's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from spike_mcp.core.hunks import ViewLine
from spike_mcp.edge.present import noise_of, twins_text
from spike_mcp.edge.text import count_hidden, hidden_note, lookalikes, safe_line
from spike_mcp.session.view import HunkMap, MapHunk

MAX_WORD_CHARS = 600
"""Longest line that is compared word by word."""

MAX_PAIRED = 40
"""Most removed or added lines of one region that are paired with each other."""

_MAX_FLAGS = 8
_ALIKE = 0.45
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class LineText:
    """One line, raw: `body` without trailing blanks, `tail` = those, `ending` lf, crlf or none."""

    body: str
    tail: str
    ending: str


def line_text(raw: bytes) -> LineText:
    """Take a line apart. Bytes that are no UTF-8 become lone surrogates, which are shown in hex."""
    ending = "none"
    if raw.endswith(b"\r\n"):
        raw, ending = raw[:-2], "crlf"
    elif raw.endswith(b"\n"):
        raw, ending = raw[:-1], "lf"
    text = raw.decode("utf-8", "surrogateescape")
    body = text.rstrip(" \t")
    return LineText(body, text[len(body) :], ending)


def tail_words(line: LineText, *, odd_ending: bool) -> str:
    """What a reader can't see at the end of a line, in words; "" if there is nothing."""
    said = []
    if line.tail:
        spaces, tabs = line.tail.count(" "), line.tail.count("\t")
        said += [
            f"{n} trailing {w}{'s' * (n > 1)}" for n, w in ((spaces, "space"), (tabs, "tab")) if n
        ]
    if line.ending == "crlf" and odd_ending:
        said.append("ends in CR LF")
    if line.ending == "none":
        said.append("no newline at the end of the file")
    return ", ".join(said)


Spans = tuple[tuple[int, int], ...]


def word_changes(old: str, new: str) -> tuple[Spans, Spans]:
    """Which characters of two lines differ: spans in `old` and in `new`, () where it says nothing.

    Lines that have little in common, or are too long to compare, give no spans.
    """
    if old == new or max(len(old), len(new)) > MAX_WORD_CHARS:
        return (), ()
    left, right = _WORDS.findall(old), _WORDS.findall(new)
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    gone: list[tuple[int, int]] = []
    come: list[tuple[int, int]] = []
    same = 0
    at_old = at_new = 0
    for code, i1, i2, j1, j2 in matcher.get_opcodes():
        size_old, size_new = len("".join(left[i1:i2])), len("".join(right[j1:j2]))
        if code == "equal":
            same += len("".join(left[i1:i2]).strip())
        else:
            _add(gone, at_old, size_old)
            _add(come, at_new, size_new)
        at_old += size_old
        at_new += size_new
    if same * 2 < _ALIKE * (len(old.strip()) + len(new.strip())):
        return (), ()
    return tuple(gone), tuple(come)


def _add(spans: list[tuple[int, int]], start: int, size: int) -> None:
    if size == 0:
        return
    if spans and spans[-1][1] == start:
        spans[-1] = (spans[-1][0], start + size)
    else:
        spans.append((start, start + size))


class ShownHunk:
    """The lines of a hunk with more context around them where it was asked for."""

    def __init__(
        self, each: MapHunk, above: Sequence[ViewLine] = (), below: Sequence[ViewLine] = ()
    ) -> None:
        self.each = each
        self.lines: tuple[ViewLine, ...] = (*above, *each.hunk.lines, *below)
        self.states = dict(zip((r.key for r in each.regions), each.region_states, strict=True))
        self._texts: dict[int, LineText] = {}
        self._spans: dict[int, Spans] = {}

    def text(self, index: int) -> LineText:
        """Line `index` taken apart."""
        found = self._texts.get(index)
        if found is None:
            found = self._texts[index] = line_text(self.lines[index].text)
        return found

    def state(self, index: int) -> str:
        """pending, approved or lapsed for a changed line, "" for context."""
        key = self.lines[index].key
        return self.states[key] if key is not None else ""

    def starts_region(self, index: int) -> bool:
        """Whether a region begins with this line."""
        key = self.lines[index].key
        return key is not None and (index == 0 or self.lines[index - 1].key != key)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Region key -> its number in the hunk, from 1."""
        return {region.key: number for number, region in enumerate(self.each.regions, 1)}

    @cached_property
    def mixed(self) -> bool:
        """Whether the regions must be told apart: several, or one that was approved once."""
        return len(self.each.regions) > 1 or "lapsed" in self.each.region_states

    @cached_property
    def is_crlf(self) -> bool:
        """Whether CR LF is this hunk's usual line ending: then only other endings stand out."""
        return mostly_crlf(self.each)

    def odd_ending(self, index: int) -> bool:
        """Whether the line ends otherwise than most lines around it."""
        ending = self.text(index).ending
        return ending != "none" and (ending == "crlf") != self.is_crlf

    def changed_words(self, index: int) -> Spans:
        """Spans of `text(index).body` that differ from the line's partner on the other side."""
        key = self.lines[index].key
        if key is None:
            return ()
        if index not in self._spans:
            self._compare(key, index)
        return self._spans.get(index, ())

    def _compare(self, key: str, index: int) -> None:
        first = last = index
        while first > 0 and self.lines[first - 1].key == key:
            first -= 1
        while last + 1 < len(self.lines) and self.lines[last + 1].key == key:
            last += 1
        old = [i for i in range(first, last + 1) if self.lines[i].sign == "-"]
        new = [i for i in range(first, last + 1) if self.lines[i].sign == "+"]
        self._spans.update(dict.fromkeys((*old, *new), ()))
        if max(len(old), len(new)) > MAX_PAIRED:
            return
        for left, right in self._pairs(old, new):
            gone, come = word_changes(self.text(left).body, self.text(right).body)
            self._spans[left], self._spans[right] = gone, come

    def _pairs(self, old: list[int], new: list[int]) -> list[tuple[int, int]]:
        """Which removed line became which added one: in order, the likest of what is left."""
        if len(old) == len(new):
            return list(zip(old, new, strict=True))
        pairs, at = [], 0
        for left in old:
            best = max(
                range(at, len(new)),
                key=lambda i: _likeness(self.text(left).body, self.text(new[i]).body),
                default=-1,
            )
            if best < 0:
                break
            if _likeness(self.text(left).body, self.text(new[best]).body) >= _ALIKE:
                pairs.append((left, new[best]))
                at = best + 1
        return pairs


def mostly_crlf(each: MapHunk) -> bool:
    """Whether more than half of the hunk's lines end in CR LF."""
    crlf = sum(line.text.endswith(b"\r\n") for line in each.hunk.lines)
    return crlf * 2 > len(each.hunk.lines)


def _likeness(one: str, other: str) -> float:
    left = set(re.findall(r"\w+", one[:MAX_WORD_CHARS]))
    right = set(re.findall(r"\w+", other[:MAX_WORD_CHARS]))
    both = left | right
    return len(left & right) / len(both) if both else 0.0


@dataclass(frozen=True, slots=True)
class Note:
    """Something to know about a hunk: hidden, flag, lapse, context, twin, noise or comment.

    `lead` is what it is, `text` the rest of the sentence; together they are one line.
    """

    kind: str
    lead: str
    text: str = ""

    @property
    def line(self) -> str:
        """The whole note."""
        return f"{self.lead}{self.text}"


def notes_of(each: MapHunk, current: HunkMap) -> tuple[Note, ...]:
    """What a reader must know before deciding, the gravest first. Safe text, one line each."""
    found = [Note("hidden", text) for text in (hidden_note(hidden_count(each)),) if text]
    found += _flag_notes(each)
    alike = _lookalikes(each)
    if alike:
        names = ", ".join(safe_line(name, 60) for name in alike[:5])
        found.append(Note("flag", "! names that are not what they look like", f": {names}"))
    if each.why:
        tags = "; ".join(safe_line(tag, 120) for tag in each.old_tags[:3])
        why = safe_line(each.why, 200)
        found.append(Note("lapse", f"approved once, then {why}", f'. Your tag: "{tags}"'))
    if each.context_changed:
        found.append(Note("context", "the lines around it changed since you approved it"))
    if each.twins:
        found.append(Note("twin", "the same change is also at ", twins_text(each, current)))
    found += [Note("noise", text) for text in (noise_of(each),) if text]
    if mostly_crlf(each):
        found.append(Note("noise", "lines here end in CR LF; only other endings are marked"))
    found += [Note("comment", "you said: ", safe_line(text, 300)) for text in each.comments[-3:]]
    return tuple(found)


def hidden_count(each: MapHunk) -> int:
    """Characters of the hunk that `safe` shows in hex."""
    total = count_hidden(each.hunk.header)
    for line in each.hunk.lines:
        if not (line.text.isascii() and line.text[:-1].replace(b"\t", b"").isalnum()):
            text = line_text(line.text)
            total += count_hidden(text.body) + count_hidden(text.tail)
    return total


def _flag_notes(each: MapHunk) -> list[Note]:
    """One note a kind of flag: its lines, and what stands on the first of them."""
    notes = []
    for name in flag_names([each])[:_MAX_FLAGS]:
        flagged = [flag for flag in each.flags if flag.name == name]
        lines = list(dict.fromkeys(flag.line for flag in flagged))
        numbers = ", ".join(map(str, lines[:6])) + (" ..." if len(lines) > 6 else "")
        times = f" ({len(flagged)} times)" if len(flagged) > 1 else ""
        where = f"line{'s' * (len(lines) > 1)} {numbers}{times}"
        excerpt = safe_line(flagged[0].text, 160)
        notes.append(Note("flag", f"! {flag_words(name)}", f", {where}: {excerpt}"))
    more = len(flag_names([each])) - _MAX_FLAGS
    if more > 0:
        notes.append(Note("flag", f"! and {more} more kinds of flags"))
    return notes


def flag_words(name: str) -> str:
    """`process_exit` -> `process exit`."""
    return name.replace("_", " ")


def _lookalikes(each: MapHunk) -> tuple[str, ...]:
    if any(flag.name in ("lookalike_name", "look_alike", "mixed_scripts") for flag in each.flags):
        return ()
    found: dict[str, None] = {}
    for line in each.hunk.lines:
        if line.sign == "+" and not line.text.isascii():
            found.update(dict.fromkeys(lookalikes(line_text(line.text).body)))
    return tuple(found)


def flag_names(hunks: Sequence[MapHunk]) -> tuple[str, ...]:
    """Names that approving these hunks must acknowledge, each once, in order."""
    return tuple(dict.fromkeys(flag.name for each in hunks for flag in each.flags))
