"""The user's checkout as `spike init` finds it: looked at, never changed (spec 3, 4)."""

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.core.paths import RepoPath
from spike_mcp.host import handles
from spike_mcp.host.files import PathLike, read_all
from spike_mcp.host.git.objects import Git, TreeChange
from spike_mcp.host.git.process import Result, run, users_environment

_LINK = 0o120000


class PathState(StrEnum):
    """A path of the user's checkout against its HEAD."""

    CLEAN = "clean"
    MODIFIED = "modified"
    UNCOMMITTED = "uncommitted"
    """In the checkout, not in HEAD."""
    DELETED = "deleted"
    """In HEAD, not in the checkout."""
    MISSING = "missing"
    """In neither."""
    NO_FILE = "no_file"
    """A directory, a submodule, or something that is no file."""


@dataclass(frozen=True)
class Repository:
    """Where a checkout lies and what it is at. All directories are absolute real paths.

    `head` is the commit in hex, `branch` its name ("" when detached). `shallow`: history is cut
    (no matter here). `alternates`: objects are borrowed from another store.
    """

    toplevel: str
    git_dir: str
    common: str
    object_format: str
    head: str
    branch: str
    shallow: bool
    alternates: bool

    @cached_property
    def git(self) -> Git:
        """The repository's objects and refs."""
        return Git(self.common)

    @cached_property
    def file_mode(self) -> bool:
        """Whether the checkout's disk keeps the executable bit (`core.fileMode`)."""
        answer = run("config", "--type=bool", "core.fileMode", git_dir=self.git_dir)
        return answer.out.strip() != b"false"

    def path_state(self, path: RepoPath) -> PathState:
        """Compare one path with HEAD; the repository's own clean filters run for it."""
        entry = self.git.entry(self.head, path.text)
        found = self._content(path)
        if entry is not None and stat.S_IFMT(entry.mode) not in (stat.S_IFREG, stat.S_IFLNK):
            return PathState.NO_FILE
        if found is None:
            return PathState.DELETED if entry is not None else PathState.MISSING
        mode, data = found
        if mode == 0:
            return PathState.NO_FILE
        if entry is None:
            return PathState.UNCOMMITTED
        same = entry.oid == self._cleaned(path, mode, data, store=False) and (
            entry.mode == mode or (not self.file_mode and entry.mode != _LINK != mode)
        )
        return PathState.CLEAN if same else PathState.MODIFIED

    def include(self, paths: Iterable[RepoPath], message: str) -> str:
        """A commit on top of HEAD with these uncommitted files as they are in the checkout.

        On no branch yet; the user's index, refs and reflog are not touched. HEAD itself if nothing
        differs. `Problem(ORACLE_NOT_COMMITTED)` for a path that is no file of the checkout.
        """
        changes: dict[str, TreeChange | None] = {}
        for path in paths:
            found = self._content(path)
            if found is None or found[0] == 0:
                raise Problem(
                    Usage.ORACLE_NOT_COMMITTED,
                    f"{path} is no file of {self.toplevel}",
                    "--include takes existing files, one by one",
                )
            mode, data = found
            oid = self._cleaned(path, mode, data, store=True)
            kept = None if mode != _LINK and not self.file_mode else mode
            changes[path.text] = TreeChange(oid=oid, mode=kept)
        base = self.git.tree_of(self.head)
        tree = self.git.tree_with(base, changes, store=True)
        return self.head if tree == base else self.git.commit_tree(tree, self.head, message)

    def submodules(self, commit: str) -> list[str]:
        """Paths of the submodules of a commit: left alone, and named by `init`."""
        return [entry.path for entry in self.git.listing(commit) if entry.mode == 0o160000]

    def _cleaned(self, path: RepoPath, mode: int, data: bytes, *, store: bool) -> str:
        """Id of the blob that `git add` would make of these bytes (eol conversion, filters)."""
        if mode == _LINK:
            return self.git.write("blob", data) if store else self.git.object_id("blob", data)
        name = b"--path=" + handles.encode(path.text)
        arguments: Sequence[bytes | str] = ("--stdin", name, *(("-w",) if store else ()))
        result = run(
            "hash-object",
            *arguments,
            git_dir=self.git_dir,
            work_tree=self.toplevel,
            cwd=self.toplevel,
            stdin=data,
            environment={"HOME": os.environ.get("HOME")},  # for the user's own filters
        )
        return result.output().decode("ascii").strip()

    def _content(self, path: RepoPath) -> tuple[int, bytes] | None:
        """(git mode, bytes) of a file or link; None if there is none, mode 0 for anything else."""
        parts = handles.components(path.text)
        with handles.opened(self.toplevel) as root:
            reached = handles.walk(root, parts[:-1])
            try:
                found = None if reached.trouble else handles.lstat(reached.fd, parts[-1])
                if found is None:
                    return None
                if stat.S_ISLNK(found.st_mode):
                    return _LINK, os.readlink(parts[-1], dir_fd=reached.fd)
                opened = handles.open_file(reached.fd, parts[-1])
                return _read(opened) if opened is not None else (0, b"")
            finally:
                os.close(reached.fd)


def discover(path: PathLike) -> Repository:
    """The checkout that holds `path`.

    `Problem` with `NOT_A_REPOSITORY`, or `UNSUPPORTED_REPOSITORY` for a bare repository, one
    without a commit, and the inside of a submodule. Linked worktrees and a detached HEAD are fine.
    """
    where = os.path.realpath(path)
    if not os.path.isdir(where):
        where = os.path.dirname(where)
    options = _options(where)
    facts = _rev_parse(where, options, "--is-bare-repository", "--is-inside-work-tree")
    if facts.split()[0] == "true":
        raise _unsupported("is a bare repository", "make a checkout: git worktree add or git clone")
    if facts.split()[1] != "true":
        raise _unsupported("is inside a .git directory", "go to the checkout")
    toplevel = _rev_parse(where, options, "--show-toplevel")
    git_dir = _rev_parse(where, options, "--absolute-git-dir")
    common = _rev_parse(where, options, "--path-format=absolute", "--git-common-dir")
    _refuse_submodule(toplevel, git_dir, common)
    more = _rev_parse(where, options, "--is-shallow-repository", "--show-object-format").split()
    head = run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", git_dir=git_dir)
    if head.code != 0:
        raise _unsupported("has no commit yet", "commit something first: it is the baseline")
    branch = run("symbolic-ref", "--quiet", "--short", "HEAD", git_dir=git_dir)
    return Repository(
        toplevel=os.path.realpath(toplevel),
        git_dir=os.path.realpath(git_dir),
        common=os.path.realpath(common),
        object_format=more[1],
        head=head.out.decode("ascii").strip(),
        branch=handles.decode(branch.out).removesuffix("\n"),
        shallow=more[0] == "true",
        alternates=os.path.exists(os.path.join(common, "objects", "info", "alternates")),
    )


def _options(where: str) -> tuple[str, ...]:
    """The user's `safe.directory` exceptions, where git asks for one, or the refusal."""
    result = run("rev-parse", "--git-dir", cwd=where)
    if result.code == 0:
        return ()
    if b"dubious ownership" not in result.err:
        raise _not_a_repository(where, result)
    known = run(
        "config", "--get-all", "-z", "safe.directory", environment=users_environment()
    ).out.split(b"\0")
    options = tuple(f"safe.directory={handles.decode(value)}" for value in known[:-1])
    if run("rev-parse", "--git-dir", cwd=where, options=options).code != 0:
        raise Problem(
            Usage.UNSUPPORTED_REPOSITORY,
            f"{where} belongs to another user",
            f"if you trust it: git config --global --add safe.directory {where}",
        )
    return options


def _rev_parse(where: str, options: tuple[str, ...], *questions: str) -> str:
    """One answer at a time where it is a path: a newline in it must not split it."""
    out = run("rev-parse", *questions, cwd=where, options=options).output()
    return handles.decode(out).removesuffix("\n")


def _refuse_submodule(toplevel: str, git_dir: str, common: str) -> None:
    """A submodule's `.git` is a file that leads below another repository's `modules`.

    Asking git (`--show-superproject-working-tree`) would start a git without our options there.
    """
    linked = os.path.realpath(git_dir) != os.path.realpath(common)
    absorbed = "/modules/" in os.path.realpath(common) + "/"
    if not linked and absorbed and os.path.isfile(os.path.join(toplevel, ".git")):
        raise _unsupported("is a submodule", "open the spike in a clone of its own")


def _read(opened: tuple[int, os.stat_result]) -> tuple[int, bytes]:
    fd, facts = opened
    try:
        data = read_all(fd)
    finally:
        os.close(fd)
    return (0o100755 if facts.st_mode & 0o100 else 0o100644), data


def _not_a_repository(where: str, result: Result) -> Problem:
    message = f"{where} is not in a git repository"
    return Problem(Usage.NOT_A_REPOSITORY, message, f"git says: {result.reason}")


def _unsupported(what: str, hint: str) -> Problem:
    return Problem(Usage.UNSUPPORTED_REPOSITORY, f"this {what}", hint)
