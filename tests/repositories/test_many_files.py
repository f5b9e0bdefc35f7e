"""A repository of many files: progress is shown, and a write costs what it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from init_world import Place
from support import Open
from whole_story import Story, fast_import

from spike_mcp.host.sweep import Sweeper
from spike_mcp.session.spike import Spike


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_whole_spike_among_many_files(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "place")
    place.git("config", "gc.auto", "0")
    fast_import(place.repo, (f"lib/d{n // 100}/f{n}.txt" for n in range(count)))
    # The index knows them all; the user has not checked them out.
    place.git("read-tree", "HEAD")
    story = Story(place, place.repo)
    _progress_is_shown(story.progress, count + 3)
    assert sum(len(names) for _top, _dirs, names in os.walk(story.work / "lib")) == count
    story.start()
    _a_write_looks_at_what_it_changes(story, monkeypatch)
    (story.work / "lib/d7/stray.txt").write_text("not by the tools\n")
    told = story.agent("spike_run_test")
    assert told.code == "out_of_band_change" and "lib/d7/stray.txt" in told.message
    (story.work / "lib/d7/stray.txt").unlink()
    result = story.ship()
    assert result["patch_lines"] == 2
    assert place.git("diff", "--name-only", "main", "spike/new") == "src/a.py"


def _progress_is_shown(said: str, total: int) -> None:
    """What `spike init` wrote on stderr as it went, in lines: no terminal is there."""
    for what in ("checked out", "recorded"):
        told = [line for line in said.splitlines() if line.startswith(what)]
        assert 2 <= len(told) < 200, said[-2000:]
        assert all(line.endswith(f"of {total} files") for line in told)
    assert "\r" not in said


def _a_write_looks_at_what_it_changes(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a sweep of the tree nor a walk of the other directories."""
    looked: list[str] = []
    scandir, listdir = os.scandir, os.listdir

    def noted(list_it):  # type: ignore[no-untyped-def]
        def look(path="."):  # type: ignore[no-untyped-def]
            looked.append(os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else path)
            return list_it(path)

        return look

    with monkeypatch.context() as patch:
        patch.setattr(Sweeper, "sweep", lambda *_a, **_k: pytest.fail("the tree was swept"))
        patch.setattr(os, "scandir", noted(scandir))
        patch.setattr(os, "listdir", noted(listdir))
        opened = Open(Spike(story.root), story.cwd)
        reply = opened.edit("src/a.py", "two\n", "GREEN\n")
    assert reply.outcome == "accepted", reply
    inside = {os.fsdecode(path) for path in looked if str(story.work) in os.fsdecode(path)}
    assert not [path for path in inside if "/lib" in path.removeprefix(str(story.work))], inside
