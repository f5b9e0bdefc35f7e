"""Making and removing `work/`, a linked worktree on the branch `spike/<name>` (spec 3, 13).

At `init` the repository's own filters (eol, ident, LFS) run, as for the user: what they make
of the commit is the baseline. Once the agent has started, no worktree file is read through
Git, and the filters are switched off by name all the same.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.host import handles
from spike_mcp.host.files import PathLike
from spike_mcp.host.git.objects import Git
from spike_mcp.host.git.process import CHECKOUT_SECONDS, Result, run
from spike_mcp.host.git.repository import Repository
from spike_mcp.host.pointer import Pointer, record
from spike_mcp.host.removal import remove_worktree_files

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""

_COUNT: Final = re.compile(rb"\((\d+)/(\d+)\)")


def add_worktree(
    repository: Repository,
    path: PathLike,
    branch: str,
    commit: str,
    on_progress: Progress | None = None,
) -> Pointer:
    """Check `commit` out at `path` (absolute, not there yet) on the new branch `branch`.

    Return what ties it to the repository. Raises `Problem` (`SPIKE_EXISTS`, or
    `UNSUPPORTED_REPOSITORY` naming a branch that is in the way, `STORAGE_FULL`, or `GIT_FAILED`);
    whatever was made until then is gone again.
    """
    where = _real(path)
    _check_free(repository.git, where, branch)
    entries = os.path.join(repository.common, "worktrees")
    first = not os.path.isdir(entries)
    try:
        # Without a checkout first: `worktree add` has no way to tell its progress.
        add = ("add", "--quiet", "--no-checkout", "-b", branch, where, commit)
        _made(run("worktree", *add, git_dir=repository.git_dir))
        pointer = record(where)
        result = run(
            "read-tree",
            "--reset",
            "-u",
            "-v",
            commit,
            git_dir=pointer.admin,
            work_tree=where,
            cwd=where,
            # HOME: the user's own filters. DELAY: git is silent for two seconds otherwise.
            environment={"HOME": os.environ.get("HOME"), "GIT_PROGRESS_DELAY": "0"},
            seconds=CHECKOUT_SECONDS,
            on_stderr=lambda piece: _tell(piece, on_progress),
        )
        _made(result)
    except BaseException:
        _clean_up(repository.git, where, branch, commit)
        if first:
            with suppress(OSError):
                os.rmdir(entries)
        raise
    return pointer


_NO_ROOM: Final = re.compile(
    "No space left on device|Disk quota exceeded|Read-only file system|File too large"
    "|unable to write file"  # git says no more where a write failed half way
)


def _made(result: Result) -> None:
    """Raise what a failed command calls for: a full disk is no fault of git's."""
    if result.code == 0:
        return
    if _NO_ROOM.search(result.reason):
        raise Problem(
            Refusal.STORAGE_FULL,
            f"there is no room for the worktree: {result.reason}",
            "free some space; $SPIKE_HOME or --root name another place",
        )
    # A filter that is not installed says so first; git's own last words do not name it.
    lines = result.err.decode("utf-8", "replace").replace("\r", "\n").splitlines()
    said = [line for line in lines if line.strip() and not _COUNT.search(line.encode())]
    first = f" ({said[0]})" if said and result.reason not in said[0] else ""
    raise Problem(
        Usage.GIT_FAILED,
        f"git {result.verb} failed: {result.reason}{first}",
        "git worktree add would fail alike: see to what it says first",
    )


@dataclass(frozen=True, slots=True)
class Removed:
    """What `remove_worktree` took away, and what it left and why; sentences for the human."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]


def check_removable(root: PathLike, pointer: Pointer, tip: str) -> str | None:
    """Whether `remove_worktree` would go through; where the branch is now, None = nowhere.

    Raises `Problem(WORKTREE_TAMPERED)`, `Problem(NOT_AUTHORISED)`.
    """
    git = Git(pointer.common)
    _verify_own(_real(root), pointer)
    now = git.resolve(pointer.branch)
    if now is not None and tip != pointer.commit and not git.is_merged(now, pointer.branch):
        name = pointer.branch.removeprefix("refs/heads/")
        raise Problem(
            Refusal.NOT_AUTHORISED,
            f"branch {name} holds a shipped commit that no other branch contains",
            # `git branch -D` refuses a branch that a worktree has checked out.
            f"merge it first; to throw it away: git update-ref -d {pointer.branch}",
        )
    return now


def remove_worktree(root: PathLike, pointer: Pointer, tip: str) -> Removed:
    """Remove `work/`, its entry in the repository and the branch, if the branch is at `tip`.

    Before anything is touched: `root` is verified to be the directory that was made, and a branch
    whose shipped commit (`tip` is not the baseline) no other branch contains is refused. A worktree
    already gone is no error. Raises `Problem(WORKTREE_TAMPERED)`, `Problem(NOT_AUTHORISED)`.
    """
    where = _real(root)
    git = Git(pointer.common)
    name = pointer.branch.removeprefix("refs/heads/")
    now = check_removable(root, pointer, tip)
    removed = []
    if os.path.lexists(where):
        remove_worktree_files(where)
        removed.append(where)
    if os.path.isdir(pointer.admin):
        git.run("worktree", "remove", "--force", "--force", where).output()
        removed.append(f"worktree entry {pointer.admin}")
    if now == tip:
        git.delete_ref(pointer.branch, tip)
        return Removed((*removed, f"branch {name}"), ())
    kept = () if now is None else (f"branch {name} is at {now[:12]}, not at {tip[:12]}: kept",)
    return Removed(tuple(removed), kept)


def mark_intent(root: PathLike, pointer: Pointer, paths: Iterable[str], *, add: bool) -> bool:
    """Show approved new files in `git diff` (`add`), or forget them again, in work/'s index only.

    A convenience for the human: False, and nothing else, if the index is locked or refuses.
    """
    names = b"\0".join(handles.encode(path) for path in paths)
    if not names:
        return True
    arguments = (
        ("add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
        if add
        else ("update-index", "--force-remove", "-z", "--stdin")
    )
    result = run(
        *arguments,
        git_dir=pointer.admin,
        work_tree=os.fspath(root),
        cwd=os.fspath(root),
        stdin=names + b"\0",
        environment=_filters_off(pointer.admin),
    )
    return result.code == 0


def checked_out(root: PathLike, pointer: Pointer, path: str, oid: str) -> bytes:
    """The blob as a checkout writes it: line ends and `$Id$` converted, filter drivers off.

    For putting back a file that was converted at init; the caller compares the digest. Attributes
    are read from the worktree as it is, so the answer is a guess until then.
    """
    name = b"--path=" + handles.encode(path)
    return run(
        "cat-file",
        "--filters",
        name,
        oid,
        git_dir=pointer.admin,
        work_tree=os.fspath(root),
        cwd=os.fspath(root),
        environment=_filters_off(pointer.admin),
    ).output()


def _real(path: PathLike) -> str:
    """The path with links above it resolved, as git records it; a link itself stays one."""
    above, name = os.path.split(os.fspath(path))
    return os.path.join(os.path.realpath(above), name)


def _check_free(git: Git, where: str, branch: str) -> None:
    if os.path.lexists(where):
        raise Problem(Usage.SPIKE_EXISTS, f"{where} exists already", "choose another name")
    ref = f"refs/heads/{branch}"
    if git.resolve(ref) is not None:
        hint = "choose another name, or remove the old spike: spike rm"
        raise Problem(Usage.SPIKE_EXISTS, f"a branch called {branch} exists already", hint)
    parents = branch.split("/")
    in_way = [
        name
        for name in ("/".join(parents[:depth]) for depth in range(1, len(parents)))
        if git.resolve(f"refs/heads/{name}") is not None
    ]
    below = git.run("for-each-ref", "--count=1", "--format=%(refname)", ref + "/").output()
    in_way += [handles.decode(line).removeprefix("refs/heads/") for line in below.splitlines()]
    if in_way:
        raise Problem(
            Usage.UNSUPPORTED_REPOSITORY,
            f"a branch called {in_way[0]} exists, and git can't keep {branch} beside it",
            f"rename it: git branch -m {in_way[0]} another-name",
        )


def _clean_up(git: Git, where: str, branch: str, commit: str) -> None:
    """Nothing half made stays; what can't be removed now must not hide the first error."""
    with suppress(OSError, Problem):
        remove_worktree_files(where)
    with suppress(Problem):
        git.run("worktree", "remove", "--force", "--force", where)
    with suppress(Problem):
        git.delete_ref(f"refs/heads/{branch}", commit)


def _verify_own(where: str, pointer: Pointer) -> None:
    recorded = os.path.dirname(os.path.join(pointer.admin, pointer.gitdir.rstrip("\n")))
    problem = ""
    if os.path.islink(where) or os.path.normpath(recorded) != where:
        problem = "is not where the worktree was made"
    elif os.path.lexists(where) and not _is_same(where, pointer):
        problem = "is another directory than the one that was made"
    elif os.path.isdir(pointer.admin) and _text(pointer.admin, "gitdir") != pointer.gitdir:
        problem = "is not what its entry in the repository names"
    if problem:
        raise Problem(
            Refusal.WORKTREE_TAMPERED,
            f"{where} {problem}: nothing was removed",
            "look at it, and remove it yourself: git worktree remove",
        )


def _is_same(where: str, pointer: Pointer) -> bool:
    # A file system gives the number of something removed to what is made next.
    found = os.lstat(where)
    return stat.S_ISDIR(found.st_mode) and found.st_ino == pointer.inode


def _text(directory: str, name: str) -> str:
    with open(os.path.join(directory, name), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _filters_off(git_dir: str) -> dict[str, str | None]:
    """Settings that make every filter driver of the configuration do nothing.

    By environment: a driver's name may hold any character, which `-c` can't express.
    """
    found = run("config", "--null", "--name-only", "--get-regexp", "^filter[.]", git_dir=git_dir)
    drivers = {name.rpartition(b".")[0] for name in found.out.split(b"\0") if name}
    values = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    pairs = [
        (f"{handles.decode(driver)}.{key}", value)
        for driver in sorted(drivers)
        for key, value in values
    ]
    settings: dict[str, str | None] = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for place, (key, value) in enumerate(pairs):
        settings[f"GIT_CONFIG_KEY_{place}"] = key
        settings[f"GIT_CONFIG_VALUE_{place}"] = value
    return settings


def _tell(piece: bytes, on_progress: Progress | None) -> None:
    counts = _COUNT.findall(piece)
    if counts and on_progress is not None:
        done, total = counts[-1]
        on_progress(int(done), int(total))
