"""One walk over the tree before a run: what must be masked, which modules it holds (spec 11)."""

import os
from dataclasses import dataclass

# Never entered: huge, and nothing that is imported from the tree lies there.
_SKIP = (".git", "node_modules")


@dataclass(frozen=True, slots=True)
class Scan:
    """Repository paths: bytecode directories, sockets, and Python sources."""

    bytecode: tuple[str, ...]
    sockets: tuple[str, ...]
    sources: frozenset[str]


def scan(tree: str, skip: frozenset[str] = frozenset()) -> Scan:
    """Walk `tree` once, by directory entries only (no file is opened, no `lstat` is needed).

    `skip`: repository paths of directories that are not entered (the environment).
    """
    bytecode: list[str] = []
    sockets: list[str] = []
    sources: set[str] = set()
    todo = [""]
    while todo:
        directory = todo.pop()
        for entry in _entries(os.path.join(tree, directory) if directory else tree):
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name == "__pycache__":
                    bytecode.append(path)
                elif entry.name not in _SKIP and path not in skip:
                    todo.append(path)
            elif entry.name.endswith(".py"):
                sources.add(path)
            elif _is_special(entry):
                sockets.append(path)
    return Scan(tuple(sorted(bytecode)), tuple(sorted(sockets)), frozenset(sources))


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def _is_special(entry: "os.DirEntry[str]") -> bool:
    """Socket, FIFO or device: no test has business with one that it did not make."""
    return not (entry.is_file(follow_symlinks=False) or entry.is_symlink())
