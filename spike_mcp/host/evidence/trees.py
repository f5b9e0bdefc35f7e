"""From absolute file names of a run to repository paths, and to modules of the wrong tree."""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence

_ROOTS = ("", "src/", "lib/", "python/")


def loaded_paths(
    modules: Iterable[tuple[str, str]],
    opened: Iterable[str],
    roots: Sequence[str],
    environment: Collection[str],
) -> tuple[str, ...]:
    """Repository paths of what was read from the tree, sorted; the environment left out."""
    found = {path for _, file in modules if (path := _inside(file, roots)) is not None}
    found.update(opened)
    return tuple(sorted(path for path in found if not _in_environment(path, environment)))


def foreign_modules(
    modules: Iterable[tuple[str, str]],
    roots: Sequence[str],
    environment: Collection[str],
    exists: Callable[[str], bool],
) -> tuple[str, ...]:
    """Modules that the tree has at an import root, but that were loaded from somewhere else.

    `exists` says whether the tree under test has a file at a repository path.
    """
    found = []
    for name, file in modules:
        path = _inside(file, roots)
        if path is not None and not _in_environment(path, environment):
            continue
        if name.partition(".")[0] in sys.stdlib_module_names or name == "__main__":
            continue
        if _belongs(name, exists):
            found.append(f"{name} ({file})")
    return tuple(sorted(found))


def _inside(file: str, roots: Sequence[str]) -> str | None:
    for root in roots:
        if file.startswith(root.rstrip("/") + "/"):
            return file[len(root.rstrip("/")) + 1 :]
    return None


def _in_environment(path: str, environment: Collection[str]) -> bool:
    return any(path == entry or path.startswith(entry + "/") for entry in environment)


def _belongs(name: str, exists: Callable[[str], bool]) -> bool:
    tail = name.replace(".", "/")
    return any(exists(f"{root}{tail}.py") or exists(f"{root}{tail}/__init__.py") for root in _ROOTS)
