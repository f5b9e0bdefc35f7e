"""Tamper flags: static signs in added lines that ask the human, and never decide (spec 11).

They are heuristics, easy to rename around. Each sign has a weight; a change is flagged when its two
heaviest signs add up to `ASK`. A strong sign does so alone, a weak one only with another.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from spike_mcp.core.flag_tables import GENERAL, LANGUAGES, PYTHON_LINES, Hit, Sign, language_of
from spike_mcp.core.unsafe import lookalikes, quoted

ASK = 3
MAX_FLAGS = 40
EXCERPT = 120
# Larger files are read line by line: a syntax tree of agent's making may cost any memory.
MAX_TREE_BYTES = 1 << 17
# SHIP takes fewer than 40 lines; beyond this many the rest is flagged unread.
MAX_LINES = 4000


@dataclass(frozen=True, slots=True)
class Flag:
    """One sign: `line_no` counts from 1 within the added lines (removed ones for
    `deleted_assertion`), `excerpt` is that line made safe, `weight` 1 to 4."""

    name: str
    line_no: int
    excerpt: str
    weight: int


def flags(
    path: str, removed: bytes, added: bytes, whole_after: bytes | None = None
) -> tuple[Flag, ...]:
    """Flags of one change: `removed` and `added` lines of the file `path`.

    `whole_after` is the file after the change; with it Python is judged by its syntax tree, names
    resolved through imports that stand elsewhere in the file. () when nothing asks.
    """
    lines, old = _lines(added), _lines(removed)[:MAX_LINES]
    unread = [Hit("unread_lines", MAX_LINES + 1, ASK)] if len(lines) > MAX_LINES else []
    hits = [*_line_hits(path, lines), *_language_hits(path, lines, added, whole_after), *unread]
    found = [_flag(hit, lines) for hit in hits]
    found += [_flag(hit, old) for hit in _deleted_assertions(old, lines)]
    return _worth_asking(found)


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split("\n")


def _flag(hit: Hit, lines: list[str]) -> Flag:
    line = lines[hit.line - 1] if 0 < hit.line <= len(lines) else ""
    return Flag(hit.name, hit.line, quoted(" ".join(line.split()), EXCERPT), hit.weight)


def _worth_asking(found: Iterable[Flag]) -> tuple[Flag, ...]:
    """Each sign once a line; nothing unless the two heaviest weigh `ASK` together."""
    once: dict[tuple[str, int], Flag] = {}
    heaviest: dict[str, int] = {}
    for flag in found:
        key = (flag.name, flag.line_no)
        if key not in once or once[key].weight < flag.weight:
            once[key] = flag
        heaviest[flag.name] = max(heaviest.get(flag.name, 0), flag.weight)
    if sum(sorted(heaviest.values())[-2:]) < ASK:
        return ()
    ordered = sorted(once.values(), key=lambda flag: (-flag.weight, flag.line_no, flag.name))
    return tuple(ordered[:MAX_FLAGS])


_FAR_RIGHT = re.compile(r"\S[ \t]{40,}[^\s#/\\|]")
# No honest source line is longer; searching more of it would cost hostile time.
_LONG_LINE = 1000
_BLOB = re.compile(r"(?:[A-Za-z0-9+/]{120,}={0,2}|(?:\\x[0-9a-fA-F]{2}){24,}|[0-9a-fA-F]{160,})")


def _line_hits(path: str, lines: list[str]) -> Iterable[Hit]:
    """Signs that need no grammar: payloads out of sight, names that are not what they seem."""
    tests = is_test_path(path)
    for number, line in enumerate(lines[:MAX_LINES], 1):
        if _FAR_RIGHT.search(line) or "\r" in line[:-1]:
            yield Hit("hidden_payload", number, 4)
        if len(line) > _LONG_LINE:
            yield Hit("long_line", number, 3)
        if _BLOB.search(line):
            yield Hit("encoded_payload", number, 2)
        if not line.isascii() and lookalikes(line):
            yield Hit("lookalike_name", number, 4)
        yield from _matching(GENERAL, line, number, tests)


def _matching(signs: Iterable[Sign], line: str, number: int, tests: bool) -> Iterable[Hit]:
    for sign in signs:
        if sign.regex.search(line, 0, _LONG_LINE) and not (tests and sign.fine_in_tests):
            yield Hit(sign.name, number, sign.weight)


def is_test_path(path: str) -> bool:
    """Whether `path` is a test by the usual names; tests may use their runner."""
    *directories, name = path.lower().split("/")
    if {"test", "tests", "testing", "__tests__", "spec", "testdata"} & set(directories):
        return True
    stem = name.partition(".")[0]
    marked = name.partition(".")[2].startswith(("test.", "spec."))
    return stem.startswith("test_") or stem.endswith(("_test", "_spec")) or marked


def _language_hits(
    path: str, lines: list[str], added: bytes, whole_after: bytes | None
) -> Iterable[Hit]:
    language = language_of(path, lines[0])
    if language == "python":
        return _python_hits(path, lines, added, whole_after)
    signs = LANGUAGES.get(language, ())
    tests = is_test_path(path)
    numbered = enumerate(lines[:MAX_LINES], 1)
    return [hit for number, line in numbered for hit in _matching(signs, line, number, tests)]


def _python_hits(
    path: str, lines: list[str], added: bytes, whole_after: bytes | None
) -> Iterable[Hit]:
    # Imported here: `ast` costs a third of the start of `spike status`, which flags nothing.
    from spike_mcp.core.flag_python import tree_hits

    tests, program = is_test_path(path), path.rpartition("/")[2] == "__main__.py"
    start = _place(added, whole_after)
    if start is not None and whole_after is not None:
        hits = tree_hits(whole_after, range(start, start + len(lines)), tests, program)
        if hits is not None:
            return [Hit(hit.name, hit.line - start + 1, hit.weight) for hit in hits]
    hits = tree_hits(_dedented(lines), range(1, len(lines) + 1), tests, program)
    if hits is not None:
        return hits
    plain = [unicodedata.normalize("NFKC", line) for line in lines[:MAX_LINES]]
    numbered = enumerate(plain, 1)
    return [
        hit for number, line in numbered for hit in _matching(PYTHON_LINES, line, number, tests)
    ]


def _place(added: bytes, whole: bytes | None) -> int | None:
    """The line (1-based) of `whole` at which `added` stands; None if unknown or too large."""
    if whole is None or not added or len(whole) > MAX_TREE_BYTES:
        return None
    at = 0 if whole.startswith(added) else whole.find(b"\n" + added) + 1
    if at == 0 and not whole.startswith(added):
        return None
    return whole.count(b"\n", 0, at) + 1


def _dedented(lines: list[str]) -> bytes:
    text = "\n".join(lines)
    if len(text) > MAX_TREE_BYTES:
        return b"("  # no syntax: read line by line
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    cut = min(indents, default=0)
    return "\n".join(line[cut:] for line in lines).encode("utf-8", "surrogateescape")


_ASSERTION = re.compile(
    r"\bassert\w*\b|\bexpect\s*\(|\bself\.(?:assert|fail)\w*|\bt\.(?:Fatal|Error|Fail)\w*\s*\("
    r"|\bassert(?:_eq|_ne)?!|\bpytest\.raises\b|\bshould\b\.|\brequire\.\w+\s*\(t\b"
)


def _deleted_assertions(removed: list[str], added: list[str]) -> Iterable[Hit]:
    """Removed lines that assert, beyond those that the added lines assert again."""
    kept = {line.strip() for line in added}
    left = sum(1 for line in added if _ASSERTION.search(line))
    gone = [n for n, line in enumerate(removed, 1) if _ASSERTION.search(line)]
    if len(gone) <= left:
        return
    for number in gone:
        if removed[number - 1].strip() not in kept:
            yield Hit("deleted_assertion", number, 3)
