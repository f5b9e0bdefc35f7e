"""One holder at a time, a waiting human first, and no wait without an end (spec 6)."""

import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.locks import LOCK, TURN, SpikeLock

fork = multiprocessing.get_context("fork")


def count_up(judge: Path, times: int, human: bool) -> None:
    number = judge / "number"
    for _ in range(times):
        with SpikeLock(judge).hold(human, timeout=60):
            value = int(number.read_text())
            time.sleep(0)
            number.write_text(str(value + 1))


@pytest.mark.parametrize("kind", [threading.Thread, fork.Process])
def test_holders_exclude_each_other(tmp_path: Path, kind: type) -> None:
    (tmp_path / "number").write_text("0")
    workers = [kind(target=count_up, args=(tmp_path, 60, human)) for human in (False, True, False)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "number").read_text() == "180"


def test_the_files_are_private(tmp_path: Path) -> None:
    with SpikeLock(tmp_path).hold(True, 1):
        pass
    for name in (LOCK, TURN):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("human", [True, False])
def test_a_wait_ends_with_busy(tmp_path: Path, human: bool) -> None:
    with SpikeLock(tmp_path).hold(True, 1):
        with pytest.raises(Problem) as caught, SpikeLock(tmp_path).hold(human, 0.02):
            raise AssertionError("two holders")
        assert caught.value.code is Refusal.BUSY
    with SpikeLock(tmp_path).hold(human, 0):
        pass


def test_a_waiting_human_goes_before_servers(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def server() -> None:
        while not waiting.is_set():
            time.sleep(0.001)
        for _ in range(3):
            with SpikeLock(tmp_path).hold(False, 30):
                order.append("server")

    def human() -> None:
        with SpikeLock(tmp_path).hold(True, 30):
            order.append("human")

    threads = [threading.Thread(target=server) for _ in range(4)]
    for thread in threads:
        thread.start()
    with SpikeLock(tmp_path).hold(False, 30):
        person = threading.Thread(target=human)
        person.start()
        while not human_waits(tmp_path):
            time.sleep(0.001)
        waiting.set()
        time.sleep(0.05)
    for thread in [*threads, person]:
        thread.join()
    assert order[0] == "human"
    assert len(order) == 13


def human_waits(judge: Path) -> bool:
    inode = (judge / TURN).stat().st_ino
    with open("/proc/locks") as file:
        return any(f":{inode} " in line and "READ" in line for line in file)


def test_an_error_inside_frees_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), SpikeLock(tmp_path).hold(False, 1):
        raise ZeroDivisionError
    with SpikeLock(tmp_path).hold(False, 0):
        pass


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    def hold_for_ever() -> None:
        with SpikeLock(tmp_path).hold(False, 1):
            (tmp_path / "held").touch()
            time.sleep(60)

    child = fork.Process(target=hold_for_ever)
    child.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.001)
    child.kill()
    child.join()
    with SpikeLock(tmp_path).hold(True, 5):
        pass


def test_a_lock_file_removed_meanwhile_excludes_nobody_twice(tmp_path: Path) -> None:
    lock = SpikeLock(tmp_path)
    with lock.hold(False, 1):
        (tmp_path / LOCK).unlink()
        with lock.hold(False, 1):
            assert (tmp_path / LOCK).exists()
            with pytest.raises(Problem), lock.hold(True, 0.01):
                raise AssertionError("two holders of the new file")


def test_a_symlink_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    os.symlink("elsewhere", tmp_path / LOCK)
    with pytest.raises(OSError), SpikeLock(tmp_path).hold(False, 1):
        raise AssertionError("followed")


def test_nothing_leaks(tmp_path: Path) -> None:
    lock = SpikeLock(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    with lock.hold(False, 1):
        for human in (True, False):
            with pytest.raises(Problem), lock.hold(human, 0.01):
                raise AssertionError("two holders")
    assert len(os.listdir("/proc/self/fd")) == before
