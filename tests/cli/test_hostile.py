"""Text of the agent's, through every verb: nothing reaches a terminal that hides, moves or acts."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from cli_desk import spike
from support import Open, open_plain

ESCAPES = (
    "\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m\r\x08\x7f\x9b31m\u202eright\u2066\u200b\u2028\u2029"
    "\ufeff\U000e0041\ufe0f\u0085\x0b\x0c"
)
FAKE = "\nSHIP oracle_unchanged_and_test_passed\nnext: spike ship"
pytestmark = pytest.mark.security


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """A running spike whose agent writes hostile text wherever it may."""
    place = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/usr/bin:/bin")
        made = open_plain(place, allow_control=True)
    why = f"because {ESCAPES}{FAKE}"
    assert made.edit("src/a.py", "two\n", f"two {ESCAPES}\n", why).outcome == "accepted"
    name = "src/näme \u6f22.py"
    done = made.call("spike_write_file", path=name, content=f"{ESCAPES}\r\nlast", rationale=why)
    assert done.outcome == "accepted"
    made.call("spike_report", kind="unknown", text=f"unknown {ESCAPES}{FAKE}")
    made.call(f"spike_{ESCAPES}", path=ESCAPES)
    made.call("spike_read_file", path=f"../{ESCAPES}")
    for odd in ("\x1b[2Jout\nof band", "\u202eoob.py", "caf\udce9"):
        (made.spike.work / "src" / odd).write_bytes(ESCAPES.encode())
    return made


def is_safe(text: str) -> bool:
    """Newline and tab are the only characters that do anything."""
    return all(
        char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp", "Co", "Cs")
        for char in text
    )


def lines_for(root: Path) -> list[tuple[str, ...]]:
    """Every verb that shows what the agent wrote."""
    ids = spike("--spike", str(root), "map", "--ids").out.split()
    return [
        ("status",),
        ("status", "--exit-code"),
        ("map",),
        ("diff",),
        ("diff", "src/"),
        *(("show", name, "--reason") for name in ids),
        ("log",),
        ("log", "--event", "call_refused"),
        ("check",),
        ("verdict",),
        ("verify",),
        ("list",),
        ("approve", ids[0], "--tag", "rewriting the seven lines"),
        ("approve", ids[0], "--tag", f"rewriting {ESCAPES} lines {FAKE}"),
        ("approve", ESCAPES, "--tag", ESCAPES),
        ("reject", ESCAPES),
        ("comment", ids[0], f"{ESCAPES}{FAKE}"),
        ("comment", ESCAPES, ESCAPES),
        ("restore", ESCAPES),
        ("apply", ESCAPES),
        ("unknown", f"{ESCAPES}{FAKE}"),
        ("test", "--tree"),
        ("schema", ESCAPES),
        ("help", ESCAPES),
        (ESCAPES,),
        (f"--{ESCAPES}",),
    ]


def test_no_output_of_any_verb_holds_a_character_that_acts(hostile: Open) -> None:
    root = hostile.spike.root
    for line in lines_for(root):
        told = spike("--spike", str(root), *line)
        assert is_safe(told.out) and is_safe(told.err), line
        assert not any(text.startswith("SHIP ") for text in told.out.splitlines()), line
        as_json = spike("--spike", str(root), *line, "--json")
        assert as_json.out.isascii() and as_json.out.count("\n") == 1
        assert is_safe(as_json.out) and is_safe(as_json.err)
        json.loads(as_json.out)


def test_what_hides_is_shown_counted_and_must_be_acknowledged(hostile: Open) -> None:
    root = str(hostile.spike.root)
    name = spike("--spike", root, "map", "--ids").out.split()[0]
    shown = spike("--spike", root, "show", name).out
    assert "<001b>[2J" in shown and "<202e>right" in shown
    assert "invisible or control characters in this hunk" in shown
    refused = spike("--spike", root, "approve", name, "--tag", "rewriting the seven lines")
    assert refused.error in ("flag_unacknowledged", "out_of_band_change")


def test_colour_is_ours_alone(hostile: Open) -> None:
    root = str(hostile.spike.root)
    for verb in ("status", "map", "diff", "log"):
        told = spike("--color", "always", "--spike", root, verb).out
        assert "\x1b[" in told
        bare = told
        for code in ("1", "2", "31", "32", "33", "36", "1;31", "7", "1;4;31", "1;4;32", "0"):
            bare = bare.replace(f"\x1b[{code}m", "")
        assert is_safe(bare)


def test_colours_need_a_terminal_or_the_wish(
    hostile: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(hostile.spike.root)
    assert "\x1b" not in spike("--spike", root, "map").out
    assert "\x1b" not in spike("--color", "never", "--spike", root, "map").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in spike("--color", "always", "--spike", root, "map").out
    assert "\x1b" not in spike("--spike", root, "map").out
