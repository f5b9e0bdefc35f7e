"""The ledger: what is read is proven, what is appended is whole (spec 10)."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from spike_mcp.core.codes import Actor, Problem, Refusal, Usage
from spike_mcp.core.rows import GENESIS, MAX_ROW
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.files import Blobs
from spike_mcp.host.ledger import Disk, Ledger, verify_chain

CLOCK = ManualClock()


def opened(judge: Path, disk: Disk | None = None) -> Ledger:
    (judge / "blobs").mkdir(exist_ok=True)
    return Ledger(judge, Blobs(judge / "blobs"), disk)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = opened(tmp_path)
    made.create()
    return made


def note(ledger: Ledger, text: str = "a"):
    return ledger.append("noted", {"text": text}, Actor.HUMAN, CLOCK.read())


def refused(code: Refusal | Usage):
    class Check:
        def __enter__(self):
            self.caught = pytest.raises(Problem)
            self.info = self.caught.__enter__()
            return self.info

        def __exit__(self, *exc):
            done = self.caught.__exit__(*exc)
            assert self.info.value.code is code
            return done

    return Check()


def test_a_new_ledger_is_private_empty_and_made_once(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "ledger.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b""
    assert ledger.read() == [] and ledger.head == (GENESIS, 0)
    with refused(Usage.SPIKE_EXISTS):
        ledger.create()


def test_rows_chain_by_the_hash_of_the_line_before(tmp_path: Path, ledger: Ledger) -> None:
    for text in ("a", "ü", "c"):
        note(ledger, text)
    lines = (tmp_path / "ledger.jsonl").read_bytes().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["seq"] for row in rows] == [1, 2, 3]
    assert [row["prev"] for row in rows] == [
        GENESIS,
        hashlib.sha256(lines[0]).hexdigest(),
        hashlib.sha256(lines[1]).hexdigest(),
    ]
    assert rows[0]["at"] == "2025-06-15T15:06:40.000Z"
    assert ledger.head == (hashlib.sha256(lines[2]).hexdigest(), 3)
    chain = verify_chain(tmp_path / "ledger.jsonl")
    assert (chain.head, chain.rows, chain.torn) == (*ledger.head, 0)


def test_each_object_reads_what_is_new_to_it(tmp_path: Path, ledger: Ledger) -> None:
    mine = note(ledger)
    other = opened(tmp_path)
    assert other.read() == [mine]
    theirs = note(other, "b")
    assert other.read() == []
    assert ledger.read() == [theirs]
    assert ledger.read() == []


def test_rows_that_belong_together_are_one_write(tmp_path: Path) -> None:
    calls: list[int] = []

    class Counting(Disk):
        def write(self, descriptor: int, data: bytes) -> int:
            calls.append(len(data))
            return super().write(descriptor, data)

    ledger = opened(tmp_path, Counting())
    ledger.create()
    rows = ledger.append_many([("one", {}), ("two", {"n": 2})], Actor.HOST, CLOCK.read())
    assert len(calls) == 1
    assert opened(tmp_path).read() == rows
    assert ledger.append_many([], Actor.HOST, CLOCK.read()) == []


def test_an_append_needs_a_fresh_read(tmp_path: Path, ledger: Ledger) -> None:
    ledger.read()
    row = note(opened(tmp_path))
    with pytest.raises(RuntimeError):
        note(ledger)
    assert ledger.read() == [row]
    note(ledger)


def test_long_fields_live_in_blobs_and_come_back(tmp_path: Path, ledger: Ledger) -> None:
    fields = {
        "spans": [["src/a.py", "modify", [["f" * 64, n, 1, 1] for n in range(400)]]],
        "patch": "P1",
        "reason": "x" * 20_000,
        "short": "y",
    }
    row = ledger.append("patch_applied", fields, Actor.AGENT, CLOCK.read())
    assert row.fields == fields
    raw = (tmp_path / "ledger.jsonl").read_bytes()
    assert len(raw) < MAX_ROW
    assert set(json.loads(raw)["spill"]) == {"spans", "reason"}
    assert opened(tmp_path).read() == [row]


def test_a_field_just_too_long_spills_alone(tmp_path: Path, ledger: Ledger) -> None:
    for length in range(MAX_ROW - 320, MAX_ROW, 7):
        row = ledger.append("noted", {"text": "z" * length, "n": 1}, Actor.HUMAN, CLOCK.read())
        assert len(row.fields["text"]) == length
    assert len(opened(tmp_path).read()) == ledger.head[1]
    assert all(len(x) + 1 < MAX_ROW for x in (tmp_path / "ledger.jsonl").read_bytes().split(b"\n"))


def test_more_fields_than_a_row_can_name_are_an_error_not_a_row(
    tmp_path: Path, ledger: Ledger
) -> None:
    with pytest.raises(ValueError):
        ledger.append("x", {f"{n:0100}": 1 for n in range(500)}, Actor.HOST, CLOCK.read())
    assert (tmp_path / "ledger.jsonl").stat().st_size == 0
    note(ledger)


@pytest.mark.parametrize("harm", ["missing", "changed"])
def test_a_lost_blob_of_a_row_is_damage(tmp_path: Path, ledger: Ledger, harm: str) -> None:
    ledger.append("noted", {"text": "x" * 20_000}, Actor.HUMAN, CLOCK.read())
    [blob] = (tmp_path / "blobs").iterdir()
    blob.chmod(0o600)
    if harm == "missing":
        blob.unlink()
    else:
        blob.write_bytes(blob.read_bytes().replace(b"x", b"y", 1))
    with refused(Refusal.LEDGER_DAMAGED):
        opened(tmp_path).read()


def test_unwritable_fields_leave_no_trace(tmp_path: Path, ledger: Ledger) -> None:
    for fields in ({"x": float("nan")}, {"seq": 4}):
        with pytest.raises(ValueError):
            ledger.append("x", fields, Actor.HOST, CLOCK.read())
    with pytest.raises(TypeError):
        ledger.append("x", {"x": object()}, Actor.HOST, CLOCK.read())
    assert (tmp_path / "ledger.jsonl").stat().st_size == 0


# --- damage -------------------------------------------------------------------------------------


def test_a_damaged_middle_is_named_by_row_and_byte(tmp_path: Path, ledger: Ledger) -> None:
    for text in ("a", "b", "c"):
        note(ledger, text)
    path = tmp_path / "ledger.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], lines[1].replace(b'"b"', b'"B"'), *lines[2:]]))
    with refused(Refusal.LEDGER_DAMAGED) as caught:
        opened(tmp_path).read()
    assert f"row 3, byte {len(lines[0]) + len(lines[1]) + 2}" in caught.value.message
    with refused(Refusal.LEDGER_DAMAGED):
        verify_chain(path)
    with refused(Refusal.LEDGER_DAMAGED):
        note(ledger)


@pytest.mark.parametrize(
    "harm",
    [
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [lines[0], lines[0], *lines[1:]],
        lambda lines: [lines[0], b"", *lines[1:]],
        lambda lines: [lines[0] + lines[1], *lines[2:]],
        lambda lines: lines[1:],
        lambda lines: [*lines[:3], b"garbage", b""],
        lambda lines: [x + b"\r" if x else x for x in lines],
    ],
)
def test_rows_taken_out_moved_doubled_or_glued_are_damage(
    tmp_path: Path, ledger: Ledger, harm
) -> None:
    for text in ("a", "b", "c"):
        note(ledger, text)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"\n".join(harm(path.read_bytes().split(b"\n"))))
    with refused(Refusal.LEDGER_DAMAGED):
        opened(tmp_path).read()


def test_every_flipped_byte_is_seen(tmp_path: Path, ledger: Ledger) -> None:
    """By anyone while a row follows, by a process that saw it also in the last row."""
    for text in ("a", "b", "c"):
        note(ledger, text)
    path = tmp_path / "ledger.jsonl"
    good = path.read_bytes()
    last = good.rindex(b"\n", 0, -1) + 1
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with refused(Refusal.LEDGER_DAMAGED):
            ledger.read()
        if at < last:
            with refused(Refusal.LEDGER_DAMAGED):
                opened(tmp_path).read()
    path.write_bytes(good)
    assert ledger.read() == []


@pytest.mark.parametrize("cut", [0, 1, 300])
def test_a_ledger_shorter_than_seen_before_is_damage(
    tmp_path: Path, ledger: Ledger, cut: int
) -> None:
    for _ in range(4):
        note(ledger)
    os.truncate(tmp_path / "ledger.jsonl", cut)
    with refused(Refusal.LEDGER_DAMAGED):
        ledger.read()
    with refused(Refusal.LEDGER_DAMAGED):
        note(ledger)


def test_another_whole_ledger_in_its_place_is_damage(tmp_path: Path, ledger: Ledger) -> None:
    note(ledger, "mine")
    (tmp_path / "ledger.jsonl").rename(tmp_path / "kept")
    other = opened(tmp_path)
    other.create()
    for _ in range(3):
        note(other, "theirs")
    with refused(Refusal.LEDGER_DAMAGED):
        ledger.read()
    (tmp_path / "kept").replace(tmp_path / "ledger.jsonl")
    assert ledger.read() == []


def test_a_missing_ledger_and_a_symlink_are_damage(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "ledger.jsonl"
    path.rename(tmp_path / "elsewhere")
    for view in (ledger, opened(tmp_path)):
        with refused(Refusal.LEDGER_DAMAGED):
            view.read()
    path.symlink_to("elsewhere")
    with refused(Refusal.LEDGER_DAMAGED):
        opened(tmp_path).read()
    with refused(Refusal.LEDGER_DAMAGED):
        note(ledger)


# --- storage that fails -------------------------------------------------------------------------


class Failing(Disk):
    """Fails the named calls with an error number; `part` bytes of a write get through."""

    def __init__(self, **errors: int) -> None:
        self.errors = errors
        self.part: int | None = None

    def _call(self, name: str) -> None:
        if name in self.errors:
            raise OSError(self.errors[name], os.strerror(self.errors[name]))

    def write(self, descriptor: int, data: bytes) -> int:
        if self.part is not None:
            return super().write(descriptor, data[: self.part])
        self._call("write")
        return super().write(descriptor, data)

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if self.part is not None:
            return super().overwrite(descriptor, data[: self.part], offset)
        self._call("overwrite")
        return super().overwrite(descriptor, data, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        self._call("truncate")
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._call("sync")
        super().sync(descriptor)


def test_a_full_disk_leaves_no_part_of_a_row_and_the_spike_goes_on(tmp_path: Path) -> None:
    disk = Failing()
    ledger = opened(tmp_path, disk)
    ledger.create()
    first = note(ledger)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    for part in (0, 1, 100):
        disk.part = part
        with refused(Refusal.STORAGE_FULL):
            note(ledger)
        assert (tmp_path / "ledger.jsonl").read_bytes() == before
        assert not ledger.failed
    disk.part = None
    second = note(ledger)
    assert opened(tmp_path).read() == [first, second]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_refused_write_is_storage_full_and_no_more(tmp_path: Path, number: int) -> None:
    disk = Failing(write=number)
    ledger = opened(tmp_path, disk)
    ledger.create()
    with refused(Refusal.STORAGE_FULL):
        note(ledger)
    disk.errors.clear()
    note(ledger)


@pytest.mark.parametrize(
    "errors",
    [
        {"write": errno.EIO},
        {"sync": errno.EIO},
        {"sync": errno.ENOSPC},
        {"write": errno.ENOSPC, "truncate": errno.EIO},
    ],
)
def test_after_any_other_failure_nothing_more_is_written(
    tmp_path: Path, errors: dict[str, int]
) -> None:
    disk = Failing()
    ledger = opened(tmp_path, disk)
    ledger.create()
    row = note(ledger)
    disk.errors = dict(errors)
    with refused(Refusal.STORAGE_FULL):
        note(ledger)
    disk.errors.clear()
    assert ledger.failed
    with refused(Refusal.STORAGE_FULL) as caught:
        note(ledger)
    assert "earlier write" in caught.value.message
    assert opened(tmp_path).read()[:1] == [row]


def test_a_sync_refused_for_want_of_space_is_undone(tmp_path: Path) -> None:
    class Once(Disk):
        full = False

        def sync(self, descriptor: int) -> None:
            if self.full:
                self.full = False
                raise OSError(errno.ENOSPC, "full")
            super().sync(descriptor)

    disk = Once()
    ledger = opened(tmp_path, disk)
    ledger.create()
    note(ledger)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    disk.full = True
    with refused(Refusal.STORAGE_FULL):
        note(ledger)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    assert not ledger.failed
    note(ledger)


def test_a_tail_that_can_not_be_recorded_stays_a_tail(tmp_path: Path, ledger: Ledger) -> None:
    row = note(ledger)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq":2,"event":"no')
    disk = Failing()
    view = opened(tmp_path, disk)
    for part in (0, 5, 50):
        disk.part = part
        with refused(Refusal.STORAGE_FULL):
            view.refresh(CLOCK.read())
        assert view.torn and not view.failed
    disk.part = None
    rows = view.refresh(CLOCK.read())
    assert [r.event for r in rows] == ["noted", "tail_discarded"]
    assert rows[0] == row
    assert opened(tmp_path).read() == rows
    assert view.read() == []


def test_bytes_put_in_while_a_row_is_written_are_found(tmp_path: Path) -> None:
    class Crowded(Disk):
        def write(self, descriptor: int, data: bytes) -> int:
            os.write(descriptor, b"not a row\n")
            return super().write(descriptor, data)

    ledger = opened(tmp_path, Crowded())
    ledger.create()
    note(ledger)
    with refused(Refusal.LEDGER_DAMAGED):
        ledger.read()


def test_an_interrupt_between_write_and_sync_leaves_the_row_to_be_read(tmp_path: Path) -> None:
    class Interrupted(Disk):
        def sync(self, descriptor: int) -> None:
            raise KeyboardInterrupt

    ledger = opened(tmp_path, Interrupted())
    ledger.create()
    with pytest.raises(KeyboardInterrupt):
        note(ledger, "a")
    [row] = ledger.read()
    assert row.fields == {"text": "a"}
    assert ledger.head == (row.raw_sha256, 1)
