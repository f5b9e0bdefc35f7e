"""Cut, killed, crowded and full: the ledger after each (spec 10; bugs B51, B53)."""

import hashlib
import json
import multiprocessing
import os
import random
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spike_mcp.core.codes import Actor, Problem, Refusal
from spike_mcp.core.rows import GENESIS, Row
from spike_mcp.host.clock import ManualClock, SystemClock
from spike_mcp.host.files import Blobs
from spike_mcp.host.ledger import Disk, Ledger, verify_chain
from spike_mcp.host.locks import SpikeLock

fork = multiprocessing.get_context("fork")
CLOCK = ManualClock()


def opened(judge: Path, disk: Disk | None = None) -> Ledger:
    (judge / "blobs").mkdir(exist_ok=True)
    return Ledger(judge, Blobs(judge / "blobs"), disk)


def hand_written(count: int) -> bytes:
    """A ledger as another writer may make it: valid, and with multi-byte characters in it."""
    prev, lines = GENESIS, []
    for seq in range(1, count + 1):
        row = {
            "seq": seq,
            "event": "noted",
            "at": "2025-06-15T15:06:40.000Z",
            "epoch": 1750000000.0,
            "boot_ms": seq,
            "boot": "b",
            "actor": "human",
            "prev": prev,
            "text": "größer 漢 🕷",
            "schema": 1,
        }
        lines.append(json.dumps(row, ensure_ascii=False).encode())
        prev = hashlib.sha256(lines[-1]).hexdigest()
    return b"".join(line + b"\n" for line in lines)


def test_cut_at_every_byte_it_keeps_whole_rows_and_goes_on(tmp_path: Path) -> None:
    """Whole rows stay, the torn rest is kept aside and recorded, and the next row stands alone."""

    class Fast(Disk):
        def sync(self, descriptor: int) -> None:
            pass

    data = hand_written(20)
    path = tmp_path / "ledger.jsonl"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = data.count(b"\n", 0, cut)
        start = data.rfind(b"\n", 0, cut) + 1
        tail = data[start:cut]
        view = opened(tmp_path, Fast())
        looking = view.read()
        assert len(looking) == whole and view.torn == bool(tail)
        assert path.read_bytes() == data[:cut]
        discarded = view.refresh(CLOCK.read())
        assert [row.event for row in discarded] == ["tail_discarded"] * bool(tail)
        if tail:
            digest = hashlib.sha256(tail).hexdigest()
            assert discarded[0].fields == {"length": len(tail), "sha256": digest}
            kept = tmp_path / "tails" / f"{start}-{digest[:16]}"
            assert kept.read_bytes() == tail
        view.append("noted", {"text": "after"}, Actor.HUMAN, CLOCK.read())
        after = opened(tmp_path)
        assert len(after.read()) == whole + bool(tail) + 1
        assert path.read_bytes().startswith(data[:start])
        assert after.head == view.head


@pytest.mark.parametrize(
    "tail", [b"\0" * 5000, b"\xff", b"{}", hand_written(1)[:-1], b"x" * 100_000, b"\r"]
)
def test_whatever_a_tail_is_made_of_it_is_no_row(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(hand_written(2) + tail)
    view = opened(tmp_path)
    assert [row.event for row in view.refresh(CLOCK.read())][2:] == ["tail_discarded"]
    assert verify_chain(path).rows == 3
    assert verify_chain(path).torn == 0


def test_a_crash_while_a_tail_is_discarded_leaves_a_tail_again(tmp_path: Path) -> None:
    """Stopped after each of its calls, the next holder finds whole rows and goes on."""

    class Stop(Exception):  # noqa: N818
        pass

    class Stopping(Disk):
        def __init__(self, calls: int, part: int | None) -> None:
            self.left, self.part = calls, part

        def _step(self) -> None:
            if self.left == 0:
                raise Stop
            self.left -= 1

        def overwrite(self, descriptor: int, data: bytes, offset: int) -> int:
            if self.part is not None:
                super().overwrite(descriptor, data[: self.part], offset)
                raise Stop
            self._step()
            return super().overwrite(descriptor, data, offset)

        def truncate(self, descriptor: int, size: int) -> None:
            self._step()
            super().truncate(descriptor, size)

        def sync(self, descriptor: int) -> None:
            self._step()
            super().sync(descriptor)

    path = tmp_path / "ledger.jsonl"
    plans = [(n, None) for n in range(3)] + [(9, part) for part in (0, 1, 60, 200)]
    for length in (1, 700):
        for calls, part in plans:
            path.write_bytes(hand_written(2) + b"t" * length)
            with pytest.raises(Stop):
                opened(tmp_path, Stopping(calls, part)).refresh(CLOCK.read())
            rows = opened(tmp_path).refresh(CLOCK.read())
            assert [row.event for row in rows[:2]] == ["noted", "noted"]
            assert {row.event for row in rows[2:]} == {"tail_discarded"}
            assert verify_chain(path).torn == 0


# --- several writers ----------------------------------------------------------------------------


def hammer(judge: Path, name: str, times: int) -> None:
    ledger, lock, clock = opened(judge), SpikeLock(judge), SystemClock()
    for number in range(times):
        with lock.hold(human=name == "human", timeout=60):
            ledger.refresh(clock.read())
            ledger.append("noted", {"by": name, "n": number}, Actor.HOST, clock.read())


def test_writers_hammering_lose_and_double_nothing(tmp_path: Path) -> None:
    opened(tmp_path).create()
    names = ("server 1", "server 2", "human")
    workers = [fork.Process(target=hammer, args=(tmp_path, name, 60)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    rows = opened(tmp_path).read()
    assert [row.seq for row in rows] == list(range(1, 181))
    for name in names:
        assert [row.fields["n"] for row in rows if row.fields["by"] == name] == list(range(60))


def write_for_ever(judge: Path, told: int) -> None:
    """Appends as fast as it can and tells each acknowledged row over a pipe."""
    ledger, lock, clock = opened(judge), SpikeLock(judge), SystemClock()
    while True:
        with lock.hold(human=False, timeout=60):
            ledger.refresh(clock.read())
            text = "x" * random.randrange(12_000)
            row = ledger.append("noted", {"text": text}, Actor.AGENT, clock.read())
        os.write(told, f"{row.seq} {row.raw_sha256}\n".encode())


def test_writers_killed_at_any_moment_lose_no_acknowledged_row(tmp_path: Path) -> None:
    opened(tmp_path).create()
    acknowledged: dict[int, str] = {}
    for round_ in range(25):
        reader, told = os.pipe()
        child = fork.Process(target=write_for_ever, args=(tmp_path, told))
        child.start()
        os.close(told)
        time.sleep(0.005 + random.random() * 0.03)
        child.kill()
        child.join()
        with open(reader, "rb") as pipe:
            for line in pipe.read().split(b"\n")[:-1]:
                seq, digest = line.split()
                acknowledged[int(seq)] = digest.decode()
        with SpikeLock(tmp_path).hold(human=True, timeout=5):
            rows = opened(tmp_path).refresh(CLOCK.read())
        kept = {row.seq: row.raw_sha256 for row in rows}
        assert acknowledged.items() <= kept.items(), f"round {round_}"
    assert acknowledged


# --- a full disk --------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root; the file size limit below covers the ledger's own path")
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(place: Path) -> None:
    with open(place / "filler", "ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"f" * size):
                    pass
            except OSError:
                continue


def test_on_a_full_disk_rows_are_refused_whole_and_later_taken(small_disk: Path) -> None:
    ledger = opened(small_disk)
    ledger.create()
    path = small_disk / "ledger.jsonl"
    rows: list[Row] = []

    def note(size: int) -> None:
        rows.append(ledger.append("noted", {"text": "x" * size}, Actor.HUMAN, CLOCK.read()))

    note(10)
    fill(small_disk)
    refusals = 0
    for size in (10, 1000, 5000, 20_000, 12_000, 3000):
        before = path.read_bytes()
        try:
            note(size)
        except Problem as problem:
            assert problem.code is Refusal.STORAGE_FULL
            assert path.read_bytes() == before
            refusals += 1
    assert refusals >= 4
    (small_disk / "filler").unlink()
    note(20_000)
    note(10)
    assert not ledger.failed
    assert opened(small_disk).read() == rows


def test_a_torn_tail_on_a_full_disk_waits_for_space(small_disk: Path) -> None:
    ledger = opened(small_disk)
    ledger.create()
    ledger.append("noted", {"text": "a"}, Actor.HUMAN, CLOCK.read())
    with open(small_disk / "ledger.jsonl", "ab") as file:
        file.write(b'{"seq":2,"event":"not')
    fill(small_disk)
    view = opened(small_disk)
    assert len(view.read()) == 1
    with pytest.raises(Problem) as caught:
        view.refresh(CLOCK.read())
    assert caught.value.code is Refusal.STORAGE_FULL
    (small_disk / "filler").unlink()
    assert [row.event for row in view.refresh(CLOCK.read())] == ["tail_discarded"]


def limited(judge: Path) -> None:
    ledger = opened(judge)
    ledger.read()
    size = (judge / "ledger.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))
    for _ in range(2):
        try:
            ledger.append("noted", {"text": "b"}, Actor.HUMAN, CLOCK.read())
        except Problem as problem:
            assert problem.code is Refusal.STORAGE_FULL
            assert (judge / "ledger.jsonl").stat().st_size == size
        else:
            raise AssertionError("written beyond the limit")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ledger.append("noted", {"text": "c"}, Actor.HUMAN, CLOCK.read())


def test_a_file_size_limit_in_the_middle_of_a_row_leaves_nothing_of_it(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.create()
    ledger.append("noted", {"text": "a"}, Actor.HUMAN, CLOCK.read())
    child = fork.Process(target=limited, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert [row.fields["text"] for row in opened(tmp_path).read()] == ["a", "c"]
