"""Which adapter reads a measurement's evidence, told from its argv (spec 11)."""

import re
from collections.abc import Sequence
from enum import StrEnum


class Runner(StrEnum):
    """What runs the test; `PLAIN` has an exit code only."""

    PYTEST = "pytest"
    UNITTEST = "unittest"
    GO = "go"
    CARGO = "cargo"
    NODE = "node"
    PLAIN = "plain"


_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)?)?t?")
# Interpreter options that take a value; `-m` ends the options.
_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})
_PYTEST = frozenset({"pytest", "py.test"})
_MODULES = {"pytest": Runner.PYTEST, "py.test": Runner.PYTEST, "unittest": Runner.UNITTEST}


def _program(argument: str) -> str:
    return argument.rpartition("/")[2]


def _python_module(arguments: Sequence[str]) -> str:
    """The NAME of `python [options] -m NAME`, or ""."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "-m":
            return next(rest, "")
        if argument in _WITH_VALUE:
            next(rest, "")
        elif not argument.startswith("-") or argument == "-c":
            return ""
    return ""


def detect(argv: Sequence[str]) -> Runner:
    """The runner that `argv` starts; PLAIN whenever it is not plain to see.

    Wrappers (`uv run`, `poetry run`, `tox`) are plain commands: what they start is decided by files
    that no adapter reads.
    """
    if not argv:
        return Runner.PLAIN
    program, rest = _program(argv[0]), argv[1:]
    if _PYTHON.fullmatch(program):
        if rest and _program(rest[0]) in _PYTEST:
            return Runner.PYTEST
        return _MODULES.get(_python_module(rest), Runner.PLAIN)
    if program in _PYTEST:
        return Runner.PYTEST
    words = [word for word in rest if not word.startswith("+")]
    if program == "go" and "test" in words[:3] and "-c" not in words:
        return Runner.GO
    if program == "cargo" and words[:1] in (["test"], ["t"]) and "--no-run" not in words:
        return Runner.CARGO
    if program == "node" and "--test" in words:
        return Runner.NODE
    return Runner.PLAIN
