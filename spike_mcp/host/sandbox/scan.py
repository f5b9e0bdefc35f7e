"""One walk over the tree before a run: what must not be seen in it (spec 11)."""

import os
from dataclasses import dataclass

# Never entered: huge, and nothing that is imported from the tree lies there.
_SKIP = frozenset({".git", "node_modules"})


@dataclass(frozen=True, slots=True)
class Scan:
    """Repository paths of bytecode directories, and of sockets and other special files."""

    bytecode: tuple[str, ...]
    sockets: tuple[str, ...]


def scan(tree: str, skip: frozenset[str] = frozenset()) -> Scan:
    """Walk `tree` once, by directory entries only (no file is opened, no `lstat` is needed).

    `skip`: repository paths of directories that are not entered (the environment).
    """
    bytecode: list[str] = []
    special: list[str] = []
    todo = [""]
    while todo:
        above = todo.pop()
        try:
            with os.scandir(f"{tree}/{above}") as found:
                for entry in found:
                    # The cheap question first: most entries are plain files.
                    if entry.is_file(follow_symlinks=False):
                        continue
                    path = above + entry.name
                    if not entry.is_dir(follow_symlinks=False):
                        if not entry.is_symlink():
                            special.append(path)
                    elif entry.name == "__pycache__":
                        bytecode.append(path)
                    elif entry.name not in _SKIP and path not in skip:
                        todo.append(f"{path}/")
        except OSError:
            continue
    return Scan(tuple(sorted(bytecode)), tuple(sorted(special)))
