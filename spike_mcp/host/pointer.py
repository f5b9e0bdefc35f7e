"""What ties `work/` to its repository, recorded at init and verified on every write (spec 8, 9).

`work/.git` is a file that names an administrative directory in the repository; whoever rewrites it,
or the files it leads to, chooses the configuration that Git obeys. All of it is read here as plain
files: no program runs, and a check costs about ten system calls.

Identity of the root is inode, owner and "not a mount point". The device number is left out: it may
differ after a reboot, which a spike survives.
"""

import hashlib
import os
import stat
from dataclasses import asdict, dataclass, fields
from typing import Final, Self

from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.host import handles
from spike_mcp.host.digests import settled, stamp
from spike_mcp.host.files import PathLike, read_all

_LIMIT: Final = 1 << 16
_GITDIR: Final = "gitdir: "
_ABSENT: Final = ""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The recorded state; texts hold a file's content, "" where there is no such file.

    `admin` and `common` are absolute directories, `branch` a full ref name, `commit` its value in
    hex, `configuration` the SHA-256 of the administrative directory's `config.worktree`.
    """

    inode: int
    owner: int
    dot_git: str
    admin: str
    common: str
    head: str
    gitdir: str
    commondir: str
    configuration: str
    branch: str
    commit: str

    def to_json(self) -> dict[str, str | int]:
        """Plain values for a seal file."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, object]) -> Self:
        """The inverse of `to_json`; `ValueError` for anything else."""
        kinds = {field.name: field.type for field in fields(cls)}
        if set(value) != set(kinds) or any(
            type(value[name]) is not (int if kind is int else str) for name, kind in kinds.items()
        ):
            raise ValueError("not a worktree pointer")
        return cls(**value)  # type: ignore[arg-type]  # the types were compared above


def record(root: PathLike) -> Pointer:
    """The pointer of the worktree at `root` as it is now.

    Raises `Problem(GIT_FAILED)` if `root` is no linked worktree on a branch.
    """
    where = os.fspath(root)
    found = os.lstat(where)
    dot_git = _read(os.path.join(where, ".git"))
    admin = dot_git.removeprefix(_GITDIR).rstrip("\n")
    if not dot_git.startswith(_GITDIR) or not os.path.isabs(admin):
        raise Problem(Usage.GIT_FAILED, "work/.git does not name an administrative directory")
    commondir = _read(os.path.join(admin, "commondir"))
    common = os.path.realpath(os.path.join(admin, commondir.rstrip("\n")))
    head = _read(os.path.join(admin, "HEAD"))
    branch = head.removeprefix("ref: ").rstrip("\n")
    if not commondir or not branch.startswith("refs/heads/"):
        raise Problem(Usage.GIT_FAILED, "work/ is not a linked worktree on a branch")
    return Pointer(
        inode=found.st_ino,
        owner=found.st_uid,
        dot_git=dot_git,
        admin=admin,
        common=common,
        head=head,
        gitdir=_read(os.path.join(admin, "gitdir")),
        commondir=commondir,
        configuration=_digest(os.path.join(admin, "config.worktree")),
        branch=branch,
        commit=read_ref(common, branch),
    )


def check_pointer(root: PathLike, expected: Pointer) -> list[str]:
    """What differs from the record, one short sentence each; [] = all as it was."""
    where = os.fspath(root)
    differences = _check_root(where, expected)
    admin = expected.admin
    files = (
        (os.path.join(where, ".git"), expected.dot_git, "work/.git changed"),
        (os.path.join(admin, "HEAD"), expected.head, "the worktree's HEAD moved"),
        (os.path.join(admin, "gitdir"), expected.gitdir, "the worktree entry's gitdir changed"),
        (os.path.join(admin, "commondir"), expected.commondir, "the worktree's commondir changed"),
    )
    differences += [sentence for path, text, sentence in files if _read(path) != text]
    if _digest(os.path.join(admin, "config.worktree")) != expected.configuration:
        differences.append("the worktree's own git configuration changed")
    commit = read_ref(expected.common, expected.branch)
    if commit != expected.commit:
        name = expected.branch.removeprefix("refs/heads/")
        differences.append(f"branch {name} is at {commit[:12] or 'no commit'}")
    return differences


class PointerWatch:
    """`check_pointer` for every call of the agent: files untouched since it last found nothing are
    not read again (`digests` says why a stat is enough for that)."""

    def __init__(self, root: PathLike, expected: Pointer) -> None:
        self._root = os.fspath(root)
        self._expected = expected
        names = ("HEAD", "gitdir", "commondir", "config.worktree")
        self._paths = (
            os.path.join(self._root, ".git"),
            *(os.path.join(expected.admin, name) for name in names),
            os.path.join(expected.common, expected.branch),
        )
        self._packed = os.path.join(expected.common, "packed-refs")
        # Such a repository keeps its refs in other files than these.
        self._remembers = not os.path.isdir(os.path.join(expected.common, "reftable"))
        self._clean: tuple[object, ...] | None = None

    def check(self) -> list[str]:
        """What differs from the record, one short sentence each; [] = all as it was."""
        found = [_lstat(path) for path in self._paths]
        if found[-1] is None:  # the branch is in the packed file then, and else only there
            found.append(_lstat(self._packed))
        root = _lstat(self._root)
        if root is None:
            return check_pointer(self._root, self._expected)
        # A mount over work/ shows as another device: its parent need not be asked again.
        tie = (root.st_ino, root.st_dev, root.st_mode, root.st_uid)
        now = (tie, *(None if each is None else stamp(each) for each in found))
        if now == self._clean:
            return []
        differences = check_pointer(self._root, self._expected)
        old = all(each is None or settled(each) for each in found)
        self._clean = now if old and self._remembers and not differences else None
        return differences


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def check_owner(root: PathLike) -> Problem | None:
    """The refusal for a worktree that belongs to another user than this process's (spec 3)."""
    owner, own = os.lstat(root).st_uid, os.geteuid()
    if owner == own:
        return None
    return Problem(
        Refusal.NOT_AUTHORISED,
        f"work/ belongs to user id {owner}, this process runs as {own}",
        f"run it as user id {owner}, or open the spike as the user who runs the server",
    )


def _check_root(where: str, expected: Pointer) -> list[str]:
    try:
        found, above = os.lstat(where), os.stat(os.path.dirname(where))
    except OSError:
        return ["work/ is gone"]
    if not stat.S_ISDIR(found.st_mode) or found.st_ino != expected.inode:
        return ["work/ is another directory than the one that was made"]
    if found.st_dev != above.st_dev:
        return ["something is mounted over work/"]
    return [] if found.st_uid == expected.owner else ["work/ changed its owner"]


def read_ref(common: str, ref: str) -> str:
    """The commit a branch is at, in hex; "" if there is no such branch.

    Loose file first, then `packed-refs`. Repositories with the newer `reftable` storage keep no
    such files; for these Git itself is asked, in the cleared environment.
    """
    loose = _read(os.path.join(common, ref)).strip()
    if loose:
        return loose
    try:
        fd = os.open(os.path.join(common, "packed-refs"), handles.READ)
    except OSError:
        return _ask_git(common, ref) if os.path.isdir(os.path.join(common, "reftable")) else ""
    try:
        data = read_all(fd)
    finally:
        os.close(fd)
    end = data.find(b" " + handles.encode(ref) + b"\n")
    return "" if end < 0 else data[data.rfind(b"\n", 0, end) + 1 : end].decode("ascii", "replace")


def _ask_git(common: str, ref: str) -> str:
    from spike_mcp.host.git import Git  # only here: the check must not load subprocess

    return Git(common).resolve(ref) or ""


def _read(path: str) -> str:
    """A small regular file's content, "" for anything else; links are not followed."""
    try:
        fd = os.open(path, handles.READ)
    except OSError:
        return _ABSENT
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return _ABSENT
        return read_all(fd, _LIMIT)[:_LIMIT].decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)


def _digest(path: str) -> str:
    text = _read(path)
    return hashlib.sha256(handles.encode(text)).hexdigest() if text else _ABSENT
