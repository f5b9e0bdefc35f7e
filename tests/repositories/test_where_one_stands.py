"""Which spike a command means, from wherever it is given, and what is left when work/ is gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from init_world import Place, words
from refusal_world import check_told, command, run_json
from whole_story import TAG, Story
from wire import Wire

PATCH = b"--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+GREEN\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A plain repository."""
    return Place(tmp_path / "place", {"src/deep/er/b.txt": "b\n", "src/link.txt": "x\n"})


def at(place: Place, cwd: Path, *argv: str, **environ: str) -> tuple[int, dict[str, Any]]:
    """A command given while standing in `cwd`."""
    return run_json(*argv, cwd=cwd, env={**place.environ, **environ})


def test_from_inside_work_its_spike_is_meant_for_every_command(place: Place) -> None:
    made = place.opened(words())
    other = place.opened(words(name="other"))
    work, root = Path(made["work"]), made["root"]
    deep = work / "src/deep/er"
    assert at(place, deep, "start")[0] == 0
    (place.base / "fix.patch").write_bytes(PATCH)
    assert at(place, work, "apply", str(place.base / "fix.patch"))[0] == 0
    for cwd in (work, deep, Path(root), Path(root) / "judge", Path(root) / "verdict"):
        code, told = at(place, cwd, "status")
        assert (code, told["spike"], told["root"]) == (0, "new", root)
    _code, told = at(place, deep, "map")
    (hunk,) = [each["id"] for each in told["hunks"]]
    assert at(place, deep, "approve", hunk, "--tag", TAG)[0] == 0
    code, told = at(place, deep, "verdict")
    assert (code, told["decision"]) == (0, "SHIP")
    assert at(place, deep, "ship")[0] == 0
    assert at(place, Path(other["work"]), "status")[1]["spike"] == "other"


def test_from_inside_work_no_second_spike_is_opened_on_it(place: Place) -> None:
    """work/ is a checkout too: a spike of a spike would be one of the agent's making."""
    made = place.opened(words())
    code, told = at(place, Path(made["work"]), *words(name="inner"))
    if code == 0:
        assert told["root"] != made["root"]
        assert at(place, Path(made["work"]), "status")[1]["spike"] == "new"
        assert at(place, place.base, "--spike", "inner", "kill")[0] == 0
    assert at(place, place.base, "--spike", "new", "start")[0] == 0


def test_elsewhere_the_variable_and_the_option_say_which(place: Place) -> None:
    first, second = place.opened(words()), place.opened(words(name="second"))
    for name, root in (("new", first["root"]), ("second", second["root"])):
        for spelling in (name, root, f"{root}/work", f"{root}/"):
            code, told = at(place, place.base, "status", SPIKE=spelling)
            assert (code, told["spike"]) == (0, name), spelling
            code, told = at(place, place.base, "--spike", spelling, "status", SPIKE="nobody")
            assert (code, told["spike"]) == (0, name), spelling
    code, told = at(place, Path(first["work"]), "status", SPIKE="second")
    assert told["spike"] == "second"
    told = command("status", cwd=place.base, env={**place.environ, "SPIKE": "nobody"})
    check_told_69(told)
    assert "nobody" in told.message


def check_told_69(told: Any) -> None:
    """`spike_not_found`, told as everything else."""
    assert (told.code, told.exit) == ("spike_not_found", 69), told
    assert told.message and told.hint


def test_two_open_spikes_are_ambiguous_and_nothing_happens(place: Place) -> None:
    roots = [place.opened(words())["root"], place.opened(words(name="second"))["root"]]
    for argv in (("status",), ("start",), ("kill",), ("verdict", "--final")):
        told = command(*argv, cwd=place.repo, env=place.environ)
        check_told_69(told)
        assert all(root in told.message for root in roots) and "--spike" in told.hint
    assert at(place, place.repo, "--spike", "second", "kill")[0] == 0
    code, told = at(place, place.repo, "status")
    assert (code, told["spike"]) == (0, "new")


def test_the_server_never_takes_the_current_directory_for_a_spike(place: Place) -> None:
    made = place.opened(words())
    environ = {**place.environ, "SPIKE": ""}
    with Wire(None, env=environ, cwd=Path(made["work"])) as server:
        assert server.call("spike_status").startswith("refused: spike_not_found")
    with Wire(None, env={**environ, "SPIKE": made["root"]}, cwd=Path("/")) as server:
        assert server.call("spike_status").startswith("spike new")


def test_a_current_directory_that_is_gone_is_no_obstacle(place: Place) -> None:
    made = place.opened(words())
    gone = place.base / "gone"
    gone.mkdir()
    line = f"cd {gone} && rmdir {gone} && exec "
    import json
    import subprocess
    import sys

    def run(*argv: str) -> tuple[int, Any]:
        quoted = " ".join([sys.executable, "-m", "spike_mcp.edge.cli", *argv, "--json"])
        done = subprocess.run(
            ["sh", "-c", line + quoted], env=place.environ, capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr, done.stderr
        gone.mkdir()
        return done.returncode, json.loads(done.stdout)

    assert run("status")[1]["spike"] == "new"
    code, told = run("status", "--spike", made["root"])
    assert (code, told["spike"]) == (0, "new")
    code, told = run("init", "x", "--hypothesis", "'the sample lines are green'")
    assert (code, told["error"]["code"]) == (64, "not_a_repository")


GONE = ("removed", "moved", "emptied", "a file", "a link", "unreadable entry")


@pytest.mark.parametrize("how", GONE)
def test_without_its_worktree_a_spike_is_killed_and_says_so(how: str, place: Place) -> None:
    story = Story(place, place.repo)
    story.start()
    story.fix()
    (hunk,) = [each["id"] for each in story.human("map")["hunks"]]
    moved = place.base / "moved"
    if how in ("moved", "a link"):
        os.rename(story.work, moved)
    elif how != "unreadable entry":
        shutil.rmtree(story.work)
    if how == "emptied":
        story.work.mkdir()
    elif how == "a file":
        story.work.write_text("x\n")
    elif how == "a link":
        story.work.symlink_to(moved)
    elif how == "unreadable entry":
        shutil.rmtree(place.repo / ".git/worktrees")
    for told in (
        story.edit("three\n", "3\n"),
        story.agent("spike_run_test"),
        story.agent("spike_read_file", path="src/a.py"),
        _human(story, "approve", hunk, "--tag", TAG),
        _human(story, "apply", _patch(place)),
    ):
        check_told(told, "worktree_tampered")
    # Looking goes on: what was done is in the judge, not in work/.
    for argv in (("status",), ("map",), ("show", hunk), ("diff",), ("log",), ("report",)):
        story.human(*argv)
    code, told = run_json("--spike", str(story.root), "check", env=place.environ)
    assert (code, told["decision"]) == (5, "tampered")
    code, told = run_json("--spike", str(story.root), "verdict", "--final", env=place.environ)
    assert (code, told["decision"], told["reason"]) == (5, "KILL", "worktree_tampered")
    assert story.human("verify")["ok"]
    _ends(story, how, moved)


def _human(story: Story, *argv: str) -> Any:
    return command("--spike", str(story.root), *argv, env=story.place.environ)


def _patch(place: Place) -> str:
    file = place.base / "fix.patch"
    file.write_bytes(PATCH)
    return str(file)


def _ends(story: Story, how: str, moved: Path) -> None:
    """kill and rm clear up what is ours, and touch nothing that is not."""
    if how in ("a file", "a link"):
        check_told(_human(story, "kill"), "worktree_tampered")
        check_told(_human(story, "rm"), "worktree_tampered")
        assert os.path.lexists(story.work)
        story.work.unlink()  # as the hint says
    elif how != "emptied":
        story.human("kill")
    else:  # the directory may have got the number of the old one
        _human(story, "kill")
        if story.work.exists():
            story.work.rmdir()
    story.human("rm")
    assert not story.root.exists()
    assert story.git("branch", "--list", "spike/*") == ""
    assert story.git("worktree", "list", "--porcelain").count("worktree ") == 1
    if how in ("moved", "a link"):
        assert (moved / "src/a.py").exists()
    with story.server as server:
        server.close()


def test_after_kill_the_ledger_and_the_verdict_stay_readable(place: Place) -> None:
    story = Story(place, place.repo)
    story.start()
    story.fix()
    assert story.human("kill", "--note", "it looked elsewhere")["reason"] == "closed_by_human"
    assert not story.work.exists()
    for argv in (("status",), ("map",), ("log",), ("report",), ("list",)):
        story.human(*argv)
    assert run_json("--spike", str(story.root), "verdict", env=place.environ)[0] == 7
    told = story.edit("three\n", "3\n")
    check_told(told, "spike_closed")
    check_told(_human(story, "kill"), "spike_closed")
    assert story.human("verify")["ok"]
    story.human("rm")
    told = story.agent("spike_status")
    assert told.code == "spike_not_found" and "removed" in told.message
