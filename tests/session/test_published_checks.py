"""Where `spike check` says 0, a checker of the published kind says OK too (spec 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from acting import TAG, approve_all, current
from published import git_diff, hunks_of, map_complaints
from support import PLAIN, Open, open_plain

from spike_mcp.core.codes import Exit
from spike_mcp.session import decisions, judging, rejecting

FILES = {
    **PLAIN,
    "src/old.py": "gone soon\n",
    "src/empty.py": "",
    "src/long.py": "".join(f"line {n}\n" for n in range(60)),
    "src/no_newline.py": "a\nb",
}


@pytest.fixture
def o(tmp_path: Path) -> Open:
    return open_plain(tmp_path, files=FILES)


def write(o: Open, path: str, content: str, **more: Any) -> None:
    reply = o.call("spike_write_file", path=path, content=content, rationale="a change", **more)
    assert reply.outcome == "accepted", reply


def patch(o: Open, text: str) -> None:
    reply = o.call("spike_apply_patch", patch=text, rationale="a change")
    assert reply.outcome == "accepted", reply


def agrees(o: Open) -> None:
    assert judging.check(o.spike).exit is Exit.OK
    assert map_complaints(o.spike.root) == []


def test_changed_lines_here_and_there(o: Open) -> None:
    o.edit("src/long.py", "line 7\n", "seven\n")
    o.edit("src/long.py", "line 12\n", "")
    o.edit("src/long.py", "line 50\n", "line 50\nand more\n")
    o.edit("src/no_newline.py", "b", "b\nc")
    approve_all(o)
    agrees(o)


def test_new_files_are_shown_by_git_once_approved_and_no_sooner(o: Open) -> None:
    write(o, "src/new.py", "x = 1\n")
    write(o, "src/deep/er/new.py", "y = 2\n")
    assert git_diff(o.spike.work, o.spike.contract.baseline) == b""
    approve_all(o)
    shown = {name for name, _old, _new in hunks_of(git_diff(o.spike.work, baseline(o)))}
    assert shown == {"src/new.py", "src/deep/er/new.py"}
    agrees(o)


def baseline(o: Open) -> str:
    return o.spike.contract.baseline


def test_a_new_file_that_is_rejected_or_unapproved_is_not_shown(o: Open) -> None:
    write(o, "src/new.py", "x = 1\n")
    write(o, "src/other.py", "x = 2\n")
    approve_all(o)
    rejecting.undo(o.spike)
    rejecting.reject(o.spike, [h.id for h in current(o).hunks if h.path == "src/new.py"])
    assert git_diff(o.spike.work, baseline(o)) == b""
    approve_all(o)
    agrees(o)


def test_files_without_a_hunk(o: Open) -> None:
    """Created empty, deleted empty, emptied: git shows no hunk, or a whole one."""
    write(o, "src/blank.py", "")
    patch(o, "diff --git a/src/empty.py b/src/empty.py\ndeleted file mode 100644\n")
    patch(o, "--- a/src/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone soon\n")
    approve_all(o)
    agrees(o)


@pytest.mark.parametrize("name", ["src/café.py", "src/\U0001f600.py", 'src/a"b.py', "src/a b.py"])
def test_names_that_need_quoting(o: Open, name: str) -> None:
    write(o, name, "x = 1\n")
    approve_all(o)
    told = yaml.safe_load((o.spike.judge / "hunk-map.yml").read_text())
    assert [entry["file"] for entry in told["hunks"]] == [name]
    assert judging.check(o.spike).exit is Exit.OK


def test_a_tag_that_only_our_rule_takes_gets_a_word_in_brackets(tmp_path: Path) -> None:
    o = open_plain(
        tmp_path, hypothesis="answering 429 with a header makes callers wait", files=FILES
    )
    o.edit("src/a.py", "one\n", "uno\n")
    approve_all(o, tag="for the 429")
    agrees(o)


def test_nothing_pending_is_in_the_map(o: Open) -> None:
    o.edit("src/a.py", "one\n", "uno\n")
    approve_all(o)
    o.edit("src/a.py", "eight\n", "ocho\n")
    complaints = map_complaints(o.spike.root)
    assert judging.check(o.spike).exit is Exit.UNEXPLAINED
    assert complaints
    decisions.approve(o.spike, [current(o).pending[0].id], f"{TAG} again")
    agrees(o)
