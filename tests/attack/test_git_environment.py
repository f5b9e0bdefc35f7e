"""Neither configuration, environment nor object store can make git lie to us or run a program."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from checkout import Checkout, path, snapshot

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.git import Git, TreeChange, discover, mark_intent, remove_worktree
from spike_mcp.host.pointer import check_pointer

HOSTILE = """
[diff]
noprefix = true
mnemonicPrefix = true
context = 0
algorithm = histogram
indentHeuristic = false
external = touch {marker}
[color]
ui = always
[core]
quotePath = false
autocrlf = true
hooksPath = {hooks}
fsmonitor = touch {marker}
pager = touch {marker}
editor = touch {marker}
sshCommand = touch {marker}
[commit]
gpgsign = true
[gpg]
program = touch {marker}
[log]
showSignature = true
"""


def whole_story(checkout: Checkout, name: str) -> tuple[str, ...]:
    """Everything the host asks git for in one spike; what must not depend on anybody's settings."""
    repository = discover(checkout.repo)
    repository.path_state(path("src/a.py"))
    spike = checkout.spike(name)
    git = repository.git
    base = git.tree_of(repository.head)
    tree = git.tree_with(base, {"src/a.py": TreeChange(b"one\ntwo\n3\n")}, store=True)
    patch = git.patch(base, tree)
    spike.tree.replace(path("src/n.py"), b"n\n")
    assert mark_intent(spike.work, spike.pointer, ["src/n.py"], add=True)
    assert spike.findings() == [("src/n.py", "added")]
    commit = git.commit_tree(tree, repository.head, "shipped")
    git.update_ref(spike.pointer.branch, commit, repository.head, "ship")
    git.is_merged(commit, spike.pointer.branch)
    git.update_ref(spike.pointer.branch, repository.head, commit, "back")
    remove_worktree(spike.work, spike.pointer, spike.pointer.commit)
    return spike.manifest.digest(), tree, patch.decode()


def hooks(checkout: Checkout, marker: Path) -> Path:
    directory = checkout.base / "hooks"
    directory.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        (directory / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (directory / name).chmod(0o755)
    return directory


@pytest.mark.security
@pytest.mark.parametrize("where", ["the user's", "the repository's"])
def test_hostile_settings_change_no_answer_and_run_nothing(checkout: Checkout, where: str) -> None:
    checkout.commit({"src/a.py": "one\ntwo\n", "src/caf\xe9.py": "x\n"})
    plain = whole_story(checkout, "plain")
    marker = checkout.base / "ran"
    text = HOSTILE.format(marker=marker, hooks=hooks(checkout, marker))
    if where == "the user's":
        (checkout.base / "home/.gitconfig").write_text(text)
    else:
        # Line ends are how this repository stores its files: that setting is obeyed.
        text = text.replace("autocrlf = true\n", "")
        with open(checkout.repo / ".git/config", "a") as file:
            file.write(text)
    assert whole_story(checkout, "hostile") == plain
    assert not marker.exists()


@pytest.mark.security
def test_the_environment_of_whoever_starts_us_is_not_gits(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.commit({"src/a.py": "one\n"})
    plain = whole_story(checkout, "plain")
    marker = checkout.base / "ran"
    for name, value in {
        "GIT_DIR": "/nonexistent",
        "GIT_WORK_TREE": "/",
        "GIT_INDEX_FILE": str(checkout.base / "index"),
        "GIT_OBJECT_DIRECTORY": "/nonexistent",
        "GIT_EXTERNAL_DIFF": f"touch {marker}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {marker}",
        "GIT_CONFIG_PARAMETERS": "'core.bare'='true'",
        "GIT_NAMESPACE": "other",
        "GIT_TRACE": str(marker),
    }.items():
        monkeypatch.setenv(name, value)
    assert whole_story(checkout, "hostile") == plain
    assert not marker.exists()
    assert not (checkout.base / "index").exists()


@pytest.mark.security
def test_replaced_and_grafted_objects_are_not_believed(checkout: Checkout) -> None:
    first = checkout.commit({"a.py": "one\n"})
    second = checkout.commit({"a.py": "evil\n"})
    checkout.git("reset", "-q", "--hard", first)
    git = Git(checkout.repo / ".git")
    tree, blob = git.tree_of(first), checkout.git("rev-parse", f"{first}:a.py")
    checkout.git("replace", first, second)
    checkout.git("replace", blob, checkout.git("rev-parse", f"{second}:a.py"))
    (checkout.repo / ".git/info/grafts").write_text(f"{first} {second}\n")
    assert checkout.git("show", f"{first}:a.py") == "evil"
    assert git.tree_of(first) == tree
    assert git.read("blob", blob) == b"one\n"
    spike = checkout.spike()
    assert (spike.work / "a.py").read_bytes() == b"one\n"
    assert not git.is_merged(second, "refs/heads/none")


@pytest.mark.security
def test_an_object_whose_bytes_are_not_its_ids_is_refused(checkout: Checkout) -> None:
    head = checkout.commit({"src/a.py": "one\n", "src/b.py": "b\n"})
    git = Git(checkout.repo / ".git")
    tree = checkout.git("rev-parse", f"{head}:src")
    file = checkout.repo / ".git/objects" / tree[:2] / tree[2:]
    raw = zlib.decompress(file.read_bytes())
    file.chmod(0o644)
    file.write_bytes(zlib.compress(raw.replace(b"b.py", b"c.py")))
    with pytest.raises(Problem):
        git.tree_with(git.tree_of(head), {"src/a.py": TreeChange(b"two\n")})


@pytest.mark.security
def test_a_foreign_pointer_is_noticed_before_any_git_call_obeys_it(checkout: Checkout) -> None:
    checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    marker = checkout.base / "ran"
    evil = checkout.base / "evil"
    checkout.git("clone", "-q", "--bare", ".", str(evil))
    with open(evil / "config", "a") as file:
        file.write(f"[core]\nfsmonitor = touch {marker}\nhooksPath = {hooks(checkout, marker)}\n")
    (spike.work / ".git").write_text(f"gitdir: {evil}\n")
    assert check_pointer(spike.work, spike.pointer) == ["work/.git changed"]
    spike.findings()
    mark_intent(spike.work, spike.pointer, ["a.py"], add=True)
    remove_worktree(spike.work, spike.pointer, spike.pointer.commit)
    assert not spike.work.exists()
    assert not marker.exists()


def test_the_users_own_git_never_fails_because_of_us(checkout: Checkout) -> None:
    checkout.commit({f"{number}.py": "x\n" for number in range(50)})
    spike = checkout.spike()
    looks = subprocess.Popen(
        [sys.executable, "-c", LOOKS, str(checkout.repo), str(spike.work)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert looks.stdout is not None
        looks.stdout.readline()
        for number in range(15):
            checkout.commit({"0.py": f"{number}\n"})
        assert looks.poll() is None
    finally:
        looks.kill()
        looks.wait()
        assert looks.stdout is not None
        looks.stdout.close()
    assert check_pointer(spike.work, spike.pointer) == []


LOOKS = """
import sys
from spike_mcp.core.paths import RepoPath
from spike_mcp.host.git import discover
from spike_mcp.host.pointer import check_pointer, record
pointer = record(sys.argv[2])
print("ready", flush=True)
while True:
    found = discover(sys.argv[1])
    found.path_state(RepoPath("0.py"))
    check_pointer(sys.argv[2], pointer)
"""

FULL = """
import resource, sys
from pathlib import Path
from spike_mcp.core.codes import Problem
from spike_mcp.core.paths import RepoPath
from spike_mcp.host.files import Blobs, write_atomic
from spike_mcp.host.manifest import Manifest
from spike_mcp.host.worktree import Worktree, Write
work, judge = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
tree, big = Worktree(work, Manifest(judge + "/baseline.manifest")), b"x" * 2000
for act in (
    lambda: write_atomic(judge + "/contract.toml", big),
    lambda: Blobs(judge).put(big),
    lambda: tree.prepare([Write(RepoPath("n.py"), b"n"), Write(RepoPath("a.py"), big)]),
):
    try:
        act()
    except Problem as problem:
        print(problem.code.value)
"""


@pytest.mark.security
def test_a_real_limit_of_the_system_is_storage_full_with_everything_intact(
    checkout: Checkout,
) -> None:
    checkout.commit({"a.py": "one\n"})
    spike = checkout.spike()
    (spike.judge / "contract.toml").write_bytes(b"sealed\n")
    before = snapshot(spike.work.parent)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(spike.work), str(spike.judge)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.split() == [Refusal.STORAGE_FULL.value] * 3
    assert snapshot(spike.work.parent) == before
