"""Real processes on one spike: killed, crowded, and on a real disk that is full (B20, B53)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acting import LONG, approve_all, ask
from frozen import Frozen, quick_directory
from support import Open, open_plain
from test_session_crash import FILES, PATCH, check_sound, disk, events, send_patch

from spike_mcp.core.codes import Exit, Problem
from spike_mcp.host.clock import SystemClock
from spike_mcp.host.ledger import verify_chain
from spike_mcp.session import decisions, ending, judging

WORKER = Path(__file__).parent / "worker.py"


@pytest.fixture(scope="module")
def frozen() -> Iterator[Frozen]:
    with quick_directory() as place:
        long = "".join(f"line {n}\n" for n in range(1, 201))
        yield Frozen(
            place, files={**FILES, "src/a.py": long}, clock=SystemClock(), budgets={"total": 600}
        )


def start(o: Open, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WORKER), str(o.spike.root), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process: subprocess.Popen[bytes]) -> Any:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    return json.loads(out)


def thawed(frozen: Frozen) -> Open:
    return frozen.thaw(SystemClock())


@pytest.mark.parametrize("what", ["patch", "reject", "verdict"])
@pytest.mark.parametrize("number", [1, 5, 9, 14, 20, 26])
def test_sigkill(frozen: Frozen, what: str, number: int) -> None:
    o = thawed(frozen)
    baseline = disk(o)
    send_patch(o)
    patched = disk(o)
    if what == "patch":
        o = thawed(frozen)
    if what == "verdict":
        approve_all(o)
    lines = (o.spike.judge / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    process = start(o, what, number)
    _out, err = process.communicate(timeout=120)
    assert process.returncode in (-signal.SIGKILL, 0), err.decode()
    o = frozen.reopen(SystemClock())
    check_sound(o, lines, (baseline, patched))
    if what == "patch" and disk(o) == baseline:
        send_patch(o)
        assert disk(o) == patched
    if what == "verdict":
        assert disk(o) == patched
        assert ask(o).exit is Exit.OK
        assert (o.spike.verdict_dir / "result.json").exists()
    assert not any(r.code == "out_of_band" for r in judging.check(o.spike).reasons)


def test_two_agents_and_a_human_lose_and_double_nothing(frozen: Frozen) -> None:
    o = thawed(frozen)
    workers = [start(o, "agent", 1), start(o, "agent", 2)]
    human = start(o, "human")
    accepted = [patch for worker in workers for patch in end(worker)]
    end(human)
    o = frozen.reopen(SystemClock())
    assert verify_chain(o.spike.judge / "ledger.jsonl").torn == 0
    rows = [row["patch"] for row in events(o) if row["event"] == "patch_applied"]
    assert len(accepted) == len(set(accepted)) == 24
    assert sorted(rows) == sorted(accepted)
    assert rows == [f"P{n}" for n in range(1, len(rows) + 1)], "the ledger's order is the order"
    kinds = ("hunk_approved", "commented", "hunk_rejected", "undone")
    made = [row["decision"] for row in events(o) if row["event"] in kinds]
    assert len(made) == len(set(made)) > 5
    assert o.spike.work_bytes("src/a.py") == (o.spike.work / "src/a.py").read_bytes()
    rejected = sum(row["event"] == "hunk_rejected" for row in events(o))
    undone = sum(row["event"] == "undone" for row in events(o))
    text = (o.spike.work / "src/a.py").read_text()
    if rejected == undone:
        assert all(f"writer {w} turn {t}\n" in text for w in (1, 2) for t in range(12))
    assert not any(r.code == "out_of_band" for r in judging.check(o.spike).reasons)


def test_no_file_may_grow(frozen: Frozen) -> None:
    """RLIMIT_FSIZE: the ledger can't grow, although small blobs still can."""
    o = thawed(frozen)
    before = disk(o)
    size = (o.spike.judge / "ledger.jsonl").stat().st_size
    for limit in (size, size + 100, size + 900):
        assert end(start(o, "small", limit)) == "storage_full"
        assert disk(o) == before
    lines = (o.spike.judge / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    check_sound(frozen.reopen(SystemClock()), lines, (before, before))
    assert end(start(o, "small", 1 << 30)) == "accepted"


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 3 MiB, or a skip: mounting one takes root."""
    where = tmp_path / "tiny"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(where)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=False)


def test_a_full_file_system(tiny: Path) -> None:
    o = open_plain(tiny, files=LONG)
    patch = PATCH.partition("--- a/src/b.py")[0]
    filler = tiny / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 8, 1):
                while True:
                    try:
                        file.write(b"x" * size)
                    except OSError:
                        break

    fill()
    before = disk(o)
    reply = o.call("spike_apply_patch", patch=patch, rationale="all of it")
    assert reply.code == "storage_full"
    assert disk(o) == before
    filler.unlink()
    assert o.call("spike_apply_patch", patch=patch, rationale="again").outcome == "accepted"
    fill()
    with pytest.raises(Problem) as found:
        approve_all(o)
    assert found.value.code == "storage_full"
    filler.unlink()
    approve_all(o)
    fill()
    for _ in range(2):
        with pytest.raises(Problem) as found:
            ask(o)
        assert found.value.code == "storage_full"
        assert not (o.spike.verdict_dir / "result.json").exists()
        with pytest.raises(Problem):
            ending.ship(o.spike)
    filler.unlink()
    assert decisions.comment(o.spike, hunk(o), "room again")
    assert ask(o).exit is Exit.OK
    assert ending.verify(o.spike.root).findings == ()


def hunk(o: Open) -> str:
    from spike_mcp.session.view import hunk_map

    return hunk_map(o.spike).hunks[0].id
