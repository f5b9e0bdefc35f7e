"""docs/review.md says what the screen does."""

import re
from pathlib import Path

from spike_mcp.edge.tui.keys import BOX_WORDS, KEYS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "review.md").read_text("utf-8")


def test_the_key_tables_are_those_of_the_screen() -> None:
    rows = [f"| `{entry.shown}` | {entry.words} |" for entry in KEYS if entry.words]
    rows += [f"| `{shown}` | {words} |" for shown, words in BOX_WORDS]
    listed = [line for line in PAGE.split("\n") if line.startswith("| `")]
    assert listed == rows


def test_every_picture_is_there_and_loads_nothing() -> None:
    names = [part.partition(")")[0] for part in PAGE.split("](screens/")[1:]]
    assert len(names) >= 9
    for name in names:
        picture = DOCS / "screens" / name
        assert picture.is_file(), name
        if name.endswith(".svg"):
            text = picture.read_text("utf-8")
            assert set(re.findall(r"url\((.)", text)) <= {"#"}
            assert set(re.findall(r'(?:href|src)="(.)', text)) <= {"#"}
            assert "<script" not in text
    there = {path.name for path in (DOCS / "screens").iterdir()}
    assert there == set(names)
