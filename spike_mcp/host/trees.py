"""Seals of whole trees outside the diff: the measurement's packages, `environment` paths (spec 4).

What is sealed of a path is its mode, size and SHA-256; mtime, ctime and inode are kept beside them
only to tell which files to hash again. Bytecode beside its source is left out: Python makes it at
will, and a run does not read it. Directories count through what is in them.

On disk: zlib over text; a header line, a JSON list of the roots, then one line a path, sorted:
`<mode> <size> <sha256> <stat> <path>` with `stat` = device, inode, mtime, ctime joined by `,`, or
`-` when it proves nothing; the path escaped like a JSON string. The digest leaves `stat` out.
"""

import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.digests import ABSENT, content, settled
from spike_mcp.host.files import PathLike, write_atomic

_HEADER = "spike-tree 1"
_NOTHING = "0" * 64
_NO_STAT = "-"
_CACHE = "__pycache__"


class Item(NamedTuple):
    """One path: `sealed` = "mode size sha256", `stat` = what must be equal to skip hashing."""

    sealed: str
    stat: str


@dataclass(frozen=True)
class TreeSeal:
    """The sealed paths below (or at) `roots`, all absolute."""

    roots: tuple[str, ...]
    items: Mapping[str, Item]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over roots, paths, modes, sizes and contents, for the `sealed` row."""
        digest = hashlib.sha256(json.dumps(sorted(self.roots)).encode("ascii"))
        for path in sorted(self.items):
            line = f"{self.items[path].sealed} {json.dumps(path)}\n"
            digest.update(line.encode("ascii"))
        return digest.hexdigest()

    def save(self, path: PathLike) -> None:
        """Write the seal (mode 0600), replacing an older one whole."""
        lines = [_HEADER, json.dumps(self.roots)]
        for name in sorted(self.items):
            item = self.items[name]
            lines.append(f"{item.sealed} {item.stat} {json.dumps(name)}")
        lines.append("")
        write_atomic(path, zlib.compress("\n".join(lines).encode("ascii"), 1), 0o600)

    @classmethod
    def load(cls, path: PathLike, expected: str) -> "TreeSeal":
        """Read a seal. `Problem(SEAL_BROKEN)` unless it has the digest `expected`."""
        try:
            with open(path, "rb") as file:
                seal = cls._parse(zlib.decompress(file.read()).decode("ascii"))
        except (OSError, ValueError, zlib.error) as error:
            raise _broken(f"can't be read ({error})") from error
        if seal.digest != expected:
            raise _broken("differs from the ledger")
        return seal

    @classmethod
    def _parse(cls, text: str) -> "TreeSeal":
        header, roots, *lines = text.split("\n")
        if header != _HEADER or not lines or lines.pop():
            raise ValueError("not a whole seal of a tree")
        items = {}
        for line in lines:
            mode, size, digest, stat_, name = line.split(" ", 4)
            # `json` only for names that need it: 100,000 calls would cost a tenth of a second.
            path = name[1:-1] if "\\" not in name else json.loads(name)
            items[path] = Item(f"{mode} {size} {digest}", stat_)
        return cls(tuple(json.loads(roots)), items)


def seal_trees(roots: Iterable[PathLike], known: TreeSeal | None = None) -> TreeSeal:
    """Seal files and trees; what `known` has with an equal stat is not hashed again.

    A root may be a file, may lie below another one, or may be absent, and is sealed as that. The
    root itself may be a symlink to a directory; links below it are sealed, not followed. What can't
    be read is sealed as unreadable, a directory like that as absent.
    """
    names = tuple(sorted({os.path.abspath(os.fspath(root)) for root in roots}))
    old = known.items if known else {}
    items = {}
    for root in names:
        for path, found in _walk(root):
            if path not in items:
                items[path] = _item(path, found, old.get(path))
    return TreeSeal(names, items)


def diff(old: TreeSeal, new: TreeSeal) -> tuple[str, ...]:
    """Paths that are in only one of the two, or differ in mode, size or content; sorted."""
    missing = Item("", _NO_STAT)
    paths = old.items.keys() | new.items.keys()
    return tuple(
        sorted(
            path
            for path in paths
            if old.items.get(path, missing).sealed != new.items.get(path, missing).sealed
        )
    )


def packages(paths: Iterable[str]) -> tuple[str, ...]:
    """Names of the packages that these files belong to; a file of none stands for itself."""
    return tuple(sorted({_package(path) for path in paths}))


def _package(path: str) -> str:
    parts = path.split("/")
    for place in range(len(parts) - 2, -1, -1):
        name = parts[place + 1]
        if parts[place] == "node_modules":
            scoped = name.startswith("@") and len(parts) > place + 2
            return f"{name}/{parts[place + 2]}" if scoped else name
        if parts[place] in ("site-packages", "dist-packages"):
            if name.endswith((".dist-info", ".egg-info")):
                return name.partition("-")[0].removesuffix(".egg-info")
            return name.removesuffix(".py")
    return path


def _item(path: str, found: os.stat_result | None, old: Item | None) -> Item:
    if found is None:
        return Item(f"000000 0 {_NOTHING}", _NO_STAT)
    if old is not None and old.stat != _NO_STAT and old.stat == _stat_text(found):
        kept_mode, kept_size, _ = old.sealed.split(" ")
        if (int(kept_mode, 8), int(kept_size)) == (found.st_mode, found.st_size):
            return old
    digest, seen = content(path)
    if seen is None and digest == ABSENT:
        return Item(f"000000 0 {_NOTHING}", _NO_STAT)
    now = seen or found
    proof = _stat_text(now) if seen is not None and settled(now) else _NO_STAT
    word = digest.replace(" ", "-")
    return Item(f"{now.st_mode:06o} {now.st_size} {word}", proof)


def _stat_text(found: os.stat_result) -> str:
    return f"{found.st_dev},{found.st_ino},{found.st_mtime_ns},{found.st_ctime_ns}"


def _walk(root: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Everything at and below `root` that is no directory, with its own stat."""
    try:
        found = os.lstat(root)
    except OSError:
        yield root, None
        return
    if not stat.S_ISDIR(found.st_mode):
        yield root, found
        if not stat.S_ISLNK(found.st_mode) or not os.path.isdir(root):
            return
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                listed = list(entries)
        except OSError:
            yield directory, None
            continue
        sources = _sources(directory, listed)
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif not _is_bytecode_of(entry.name, sources):
                yield entry.path, _lstat(entry)


def _lstat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:  # gone since the directory was listed
        return None


def _sources(directory: str, listed: Iterable[os.DirEntry[str]]) -> set[str]:
    """Names of the Python files that bytecode in this directory can belong to."""
    if os.path.basename(directory) != _CACHE:
        return {entry.name for entry in listed}
    try:
        return set(os.listdir(os.path.dirname(directory)))
    except OSError:
        return set()


def _is_bytecode_of(name: str, sources: set[str]) -> bool:
    """Whether a file is bytecode (or a half-written one) of a source that is sealed itself.

    `a.cpython-311-pytest-9.2.0.pyc.4711` belongs to `a.py`: every dot may end the module's name.
    """
    if ".pyc" not in name:
        return False
    parts = name.split(".")
    return any(".".join(parts[:end]) + ".py" in sources for end in range(1, len(parts)))


def _broken(what: str) -> Problem:
    return Problem(
        Refusal.SEAL_BROKEN,
        f"the seal of packages and environment {what}",
        "the spike can't be judged without it: close it and open a new one",
    )
