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
_WRAPPERS = frozenset({"uv", "poetry", "pdm", "pipenv", "hatch", "rye"})
_MODULES = {"pytest": Runner.PYTEST, "unittest": Runner.UNITTEST}


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
    """The runner that `argv` starts; PLAIN whenever it is not plain to see."""
    arguments = list(argv)
    if len(arguments) > 2 and _program(arguments[0]) in _WRAPPERS and arguments[1] == "run":
        arguments = arguments[2:]
    if not arguments:
        return Runner.PLAIN
    program, rest = _program(arguments[0]), arguments[1:]
    if _PYTHON.fullmatch(program):
        return _MODULES.get(_python_module(rest), Runner.PLAIN)
    if program in ("pytest", "py.test"):
        return Runner.PYTEST
    if program == "cargo" and rest and rest[0].startswith("+"):
        rest = rest[1:]
    if program in ("go", "cargo") and rest[:1] == ["test"]:
        return Runner(program)
    if program == "node" and "--test" in rest:
        return Runner.NODE
    return Runner.PLAIN
