"""Whole spikes on every kind of repository: linked, sparse, shallow, SHA-256, LFS, autocrlf, ..."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from init_world import ORACLE, Place, words
from support import PLAIN, git, make_repo
from whole_story import Story, tell

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n"
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A plain repository; the tests make of it what they need."""
    return Place(tmp_path / "place")


def commit(place: Place, files: dict[str, str | bytes] | None = None) -> None:
    """Add files and commit everything in the checkout."""
    for name, content in (files or {}).items():
        file = place.repo / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "more")


def test_a_linked_worktree_as_the_users_checkout(place: Place) -> None:
    linked = place.base / "linked"
    place.git("worktree", "add", "-q", str(linked), "-b", "side")
    (linked / "untracked.txt").write_text("mine\n")
    tell(Story(place, linked, also=(place.repo,)))
    assert place.git("rev-parse", "main") != git(linked, "rev-parse", "HEAD").strip()


def test_submodules_are_left_alone_and_named(place: Place) -> None:
    library = make_repo(place.base / "library", {"lib.py": "lib\n"})
    allow = ("-c", "protocol.file.allow=always")
    place.git(*allow, "submodule", "--quiet", "add", str(library), "src/lib")
    commit(place)
    entry = place.git("ls-tree", "HEAD", "src/lib")
    story = Story(place, place.repo)
    assert any("submodules" in text and "src/lib" in text for text in story.made["warnings"])
    story.start()
    assert list((story.work / "src/lib").iterdir()) == []
    why = "no change of theirs"
    told = story.agent("spike_write_file", path="src/lib/x.py", content="x\n", rationale=why)
    assert told.code in ("unsupported_change_kind", "path_protected"), told
    story.fix()
    story.ship()
    assert place.git("ls-tree", "spike/new", "src/lib") == entry
    story.remove()


def test_lfs_pointers_without_git_lfs(place: Place) -> None:
    commit(place, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    commit(place, {"src/model.bin": POINTER})
    story = Story(place, place.repo)
    assert (story.work / "src/model.bin").read_text() == POINTER
    tell(story)


def test_lfs_that_is_set_up_but_not_installed_is_said(place: Place) -> None:
    commit(place, {".gitattributes": "*.bin filter=lfs -text\n", "src/model.bin": POINTER})
    for name in ("smudge", "process"):
        place.git("config", f"filter.lfs.{name}", f"git-lfs-of-nobody {name}")
        place.git("config", "filter.lfs.required", "true")
        told = place.refused("git_failed", words())
        assert "git-lfs-of-nobody: not found" in told.message, told


def test_lfs_content_is_named_and_not_written(place: Place) -> None:
    """A filter that gives other bytes than the blob's stands for git-lfs."""
    commit(place, {".gitattributes": "*.bin filter=lfs -text\n", "src/model.bin": POINTER})
    place.git("config", "filter.lfs.smudge", "sed s/version/content/")
    place.git("config", "filter.lfs.clean", "sed s/content/version/")
    place.git("config", "filter.lfs.required", "true")
    story = Story(place, place.repo)
    assert any("src/model.bin" in text for text in story.made["warnings"])
    story.start()
    told = story.edit("size 12345", "size 1", path="src/model.bin")
    assert told.code == "unsupported_change_kind" and "LFS" in told.message
    story.fix()
    story.ship()
    blob = place.git("rev-parse", "spike/new:src/model.bin")
    assert blob == place.git("rev-parse", "main:src/model.bin")


def test_autocrlf_converts_files_that_then_can_not_be_written(place: Place) -> None:
    exact = "".join(f"{name} -text\n" for name in ("src/a.py", "check.sh"))
    commit(place, {".gitattributes": exact, "src/crlf.txt": "one\ntwo\n", "src/none.txt": "x"})
    place.git("config", "core.autocrlf", "true")
    story = Story(place, place.repo)
    named = " ".join(story.made["warnings"])
    assert "src/crlf.txt" in named and "src/a.py" not in named and "src/none.txt" not in named
    assert (story.work / "src/crlf.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (story.work / "src/a.py").read_bytes() == PLAIN["src/a.py"].encode()
    story.start()
    for old in ("one\n", "one"):
        told = story.edit(old, "1", path="src/crlf.txt")
        assert told.code == "unsupported_change_kind" and "eol" in told.message, told
    story.fix("x", "y", path="src/none.txt")
    story.fix()
    story.ship()
    assert place.git("cat-file", "-p", "spike/new:src/crlf.txt") == "one\ntwo"


def test_crlf_that_is_committed_stays_and_can_be_written(place: Place) -> None:
    crlf = PLAIN["src/a.py"].replace("\n", "\r\n")
    commit(place, {"src/a.py": crlf.encode()})
    story = Story(place, place.repo)
    story.start()
    story.fix("two\n", "GREEN\n")
    story.ship()
    blob = subprocess.run(
        ["git", "-C", place.repo, "cat-file", "-p", "spike/new:src/a.py"], capture_output=True
    ).stdout
    assert blob == crlf.replace("two", "GREEN").encode()


def test_a_sparse_checkout_keeps_what_it_does_not_show(place: Place) -> None:
    commit(place, {"docs/far/x.txt": "far\n", "src/deep/y.txt": "near\n"})
    place.git("sparse-checkout", "set", "--cone", "src", "tests")
    story = Story(place, place.repo)
    assert not (story.work / "docs").exists()
    assert (story.work / "src/deep/y.txt").exists()
    story.start()
    story.fix()
    story.ship()
    names = place.git("diff", "--name-only", "main", "spike/new").split()
    assert names == ["src/a.py"]
    assert place.git("cat-file", "-p", "spike/new:docs/far/x.txt") == "far"
    story.remove()


def test_a_path_that_a_sparse_checkout_left_out_is_not_written(place: Place) -> None:
    commit(place, {"src/hidden/x.txt": "far\n"})
    place.git("sparse-checkout", "set", "--no-cone", "/*", "!/src/hidden/")
    story = Story(place, place.repo)
    assert not (story.work / "src/hidden").exists()
    story.start()
    why = "the sample file turns green"
    told = story.agent("spike_write_file", path="src/hidden/x.txt", content="x\n", rationale=why)
    assert told.code == "unsupported_change_kind" and "sparse" in told.message, told
    story.fix()
    story.ship()


def test_a_shallow_clone(place: Place) -> None:
    commit(place, {"src/b.py": "b\n"})
    clone = place.base / "clone"
    git(place.base, "clone", "-q", "--depth", "1", f"file://{place.repo}", str(clone))
    story = Story(place, clone)
    tell(story)
    assert (clone / ".git/shallow").exists()


def test_a_clone_with_borrowed_objects(place: Place) -> None:
    clone = place.base / "clone"
    git(place.base, "clone", "-q", "--shared", str(place.repo), str(clone))
    tell(Story(place, clone, also=(place.repo,)))


def test_a_sha256_repository(place: Place) -> None:
    other = place.base / "sha256"
    git(place.base, "init", "-q", "-b", "main", "--object-format=sha256", str(other))
    for name, content in PLAIN.items():
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text(content)
    git(other, "add", "-A")
    git(other, "commit", "-q", "-m", "baseline")
    result = tell(Story(place, other))
    assert len(result["scored_tree"]) == len(result["baseline"]) == 64


def test_without_file_modes(place: Place) -> None:
    """core.fileMode=false: the index knows who is executable, the disk does not."""
    commit(place, {"src/run.sh": "echo 1\n"})
    place.git("config", "core.fileMode", "false")
    for name in ("check.sh", "src/run.sh"):
        place.git("update-index", "--chmod=+x", name)
        assert not os.access(place.repo / name, os.X_OK)
    place.git("commit", "-q", "-m", "executable")
    story = Story(place, place.repo)
    story.start()
    story.fix("echo 1", "echo 2", path="src/run.sh")
    story.fix()
    story.ship()
    for name in ("check.sh", "src/run.sh"):
        assert place.git("ls-tree", "spike/new", name).startswith("100755 "), name
    story.remove()


def test_executables_links_and_names_that_are_no_text_stay(place: Place) -> None:
    src = place.repo / "src"
    (src / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    (src / "run.sh").chmod(0o755)
    (src / "link.py").symlink_to("a.py")
    (src / "nowhere").symlink_to("/nonexistent/target")
    (src / "folder").symlink_to("../tests")
    odd = os.fsencode(src) + b'/caf\xe9 \n"q".txt'
    with open(odd, "wb") as file:
        file.write(b"odd\n")
    commit(place)
    before = place.git("ls-tree", "-r", "-z", "HEAD", "src")
    story = Story(place, place.repo)
    assert os.readlink(story.work / "src/nowhere") == "/nonexistent/target"
    story.start()
    story.fix("exit 1", "echo GREEN", path="src/run.sh")
    assert os.stat(story.work / "src/run.sh").st_mode & 0o777 == 0o755
    for path in ("src/link.py", "src/folder/test_oracle.py"):
        told = story.edit("one", "1", path=path)
        assert told.code in ("symlink_in_path", "path_protected"), told
    listed = story.agent("spike_list_files", path="src")
    assert listed.code == "" and "files" in listed.message
    story.fix()
    story.ship()
    after = place.git("ls-tree", "-r", "-z", "spike/new", "src")
    assert _kinds(after) == _kinds(before)
    assert place.git("ls-tree", "spike/new", "src/run.sh").startswith("100755 ")
    story.remove()


def _kinds(listing: str) -> list[tuple[str, str]]:
    """(mode, path) of every entry of `ls-tree -z`."""
    entries = [line.partition("\t") for line in listing.split("\0") if line]
    return [(head.split(" ")[0], path) for head, _tab, path in entries]


def test_a_repository_with_user_settings_that_change_everything(place: Place) -> None:
    """Hooks, signing, templates and drivers of the repository are neither run nor changed."""
    marker = place.base / "ran"
    hooks = place.repo / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-commit", "post-commit", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / name).chmod(0o755)
    for key, value in {
        "commit.gpgSign": "true",
        "gpg.program": f"touch {marker}; false",
        "diff.external": f"touch {marker}",
        "core.fsmonitor": f"touch {marker}",
        "diff.noprefix": "true",
        "core.abbrev": "4",
        "merge.ff": "only",
    }.items():
        place.git("config", key, value)
    story = Story(place, place.repo)
    marker.unlink(missing_ok=True)  # our own look at HEAD may have run the user's fsmonitor
    story.start()
    story.fix()
    story.agent("spike_run_test")
    for hunk in story.human("map")["hunks"]:
        story.human("approve", hunk["id"], "--tag", "rewriting the sample lines")
    story.human("verdict")
    story.human("ship")
    assert not marker.exists()
    with story.server as server:
        server.close()


def test_the_oracle_of_a_commit_on_the_way_stays_the_baselines(place: Place) -> None:
    """The user goes on working: branch, commits, stash and index are theirs."""
    story = Story(place, place.repo)
    story.start()
    (place.repo / ORACLE).write_text("assert 2\n")
    place.git("commit", "-q", "-am", "mine")
    (place.repo / "src/a.py").write_text("dirty\n")
    place.git("stash")
    story.before = story._users()
    story.fix()
    story.ship()
    assert place.git("stash", "list").count("\n") == 0
    assert place.git("rev-parse", "spike/new^") == place.git("rev-parse", "main^")
