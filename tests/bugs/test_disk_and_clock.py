"""B53, B54: a disk that fills up under the spike, and a laptop that sleeps through it.

Real processes throughout: the disk is a mount of its own, the clock is put forward beneath every
process of the spike, whoever starts it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from refusal_world import Told, answered, command, run_json
from support import PLAIN, Open, make_repo, open_plain, plain_options, snapshot
from wire import Wire, rows, wait_for_row

from spike_mcp.session.opening import init
from spike_mcp.session.starting import start

pytestmark = pytest.mark.security

WHY = "rewriting the lines of the sample"
TAG = "rewriting the sample lines"

# --- B53 ----------------------------------------------------------------------------------------


def on_a_small_disk(test: Callable[[Path, Path], None]) -> Callable[..., None]:
    """Give a test a file system of one MiB; an ordinary user gets it in a namespace of his own."""

    def wrapped(tmp_path: Path, request: pytest.FixtureRequest) -> None:
        if os.geteuid() != 0:
            _as_root_of_a_namespace(request.node.nodeid, tmp_path)
            return
        disk = tmp_path / "small"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(disk)]
        subprocess.run(mount, capture_output=True, check=True)
        try:
            test(tmp_path, disk)
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def _as_root_of_a_namespace(name: str, tmp_path: Path) -> None:
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    pytest_again = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", name]
    done = subprocess.run(
        [*own, *pytest_again, "--basetemp", str(tmp_path / "again")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def fill(place: Path) -> None:
    """To the last byte."""
    with (place / "filler").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"f" * size):
                    pass
            except OSError:
                continue


def open_on(disk: Path, tmp: Path) -> Open:
    """A started spike on the small disk; the user's repository is elsewhere."""
    repo = make_repo(tmp / "repo", PLAIN)
    with patch.dict(os.environ, {"PATH": "/usr/bin:/bin"}):
        made = init(plain_options(repo, disk / "root"))
        start(made.spike, on_progress=lambda _text: None)
    return Open(made.spike, repo)


class Box:
    """A spike, its server, its command line; one environment for all of them."""

    def __init__(self, opened: Open, **environ: str) -> None:
        self.opened, self.root = opened, opened.spike.root
        self.environ = {**os.environ, **environ}
        self.server = Wire(self.root, env=environ)

    def edit(self, old: str, new: str) -> Told:
        """`spike_edit_file` on the sample."""
        arguments = {"path": "src/a.py", "old_text": old, "new_text": new, "rationale": WHY}
        return answered(self.server, "spike_edit_file", arguments)

    def call(self, tool: str, **arguments: Any) -> Told:
        """A tools/call."""
        return answered(self.server, tool, arguments)

    def human(self, *argv: str) -> Told:
        """A `spike` command, perhaps refused."""
        return command("--spike", str(self.root), *argv, env=self.environ)

    def json(self, *argv: str) -> tuple[int, dict[str, Any]]:
        """A `spike` command: exit code and object."""
        return run_json("--spike", str(self.root), *argv, env=self.environ)

    def pending(self) -> list[str]:
        """Ids of hunks that wait."""
        return [h["id"] for h in self.json("map")[1]["hunks"] if h["state"] == "pending"]

    def contents(self) -> dict[str, Any]:
        """work/, verdict/ and what of judge/ is no log or cache."""
        moving = ("ledger.jsonl", "lock", "lock.turn", "stat-cache", "server.log", "blobs")
        found = {f"judge/{k}": v for k, v in snapshot(self.root / "judge", moving).items()}
        found |= {f"verdict/{k}": v for k, v in snapshot(self.root / "verdict").items()}
        return found | {f"work/{k}": v for k, v in snapshot(self.root / "work").items()}


@on_a_small_disk
def test_b53_on_a_full_disk_nothing_is_lost_and_it_goes_on_when_there_is_room(
    tmp_path: Path, small_disk: Path
) -> None:
    opened = open_on(small_disk, tmp_path)
    box = Box(opened)
    with box.server:
        assert box.edit("two\n", "2\n").code == ""
        (hunk,) = box.pending()
        before, known = box.contents(), rows(opened)
        fill(small_disk)
        fix = tmp_path / "fix.patch"
        fix.write_text("--- a/src/a.py\n+++ b/src/a.py\n@@ -3,2 +3,2 @@\n three\n-four\n+4\n")
        for told in (
            box.edit("three\n", "GREEN\n"),
            box.call("spike_apply_patch", patch=fix.read_text(), rationale=WHY),
            box.human("approve", hunk, "--tag", TAG),
            box.human("reject", hunk),
            box.human("apply", str(fix)),
            box.human("verdict", "--final"),
        ):
            assert told.code == "storage_full" and told.message and told.hint, told
            assert told.exit in (-1, 78)
            assert box.contents() == before
        # The ledger's last page may have room for some rows: then a question is answered, and a run
        # whose output is known already counts.
        assert box.human("verdict").code in ("", "storage_full")
        told = box.call("spike_run_test")
        ended = any(row["event"] == "run_finished" for row in rows(opened)[len(known) :])
        assert told.code == "storage_full" or (told.code == "" and ended), told
        assert box.contents() == before
        assert not (box.root / "verdict/result.json").exists()
        # Every row that stood stands, and what came after is no decision and no patch.
        assert rows(opened)[: len(known)] == known
        late = {row["event"] for row in rows(opened)[len(known) :]}
        assert not late & {"patch_applied", "hunk_approved", "hunk_rejected", "verdict"}
        code, told = box.json("status")
        assert (code, told["hunks"]["pending"]) == (0, 1)

        (small_disk / "filler").unlink()
        assert box.edit("three\n", "GREEN\n").code == ""
        assert box.call("spike_run_test").message.split()[1].startswith("green")
        for each in box.pending():
            assert box.human("approve", each, "--tag", TAG).code == ""
        code, told = box.json("verdict")
        assert (code, told["decision"]) == (0, "SHIP"), told
        assert box.json("verify")[1]["ok"]
        patches = [row["patch"] for row in rows(opened) if row["event"] == "patch_applied"]
        assert len(patches) == len(set(patches)) == 2


@on_a_small_disk
def test_b53_a_verdict_that_can_not_be_recorded_is_none(tmp_path: Path, small_disk: Path) -> None:
    opened = open_on(small_disk, tmp_path)
    box = Box(opened)
    with box.server:
        assert box.edit("two\n", "GREEN\n").code == ""
        assert box.human("approve", *box.pending(), "--tag", TAG).code == ""
        fill(small_disk)
        told = box.human("verdict")
        assert told.code == "storage_full"
        told = box.human("ship")
        assert told.code in ("not_started", "storage_full"), told
        assert not (box.root / "verdict/result.json").exists()
        (small_disk / "filler").unlink()
        code, found = box.json("verdict")
        assert (code, found["decision"], found["written"]) == (0, "SHIP", True)


# --- B54 ----------------------------------------------------------------------------------------

_SHIFTED = '''\
"""Every process that finds this module at its start has clocks that a file puts forward."""
import os
import time

_PLACE = os.environ["SPIKE_TEST_CLOCK"]
_time, _gettime = time.time, time.clock_gettime


def _shift():
    try:
        with open(_PLACE) as file:
            awake, asleep = map(float, file.read().split())
    except (OSError, ValueError):
        return 0.0, 0.0
    return awake, asleep


def _later(clock):
    awake, asleep = _shift()
    return _gettime(clock) + awake + (asleep if clock == time.CLOCK_BOOTTIME else 0.0)


time.time = lambda: _time() + sum(_shift())
time.clock_gettime = _later
'''


class Sleeper:
    """Clocks that pass when told: `awake` minutes on all of them, `asleep` on none that stands."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        (place / "sitecustomize.py").write_text(_SHIFTED)
        self._file = place / "clock"
        self.environ = {"PYTHONPATH": str(place), "SPIKE_TEST_CLOCK": str(self._file)}

    def passes(self, awake: float, asleep: float = 0.0) -> None:
        """Minutes since the beginning of the test."""
        aside = self._file.with_name("aside")
        aside.write_text(f"{awake * 60} {asleep * 60}\n")
        aside.rename(self._file)


def test_b54_a_suspended_laptop_spends_its_budget(tmp_path: Path) -> None:
    opened = open_plain(tmp_path)
    sleeper = Sleeper(tmp_path / "sleeper")
    box = Box(opened, **sleeper.environ)
    with box.server:
        assert box.edit("two\n", "GREEN\n").code == ""
        code, told = box.json("status")
        assert told["remaining_seconds"] > 85 * 60
        sleeper.passes(60)
        code, told = box.json("status")
        assert (code, round(told["remaining_seconds"] / 60)) == (0, 30)

        sleeper.passes(65, asleep=240)
        for told in (
            box.call("spike_run_test"),
            box.edit("three\n", "3\n"),
            box.call("spike_status"),
        ):
            assert told.code == "budget_spent"
            assert "suspended 4h00m" in told.message
        wait_for_row(opened, "verdict")  # the server saw to it, whatever the human does
    code, result = box.json("verdict", "--final")
    assert (code, result["decision"], result["reason"]) == (3, "KILL", "deadline_exceeded")
    assert result["elapsed_sec"] == result["deadline_sec"] == 90 * 60
    assert "suspended 4h00m" in result["clock"]
    assert box.human("ship").code == "not_authorised"
    started = next(row for row in rows(opened) if row["event"] == "started")
    ended = next(row for row in rows(opened) if row["event"] == "verdict")
    passed = {name: (ended[name] - started[name]) / 60_000 for name in ("boot_ms", "mono_ms")}
    assert 304 < passed["boot_ms"] < 310 and 64 < passed["mono_ms"] < 70
    assert 304 < (ended["epoch"] - started["epoch"]) / 60 < 310


def test_b54_a_nap_within_the_budget_counts_too(tmp_path: Path) -> None:
    opened = open_plain(tmp_path)
    sleeper = Sleeper(tmp_path / "sleeper")
    box = Box(opened, **sleeper.environ)
    with box.server:
        assert box.edit("two\n", "GREEN\n").code == ""
        sleeper.passes(1, asleep=20)
        _code, told = box.json("status")
        assert round(told["remaining_seconds"] / 60) == 69
        assert box.call("spike_run_test").code == ""
        assert box.human("approve", *box.pending(), "--tag", TAG).code == ""
        sleeper.passes(1, asleep=25)
        code, told = box.json("verdict")
        assert (code, told["decision"]) == (0, "SHIP"), told
        assert "suspended" in told["clock"]
        sleeper.passes(5, asleep=600)  # after the verdict time means nothing any more
        assert box.json("verdict")[1]["decision"] == "SHIP"
        assert box.json("verify")[1]["ok"]
