"""Git as baseline store: repositories of all kinds, trees equal to git's own, nothing changed."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from checkout import Checkout, path, snapshot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.host.git import (
    Git,
    PathState,
    TreeChange,
    add_worktree,
    checked_out,
    discover,
    mark_intent,
    remove_worktree,
    worktrees,
)
from spike_mcp.host.git import process as git_process
from spike_mcp.host.pointer import check_pointer, record


def usage(problem: pytest.ExceptionInfo[Problem]) -> Usage:
    assert isinstance(problem.value.code, Usage)
    return problem.value.code


# --- what repository is this? -------------------------------------------------------------------


def test_a_repository_is_found_from_any_directory_in_it(checkout: Checkout) -> None:
    head = checkout.commit({"src/deep/a.py": "one\n"})
    found = discover(checkout.repo / "src/deep")
    assert found.toplevel == os.path.realpath(checkout.repo)
    assert found.common == os.path.join(found.toplevel, ".git")
    assert (found.head, found.branch, found.object_format) == (head, "main", "sha1")
    assert not found.shallow
    assert not found.alternates


def test_a_toplevel_with_a_newline_in_its_name_is_one_path(tmp_path: Path) -> None:
    base = tmp_path / "two\nlines"
    base.mkdir()
    checkout = Checkout(base)
    checkout.commit({"a": "a"})
    assert discover(checkout.repo).toplevel == os.path.realpath(checkout.repo)
    assert checkout.spike().findings() == []


def test_what_is_no_repository_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(Problem) as problem:
        discover(tmp_path)
    assert usage(problem) is Usage.NOT_A_REPOSITORY


def test_a_bare_repository_and_the_inside_of_git_are_refused(checkout: Checkout) -> None:
    checkout.commit({"a": "a"})
    checkout.git("clone", "-q", "--bare", ".", "../bare.git")
    for where in (checkout.base / "bare.git", checkout.repo / ".git"):
        with pytest.raises(Problem) as problem:
            discover(where)
        assert usage(problem) is Usage.UNSUPPORTED_REPOSITORY


def test_a_repository_without_a_commit_is_refused(checkout: Checkout) -> None:
    with pytest.raises(Problem, match="no commit"):
        discover(checkout.repo)


def test_a_linked_worktree_and_a_detached_head_are_fine(checkout: Checkout) -> None:
    head = checkout.commit({"a": "a"})
    checkout.git("worktree", "add", "-q", "--detach", "../linked")
    found = discover(checkout.base / "linked")
    assert found.toplevel == os.path.realpath(checkout.base / "linked")
    assert found.common == os.path.realpath(checkout.repo / ".git")
    assert (found.branch, found.head) == ("", head)
    pointer = add_worktree(found, checkout.base / "work", "spike/y", head)
    assert pointer.common == found.common


def submodule(checkout: Checkout) -> None:
    other = checkout.base / "other"
    other.mkdir()
    library = Checkout(other)
    library.commit({"lib.py": "lib\n"})
    allow = ("-c", "protocol.file.allow=always")
    checkout.git(*allow, "submodule", "--quiet", "add", str(library.repo), "lib")
    checkout.commit({"a.py": "a\n"})


def test_submodules_are_left_alone_and_their_inside_is_refused(checkout: Checkout) -> None:
    submodule(checkout)
    with pytest.raises(Problem, match="submodule"):
        discover(checkout.repo / "lib")
    spike = checkout.spike()
    assert spike.repository.submodules(spike.repository.head) == ["lib"]
    entry = spike.manifest.get("lib")
    assert entry is not None
    assert entry.is_gitlink
    assert spike.findings() == []
    with pytest.raises(Problem, match="submodule"):
        spike.tree.replace(path("lib/x.py"), b"")
    (spike.work / "lib/x.py").write_bytes(b"")
    assert spike.findings() == [("lib", "changed")]
    (spike.work / "lib/x.py").unlink()
    (spike.work / "lib").rmdir()
    assert spike.findings() == [("lib", "deleted")]


def test_a_foreign_owner_needs_the_users_own_exception(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.commit({"a": "a"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    owner = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    monkeypatch.setitem(git_process._ENVIRONMENT, *owner.popitem())
    with pytest.raises(Problem, match="another user"):
        discover(checkout.repo)
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text(f"[safe]\n\tdirectory = {checkout.repo}\n")
    assert discover(checkout.repo).branch == "main"


# --- kinds of checkouts -------------------------------------------------------------------------


def test_sha256_repositories_work_to_the_end(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, "--object-format=sha256")
    head = checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    assert spike.repository.object_format == "sha256"
    git = spike.repository.git
    tree = git.tree_with(git.tree_of(head), {"a.py": TreeChange(b"two\n")}, store=True)
    commit = git.commit_tree(tree, head, "shipped")
    git.update_ref(spike.pointer.branch, commit, head, "spike: ship")
    assert checkout.git("show", "spike/x:a.py") == "two"
    assert len(commit) == 64


def test_a_shallow_clone_works(checkout: Checkout) -> None:
    for number in range(3):
        checkout.commit({"a.py": f"{number}\n"})
    checkout.git("clone", "-q", "--depth=1", f"file://{checkout.repo}", "../shallow")
    found = discover(checkout.base / "shallow")
    assert found.shallow
    add_worktree(found, checkout.base / "work", "spike/x", found.head)
    assert (checkout.base / "work/a.py").read_text() == "2\n"


def test_a_clone_with_borrowed_objects_works_and_says_so(checkout: Checkout) -> None:
    head = checkout.commit({"a.py": "one\n"})
    checkout.git("clone", "-q", "--shared", ".", "../shared")
    found = discover(checkout.base / "shared")
    assert found.alternates
    assert found.git.tree_with(found.git.tree_of(head), {}) == found.git.tree_of(head)


def test_what_a_sparse_checkout_left_out_is_recorded_as_absent(checkout: Checkout) -> None:
    head = checkout.commit({"in/a.py": "a\n", "out/b.py": "b\n", "top": "t\n"})
    checkout.git("sparse-checkout", "set", "in")
    spike = checkout.spike()
    entry = spike.manifest.get("out/b.py")
    assert entry is not None
    assert entry.is_absent
    assert not (spike.work / "out").exists()
    assert spike.findings() == []
    with pytest.raises(Problem, match="sparse"):
        spike.tree.replace(path("out/b.py"), b"")
    (spike.work / "out").mkdir()
    (spike.work / "out/b.py").write_bytes(b"b\n")
    assert spike.findings() == [("out/b.py", "added")]
    git = spike.repository.git
    tree = git.tree_with(git.tree_of(head), {"in/a.py": TreeChange(b"2\n")}, store=True)
    assert "out/b.py" in checkout.git("ls-tree", "-r", "--name-only", tree)


def test_bytes_converted_at_checkout_are_the_baseline_and_marked(checkout: Checkout) -> None:
    checkout.commit(
        {
            ".gitattributes": "*.crlf text eol=crlf\n*.id ident\n*.up filter=up\n",
            "a.crlf": "one\n",
            "b.id": "$Id$\n",
            "c.up": "lower\n",
            "d.py": "plain\n",
        }
    )
    checkout.git("config", "filter.up.smudge", "tr a-z A-Z")
    checkout.git("config", "filter.up.clean", "tr A-Z a-z")
    spike = checkout.spike()
    assert (spike.work / "a.crlf").read_bytes() == b"one\r\n"
    assert (spike.work / "c.up").read_bytes() == b"LOWER\n"
    marked = [name for name, entry in spike.manifest.under("") if entry.converted]
    assert marked == ["a.crlf", "b.id", "c.up"]
    assert spike.findings() == []
    with pytest.raises(Problem, match="converted"):
        spike.tree.replace(path("a.crlf"), b"two\r\n")
    assert spike.tree.read(path("a.crlf"), 99) == b"one\r\n"


def test_the_repositorys_own_autocrlf_is_honoured_and_the_users_is_not(
    checkout: Checkout,
) -> None:
    checkout.commit({"a.py": "one\n"})
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    assert (checkout.spike("x").work / "a.py").read_bytes() == b"one\n"
    checkout.git("config", "core.autocrlf", "true")
    spike = checkout.spike("y")
    assert (spike.work / "a.py").read_bytes() == b"one\r\n"
    assert spike.findings() == []


def test_converted_bytes_are_found_again_without_running_a_filter(checkout: Checkout) -> None:
    checkout.commit({".gitattributes": "*.py text eol=crlf ident filter=f\n"})
    checkout.commit({"src/a.py": "$Id$\none\n"})
    spike = checkout.spike()
    recorded = spike.manifest.get("src/a.py")
    entry = spike.repository.git.entry(spike.repository.head, "src/a.py")
    assert recorded is not None
    assert entry is not None
    marker = checkout.base / "ran"
    checkout.git("config", "filter.f.smudge", f"touch {marker}; cat")
    (spike.work / "src/a.py").write_bytes(b"evil")
    data = checked_out(spike.work, spike.pointer, "src/a.py", entry.oid)
    assert data.endswith(b"\r\none\r\n")
    assert hashlib.sha256(data).hexdigest() == recorded.sha256
    assert not marker.exists()


def test_lfs_pointers_stay_pointers_where_no_lfs_is_set_up(checkout: Checkout) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9\n"
    checkout.commit({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    checkout.commit({"big.bin": text})
    spike = checkout.spike()
    assert (spike.work / "big.bin").read_text() == text
    assert spike.findings() == []


def test_links_are_checked_out_as_links(checkout: Checkout) -> None:
    (checkout.repo / "dangling").symlink_to("no/where")
    checkout.commit({"a": "a"})
    spike = checkout.spike()
    entry = spike.manifest.get("dangling")
    assert entry is not None
    assert entry.is_symlink
    assert not entry.converted
    assert spike.findings() == []


# --- making and removing ------------------------------------------------------------------------


def test_progress_is_told_and_the_worktree_is_on_its_branch(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = checkout.commit({"a.py": "one\n"})
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(worktrees, "run", slow_progress(worktrees.run))
    repository = discover(checkout.repo)
    add_worktree(repository, checkout.base / "work", "spike/x", head, lambda *at: told.append(at))
    assert told[0] == (3, 7) and told[-1] == (1, 1)
    assert checkout.git("symbolic-ref", "HEAD", cwd=checkout.base / "work") == (
        "refs/heads/spike/x"
    )
    assert checkout.git("status", "--porcelain", cwd=checkout.base / "work") == ""


def slow_progress(real: object) -> object:
    def run(*arguments: object, **how: object) -> object:
        on_stderr = how.get("on_stderr")
        if callable(on_stderr):
            on_stderr(b"Updating files:  42% (3/7)\r")
            on_stderr(b"something else\n")
        return real(*arguments, **how)  # type: ignore[operator]

    return run


@pytest.mark.parametrize(
    ("branch", "code"),
    [
        ("spike", Usage.UNSUPPORTED_REPOSITORY),
        ("spike/x", Usage.SPIKE_EXISTS),
        ("spike/x/y", Usage.UNSUPPORTED_REPOSITORY),
    ],
)
def test_a_branch_in_the_way_is_named_and_nothing_is_made(
    checkout: Checkout, branch: str, code: Usage
) -> None:
    checkout.commit({"a": "a"})
    checkout.git("branch", branch)
    before = snapshot(checkout.repo)
    with pytest.raises(Problem) as problem:
        checkout.spike()
    assert usage(problem) is code
    assert branch in problem.value.message
    assert snapshot(checkout.repo) == before
    assert not (checkout.base / "spikes/x/work").exists()


def test_a_checkout_that_fails_half_way_leaves_nothing(checkout: Checkout) -> None:
    checkout.commit({f"{number}.py": "x\n" for number in range(20)})
    checkout.commit({".gitattributes": "*.bad filter=bad\n", "z.bad": "z\n"})
    checkout.git("config", "filter.bad.smudge", "false")
    checkout.git("config", "filter.bad.required", "true")
    before = snapshot(checkout.repo)
    with pytest.raises(Problem, match="filter"):
        checkout.spike()
    assert snapshot(checkout.repo) == before
    assert not (checkout.base / "spikes/x/work").exists()


def test_an_interrupted_checkout_leaves_nothing(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.commit({"a.py": "x\n"})
    before = snapshot(checkout.repo)
    real = worktrees.run

    def interrupted(verb: str, *arguments: str, **how: object) -> object:
        result = real(verb, *arguments, **how)  # type: ignore[arg-type]
        if verb == "read-tree":
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(worktrees, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkout.spike()
    assert snapshot(checkout.repo) == before
    assert not (checkout.base / "spikes/x/work").exists()


def test_a_spike_leaves_the_repository_byte_for_byte_as_it_was(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n", ".gitignore": "*.env\n"})
    checkout.write({"data.csv": "1,2\n", "secret.env": "x\n"})
    checkout.write({"a.py": "stashed\n"})
    checkout.git("stash")
    checkout.write({".gitignore": "*.env\n*.tmp\n"})
    checkout.git("branch", "other")
    checkout.git("status")
    before = snapshot(checkout.repo)
    spike = checkout.spike()
    entry = os.path.relpath(spike.pointer.admin, checkout.repo)
    during = snapshot(checkout.repo)
    added = set(during) - set(before)
    branch = {".git/refs/heads/spike", ".git/refs/heads/spike/x"}
    log = {".git/logs/refs/heads/spike", ".git/logs/refs/heads/spike/x"}
    worktree = {name for name in added if name.startswith(entry)} | {".git/worktrees"}
    assert added == branch | log | worktree
    assert {name: during[name] for name in before} == before
    removed = remove_worktree(spike.work, spike.pointer, spike.pointer.commit)
    assert removed.kept == ()
    assert len(removed.removed) == 3
    assert snapshot(checkout.repo) == before
    assert not spike.work.exists()
    assert remove_worktree(spike.work, spike.pointer, spike.pointer.commit).removed == ()


def test_only_the_worktree_that_was_made_is_removed(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    users = checkout.base / "users"
    users.mkdir()
    (users / "precious").write_bytes(b"")
    os.rename(spike.work, spike.work.parent / "old")
    for make in (lambda: spike.work.symlink_to(users), lambda: os.rename(users, spike.work)):
        make()
        with pytest.raises(Problem, match="nothing was removed"):
            remove_worktree(spike.work, spike.pointer, spike.pointer.commit)
        if spike.work.is_symlink():
            spike.work.unlink()
    assert (spike.work / "precious").exists()
    with pytest.raises(Problem, match="nothing was removed"):
        remove_worktree(checkout.repo, spike.pointer, spike.pointer.commit)
    assert (checkout.repo / "a.py").exists()


def test_a_home_behind_a_link_is_the_same_place(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n"})
    (checkout.base / "real").mkdir()
    (checkout.base / "home-link").symlink_to("real")
    work = checkout.base / "home-link/work"
    repository = discover(checkout.repo)
    pointer = add_worktree(repository, work, "spike/x", repository.head)
    assert check_pointer(work, pointer) == []
    assert len(remove_worktree(work, pointer, pointer.commit).removed) == 3
    assert not work.exists()


def test_a_worktree_entry_that_names_another_place_is_not_removed(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    Path(spike.pointer.admin, "gitdir").write_text("/elsewhere/.git\n")
    with pytest.raises(Problem, match="nothing was removed"):
        remove_worktree(spike.work, spike.pointer, spike.pointer.commit)


def test_a_shipped_branch_is_kept_until_it_is_merged(checkout: Checkout) -> None:
    head = checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    git = spike.repository.git
    tree = git.tree_with(git.tree_of(head), {"a.py": TreeChange(b"two\n")}, store=True)
    shipped = git.commit_tree(tree, head, "shipped")
    git.update_ref(spike.pointer.branch, shipped, head, "spike: ship")
    assert not git.is_merged(shipped, spike.pointer.branch)
    with pytest.raises(Problem, match="no other branch contains"):
        remove_worktree(spike.work, spike.pointer, shipped)
    assert (spike.work / "a.py").exists()
    checkout.git("merge", "-q", "--ff-only", "spike/x")
    assert git.is_merged(shipped, spike.pointer.branch)
    assert remove_worktree(spike.work, spike.pointer, shipped).kept == ()
    assert checkout.git("branch", "--list", "spike/*") == ""


def test_a_branch_that_is_elsewhere_is_kept_and_said_so(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    (spike.work / "a.py").write_text("two\n")
    checkout.git("commit", "-qam", "by somebody", cwd=spike.work)
    removed = remove_worktree(spike.work, spike.pointer, spike.pointer.commit)
    assert "kept" in removed.kept[0]
    assert checkout.git("log", "-1", "--format=%s", "spike/x") == "by somebody"


def test_new_files_are_shown_by_git_diff_and_forgotten_again(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n", ".gitignore": "*.log\n"})
    marker = checkout.base / "ran"
    spike = checkout.spike()
    checkout.git("config", "filter.f=x.clean", f"touch {marker}; cat")
    checkout.git("config", "filter.f=x.required", "true")
    Path(checkout.repo, ".git/info/attributes").write_text("*.py filter=f=x\n")
    spike.tree.replace(path("new/n.py"), b"n\n")
    spike.tree.replace(path("new.log"), b"l\n")
    assert mark_intent(spike.work, spike.pointer, ["new/n.py", "new.log"], add=True)
    assert not marker.exists()
    shown = checkout.git("diff", "--name-only", cwd=spike.work).split()
    assert shown == ["new.log", "new/n.py"]
    assert mark_intent(spike.work, spike.pointer, ["new/n.py", "new.log"], add=False)
    assert mark_intent(spike.work, spike.pointer, [], add=True)
    assert checkout.git("diff", "--name-only", cwd=spike.work) == ""


def test_a_stale_index_lock_stops_nothing_and_stays(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    lock = Path(spike.pointer.admin, "index.lock")
    lock.write_bytes(b"")
    spike.tree.replace(path("n.py"), b"n\n")
    assert not mark_intent(spike.work, spike.pointer, ["n.py"], add=True)
    assert lock.exists()
    assert spike.repository.git.tree_of(spike.repository.head)


# --- uncommitted files --------------------------------------------------------------------------


def test_a_path_is_committed_or_not_clean_or_not(checkout: Checkout) -> None:
    submodule(checkout)
    checkout.commit({"clean.py": "a\n", "changed.py": "a\n", "gone.py": "a\n", "x.sh": "a\n"})
    checkout.write({"changed.py": "b\n", "new.py": "n\n"})
    (checkout.repo / "gone.py").unlink()
    (checkout.repo / "x.sh").chmod(0o755)
    (checkout.repo / "link").symlink_to("clean.py")
    found = discover(checkout.repo)
    states = {
        "clean.py": PathState.CLEAN,
        "changed.py": PathState.MODIFIED,
        "gone.py": PathState.DELETED,
        "new.py": PathState.UNCOMMITTED,
        "never.py": PathState.MISSING,
        "no/where.py": PathState.MISSING,
        "x.sh": PathState.MODIFIED,
        "link": PathState.UNCOMMITTED,
        "lib": PathState.NO_FILE,
    }
    assert {name: found.path_state(path(name)) for name in states} == states
    checkout.git("config", "core.fileMode", "false")
    assert discover(checkout.repo).path_state(path("x.sh")) is PathState.CLEAN


def test_a_file_whose_conversion_is_undone_by_git_is_clean(checkout: Checkout) -> None:
    checkout.commit({".gitattributes": "*.py text eol=crlf\n", "a.py": "one\n"})
    checkout.write({"a.py": "one\r\n"})
    assert discover(checkout.repo).path_state(path("a.py")) is PathState.CLEAN


def test_included_files_make_one_commit_on_the_spikes_branch_only(checkout: Checkout) -> None:
    head = checkout.commit({"src/a.py": "one\n", "tests/old.py": "o\n"})
    checkout.write({"tests/new.py": "assert 0\n", "src/a.py": "staged\n", "other.txt": "o\n"})
    checkout.git("add", "src/a.py")
    checkout.write({"src/a.py": "unstaged\n"})
    (checkout.repo / "tests/new.py").chmod(0o755)
    found = discover(checkout.repo)
    before = {
        name: text
        for name, text in snapshot(checkout.repo).items()
        if not name.startswith(".git/objects")
    }
    commit = found.include([path("tests/new.py"), path("src/a.py")], "baseline")
    after = {
        name: text
        for name, text in snapshot(checkout.repo).items()
        if not name.startswith(".git/objects")
    }
    assert after == before
    assert checkout.git("rev-parse", f"{commit}^") == head
    assert checkout.git("diff", "--name-only", head, commit).split() == ["src/a.py", "tests/new.py"]
    spike = checkout.spike("x", commit)
    assert (spike.work / "src/a.py").read_text() == "unstaged\n"
    assert os.access(spike.work / "tests/new.py", os.X_OK)
    assert spike.pointer.commit == commit


def test_including_what_is_committed_is_the_head_itself(checkout: Checkout) -> None:
    head = checkout.commit({"a.py": "one\n"})
    assert discover(checkout.repo).include([path("a.py")], "baseline") == head


@pytest.mark.parametrize("name", ["none.py", "src", "no/where"])
def test_including_what_is_no_file_is_refused(checkout: Checkout, name: str) -> None:
    checkout.commit({"src/a.py": "one\n"})
    with pytest.raises(Problem) as problem:
        discover(checkout.repo).include([path(name)], "baseline")
    assert usage(problem) is Usage.ORACLE_NOT_COMMITTED


# --- trees and commits --------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "a.b", "a0", "b", "dir", "dir.x", "dir0", "dir-", "\xe9"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    base=st.dictionaries(PATHS, st.binary(max_size=4)),
    changes=st.dictionaries(PATHS, st.none() | st.binary(max_size=4)),
)
def test_computed_trees_are_the_ones_git_makes(
    checkout: Checkout, base: dict[str, bytes], changes: dict[str, bytes | None]
) -> None:
    git = Git(checkout.repo / ".git")
    wanted = without_conflicts(base)
    first = git.tree_with(empty(checkout), as_changes(wanted), store=True)
    assert first == tree_by_git(checkout, wanted)
    written = without_conflicts({n: d for n, d in changes.items() if d is not None})
    changed: dict[str, bytes | None] = {
        **{name: None for name, data in changes.items() if data is None},
        **{name: data for name, data in written.items() if not conflicts(name, wanted)},
    }
    result = {name: data for name, data in {**wanted, **changed}.items() if data is not None}
    expected = tree_by_git(checkout, result)
    assert git.tree_with(first, as_changes(changed)) == expected
    assert git.tree_with(first, as_changes(changed), store=True) == expected


def empty(checkout: Checkout) -> str:
    return checkout.git("hash-object", "-w", "-t", "tree", "/dev/null")


def conflicts(name: str, others: dict[str, bytes]) -> bool:
    return any(other.startswith(name + "/") or name.startswith(other + "/") for other in others)


def without_conflicts(files: dict[str, bytes]) -> dict[str, bytes]:
    kept: dict[str, bytes] = {}
    for name, data in files.items():
        if not conflicts(name, kept):
            kept[name] = data
    return kept


def as_changes(files: dict[str, bytes | None] | dict[str, bytes]) -> dict[str, TreeChange | None]:
    return {name: None if data is None else TreeChange(data) for name, data in files.items()}


def tree_by_git(checkout: Checkout, files: dict[str, bytes]) -> str:
    index = checkout.base / "index"
    index.unlink(missing_ok=True)
    environment = {**os.environ, "GIT_INDEX_FILE": str(index)}
    blobs = {name: hashlib.sha1(b"blob %d\0" % len(data) + data) for name, data in files.items()}
    lines = "".join(f"100644 {blob.hexdigest()}\t{name}\n" for name, blob in blobs.items())
    for verb, stdin in ((["update-index", "--index-info"], lines), (["write-tree"], "")):
        done = subprocess.run(
            ["git", *verb, *(["--missing-ok"] if verb == ["write-tree"] else [])],
            cwd=checkout.repo,
            input=stdin.encode(),
            env=environment,
            capture_output=True,
            check=True,
        )
    return done.stdout.decode().strip()


def test_untouched_entries_keep_mode_and_kind(checkout: Checkout) -> None:
    submodule(checkout)
    (checkout.repo / "run.sh").write_bytes(b"#!\n")
    (checkout.repo / "run.sh").chmod(0o755)
    (checkout.repo / "link").symlink_to("a.py")
    head = checkout.commit()
    git = discover(checkout.repo).git
    tree = git.tree_with(
        git.tree_of(head),
        {"run.sh": TreeChange(b"#!/bin/sh\n"), "a.py": None, "d/n.py": TreeChange(b"")},
        store=True,
    )
    modes = {
        line.partition("\t")[2]: line.split()[0]
        for line in checkout.git("ls-tree", "-r", tree).splitlines()
    }
    assert modes == {
        ".gitmodules": "100644",
        "d/n.py": "100644",
        "lib": "160000",
        "link": "120000",
        "run.sh": "100755",
    }


def test_nothing_is_stored_unless_asked(checkout: Checkout) -> None:
    head = checkout.commit({"a.py": "one\n"})
    git = discover(checkout.repo).git
    before = snapshot(checkout.repo)
    git.tree_with(git.tree_of(head), {"a.py": TreeChange(b"two\n"), "n/n.py": TreeChange(b"n")})
    assert snapshot(checkout.repo) == before


def test_a_file_never_takes_the_place_of_a_directory_that_still_has_files(
    checkout: Checkout,
) -> None:
    head = checkout.commit({"d/a.py": "one\n", "d/b.py": "two\n"})
    git = discover(checkout.repo).git
    with pytest.raises(ValueError, match="directory"):
        git.tree_with(git.tree_of(head), {"d": TreeChange(b"x")})
    swapped = {"d/a.py": None, "d/b.py": None, "d": TreeChange(b"x")}
    assert len(git.tree_with(git.tree_of(head), swapped)) == 40


def test_a_commit_has_one_parent_the_users_name_and_the_message_as_given(
    checkout: Checkout,
) -> None:
    head = checkout.commit({"a.py": "one\n"})
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text("[user]\n\tname = Ada L\n\temail = ada@example.org\n")
    checkout.git("config", "commit.gpgSign", "true")
    git = discover(checkout.repo).git
    message = "Title\n\n# no comment\n\nSpike-Tag: h1 \xfc\n"
    commit = git.commit_tree(git.tree_of(head), head, message)
    assert git.tree_of(commit) == git.tree_of(head)
    shown = checkout.git("log", "-1", "--format=%an <%ae>|%cn|%P|%B", commit)
    assert shown.strip() == f"Ada L <ada@example.org>|Ada L|{head}|{message}".strip()


def test_a_user_without_a_name_still_gets_a_commit(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = checkout.commit({"a.py": "one\n"})
    for name in ("EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    checkout.git("config", "user.useConfigOnly", "true")
    git = discover(checkout.repo).git
    assert git.identity() == ("spike", "spike@localhost")
    assert git.commit_tree(git.tree_of(head), head, "x")


def test_a_branch_moves_only_from_where_it_was_expected(checkout: Checkout) -> None:
    first = checkout.commit({"a.py": "one\n"})
    second = checkout.commit({"a.py": "two\n"})
    git = discover(checkout.repo).git
    checkout.git("branch", "b", first)
    with pytest.raises(Problem) as problem:
        git.update_ref("refs/heads/b", second, second, "x")
    assert usage(problem) is Usage.GIT_FAILED
    git.update_ref("refs/heads/b", second, first, "x")
    with pytest.raises(Problem):
        git.delete_ref("refs/heads/b", first)
    assert git.resolve("refs/heads/b") == second
    assert git.resolve("refs/heads/none") is None


def test_the_patch_applies_and_gives_the_tree(checkout: Checkout) -> None:
    head = checkout.commit(
        {"a.py": "one\ntwo\n", "d.txt": "gone\n", ".gitattributes": "*.py -diff\n", "e": ""}
    )
    git = discover(checkout.repo).git
    base = git.tree_of(head)
    tree = git.tree_with(
        base,
        {
            "a.py": TreeChange(b"one\ntwo\0\r\nthree"),
            "d.txt": None,
            "n/\xfc\n.py": TreeChange(b"\xff\n"),
            "empty": TreeChange(b""),
        },
        store=True,
    )
    (checkout.base / "ship.patch").write_bytes(git.patch(base, tree))
    checkout.git("apply", "--index", "../ship.patch")
    assert checkout.git("write-tree") == tree
    assert git.patch(base, base) == b""


# --- running it ---------------------------------------------------------------------------------


def test_a_git_that_hangs_is_ended_with_its_children(checkout: Checkout) -> None:
    checkout.commit({".gitattributes": "*.slow filter=slow\n", "a.slow": "a\n"})
    pid = checkout.base / "pid"
    checkout.git("config", "filter.slow.clean", f"sh -c 'echo $$ > {pid}; exec sleep 60'")
    found = discover(checkout.repo)
    with pytest.raises(Problem, match="did not finish"):
        git_process.run(
            "hash-object",
            "--stdin",
            "--path=a.slow",
            git_dir=found.git_dir,
            work_tree=found.toplevel,
            cwd=found.toplevel,
            stdin=b"x",
            seconds=1,
        )
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(int(pid.read_text()), 0)
            subprocess.run(["sleep", "0.01"], check=True)


def test_a_checkout_that_hangs_is_ended_too(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.commit({".gitattributes": "*.slow filter=slow\n", "a.slow": "a\n"})
    checkout.git("config", "filter.slow.smudge", "sleep 60")
    checkout.git("config", "filter.slow.required", "true")
    monkeypatch.setattr(worktrees, "CHECKOUT_SECONDS", 0.5)
    with pytest.raises(Problem) as problem:
        checkout.spike()
    assert usage(problem) is Usage.GIT_FAILED


def test_git_is_found_on_absolute_entries_of_path_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = git_process.program()
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\ntouch ran\n")
    fake.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    git_process.program.cache_clear()
    assert git_process.program() == real
    monkeypatch.setenv("PATH", "relative:")
    git_process.program.cache_clear()
    with pytest.raises(Problem, match="not installed"):
        git_process.program()
    git_process.program.cache_clear()


def test_the_recorded_pointer_is_the_one_add_returned(checkout: Checkout) -> None:
    checkout.commit({"a": "a"})
    spike = checkout.spike()
    assert record(spike.work) == spike.pointer
