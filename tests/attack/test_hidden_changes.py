"""Changes that `git diff HEAD` does not show are named all the same, and run nothing.

Each case first proves that git is blind to it: a case that git learns to see would be no test.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import WHO, Checkout, Spike

EXTRA = b"one\nextra = 1\n"


@pytest.fixture
def spike(checkout: Checkout) -> Spike:
    checkout.commit({"src/a.py": "one\n", ".gitignore": "build/\n", "tests/t.py": "assert 1\n"})
    return checkout.spike()


def git(spike: Spike, *arguments: str, check: bool = True) -> str:
    """The user's own git in the worktree, with the user's own configuration."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=spike.work,
        env={**os.environ, **WHO},
        check=check,
        capture_output=True,
        text=True,
    )
    return done.stdout


def put(spike: Spike, name: str, data: bytes) -> None:
    (spike.work / name).parent.mkdir(parents=True, exist_ok=True)
    (spike.work / name).write_bytes(data)


def append(spike: Spike, name: str, text: str) -> None:
    with open(os.path.join(spike.pointer.common, name), "a") as file:
        file.write(text)


def untracked(spike: Spike, marker: Path) -> None:
    put(spike, "src/sub/deep/e.py", b"")


def ignored(spike: Spike, marker: Path) -> None:
    put(spike, "build/evil.py", b"")


def excluded(spike: Spike, marker: Path) -> None:
    append(spike, "info/exclude", "src/evil2.py\n")
    put(spike, "src/evil2.py", b"")


def nested_repository(spike: Spike, marker: Path) -> None:
    (spike.work / "src/inner").mkdir()
    git(spike, "init", "-q", "src/inner")


def no_diff_attribute(spike: Spike, marker: Path) -> None:
    append(spike, "info/attributes", "*.py -diff\n")
    put(spike, "src/a.py", EXTRA)


def nul_byte(spike: Spike, marker: Path) -> None:
    put(spike, "src/a.py", EXTRA + b"\0")


def clean_filter(spike: Spike, marker: Path) -> None:
    append(spike, "info/attributes", "a.py filter=e\n")
    git(spike, "config", "filter.e.clean", f"touch {marker}; printf 'one\\n'")
    put(spike, "src/a.py", EXTRA)


def external_diff(spike: Spike, marker: Path) -> None:
    git(spike, "config", "diff.external", f"touch {marker}; true")
    put(spike, "src/a.py", EXTRA)


def other_line_ends(spike: Spike, marker: Path) -> None:
    git(spike, "config", "core.autocrlf", "true")
    put(spike, "src/a.py", b"one\r\n")


def moved_head(spike: Spike, marker: Path) -> None:
    put(spike, "src/a.py", EXTRA)
    git(spike, "commit", "-qam", "moved")


def assume_unchanged(spike: Spike, marker: Path) -> None:
    git(spike, "update-index", "--assume-unchanged", "src/a.py")
    put(spike, "src/a.py", EXTRA)


def skip_worktree(spike: Spike, marker: Path) -> None:
    git(spike, "update-index", "--skip-worktree", "src/a.py")
    put(spike, "src/a.py", EXTRA)


def file_monitor(spike: Spike, marker: Path) -> None:
    program = spike.judge / "monitor"
    program.write_text(f"#!/bin/sh\ntouch {marker}\nprintf 'token\\0'\n")
    program.chmod(0o755)
    git(spike, "config", "core.fsmonitor", str(program))
    git(spike, "status")
    put(spike, "src/a.py", EXTRA)


def empty_directory(spike: Spike, marker: Path) -> None:
    (spike.work / "src/empty").mkdir()


def shows_nothing(spike: Spike, names: list[str]) -> bool:
    """Whether git's diff has no readable hunk with the change."""
    text = git(spike, "diff", "HEAD", check=False)
    return (
        "extra" not in text and "+one" not in text and not any("+++ b/" + n in text for n in names)
    )


CHANGED = [("src/a.py", "changed")]
CASES: list[tuple[Callable[[Spike, Path], None], list[tuple[str, str]]]] = [
    (untracked, [("src/sub/deep/e.py", "added")]),
    (ignored, [("build/evil.py", "added")]),
    (excluded, [("src/evil2.py", "added")]),
    (nested_repository, [("src/inner/.git", "nested_repository")]),
    (no_diff_attribute, CHANGED),
    (nul_byte, CHANGED),
    (clean_filter, CHANGED),
    (external_diff, CHANGED),
    (other_line_ends, CHANGED),
    (moved_head, CHANGED),
    (assume_unchanged, CHANGED),
    (skip_worktree, CHANGED),
    (file_monitor, CHANGED),
    (empty_directory, [("src/empty", "directory")]),
]


@pytest.mark.security
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_a_change_git_does_not_show_is_found_by_its_bytes(
    spike: Spike,
    tmp_path: Path,
    case: tuple[Callable[[Spike, Path], None], list[tuple[str, str]]],
) -> None:
    change, expected = case
    marker = tmp_path / "a_program_ran"
    change(spike, marker)
    assert shows_nothing(spike, [name for name, _ in expected])
    marker.unlink(missing_ok=True)
    assert spike.findings() == expected
    assert spike.sweeper().sweep({}, rehash=True).findings
    assert not marker.exists()


@pytest.mark.security
def test_a_change_that_is_staged_and_then_taken_back_from_the_tree_leaves_no_finding(
    checkout: Checkout, spike: Spike
) -> None:
    """The index is the human's convenience: what lies only there is not in the diff."""
    put(spike, "src/a.py", EXTRA)
    git(spike, "add", "src/a.py")
    put(spike, "src/a.py", b"one\n")
    assert spike.findings() == []
