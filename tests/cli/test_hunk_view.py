"""What a person must be able to see of a hunk before approving it."""

from __future__ import annotations

import re

from cli_desk import spike
from support import Open


def shown(name: str = "") -> str:
    """`spike show` of the only (or the named) hunk."""
    found = name or spike("map", "--ids").out.split()[0]
    told = spike("show", found)
    assert told.code == 0
    return told.out


def test_blanks_line_ends_and_a_missing_newline_are_visible(started: Open) -> None:
    content = "tab\there\nblank  \nodd\r\nlast"
    started.call("spike_write_file", path="src/new.py", content=content, rationale="r")
    text = shown()
    assert "tab→   here" in text
    assert "blank··  <- 2 trailing spaces" in text
    assert "odd  <- ends in CR LF" in text
    assert "last  <- no newline at the end of the file" in text
    assert "new file" in text and "@@ -0,0 +1,4 @@" in text


def test_regions_show_their_own_state(started: Open) -> None:
    started.edit("src/a.py", "two\n", "GREEN\n")
    first = spike("map", "--ids").out.strip()
    assert spike("approve", first, "--tag", "rewriting one of the lines").code == 0
    started.edit("src/a.py", "seven\n", "SEVEN\n")
    text = shown()
    assert "  2 a + GREEN" in text and "  7 p + SEVEN" in text
    assert "p pending, a approved, l lapsed" in text
    assert 'tag: "rewriting one of the lines"' in text
    started.edit("src/a.py", "GREEN\n", "GREENER\n")
    text = shown()
    assert "  2 l + GREENER" in text
    assert "touched by P3" in text and "rewriting one of the lines" in text


def test_the_agents_reason_is_shown_only_when_asked_for(started: Open) -> None:
    started.edit("src/a.py", "two\n", "GREEN\n", "my very own reason")
    name = spike("map", "--ids").out.strip()
    assert "my very own reason" not in spike("show", name).out + spike("map").out
    assert "my very own reason" in spike("show", name, "--reason").out
    warned = spike("approve", name, "--tag", "my very own reason")
    assert warned.code == 78
    assert spike("map", "--json").json["hunks"][0]["rationale"] == "my very own reason"


def test_flags_name_what_ack_takes(started: Open) -> None:
    started.edit("src/a.py", "two\n", "GREEN\nimport os; os._exit(0)\n")
    name = spike("map", "--ids").out.strip()
    assert "--ack process_exit (or --ack all)" in shown(name)
    assert " ! " in spike("map").out
    tag = ["--tag", "rewriting one of the lines"]
    assert spike("approve", name, *tag).error == "flag_unacknowledged"
    assert spike("approve", name, *tag, "--ack", "other_flag").error == "flag_unacknowledged"
    assert spike("approve", name, *tag, "--ack", "process_exit").code == 0


def test_the_diff_is_what_git_prints_but_for_the_ids(started: Open) -> None:
    started.edit("src/a.py", "two\n", "GREEN\n")
    started.call("spike_write_file", path="src/new.py", content="x\n", rationale="r")
    started.call("spike_write_file", path="src/empty.py", content="", rationale="r")
    lines = spike("diff").out.splitlines()
    assert "--- a/src/a.py" in lines and "+++ b/src/new.py" in lines and "--- /dev/null" in lines
    assert "diff --git a/src/empty.py b/src/empty.py" in lines
    assert "-two" in lines and "+GREEN" in lines and " three" in lines
    ids = spike("map", "--ids").out.split()
    heads = [line for line in lines if line.startswith("@@")]
    assert heads[0] == f"@@ -1,5 +1,5 @@ [{ids[0]} pending]"
    assert "src/new.py" not in spike("diff", "src/a.py").out
    assert spike("diff", ids[0], "--json").json["hunks"][0]["path"] == "src/a.py"
    assert spike("diff", "--approved").out == ""
    assert spike("diff", "no/such").code == 78


def test_a_narrow_terminal_cuts_the_table_not_the_hunk(started: Open, monkeypatch) -> None:
    started.edit("src/a.py", "two\n", "GREEN " + "word " * 60 + "\n")
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, spike("map").out.splitlines()[:2])) <= 60
    text = shown()
    assert max(map(len, text.splitlines())) <= 60
    # What goes on below never starts at the left edge, where it could pass for another line.
    assert "word " * 59 in re.sub(r"\n {6}↳ ", "", text)
