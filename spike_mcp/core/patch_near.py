"""What a refusal shows when lines do not fit: the file's real lines, never a guess applied.

The nearest place is found by votes: each line of the hunk that is rare enough in the file votes for
the place where the hunk would begin. Cost is linear in hunk and file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spike_mcp.core.document import Document, fold
from spike_mcp.core.unsafe import visible

_WINDOW = 12
_LEAD = 3
_WIDTH = 160
_VOTERS = 400
_COMMON = 50


def nearest(doc: Document, keys: Sequence[str], stated: int | None) -> str:
    """Lines around the place where the most of `keys` stand, and what is wrong there.

    `stated` is the 1-based line that the patch gave. At most about 2,500 characters.
    """
    if not len(doc):
        return "the file is empty"
    votes = _votes(doc, keys)
    if not votes:
        return _nowhere(doc, stated)
    wanted = stated - 1 if stated is not None else 0
    best = max(votes, key=lambda at: (votes[at], -abs(at - wanted)))
    pairs = ((offset, best + offset) for offset in range(len(keys)))
    wrong = next((o for o, at in pairs if not _equal(doc, at, keys[o])), 0)
    at = best + wrong
    said = [f"nearest place: line {max(best, 0) + 1}; {_difference(doc, at, keys[wrong])}"]
    said.append(f"the patch has: {_shown(keys[wrong])}")
    first = max(best, at - _LEAD, 0)
    last = min(best + len(keys) + 1, first + _WINDOW)
    said.append("the file has:")
    said.append(show_lines(doc, first, max(last - first, 1)))
    return "\n".join(said)


def show_lines(doc: Document, first: int, count: int) -> str:
    """`count` lines from 0-based `first`, each as `number| text`."""
    rows = range(max(first, 0), min(first + count, len(doc)))
    return "\n".join(f"{at + 1}| {_shown(doc.keys[at])}" for at in rows)


def _shown(text: str) -> str:
    shown = visible(text[: _WIDTH + 1])
    return shown if len(text) <= _WIDTH else shown[:_WIDTH] + "..."


def _votes(doc: Document, keys: Sequence[str]) -> Counter[int]:
    positions = doc.positions()
    votes: Counter[int] = Counter()
    for offset, text in enumerate(keys[:_VOTERS]):
        places = positions.get(fold(text), ())
        if len(places) <= _COMMON:
            votes.update(at - offset for at in places)
    return votes


def _equal(doc: Document, at: int, text: str) -> bool:
    return 0 <= at < len(doc) and doc.keys[at] == text


def _difference(doc: Document, at: int, text: str) -> str:
    if at < 0:
        return "the patch shows lines above the file's first"
    if at >= len(doc):
        return f"the file ends after line {len(doc)}"
    if fold(doc.keys[at]) == fold(text):
        return f"line {at + 1} differs in white space"
    return f"line {at + 1} differs" if doc.keys[at] != text else f"line {at + 1} fits"


def _nowhere(doc: Document, stated: int | None) -> str:
    first = max(min((stated or 1) - 1 - _LEAD, len(doc) - _WINDOW), 0)
    where = "no place in the file is like it; it has"
    return f"{where} {len(doc)} lines:\n{show_lines(doc, first, _WINDOW)}"
