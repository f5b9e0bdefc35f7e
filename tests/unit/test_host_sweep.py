"""The sweep names everything that no accepted change explains, and nothing else."""

import hashlib
import os
import stat
from pathlib import Path

import pytest
from checkout import Checkout, Spike, pairs, path

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host import stats, sweep
from spike_mcp.host.files import temporary_name
from spike_mcp.host.removal import discard, remove_files, restore

FILES = {
    "src/a.py": "one\n",
    "src/pkg/b.py": "b\n",
    "tests/t.py": "assert 1\n",
    "README": "read\n",
    "gone/only.py": "x\n",
}


@pytest.fixture
def spike(checkout: Checkout) -> Spike:
    checkout.write(FILES)
    (checkout.repo / "src/link").symlink_to("a.py")
    checkout.commit()
    return checkout.spike()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def age(spike: Spike) -> None:
    """Give the records a tick, as a minute of work would."""
    while stats.tick(spike.judge, os.stat(spike.judge).st_dev) <= max(
        os.lstat(spike.work / name).st_ctime_ns for name in [*FILES, "src/link"]
    ):
        pass


def test_a_fresh_worktree_has_no_findings_and_is_read_at_most_once(spike: Spike) -> None:
    age(spike)
    assert spike.findings() == []
    report = spike.report()
    assert (report.findings, report.hashed, report.files) == ((), 0, len(FILES) + 2)


def do_add(work: Path) -> None:
    (work / "src/extra.py").write_bytes(b"")


def do_add_deep(work: Path) -> None:
    (work / "src/sub/deep").mkdir(parents=True)
    (work / "src/sub/deep/e.py").write_bytes(b"")


def do_change(work: Path) -> None:
    (work / "src/a.py").write_bytes(b"two\n")


def do_delete(work: Path) -> None:
    (work / "gone/only.py").unlink()
    (work / "gone").rmdir()


def do_link_for_file(work: Path) -> None:
    (work / "src/a.py").unlink()
    (work / "src/a.py").symlink_to("pkg/b.py")


def do_directory_for_file(work: Path) -> None:
    (work / "README").unlink()
    (work / "README").mkdir()
    (work / "README/x").write_bytes(b"")


def do_file_for_directory(work: Path) -> None:
    (work / "src/pkg/b.py").unlink()
    (work / "src/pkg").rmdir()
    (work / "src/pkg").write_bytes(b"")


def do_mode(work: Path) -> None:
    (work / "src/a.py").chmod(0o755)


def do_other_mode(work: Path) -> None:
    (work / "src/a.py").chmod(0o666)


def do_empty_directories(work: Path) -> None:
    (work / "src/empty/inner").mkdir(parents=True)


def do_repository(work: Path) -> None:
    (work / "src/.git").mkdir()
    (work / "src/.git/config").write_bytes(b"")


def do_repository_file(work: Path) -> None:
    (work / "src/.git").write_bytes(b"gitdir: /tmp\n")


def do_symlink(work: Path) -> None:
    (work / "src/new").symlink_to("../../judge")


def do_retarget(work: Path) -> None:
    (work / "src/link").unlink()
    (work / "src/link").symlink_to("pkg/b.py")


def do_hard_link(work: Path) -> None:
    os.link(work / "tests/t.py", work / "src/o.py")


def do_fifo(work: Path) -> None:
    os.mkfifo(work / "src/pipe")


def do_pointer_gone(work: Path) -> None:
    (work / ".git").unlink()


def do_pointer_directory(work: Path) -> None:
    (work / ".git").unlink()
    (work / ".git").mkdir()


CASES = [
    (do_add, [("src/extra.py", "added")]),
    (do_add_deep, [("src/sub/deep/e.py", "added")]),
    (do_change, [("src/a.py", "changed")]),
    (do_delete, [("gone/only.py", "deleted")]),
    (do_link_for_file, [("src/a.py", "type_changed")]),
    (do_directory_for_file, [("README", "type_changed"), ("README/x", "added")]),
    (do_file_for_directory, [("src/pkg", "added"), ("src/pkg/b.py", "deleted")]),
    (do_mode, [("src/a.py", "mode_changed")]),
    (do_other_mode, [("src/a.py", "mode_changed")]),
    (do_empty_directories, [("src/empty/inner", "directory")]),
    (do_repository, [("src/.git", "nested_repository")]),
    (do_repository_file, [("src/.git", "nested_repository")]),
    (do_symlink, [("src/new", "symlink")]),
    (do_retarget, [("src/link", "changed")]),
    (do_hard_link, [("src/o.py", "hard_linked"), ("tests/t.py", "hard_linked")]),
    (do_fifo, [("src/pipe", "special")]),
    (do_pointer_gone, [(".git", "deleted")]),
    (do_pointer_directory, [(".git", "type_changed")]),
]


@pytest.mark.security
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_a_change_by_nobody_is_named_again_and_again_until_it_is_restored(
    spike: Spike, case: tuple[object, list[tuple[str, str]]]
) -> None:
    age(spike)
    sweeper = spike.sweeper()
    assert sweeper.sweep({}).findings == ()
    do, expected = case
    do(spike.work)  # type: ignore[operator]
    assert pairs(sweeper.sweep({}).findings) == expected
    assert pairs(sweeper.sweep({}).findings) == expected
    assert spike.findings() == expected
    if ".git" in dict(expected):
        return
    put_back(spike, [name for name, _ in expected])
    assert pairs(sweeper.sweep({}).findings) == []
    assert spike.findings() == []


def put_back(spike: Spike, names: list[str]) -> None:
    for name in sorted(names):
        entry = spike.manifest.get(name)
        if entry is None:
            discard(spike.tree, name)
        else:
            data = b"a.py" if name == "src/link" else FILES[name].encode()
            restore(spike.tree, name, entry.mode, data)


@pytest.mark.security
def test_the_same_size_with_the_time_set_back_is_found(spike: Spike) -> None:
    age(spike)
    sweeper = spike.sweeper()
    sweeper.sweep({})
    target = spike.work / "src/a.py"
    times = target.stat()
    target.write_bytes(b"two\n")
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert pairs(sweeper.sweep({}).findings) == [("src/a.py", "changed")]
    assert spike.findings() == [("src/a.py", "changed")]


@pytest.mark.security
def test_a_file_as_young_as_the_look_is_never_put_on_record(
    spike: Spike, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git's racy rule: the tick of the look may see one more write that no time shows."""
    young = max(os.lstat(spike.work / name).st_ctime_ns for name in FILES)
    monkeypatch.setattr(sweep, "tick", lambda *_: young)
    (spike.judge / "stat-cache").unlink()
    sweeper = spike.sweeper()
    assert sweeper.sweep({}).hashed > 0
    again = sweeper.sweep({}).hashed
    assert again > 0
    monkeypatch.setattr(sweep, "tick", lambda *_: young + 1)
    sweeper.sweep({})
    assert sweeper.sweep({}).hashed == 0


@pytest.mark.parametrize("damage", [b"", b"spike-stats 1", None, b"cut"])
def test_records_that_are_lost_or_damaged_only_cost_time(
    spike: Spike, damage: bytes | None
) -> None:
    cache = spike.judge / "stat-cache"
    age(spike)
    spike.report()
    if damage is None:
        cache.unlink()
    else:
        cache.write_bytes(cache.read_bytes()[:-7] if damage == b"cut" else damage)
    report = spike.report()
    assert (report.findings, report.hashed) == ((), len(FILES) + 1)
    assert spike.report().hashed == 0


@pytest.mark.security
def test_records_of_another_manifest_are_not_used(spike: Spike) -> None:
    age(spike)
    spike.report()
    cache = spike.judge / "stat-cache"
    data = cache.read_bytes()
    cache.write_bytes(data.replace(spike.manifest.digest().encode(), b"0" * 64))
    assert spike.report().hashed == len(FILES) + 1


@pytest.mark.security
def test_rehash_reads_everything_whatever_the_records_say(spike: Spike) -> None:
    age(spike)
    sweeper = spike.sweeper()
    sweeper.sweep({})
    forged = spike.work / "src/a.py"
    forged.write_bytes(b"two\n")
    assert sweeper._known is not None
    sweeper._known["src/a.py"] = stats.stat_of(os.lstat(forged))
    assert pairs(sweeper.sweep({}).findings) == []
    assert pairs(sweeper.sweep({}, rehash=True).findings) == [("src/a.py", "changed")]


def test_accepted_changes_are_expected(spike: Spike) -> None:
    spike.tree.replace(path("src/a.py"), b"two\n")
    spike.tree.replace(path("new/n.py"), b"n")
    spike.tree.remove(path("tests/t.py"))
    accepted = {
        "src/a.py": (0o100644, sha(b"two\n")),
        "new/n.py": (0o100644, sha(b"n")),
        "tests/t.py": None,
        "never/was.py": None,
    }
    assert spike.findings(accepted) == []
    assert spike.findings({}) == [
        ("new/n.py", "added"),
        ("src/a.py", "changed"),
        ("tests/t.py", "deleted"),
    ]
    (spike.work / "new/n.py").unlink()
    (spike.work / "tests/t.py").write_bytes(b"assert 1\n")
    assert spike.findings(accepted) == [("new/n.py", "deleted"), ("tests/t.py", "added")]


@pytest.mark.security
def test_baseline_bytes_where_an_accepted_change_is_expected_are_a_finding(spike: Spike) -> None:
    """The stat records say "equal to the baseline": no excuse for a lost write."""
    age(spike)
    sweeper = spike.sweeper()
    sweeper.sweep({})
    assert pairs(sweeper.sweep({"src/a.py": (0o100644, sha(b"two\n"))}).findings) == [
        ("src/a.py", "changed")
    ]


def test_environment_paths_lie_outside_and_nothing_else_does(spike: Spike) -> None:
    for name in (".venv/lib/x.py", "src/node_modules/y.js", ".venvx/z.py"):
        (spike.work / name).parent.mkdir(parents=True, exist_ok=True)
        (spike.work / name).write_bytes(b"")
    (spike.work / "tool").mkdir()
    environment = (".venv/", "src/node_modules", "tool/env/")
    assert spike.findings(None, *environment) == [(".venvx/z.py", "added")]


def test_droppings_are_told_apart_and_removed_with_their_directories(spike: Spike) -> None:
    droppings = [
        ".pytest_cache/v/cache/lastfailed",
        "src/.a.py.swp",
        "src/__pycache__/a.cpython-311.pyc",
        "src/__pycache__/b.cpython-311.pyc.140",
        "src/a.py~",
        "tests/__pycache__/t.pyc",
    ]
    (spike.work / ".ruff_cache/0.1").mkdir(parents=True)
    for name in droppings:
        (spike.work / name).parent.mkdir(parents=True, exist_ok=True)
        (spike.work / name).write_bytes(b"")
    (spike.work / "src/.#a.py").symlink_to("user@host.1234")
    report = spike.report()
    assert report.findings == ()
    assert sorted(report.droppings) == sorted([".ruff_cache/0.1/", "src/.#a.py", *droppings])
    assert sorted(remove_files(spike.tree, report.droppings)) == sorted(report.droppings)
    assert spike.report().droppings == ()
    assert spike.findings() == []
    assert not (spike.work / ".pytest_cache").exists()
    assert not (spike.work / "src/__pycache__").exists()


@pytest.mark.security
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("src/__pycache__/evil.py", "added"),
        ("src/evil.pyc", "added"),
        ("src/__pycache__/sub/evil.pyc", "added"),
        ("src/__pycache__x/a.pyc", "added"),
        (".pytest_cache/.git", "nested_repository"),
        ("src/.spike-0.tmp", "added"),
        ("src/.spike-0123456789abcdef01234567.tmp.py", "added"),
    ],
)
def test_what_only_looks_like_a_dropping_is_a_finding(spike: Spike, name: str, what: str) -> None:
    (spike.work / name).parent.mkdir(parents=True, exist_ok=True)
    (spike.work / name).write_bytes(b"")
    report = spike.report()
    assert pairs(report.findings) == [(name, what)]
    assert report.droppings == report.temporaries == ()


def test_a_link_or_hard_link_inside_a_cache_is_a_finding(spike: Spike) -> None:
    (spike.work / ".mypy_cache").mkdir()
    (spike.work / ".mypy_cache/l").symlink_to("../src/a.py")
    os.link(spike.work / "src/a.py", spike.work / ".mypy_cache/h")
    assert spike.findings() == [
        (".mypy_cache/h", "hard_linked"),
        (".mypy_cache/l", "symlink"),
        ("src/a.py", "hard_linked"),
    ]


def test_a_dropping_of_the_baseline_is_a_file_like_any_other(checkout: Checkout) -> None:
    checkout.commit({"src/old.py~": "kept\n", ".hypothesis/x": "x\n"})
    spike = checkout.spike()
    assert spike.report().droppings == ()
    (spike.work / "src/old.py~").write_bytes(b"other\n")
    assert spike.findings() == [("src/old.py~", "changed")]


def test_own_temporary_files_are_named_separately_and_only_if_they_are_plain_files(
    spike: Spike,
) -> None:
    name = "src/" + temporary_name()
    (spike.work / name).write_bytes(b"")
    report = spike.report()
    assert (report.findings, report.temporaries) == ((), (name,))
    assert remove_files(spike.tree, report.temporaries) == [name]
    (spike.work / name).symlink_to("a.py")
    assert spike.findings() == [(name, "symlink")]


def test_only_the_asked_paths_are_looked_at(spike: Spike) -> None:
    (spike.work / "src/a.py").write_bytes(b"two\n")
    (spike.work / "src/extra.py").write_bytes(b"")
    (spike.work / "README").unlink()
    sweeper = spike.sweeper()
    assert sweeper.check_paths(["tests/t.py", "src/none.py", "no/where.py"], {}) == ()
    found = sweeper.check_paths(["src/a.py", "src/extra.py", "README"], {})
    assert pairs(found) == [
        ("README", "deleted"),
        ("src/a.py", "changed"),
        ("src/extra.py", "added"),
    ]
    expected = {"src/a.py": (0o100644, sha(b"two\n")), "README": None}
    assert sweeper.check_paths(["src/a.py", "README"], expected) == ()


def test_a_checked_path_that_became_something_else_is_named(spike: Spike) -> None:
    do_directory_for_file(spike.work)
    (spike.work / "src").rename(spike.work / "kept")
    (spike.work / "src").symlink_to("kept")
    found = spike.sweeper().check_paths(["README", "src/a.py", "kept"], {})
    assert pairs(found) == [("README", "type_changed"), ("src/a.py", "deleted")]


def test_a_tree_deeper_than_any_path_is_named_once_and_can_be_removed(spike: Spike) -> None:
    home = os.getcwd()
    os.chdir(spike.work / "src")
    try:
        for _ in range(1500):
            os.mkdir("deep")
            os.chdir("deep")
    finally:
        os.chdir(home)
    findings = spike.findings()
    assert len(findings) == 1
    assert findings[0][1] == "directory"
    discard(spike.tree, "src/deep")
    assert spike.findings() == []


def test_names_of_any_bytes_are_found_and_removed(spike: Spike) -> None:
    names = [b"caf\xe9.py", b"new\nline", b"back\\slash", b"\x01"]
    for name in names:
        with open(os.path.join(os.fsencode(spike.work), b"src", name), "wb"):
            pass
    expected = sorted("src/" + name.decode("utf-8", "surrogateescape") for name in names)
    assert [name for name, _ in spike.findings()] == expected
    for name in expected:
        discard(spike.tree, name)
    assert spike.findings() == []


def test_a_directory_that_cannot_be_read_is_named_and_hides_nothing_else(
    spike: Spike, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(name: object, *arguments: object, **how: object) -> int:
        if name == b"pkg":
            raise PermissionError(13, "denied")
        return real(name, *arguments, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep.os, "open", refuse)
    (spike.work / "README").unlink()
    assert spike.findings() == [("README", "deleted"), ("src/pkg", "unreadable")]


def test_a_closed_directory_is_opened_to_be_removed(spike: Spike) -> None:
    closed = spike.work / "src/closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner/x").write_bytes(b"")
    (closed / "inner").chmod(0)
    closed.chmod(0)
    discard(spike.tree, "src/closed")
    assert not closed.exists()


def test_removal_follows_no_link(spike: Spike, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "x").write_bytes(b"")
    (spike.work / "src/new").mkdir()
    (spike.work / "src/new/link").symlink_to(kept)
    discard(spike.tree, "src/new")
    (spike.work / "src/other").symlink_to(kept)
    discard(spike.tree, "src/other/x")
    assert (kept / "x").exists()
    discard(spike.tree, "src/other")
    assert (kept / "x").exists()
    assert spike.findings() == []


def test_restoring_puts_bytes_mode_and_parents_back_over_anything(spike: Spike) -> None:
    do_link_for_file(spike.work)
    restore(spike.tree, "src/a.py", 0o100755, b"one\n")
    assert stat.S_IMODE((spike.work / "src/a.py").stat().st_mode) == 0o755
    assert (spike.work / "src/pkg/b.py").read_bytes() == b"b\n"
    do_file_for_directory(spike.work)
    restore(spike.tree, "src/pkg/b.py", 0o100644, b"b\n")
    restore(spike.tree, "src/a.py", 0o100644, b"one\n")
    assert spike.findings() == []


def test_a_worktree_that_is_no_directory_is_said_to_be_tampered(spike: Spike) -> None:
    os.rename(spike.work, spike.work.parent / "moved")
    with pytest.raises(Problem) as problem:
        spike.report()
    assert problem.value.code is Refusal.WORKTREE_TAMPERED


def test_handles_are_closed_whatever_happens(spike: Spike, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeper = spike.sweeper()
    sweeper.sweep({})
    before = len(os.listdir("/proc/self/fd"))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    (spike.work / "src/pkg/b.py").write_bytes(b"other")
    monkeypatch.setattr(sweep, "examine", stop)
    with pytest.raises(KeyboardInterrupt):
        sweeper.sweep({})
    assert len(os.listdir("/proc/self/fd")) == before
