"""Files are replaced whole, and blobs are what their name says."""

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host import files
from spike_mcp.host.files import Blobs, read_all, remove_temporaries, write_atomic


def test_a_file_is_replaced_whole_with_the_mode_asked_for_whatever_the_umask(
    tmp_path: Path,
) -> None:
    target = tmp_path / "contract.toml"
    old = os.umask(0o077)
    try:
        write_atomic(target, b"one", 0o644)
        write_atomic(target, b"two", 0o444)
    finally:
        os.umask(old)
    assert target.read_bytes() == b"two"
    assert stat.S_IMODE(target.stat().st_mode) == 0o444
    assert os.listdir(tmp_path) == ["contract.toml"]


def test_a_symbolic_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"target")
    (tmp_path / "link").symlink_to("target")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"target"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])
@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_medium_that_takes_no_more_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    target = tmp_path / "ledger"
    target.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(Problem) as refused:
        write_atomic(target, b"new" * 1000)
    monkeypatch.undo()
    assert refused.value.code is Refusal.STORAGE_FULL
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["ledger"]


def test_other_faults_are_not_called_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "missing" / "x", b"")


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(files.os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
    write_atomic(tmp_path / "x", b"0123456789" * 3)
    assert (tmp_path / "x").read_bytes() == b"0123456789" * 3


def test_a_read_with_a_limit_says_longer_by_one_byte_more(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    fd = os.open(tmp_path / "x", os.O_RDONLY)
    try:
        assert read_all(fd, 3) == b"1234"
        os.lseek(fd, 0, os.SEEK_SET)
        assert read_all(fd, 5) == b"12345"
        os.lseek(fd, 0, os.SEEK_SET)
        assert read_all(fd) == b"12345"
    finally:
        os.close(fd)


def test_temporaries_of_a_killed_process_are_removed_and_nothing_else(tmp_path: Path) -> None:
    name = files.temporary_name()
    for other in (name, ".spike-x.tmp", name + "x", "keep"):
        (tmp_path / other).write_bytes(b"")
    assert remove_temporaries(tmp_path) == [name]
    assert sorted(os.listdir(tmp_path)) == sorted([".spike-x.tmp", name + "x", "keep"])


def test_a_blob_is_found_again_by_its_digest(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digests = blobs.put_all((b"", b"one", b"one"))
    assert digests == [hashlib.sha256(data).hexdigest() for data in (b"", b"one", b"one")]
    assert blobs.put(b"one") == digests[1]
    assert [blobs.get(digest) for digest in digests] == [b"", b"one", b"one"]
    assert blobs.has(digests[0])
    assert not blobs.has("0" * 64)
    assert len(os.listdir(tmp_path)) == 2


def test_an_altered_truncated_or_missing_blob_is_never_returned(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest = blobs.put(b"approved bytes")
    (tmp_path / digest).chmod(0o644)
    for damaged in (b"approved bytez", b"approved", None):
        if damaged is None:
            (tmp_path / digest).unlink()
        else:
            (tmp_path / digest).write_bytes(damaged)
        with pytest.raises(Problem) as refused:
            blobs.get(digest)
        assert refused.value.code is Refusal.LEDGER_DAMAGED


def test_a_torn_blob_is_written_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest = hashlib.sha256(b"whole").hexdigest()
    (tmp_path / digest).write_bytes(b"who")
    assert blobs.put(b"whole") == digest
    assert blobs.get(digest) == b"whole"


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"]
)
def test_only_digests_name_blobs(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a sha256"):
        Blobs(tmp_path).get(name)
    with pytest.raises(ValueError, match="not a sha256"):
        Blobs(tmp_path).has(name)
