"""Colour for code, one line at a time, in linear time.

A full lexer runs long on hostile text and would have to see the whole file. This knows strings,
numbers, comments and the keywords of a language family; a line inside a long string is coloured as
code, which misleads nobody: the text itself is never changed.
"""

from __future__ import annotations

import re
from functools import cache

MAX_CHARS = 2000
"""Longer lines stay plain."""

_PYTHON = """False None True and as assert async await break class continue def del elif else except
finally for from global if import in is lambda match case nonlocal not or pass raise return try
while with yield"""
_C_LIKE = """async await break case catch class const continue default defer delete do else enum
export extends extern false finally fn for from func function go if impl implements import in
instanceof int interface let loop match mod move mut namespace new nil null private protected pub
public return select self static struct super switch this throw throws trait true try type typeof
undefined union unsafe use using var void where while yield bool char double float long string
undefined package range chan map"""
_SHELL = """if then else elif fi for while until do done case esac in function return local export
set unset readonly true false"""

_HASH = frozenset(
    [
        "py",
        "pyi",
        "pyx",
        "rb",
        "sh",
        "bash",
        "zsh",
        "toml",
        "yaml",
        "yml",
        "cfg",
        "ini",
        "mk",
        "cmake",
        "r",
        "pl",
        "nix",
    ]
)
_SLASHES = frozenset(
    [
        "c",
        "h",
        "cc",
        "cpp",
        "hpp",
        "cs",
        "java",
        "js",
        "jsx",
        "mjs",
        "cjs",
        "ts",
        "tsx",
        "go",
        "rs",
        "swift",
        "kt",
        "scala",
        "php",
        "dart",
        "zig",
        "proto",
    ]
)

Span = tuple[int, int, str]


@cache
def _grammar(suffix: str) -> re.Pattern[str] | None:
    if suffix in _HASH:
        comment, words = r"\#.*", _PYTHON if suffix.startswith("py") else _SHELL
    elif suffix in _SLASHES:
        comment, words = r"//.*|/\*.*?(?:\*/|$)", _C_LIKE
    else:
        return None
    strings = r'"(?:[^"\\]|\\.)*"?|' + r"'(?:[^'\\]|\\.)*'?"
    if suffix in ("js", "jsx", "mjs", "cjs", "ts", "tsx", "go"):
        strings += r"|`[^`]*`?"
    keyword = "|".join(words.split())
    return re.compile(
        rf"(?P<remark>{comment})|(?P<string>{strings})"
        rf"|(?P<name>(?<=\bdef )\w+|(?<=\bclass )\w+|(?<=\bfn )\w+|(?<=\bfunc )\w+)"
        rf"|\b(?P<keyword>{keyword})\b|\b(?P<literal>\d\w*(?:\.\d+)?)\b|\w+"
    )


def suffix_of(path: str) -> str:
    """The file's ending, lower case, without the dot."""
    name = path.rpartition("/")[2].lower()
    if name in ("makefile", "dockerfile", "gnumakefile"):
        return "mk"
    return name.rpartition(".")[2] if "." in name else ""


def spans(path: str, text: str) -> list[Span]:
    """(start, end, style name) of what is coloured in a line of this file."""
    pattern = _grammar(suffix_of(path))
    if pattern is None or len(text) > MAX_CHARS:
        return []
    return [
        (match.start(), match.end(), match.lastgroup)
        for match in pattern.finditer(text)
        if match.lastgroup
    ]
