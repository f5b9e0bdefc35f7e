"""Confined reads and writes: what is refused, what is kept, and that all is all or nothing."""

import errno
import gc
import hashlib
import os
import stat
from pathlib import Path

import pytest
from checkout import Checkout, Spike, path, snapshot

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host import transaction
from spike_mcp.host.worktree import Kind, Write

LIMIT = 1 << 20


@pytest.fixture
def spike(checkout: Checkout) -> Spike:
    checkout.commit({"src/a.py": "one\n", "src/run.sh": "#!/bin/sh\n", "tests/t.py": "assert 1\n"})
    (checkout.repo / "src/run.sh").chmod(0o755)
    checkout.commit()
    return checkout.spike()


def refusal(problem: pytest.ExceptionInfo[Problem]) -> Refusal:
    assert isinstance(problem.value.code, Refusal)
    return problem.value.code


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_replaced_file_has_the_new_bytes_and_the_old_mode(spike: Spike) -> None:
    written = spike.tree.replace(path("src/run.sh"), b"#!/bin/bash\n")
    assert (spike.work / "src/run.sh").read_bytes() == b"#!/bin/bash\n"
    assert stat.S_IMODE((spike.work / "src/run.sh").stat().st_mode) == 0o755
    assert (written.mode, written.size, written.sha256) == (0o100755, 12, sha(b"#!/bin/bash\n"))
    assert sorted(os.listdir(spike.work / "src")) == ["a.py", "run.sh"]


def test_a_new_file_has_mode_0644_whatever_the_umask_and_its_parents_are_made(
    spike: Spike,
) -> None:
    old = os.umask(0o077)
    try:
        spike.tree.replace(path("src/new/deep/b.py"), b"b")
    finally:
        os.umask(old)
    assert stat.S_IMODE((spike.work / "src/new/deep/b.py").stat().st_mode) == 0o644


def test_removing_prunes_the_directories_this_leaves_empty_unless_the_baseline_has_them(
    spike: Spike,
) -> None:
    spike.tree.replace(path("src/new/deep/b.py"), b"b")
    spike.tree.remove(path("src/new/deep/b.py"))
    assert not (spike.work / "src/new").exists()
    spike.tree.remove(path("tests/t.py"))
    assert (spike.work / "tests").is_dir()


def test_reading_gives_bytes_up_to_the_limit(spike: Spike) -> None:
    assert spike.tree.read(path("src/a.py"), 4) == b"one\n"
    with pytest.raises(Problem) as problem:
        spike.tree.read(path("src/a.py"), 3)
    assert refusal(problem) is Refusal.TOO_LARGE
    with pytest.raises(Problem) as problem:
        spike.tree.read(path("src/none.py"), LIMIT)
    assert refusal(problem) is Refusal.FILE_MISSING


@pytest.mark.parametrize("name", ["../judge/x", "src/../../judge/x", "src/./a.py", "src//a.py", ""])
def test_what_no_handle_stops_is_refused_by_its_spelling(spike: Spike, name: str) -> None:
    before = snapshot(spike.work.parent)
    target = path("x")
    object.__setattr__(target, "text", name)
    for act in (
        lambda: spike.tree.facts(target),
        lambda: spike.tree.read(target, LIMIT),
        lambda: spike.tree.replace(target, b"x"),
        lambda: spike.tree.remove(target),
    ):
        with pytest.raises(Problem) as problem:
            act()
        assert refusal(problem) is Refusal.PATH_INVALID
    assert snapshot(spike.work.parent) == before


@pytest.mark.parametrize("name", [".git", ".GIT/config", ".git/hooks/x"])
def test_the_pointer_file_is_no_target(spike: Spike, name: str) -> None:
    with pytest.raises(Problem) as problem:
        spike.tree.replace(path(name), b"gitdir: /tmp/evil\n")
    assert refusal(problem) is Refusal.PATH_PROTECTED


def place(kind: str, at: Path, elsewhere: Path) -> None:
    at.unlink(missing_ok=True)
    match kind:
        case "symlink":
            at.symlink_to(elsewhere)
        case "dangling":
            at.symlink_to(elsewhere.parent / "not-yet")
        case "hard link":
            os.link(elsewhere, at)
        case "fifo":
            os.mkfifo(at)
        case "directory":
            at.mkdir()


@pytest.mark.security
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("symlink", Refusal.SYMLINK_IN_PATH),
        ("dangling", Refusal.SYMLINK_IN_PATH),
        ("hard link", Refusal.HARD_LINKED),
        ("fifo", Refusal.NOT_A_FILE),
        ("directory", Refusal.NOT_A_FILE),
    ],
)
def test_only_plain_files_with_one_link_are_read_or_written(
    spike: Spike, kind: str, code: Refusal
) -> None:
    secret = spike.judge / "contract.toml"
    secret.write_bytes(b"sealed")
    place(kind, spike.work / "src/a.py", secret)
    before = snapshot(spike.work.parent)
    for act in (
        lambda: spike.tree.read(path("src/a.py"), LIMIT),
        lambda: spike.tree.replace(path("src/a.py"), b"x"),
        lambda: spike.tree.remove(path("src/a.py")),
    ):
        with pytest.raises(Problem) as problem:
            act()
        assert refusal(problem) is code
    assert snapshot(spike.work.parent) == before


@pytest.mark.security
def test_a_linked_directory_on_the_way_is_refused(spike: Spike) -> None:
    (spike.work / "src/link").symlink_to(spike.judge)
    before = snapshot(spike.work.parent)
    with pytest.raises(Problem) as problem:
        spike.tree.replace(path("src/link/deep/x.py"), b"x")
    assert refusal(problem) is Refusal.SYMLINK_IN_PATH
    assert "src/link" in problem.value.message
    assert spike.tree.facts(path("src/link/x.py")).symlink_at == "src/link"
    assert snapshot(spike.work.parent) == before


def test_a_file_on_the_way_is_named(spike: Spike) -> None:
    facts = spike.tree.facts(path("src/a.py/x.py"))
    assert (facts.blocked_at, facts.parent_missing, facts.exists) == ("src/a.py", True, False)
    with pytest.raises(Problem) as problem:
        spike.tree.replace(path("src/a.py/x.py"), b"")
    assert refusal(problem) is Refusal.NOT_A_FILE


def test_facts_of_what_is_there_and_what_is_not(spike: Spike) -> None:
    here = spike.tree.facts(path("src/run.sh"))
    assert (here.exists, here.kind, here.nlink, here.size, here.mode, here.same_device) == (
        True,
        Kind.REGULAR,
        1,
        10,
        0o755,
        True,
    )
    gone = spike.tree.facts(path("src/x/y.py"))
    assert (gone.exists, gone.kind, gone.parent_missing) == (False, Kind.ABSENT, True)
    assert not spike.tree.facts(path("src/y.py")).parent_missing
    assert spike.tree.facts(path("src")).kind is Kind.DIRECTORY


@pytest.mark.parametrize("name", ["src/A.py", "SRC/b.py", "src/A.PY"])
def test_a_name_that_differs_in_case_only_is_refused(spike: Spike, name: str) -> None:
    assert spike.tree.facts(path(name)).case_collision in ("src/a.py", "src")
    with pytest.raises(Problem) as problem:
        spike.tree.replace(path(name), b"")
    assert refusal(problem) is Refusal.FILE_EXISTS


def test_a_name_that_differs_in_unicode_composition_only_is_refused(spike: Spike) -> None:
    (spike.work / "src/u\u0308.py").write_bytes(b"")
    assert spike.tree.facts(path("src/\u00fc.py")).case_collision == "src/u\u0308.py"


def test_names_that_are_no_utf8_are_read_and_written(spike: Spike) -> None:
    name = b"src/caf\xe9.py".decode("utf-8", "surrogateescape")
    spike.tree.replace(path(name), b"x")
    assert os.listdir(os.fsencode(spike.work / "src")).count(b"caf\xe9.py") == 1
    assert spike.tree.read(path(name), 1) == b"x"


def test_a_component_longer_than_the_disk_takes_is_simply_not_there(spike: Spike) -> None:
    assert not spike.tree.facts(path("src/" + "a" * 300)).exists
    assert not spike.tree.facts(path("a" * 300 + "/x")).exists


def test_preparing_changes_nothing_visible_and_abort_leaves_no_trace(spike: Spike) -> None:
    before = snapshot(spike.work)
    with spike.tree.prepare(
        [Write(path("src/a.py"), b"two\n"), Write(path("new/deep/n.py"), b"n")]
    ) as prepared:
        assert (spike.work / "src/a.py").read_bytes() == b"one\n"
        assert [result.path for result in prepared.results] == ["src/a.py", "new/deep/n.py"]
    assert snapshot(spike.work) == before


def test_commit_does_all(spike: Spike) -> None:
    with spike.tree.prepare(
        [
            Write(path("src/a.py"), b"two\n", before=sha(b"one\n")),
            Write(path("new/n.py"), b"n", before=""),
            Write(path("tests/t.py"), None),
        ]
    ) as prepared:
        results = prepared.commit()
    assert (spike.work / "src/a.py").read_bytes() == b"two\n"
    assert (spike.work / "new/n.py").read_bytes() == b"n"
    assert not (spike.work / "tests/t.py").exists()
    assert results[2].sha256 == ""
    assert [name for name in snapshot(spike.work) if ".spike" in name] == []


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (Write(path("src/a.py"), b"x", before=sha(b"other")), Refusal.STALE_FILE),
        (Write(path("src/none.py"), b"x", before=sha(b"other")), Refusal.STALE_FILE),
        (Write(path("src/a.py"), b"x", before=""), Refusal.FILE_EXISTS),
        (Write(path("src/none.py"), None), Refusal.FILE_MISSING),
        (Write(path("no/where.py"), None), Refusal.FILE_MISSING),
    ],
)
def test_one_bad_write_of_several_undoes_the_others(
    spike: Spike, write: Write, code: Refusal
) -> None:
    before = snapshot(spike.work)
    with pytest.raises(Problem) as problem:
        spike.tree.prepare([Write(path("fresh/n.py"), b"n"), Write(path("tests/t.py"), b""), write])
    assert refusal(problem) is code
    assert snapshot(spike.work) == before


def test_one_file_stands_once_in_a_transaction(spike: Spike) -> None:
    with pytest.raises(ValueError, match="twice"):
        spike.tree.prepare([Write(path("src/a.py"), b"1"), Write(path("src/a.py"), b"2")])


@pytest.mark.parametrize(
    "kind", ["symlink", "hard link", "fifo", "directory", "other file", "gone"]
)
def test_a_target_swapped_between_prepare_and_commit_stops_everything(
    spike: Spike, kind: str
) -> None:
    secret = spike.judge / "secret"
    secret.write_bytes(b"sealed")
    prepared = spike.tree.prepare(
        [Write(path("tests/t.py"), b"changed"), Write(path("src/a.py"), b"two\n")]
    )
    if kind == "other file":
        (spike.work / "src/b").write_bytes(b"")
        os.rename(spike.work / "src/b", spike.work / "src/a.py")
    elif kind == "gone":
        (spike.work / "src/a.py").unlink()
    else:
        place(kind, spike.work / "src/a.py", secret)
    with pytest.raises(Problem) as problem:
        prepared.commit()
    assert refusal(problem) is Refusal.STALE_FILE
    assert (spike.work / "tests/t.py").read_bytes() == b"assert 1\n"
    assert secret.read_bytes() == b"sealed"
    assert [name for name in snapshot(spike.work) if ".spike" in name] == []


def test_a_directory_moved_away_between_prepare_and_commit_is_not_written_to(
    spike: Spike,
) -> None:
    prepared = spike.tree.prepare([Write(path("src/a.py"), b"two\n")])
    os.rename(spike.work / "src", spike.work.parent / "elsewhere")
    (spike.work / "src").mkdir()
    with pytest.raises(Problem) as problem:
        prepared.commit()
    assert refusal(problem) is Refusal.STALE_FILE
    assert (spike.work.parent / "elsewhere/a.py").read_bytes() == b"one\n"


@pytest.mark.parametrize("fails_at", [1, 2, 3])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_rename_that_fails_brings_the_old_bytes_back(
    spike: Spike, monkeypatch: pytest.MonkeyPatch, fails_at: int, number: int
) -> None:
    before = snapshot(spike.work)
    prepared = spike.tree.prepare(
        [
            Write(path("src/run.sh"), b"changed"),
            Write(path("tests/t.py"), None),
            Write(path("new/n.py"), b"n"),
        ]
    )
    real, count = transaction._swap, [0]

    def swap(staged: transaction._Staged) -> None:
        count[0] += 1
        if count[0] == fails_at:
            raise OSError(number, os.strerror(number))
        real(staged)

    monkeypatch.setattr(transaction, "_swap", swap)
    expected = OSError if number == errno.EIO else Problem
    with pytest.raises(expected) as error:
        prepared.commit()
    if isinstance(error.value, Problem):
        full = number == errno.ENOSPC
        assert error.value.code is (Refusal.STORAGE_FULL if full else Refusal.NOT_A_FILE)
    assert snapshot(spike.work) == before


@pytest.mark.parametrize("call", ["write_all", "temporary_name"])
def test_a_full_disk_while_preparing_leaves_nothing(
    spike: Spike, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = snapshot(spike.work)
    count = [0]
    real = getattr(transaction, call)

    def full(*arguments: object) -> object:
        count[0] += 1
        if count[0] == 2:
            raise OSError(errno.ENOSPC, "full")
        return real(*arguments)

    monkeypatch.setattr(transaction, call, full)
    with pytest.raises(Problem) as problem:
        spike.tree.prepare([Write(path("new/n.py"), b"n"), Write(path("src/a.py"), b"two\n")])
    assert refusal(problem) is Refusal.STORAGE_FULL
    assert snapshot(spike.work) == before


def test_what_a_crash_left_is_removed_with_the_directories_made_for_it(
    spike: Spike, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(spike.work)
    writes = [Write(path("new/deep/n.py"), b"n"), Write(path("src/a.py"), b"two\n")]
    monkeypatch.setattr(transaction.Prepared, "abort", lambda self: None)
    spike.tree.prepare(writes)
    assert snapshot(spike.work) != before
    removed = spike.tree.leftovers(write.path for write in writes)
    assert len(removed) == 2
    assert snapshot(spike.work) == before


def test_handles_are_not_leaked(spike: Spike) -> None:
    def handles() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    gc.collect()
    before = handles()
    for _ in range(20):
        spike.tree.replace(path("src/n/n.py"), b"n")
        spike.tree.remove(path("src/n/n.py"))
        spike.tree.facts(path("src/x/y"))
        for name in ("src/none.py", "src/a.py/x", "src"):
            with pytest.raises(Problem):
                spike.tree.read(path(name), LIMIT)
            with pytest.raises(Problem):
                spike.tree.remove(path(name))
    assert handles() == before


def test_a_worktree_that_is_gone_says_so(spike: Spike) -> None:
    os.rename(spike.work, spike.work.parent / "moved")
    (spike.work.parent / "work").symlink_to("moved")
    with pytest.raises(Problem) as problem:
        spike.tree.read(path("src/a.py"), LIMIT)
    assert refusal(problem) is Refusal.WORKTREE_TAMPERED
