"""The threat model names tests that exist, and every guarantee says when it does not hold."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.security

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
GUARANTEES = re.split(r"^### ", TEXT.partition("## Limits")[0], flags=re.MULTILINE)[1:]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert re.search(rf"def {name}\(", text) if name else "test" in text


def test_guarantees_are_numbered_and_whole() -> None:
    numbers = [int(part.partition(".")[0]) for part in GUARANTEES]
    assert numbers == list(range(1, len(GUARANTEES) + 1))
    for part in GUARANTEES:
        assert "Does not hold when:" in part, part[:40]
        guards = part.partition("Guarded by ")[2]
        assert re.search(r"`tests/[\w/]+\.py", guards), part[:40]
