"""The project's Markdown pages: their links, headings, code and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from alone import CHECKOUT

PAGES = sorted(
    [
        CHECKOUT / "README.md",
        CHECKOUT / "examples" / "README.md",
        *(CHECKOUT / "docs").rglob("*.md"),
    ]
)

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^\n|\A)((?:    .*\n|\n)+)", re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


def name_of(page: Path) -> str:
    """`docs/review.md`: how a test's name says which page."""
    return page.relative_to(CHECKOUT).as_posix()


def prose(page: Path) -> str:
    """The text without fenced code."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Targets of all links and pictures."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What `#...` may name, by GitHub's rule for headings."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def shell_blocks(page: Path) -> list[str]:
    """The blocks fenced as `sh`."""
    found = _FENCED.findall(page.read_text(encoding="utf-8"))
    return [body for language, body in found if language == "sh"]


def commands(page: Path, program: str) -> Iterator[list[str]]:
    """Command lines that begin with `program`: in code spans, `sh` blocks and indented blocks."""
    text = prose(page)
    lines = [" ".join(span.split()) for span in _SPAN.findall(_INDENTED.sub("\n", text))]
    for block in (*shell_blocks(page), *_INDENTED.findall(text)):
        lines += block.replace("\\\n", " ").splitlines()
    for line in lines:
        stripped = line.strip().removeprefix("$ ")
        if stripped.split(" ", 1)[0] == program:
            yield shlex.split(stripped, comments=True)
