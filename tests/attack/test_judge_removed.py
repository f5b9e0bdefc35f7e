"""Who takes things out of judge/ or verdict/, or plants a judge elsewhere, wins no open end."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from acting import LONG, approve_all, ask, fix, refused, silent, verdict
from support import PLAIN, Open, open_plain, plain_options, snapshot

from spike_mcp.core import layout
from spike_mcp.edge import find
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.scoring import PREFIX, remove_leftovers
from spike_mcp.session import ending, judging, scoring
from spike_mcp.session.opening import init
from spike_mcp.session.spike import Spike

pytestmark = pytest.mark.security


def blob(o: Open, digest: str) -> None:
    (o.spike.judge / layout.BLOBS / digest).unlink()


def everything(o: Open) -> None:
    shutil.rmtree(o.spike.judge / layout.BLOBS)
    (o.spike.judge / layout.BLOBS).mkdir()
    (o.spike.judge / layout.CONTRACT).unlink()


def contents(o: Open) -> None:
    for state in o.spike.state.files.values():
        blob(o, state.sha256)


REMOVALS: dict[str, Callable[[Open], None]] = {
    "what ties work/ to its repository": lambda o: blob(o, o.spike.created.pointer),
    "the bytes of what was written": contents,
    "the manifest": lambda o: (o.spike.judge / layout.MANIFEST).unlink(),
    "all blobs and the contract": everything,
}


@pytest.fixture
def o(tmp_path: Path) -> Open:
    found = open_plain(tmp_path, clock=ManualClock(), files=LONG)
    fix(found)
    approve_all(found)
    return found


def again(o: Open) -> Spike:
    """The spike as the next process finds it."""
    return Spike(o.spike.root, o.spike.clock)


@pytest.mark.parametrize("removed", REMOVALS)
def test_a_judge_with_a_hole_still_gives_a_verdict_and_it_is_kill(o: Open, removed: str) -> None:
    REMOVALS[removed](o)
    spike = again(o)
    refused(lambda: judging.ask(spike, final=False, on_progress=silent))
    assert not (spike.verdict_dir / layout.RESULT).exists()
    answer = judging.ask(again(o), final=True, on_progress=silent)
    assert verdict(answer) == ("KILL", "ledger_damaged", 5)
    told = json.loads((spike.verdict_dir / layout.RESULT).read_bytes())
    assert told["decision"] == "KILL"


@pytest.mark.parametrize("removed", REMOVALS)
def test_a_judge_with_a_hole_can_be_closed(o: Open, removed: str) -> None:
    REMOVALS[removed](o)
    done = ending.kill(again(o))
    assert done.removed or done.kept
    told = json.loads((o.spike.verdict_dir / layout.RESULT).read_bytes())
    assert told["decision"] == "KILL"


def test_the_contract_is_read_from_its_other_copy_when_one_is_gone(o: Open) -> None:
    blob(o, o.spike.created.contract)
    assert verdict(judging.ask(again(o), final=True, on_progress=silent))[0] == "SHIP"


def test_a_planted_result_does_not_stand_beside_a_ledger_that_knows_of_none(o: Open) -> None:
    path = o.spike.verdict_dir / layout.RESULT
    path.write_text('{"decision": "SHIP", "reason": "oracle_unchanged_and_test_passed"}')
    assert verdict(ask(o, final=True)) == ("KILL", "ledger_damaged", 5)
    assert json.loads(path.read_bytes())["decision"] == "KILL"
    assert b"SHIP" in path.with_name(layout.DISPUTED).read_bytes()


# --- scoring copies -------------------------------------------------------------------------------


def test_one_scorer_does_not_clear_another_ones_copy_away(o: Open) -> None:
    with scoring.copy_of(o.spike) as tree, scoring.copy_of(again(o)) as other:
        assert (tree / "src/a.py").exists() and (other / "src/a.py").exists()
    assert not list(o.spike.root.glob(f"{PREFIX}*"))


def test_a_copy_whose_scorer_was_killed_is_cleared_away(o: Open) -> None:
    left = o.spike.root / f"{PREFIX}dead"
    left.mkdir()
    remove_leftovers(o.spike.root)
    assert not left.exists()


# --- judges that the agent planted ----------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["plain", "src/plain", "src/plain/work"])
def test_a_spike_that_an_agent_wrote_into_its_worktree_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """A name is tried as a path first, from wherever the human or the client stands."""
    o = open_plain(tmp_path)
    monkeypatch.setenv("SPIKE_HOME", str(tmp_path))
    for name in ("judge/ledger.jsonl", "work/readme.txt"):
        reply = o.call(
            "spike_write_file", path=f"src/plain/{name}", content="{}\n", rationale="a judge"
        )
        assert reply.outcome == "accepted"
    for cwd in (o.spike.work, o.spike.work / "src", o.spike.work / "src/plain"):
        monkeypatch.chdir(cwd)
        for here in (str(cwd), ""):
            try:
                place = find.locate(wanted, os.environ, here)
            except Exception as error:
                assert "spike_not_found" in str(getattr(error, "code", error))
            else:
                assert Path(place) == o.spike.root


# --- what setup made ------------------------------------------------------------------------------


def test_no_tool_writes_into_the_sealed_environment(tmp_path: Path) -> None:
    """A file there would be in no map and in every run."""
    setup = ("sh", "-c", "mkdir -p env/lib && echo one > env/lib/a.py")
    o = open_plain(tmp_path, files=PLAIN, allow=("**/*.py",), setup=setup, environment=("env/",))
    for path in ("env/lib/b.py", "env/new/b.py", "ENV/lib/b.py"):
        reply = o.call("spike_write_file", path=path, content="x\n", rationale="a module")
        assert reply.code == "path_protected"
    assert o.edit("env/lib/a.py", "one\n", "two\n").code == "path_protected"
    assert "one" in o.call("spike_read_file", path="env/lib/a.py").lines[0]


@pytest.mark.parametrize("place", ["work/nested", "work/src/nested", "judge/nested", "nested"])
def test_no_spike_is_opened_inside_another_one(tmp_path: Path, place: str) -> None:
    o = open_plain(tmp_path)
    before = snapshot(o.spike.root)
    options = plain_options(o.repo, o.spike.root / place, name="second")
    assert refused(lambda: init(options)) == "usage"
    assert snapshot(o.spike.root) == before
