"""Which file a section of a unified diff is about: all its header lines must agree (spec 8)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spike_mcp.core.patch_types import malformed
from spike_mcp.core.unsafe import quoted

NOTHING = "/dev/null"

# Prefixes of the two sides: git's own, its mnemonic ones, --no-index, and each turned round (-R).
_PAIRS = frozenset(
    pair
    for one, two in (("a", "b"), ("i", "w"), ("c", "i"), ("c", "w"), ("o", "w"), ("1", "2"))
    for pair in ((one, two), (two, one))
)
_SIDES = frozenset("abiwco12")
_LONGEST = 2 * 4096 + 100
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b'"': b'"',
    b"\\": b"\\",
}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one section: `old` and `new` from `---` and `+++`, `git` the rest of `diff --git`.

    None where the line is missing. `row` is the patch line to blame.
    """

    old: str | None
    new: str | None
    git: str | None
    row: int


def header_name(text: str, row: int) -> str:
    """The name after `--- ` or `+++ `: C-quoted, or up to a tab (a time stamp follows)."""
    if len(text) > _LONGEST:
        raise malformed(f"patch line {row}: the file name is too long")
    if text.startswith('"'):
        found = _QUOTED.match(text)
        if not found or text[found.end() :].strip(" ").split("\t")[0]:
            raise malformed(f"patch line {row}: the quoted file name does not end: {quoted(text)}")
        return _unquote(found.group(1), row)
    return text.partition("\t")[0]


def _unquote(body: str, row: int) -> str:
    def plain(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        if len(code) == 3:
            return bytes([int(code, 8)])
        if code not in _ESCAPES:
            raise malformed(f"patch line {row}: unknown escape in the file name {quoted(body)}")
        return _ESCAPES[code]

    raw = _ESCAPE.sub(plain, body.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def _same(old: str, new: str) -> str | None:
    """The one file that both names mean, None when they mean two."""
    if old == new:
        return old
    prefixed = old[1:2] == new[1:2] == "/" and (old[:1], new[:1]) in _PAIRS
    return old[2:] if prefixed and old[2:] == new[2:] else None


def is_prefixed(names: Names) -> bool | None:
    """Whether this section's names carry `a/` and `b/`; None where it can't be told."""
    if names.old in (None, NOTHING) or names.new in (None, NOTHING):
        return None
    return names.old != names.new


def resolve(names: Names, prefixed: bool) -> str:
    """The path of a section, prefixes off.

    `prefixed` is the habit of the patch's other sections; it decides where one side is
    `/dev/null` and no `diff --git` line tells. Raises `PATCH_MALFORMED` naming both files when
    header lines disagree.
    """
    from_git = _git_paths(names)
    from_lines = _line_paths(names, prefixed)
    if from_git is None:
        if from_lines is None:
            raise malformed(f"patch line {names.row}: the header names no file")
        return from_lines[0]
    if from_lines is None:
        if len(from_git) != 1:
            raise malformed(f"patch line {names.row}: can't tell the two names apart")
        return from_git[0]
    for path in from_lines:
        if path in from_git:
            return path
    raise malformed(
        f"patch line {names.row}: the header lines name different files: "
        f"'{quoted(from_git[0])}' and '{quoted(from_lines[0])}'",
        "let 'diff --git', '---' and '+++' name one file; send one section for each file",
    )


def _line_paths(names: Names, prefixed: bool) -> tuple[str, ...] | None:
    """Readings of `---` and `+++`, the likelier first."""
    if names.old is None or names.new is None:
        return None
    if not names.old or not names.new:
        raise malformed(
            f"patch line {names.row}: the '---' and '+++' lines name no file",
            "give both lines the file's path, such as '--- a/src/x.py' and '+++ b/src/x.py'",
        )
    if names.old == NOTHING and names.new == NOTHING:
        raise malformed(f"patch line {names.row}: both sides are {NOTHING}")
    if NOTHING in (names.old, names.new):
        name = names.new if names.old == NOTHING else names.old
        bare = name[2:] if name[1:2] == "/" and name[:1] in _SIDES else name
        return (bare, name) if prefixed else (name, bare)
    path = _same(names.old, names.new)
    if path is None:
        raise malformed(
            f"patch line {names.row}: the header lines name different files: "
            f"'{quoted(names.old)}' and '{quoted(names.new)}'",
            "renames are not supported; let '---' and '+++' name one file",
        )
    return (path,)


def _git_paths(names: Names) -> tuple[str, ...] | None:
    """Every file that the two names after `diff --git` can both mean."""
    if names.git is None:
        return None
    if len(names.git) > _LONGEST:
        raise malformed(f"patch line {names.row}: the file name is too long")
    pairs = list(_git_pairs(names.git, names.row))
    found = tuple(dict.fromkeys(p for p in (_same(old, new) for old, new in pairs) if p))
    if not found:
        old, new = pairs[0] if pairs else (names.git, "")
        raise malformed(
            f"patch line {names.row}: the header lines name different files: "
            f"'{quoted(old)}' and '{quoted(new)}'",
            "let both names after 'diff --git' be one file; renames are not supported",
        )
    return found


def _git_pairs(text: str, row: int) -> list[tuple[str, str]]:
    """Ways to cut `text` in two names; a name that needs no quotes may hold spaces."""
    if text.startswith('"'):
        first = _QUOTED.match(text)
        if not first:
            raise malformed(f"patch line {row}: the quoted file name does not end")
        rest = text[first.end() :].removeprefix(" ")
        return [(_unquote(first.group(1), row), header_name(rest, row))]
    if text.endswith('"') and ' "' in text:
        old, _, new = text.partition(' "')
        return [(old, header_name('"' + new, row))]
    cuts = [at for at, char in enumerate(text) if char == " "]
    return [(text[:at], text[at + 1 :]) for at in cuts]
