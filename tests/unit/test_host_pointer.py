"""What ties work/ to its repository is recorded, and every change of it is named."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import Checkout, Spike

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host import pointer
from spike_mcp.host.pointer import (
    Pointer,
    PointerWatch,
    check_owner,
    check_pointer,
    read_ref,
    record,
)


@pytest.fixture
def spike(checkout: Checkout) -> Spike:
    checkout.commit({"a.py": "one\n"})
    checkout.git("branch", "other")
    return checkout.spike()


def test_an_untouched_worktree_is_as_recorded(spike: Spike) -> None:
    assert check_pointer(spike.work, spike.pointer) == []
    assert record(spike.work) == spike.pointer
    assert spike.pointer.branch == "refs/heads/spike/x"
    assert spike.pointer.commit == spike.repository.head
    assert check_owner(spike.work) is None


def test_the_record_survives_a_seal_file(spike: Spike) -> None:
    text = json.dumps(spike.pointer.to_json())
    assert Pointer.from_json(json.loads(text)) == spike.pointer
    for damaged in (
        {},
        {**spike.pointer.to_json(), "inode": "1"},
        {**spike.pointer.to_json(), "more": 1},
        {**spike.pointer.to_json(), "inode": True},
    ):
        with pytest.raises(ValueError, match="pointer"):
            Pointer.from_json(dict(damaged))


def other_pointer(spike: Spike) -> None:
    (spike.work / ".git").write_text("gitdir: /tmp/evil\n")


def pointer_directory(spike: Spike) -> None:
    (spike.work / ".git").unlink()
    (spike.work / ".git").mkdir()


def pointer_link(spike: Spike) -> None:
    os.rename(spike.work / ".git", spike.judge / "git")
    (spike.work / ".git").symlink_to(spike.judge / "git")


def pointer_gone(spike: Spike) -> None:
    (spike.work / ".git").unlink()


def admin_file(name: str, text: str) -> Callable[[Spike], None]:
    def change(spike: Spike) -> None:
        with open(os.path.join(spike.pointer.admin, name), "w") as file:
            file.write(text)

    change.__name__ = name
    return change


def branch_moved(spike: Spike) -> None:
    with open(os.path.join(spike.pointer.common, spike.pointer.branch), "w") as file:
        file.write("0" * 40 + "\n")


def branch_gone(spike: Spike) -> None:
    os.unlink(os.path.join(spike.pointer.common, spike.pointer.branch))


def other_directory(spike: Spike) -> None:
    os.rename(spike.work, spike.work.parent / "old")
    spike.work.mkdir()
    os.rename(spike.work.parent / "old/.git", spike.work / ".git")


def gone(spike: Spike) -> None:
    os.rename(spike.work, spike.work.parent / "old")


CHANGES = [
    (other_pointer, "work/.git changed"),
    (pointer_directory, "work/.git changed"),
    (pointer_link, "work/.git changed"),
    (pointer_gone, "work/.git changed"),
    (admin_file("HEAD", "ref: refs/heads/other\n"), "HEAD moved"),
    (admin_file("gitdir", "/tmp/x/.git\n"), "gitdir changed"),
    (admin_file("commondir", "/tmp/evil\n"), "commondir changed"),
    (admin_file("config.worktree", "[core]\n\tfsmonitor = touch x\n"), "configuration changed"),
    (branch_moved, "branch spike/x is at 000000000000"),
    (branch_gone, "branch spike/x is at no commit"),
    (other_directory, "another directory"),
    (gone, "work/ is gone"),
]


@pytest.mark.security
@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case[0].__name__)
def test_every_change_of_the_pointer_is_named(
    spike: Spike, case: tuple[Callable[[Spike], None], str]
) -> None:
    change, sentence = case
    watch = PointerWatch(spike.work, spike.pointer)
    _remembered(watch)
    change(spike)
    assert any(sentence in found for found in check_pointer(spike.work, spike.pointer))
    assert watch.check() == watch.check() == check_pointer(spike.work, spike.pointer)


def _remembered(watch: PointerWatch) -> None:
    """Look until the files are old enough for the watch to go by their stat alone."""
    while watch._clean is None:
        assert watch.check() == []
        time.sleep(0.02)


def test_files_that_were_not_touched_are_not_read_again(
    spike: Spike, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = PointerWatch(spike.work, spike.pointer)
    _remembered(watch)
    monkeypatch.setattr(pointer, "check_pointer", None)
    assert watch.check() == []


def test_packed_refs_that_move_the_branch_are_noticed(checkout: Checkout, spike: Spike) -> None:
    checkout.git("pack-refs", "--all")
    watch = PointerWatch(spike.work, spike.pointer)
    _remembered(watch)
    packed = Path(spike.pointer.common, "packed-refs")
    packed.write_text(packed.read_text().replace(spike.pointer.commit, "0" * 40))
    assert watch.check() == ["branch spike/x is at 000000000000"]


def test_a_commit_in_the_worktree_is_a_moved_branch(checkout: Checkout, spike: Spike) -> None:
    (spike.work / "a.py").write_text("two\n")
    checkout.git("commit", "-qam", "by the agent", cwd=spike.work)
    assert len(check_pointer(spike.work, spike.pointer)) == 1


def test_a_switched_branch_is_a_moved_head(checkout: Checkout, spike: Spike) -> None:
    checkout.git("switch", "-q", "other", cwd=spike.work)
    assert check_pointer(spike.work, spike.pointer) == ["the worktree's HEAD moved"]


def test_packed_refs_are_read(checkout: Checkout, spike: Spike) -> None:
    checkout.git("pack-refs", "--all")
    assert not os.path.exists(os.path.join(spike.pointer.common, spike.pointer.branch))
    assert check_pointer(spike.work, spike.pointer) == []
    assert read_ref(spike.pointer.common, "refs/heads/main") == spike.repository.head
    assert read_ref(spike.pointer.common, "refs/heads/mai") == ""
    assert read_ref(spike.pointer.common, "heads/main") == ""


def test_the_user_may_work_on_in_the_main_checkout(checkout: Checkout, spike: Spike) -> None:
    checkout.git("config", "user.name", "somebody")
    checkout.commit({"b.py": "b\n"})
    checkout.git("stash", "list")
    checkout.git("gc", "-q")
    checkout.git("worktree", "prune")
    assert check_pointer(spike.work, spike.pointer) == []


def test_a_foreign_owner_is_refused_with_the_remedy(
    spike: Spike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    problem = check_owner(spike.work)
    assert problem is not None
    assert problem.code is Refusal.NOT_AUTHORISED
    assert "4242" in problem.message


def test_a_plain_repository_is_no_linked_worktree(checkout: Checkout) -> None:
    checkout.commit({"a": "a"})
    with pytest.raises(Problem):
        record(checkout.repo)
