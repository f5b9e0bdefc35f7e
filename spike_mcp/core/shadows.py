"""New files that Python would import instead of what the measurement means (spec 4).

`pytest.py` beside the tests replaces the runner, `decimal.py` the standard library, `x/__init__.py`
the module `x.py`. Only new files count: what the baseline holds is the project's own business.
"""

import sys
from collections.abc import Callable

Exists = Callable[[str], bool]
"""Whether the baseline has a file of that repository path (directories may answer too)."""

# Python versions differ; the project's interpreter may not be ours.
_OTHER_VERSIONS = """
aifc annotationlib asynchat asyncore audioop cgi cgitb chunk compression crypt distutils imghdr imp
lib2to3 mailcap msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd string sunau telnetlib
tomllib uu xdrlib zoneinfo
"""
_RUNNERS = """
pytest _pytest pluggy iniconfig packaging py pygments exceptiongroup tomli colorama xdist execnet
coverage hypothesis anyio nose nose2 setuptools pkg_resources pip
"""
_RUNNER_NAMES = frozenset(_RUNNERS.split())
_STDLIB = sys.stdlib_module_names | frozenset(_OTHER_VERSIONS.split())
# Directories that projects put on sys.path (pytest `pythonpath`, src layouts, `PYTHONPATH`).
_ROOT_NAMES = frozenset({"src", "lib", "python", "source"})
_SUFFIXES = (".py", ".pyw", ".so", ".pyd")


def import_roots(oracle: tuple[str, ...], arguments: tuple[str, ...]) -> frozenset[str]:
    """Directories that a run may put on `sys.path`: those of oracle files and named scripts.

    `""` is the repository's top. Whether a directory is a package is asked later.
    """
    roots = {""}
    for path in (*oracle, *arguments):
        parent = path.rpartition("/")[0]
        while parent:
            roots.add(parent)
            parent = parent.rpartition("/")[0]
    return frozenset(roots)


def _module_of(path: str) -> tuple[str, str, bool] | None:
    """(directory, module name, is a package) when `path` can be imported under that name."""
    directory, _, name = path.rpartition("/")
    stem, dot, _ = name.partition(".")
    if not dot or not name.lower().endswith(_SUFFIXES):
        return None
    package = stem.lower() == "__init__"
    if package:
        directory, _, stem = directory.rpartition("/")
    return (directory, stem, package) if stem else None


def _is_root(directory: str, roots: frozenset[str], exists: Exists) -> bool:
    if directory == "":
        return True
    if directory not in roots and directory.rpartition("/")[2] not in _ROOT_NAMES:
        return False
    return not exists(f"{directory}/__init__.py")


def _shadowed_name(name: str) -> str:
    if name in _RUNNER_NAMES or name.startswith(("pytest_", "_pytest")):
        return f"a new top-level module {name} would shadow the test runner"
    if name in _STDLIB:
        return f"a new top-level module {name} would shadow Python's standard library"
    return ""


def shadow_reason(path: str, roots: frozenset[str], exists: Exists) -> str:
    """Why the new file `path` is protected, or "" (also for files the baseline has).

    Names compare without case: `PyTest.py` is `pytest.py` on some disks.
    """
    found = _module_of(path)
    if found is None or exists(path):
        return ""
    directory, name, package = found
    base = f"{directory}/{name}" if directory else name
    has_module, has_package = exists(f"{base}.py"), exists(f"{base}/__init__.py")
    if package and has_module:
        return f"a new package {base}/ would hide the module {base}.py"
    if has_module or has_package or not _is_root(directory, roots, exists):
        return ""  # the project shadows the name already, or nothing imports it from here
    return _shadowed_name(name.lower())
