"""What test runners and editors leave in a tree, told apart from somebody's changes (spec 9).

Droppings are listed separately and removed without asking by the human's commands; no run and no
scoring copy ever holds them. The list is short on purpose: a name that a language would load as
code (a `.pyc` beside its source, a `.py` inside `__pycache__`) is no dropping.
"""

import re
from enum import Enum
from typing import Final


class Cache(Enum):
    """What a directory is, as far as droppings go."""

    NONE = 0
    """An ordinary directory: only editors' files are droppings."""
    BYTECODE = 1
    """`__pycache__`: compiled files are droppings, anything else is not."""
    TOOL = 2
    """A tool's own cache: every regular file is a dropping."""


_TOOLS: Final = frozenset({".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_BYTECODE: Final = re.compile(r"[^/]+\.pyc(?:\.\d+)?")
_EDITORS: Final = re.compile(
    r"""\.[^/]*\.sw[a-p]      # vi's swap file
      | [^/]*~                # backup copy
      | \.\#[^/]*             # emacs' lock
      | \#[^/]*\#             # emacs' autosave
      | 4913                  # vi's test whether it may write
      | \.DS_Store
    """,
    re.VERBOSE,
)


def cache_below(above: Cache, name: str) -> Cache:
    """What the directory `name` is, inside a directory that is `above`."""
    if above is Cache.TOOL or name in _TOOLS:
        return Cache.TOOL
    return Cache.BYTECODE if name == "__pycache__" else Cache.NONE


def is_dropping(cache: Cache, name: str, *, regular: bool) -> bool:
    """Whether a file that nobody expects is a dropping. Links are none, but for emacs' locks."""
    if not regular:
        return name.startswith(".#")
    if cache is Cache.TOOL or _EDITORS.fullmatch(name):
        return True
    return cache is Cache.BYTECODE and _BYTECODE.fullmatch(name) is not None
