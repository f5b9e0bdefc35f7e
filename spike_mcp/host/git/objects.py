"""Objects: read with their digest checked, trees built in memory, stored when asked (spec 13).

A tree is a list of (mode, name, oid) and its id a digest of that list, so the tree "baseline plus
approved changes" is computed here: only the directories on the way to a change are read, all else
keeps its entry. Every object read is hashed again and compared with the id it was asked by: a
replace ref, graft, alternate or damaged store can make this fail, but not make it lie.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.host.files import PathLike
from spike_mcp.host.git.process import Result, run, users_environment

TREE: Final = 0o40000
GITLINK: Final = 0o160000
_NEW: Final = 0o100644
_IDENT: Final = re.compile(r"(.*?) <([^<>\n]*)>")


@dataclass(frozen=True, slots=True, order=True)
class TreeEntry:
    """One line of a tree listing: path as text (surrogateescape), git's mode, object id in hex."""

    path: str
    mode: int
    oid: str


@dataclass(frozen=True, slots=True)
class TreeChange:
    """What a path becomes: its bytes as they shall be in the blob, or the id of a stored blob.

    `mode` None keeps the old entry's (100644 for a new one).
    """

    data: bytes | None = None
    oid: str = ""
    mode: int | None = None


@dataclass(slots=True)
class _Directory:
    """Changes sorted into a directory: its own entries and those below."""

    files: dict[bytes, TreeChange | None]
    below: "dict[bytes, _Directory]"


class Git:
    """A repository's objects and refs, by its common directory. Never looks at a worktree."""

    def __init__(self, common: PathLike) -> None:
        self.common = str(common)

    def run(self, verb: str, *arguments: str | bytes, stdin: bytes | None = None) -> Result:
        """A git command on this repository's objects and refs."""
        return run(verb, *arguments, git_dir=self.common, stdin=stdin)

    @cached_property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        found = self.run("rev-parse", "--show-object-format").output().decode("ascii").strip()
        if found not in ("sha1", "sha256"):
            raise Problem(Usage.UNSUPPORTED_REPOSITORY, f"unknown object format {found!r}")
        return found

    def object_id(self, kind: str, data: bytes) -> str:
        """The id git gives to an object of these bytes."""
        digest = hashlib.new(self.object_format, usedforsecurity=False)
        digest.update(b"%s %d\0" % (kind.encode("ascii"), len(data)))
        digest.update(data)
        return digest.hexdigest()

    def resolve(self, name: str) -> str | None:
        """The object id a full ref name or an id stands for, None if there is none."""
        result = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return result.out.decode("ascii").strip() if result.code == 0 else None

    def read(self, kind: str, oid: str) -> bytes:
        """An object's bytes, checked against its id; `Problem(GIT_FAILED)` if they differ."""
        data = self.run("cat-file", kind, oid).output()
        if self.object_id(kind, data) != oid:
            raise Problem(
                Usage.GIT_FAILED,
                f"the object store gives other bytes for {kind} {oid[:12]} than its id says",
                "run git fsck",
            )
        return data

    def write(self, kind: str, data: bytes) -> str:
        """Store an object (no filter is asked); return its id."""
        oid = self.object_id(kind, data)
        stored = self.run("hash-object", "-w", "-t", kind, "--stdin", stdin=data).output()
        if stored.decode("ascii").strip() != oid:
            raise Problem(Usage.GIT_FAILED, f"git stored {kind} {oid[:12]} under another id")
        return oid

    def tree_of(self, commit: str) -> str:
        """The tree of a commit, read from the checked bytes of the commit."""
        first = self.read("commit", commit).partition(b"\n")[0]
        return first.removeprefix(b"tree ").decode("ascii")

    def listing(self, commit: str) -> list[TreeEntry]:
        """Every file, link and submodule of a commit, in git's order."""
        out = self.run("ls-tree", "-r", "-z", "--full-tree", commit).output()
        return list(_parse_listing(out))

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """The entry of one path in a commit; a directory is one with mode 040000."""
        raw = path.encode("utf-8", "surrogateescape")
        out = self.run("ls-tree", "-z", "--full-tree", commit, "--", raw).output()
        return next(_parse_listing(out), None)

    def tree_with(
        self, base: str, changes: Mapping[str, TreeChange | None], *, store: bool = False
    ) -> str:
        """Id of the tree `base` with these paths changed (None = removed).

        Nothing is written unless `store`. Directories left empty vanish, as git has none.
        """
        top = _Directory({}, {})
        for path, change in changes.items():
            *parents, name = path.encode("utf-8", "surrogateescape").split(b"/")
            directory = top
            for parent in parents:
                directory = directory.below.setdefault(parent, _Directory({}, {}))
            directory.files[name] = change
        entries = self._changed(base, top, store)
        return self._keep("tree", _pack(entries), store)

    def commit_tree(self, tree: str, parent: str, message: str) -> str:
        """Store a commit with exactly one parent, in the user's name; return its id."""
        name, mail = self.identity()
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", name), ("EMAIL", mail))
        }
        text = message.encode("utf-8", "surrogateescape")
        arguments = ("-p", parent, "-F", "-", tree)
        result = run("commit-tree", *arguments, git_dir=self.common, stdin=text, environment=who)
        return result.output().decode("ascii").strip()

    def identity(self) -> tuple[str, str]:
        """Name and address for commits, from the user's own configuration, else a plain one."""
        result = run(
            "var", "GIT_AUTHOR_IDENT", git_dir=self.common, environment=users_environment()
        )
        match = _IDENT.match(result.out.decode("utf-8", "surrogateescape"))
        if result.code != 0 or match is None:
            return "spike", "spike@localhost"
        return match[1], match[2]

    def update_ref(self, ref: str, new: str, old: str, reason: str) -> None:
        """Move a branch from `old` to `new`; `Problem(GIT_FAILED)` if it is not at `old`."""
        arguments = ("--no-deref", "-m", reason, ref, new, old)
        self.run("update-ref", *arguments).output()

    def delete_ref(self, ref: str, old: str) -> None:
        """Delete a branch that is at `old`; `Problem(GIT_FAILED)` if it is not."""
        self.run("update-ref", "--no-deref", "-d", ref, old).output()

    def is_merged(self, commit: str, branch: str) -> bool:
        """Whether any branch but `branch` (a full ref name) contains the commit."""
        places = ("refs/heads", "refs/remotes")
        out = self.run(
            "for-each-ref", f"--contains={commit}", "--format=%(refname)", *places
        ).output()
        return any(ref != branch.encode() for ref in out.splitlines())

    def patch(self, base: str, tree: str) -> bytes:
        """The difference of two trees as a patch that `git apply` takes anywhere.

        Plumbing with every choice spelled out: no setting or attribute of the repository changes
        it, no program runs, NUL bytes hide nothing.
        """
        return self.run(
            "diff-tree",
            "-r",
            "-p",
            "--text",
            "--binary",
            "--full-index",
            "--no-renames",
            "--no-textconv",
            "--no-ext-diff",
            "--no-color",
            "--unified=3",
            "--inter-hunk-context=0",
            "--diff-algorithm=myers",
            "--indent-heuristic",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--ignore-submodules=none",
            base,
            tree,
        ).output()

    def _changed(self, base: str, wanted: _Directory, store: bool) -> dict[bytes, tuple[int, str]]:
        entries = dict(_parse_tree(self.read("tree", base), self.object_format)) if base else {}
        for name, change in wanted.files.items():
            if change is None and entries.get(name, (TREE, ""))[0] not in (TREE, GITLINK):
                del entries[name]
        for name, below in wanted.below.items():
            mode, oid = entries.get(name, (0, ""))
            inner = self._changed(oid if mode == TREE else "", below, store)
            if inner:
                entries[name] = (TREE, self._keep("tree", _pack(inner), store))
            elif mode == TREE:
                del entries[name]
        for name, change in wanted.files.items():
            if change is not None:
                entries[name] = self._entry(change, entries.get(name), store)
        return entries

    def _entry(
        self, change: TreeChange, old: tuple[int, str] | None, store: bool
    ) -> tuple[int, str]:
        if old is not None and old[0] in (TREE, GITLINK):
            raise ValueError("a file can't take the place of a directory or submodule")
        kept = old[0] if old is not None else _NEW
        mode = change.mode if change.mode is not None else kept
        if change.data is None:
            return mode, change.oid
        return mode, self._keep("blob", change.data, store)

    def _keep(self, kind: str, data: bytes, store: bool) -> str:
        return self.write(kind, data) if store else self.object_id(kind, data)


def _parse_listing(out: bytes) -> Iterator[TreeEntry]:
    for line in out.split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, oid = head.split(b" ")
        text = path.decode("utf-8", "surrogateescape")
        yield TreeEntry(text, int(mode, 8), oid.decode("ascii"))


def _parse_tree(data: bytes, object_format: str) -> Iterator[tuple[bytes, tuple[int, str]]]:
    length = hashlib.new(object_format, usedforsecurity=False).digest_size
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + length
        yield name, (int(mode, 8), data[end + 1 : at].hex())


def _pack(entries: Mapping[bytes, tuple[int, str]]) -> bytes:
    """A tree object's bytes; git sorts a directory as if its name ended in a slash."""
    order = sorted(entries, key=lambda name: name + b"/" * (entries[name][0] == TREE))
    return b"".join(
        b"%o %s\0%s" % (entries[name][0], name, bytes.fromhex(entries[name][1])) for name in order
    )
