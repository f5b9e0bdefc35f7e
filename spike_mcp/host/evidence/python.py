"""Adapters for pytest and unittest: our recorder runs beside the project's own configuration."""

import os
import re
from collections.abc import Sequence

from spike_mcp.host.evidence.model import Launch, Reader
from spike_mcp.host.evidence.stream import EventReader
from spike_mcp.host.sandbox.model import Places

VARIABLE = "SPIKE_EVENTS"
JOB_VARIABLE = "SPIKE_JOB"
_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*(t|d)?$")
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_DETAIL = (
    "the events come from the test process itself, which the code under test shares;"
    " negative controls and hidden vectors are what it can't forge"
)


def is_python(program: str) -> bool:
    """Does the name of this program look like a Python interpreter's?"""
    return _INTERPRETER.match(os.path.basename(program)) is not None


def module_at(argv: Sequence[str]) -> int | None:
    """Index of the module's name in `python [flags] -m NAME ...`; None for any other form."""
    index = 1
    while index < len(argv):
        word = argv[index]
        if word == "-m":
            return index + 1 if index + 1 < len(argv) else None
        if not word.startswith("-") or word in ("-", "--", "-c"):
            return None
        index += 2 if word in _WITH_VALUE else 1
    return None


class PytestAdapter:
    """pytest, started by module or by its console script."""

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """The project's interpreter with its flags, our recorder, pytest's own arguments."""
        argv, at = places.argv, module_at(places.argv)
        if at is not None:
            flags, flavour, rest = argv[1 : at - 1], "module", argv[at + 1 :]
        else:
            # `python /venv/bin/pytest ...`: the interpreter comes from the script's first line.
            flags, flavour, rest = (), argv[1], argv[2:]
        extra = ("--collect-only", "-q") if dry else ()
        start = (argv[0], *flags, "-B", f"{inside}/pytest_run.py", flavour)
        return Launch((*start, *rest, *extra), channel=True)

    def reader(self, dry: bool) -> Reader:
        """Events of the recorder."""
        del dry
        return EventReader("pytest", _DETAIL)


class UnittestAdapter:
    """`python -m unittest ...`."""

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """The project's interpreter with its flags, our recorder, unittest's own arguments."""
        argv, at = places.argv, module_at(places.argv) or 2
        start = (argv[0], *argv[1 : at - 1], "-B", f"{inside}/unittest_run.py")
        return Launch((*start, "list" if dry else "run", *argv[at + 1 :]), channel=True)

    def reader(self, dry: bool) -> Reader:
        """Events of the recorder."""
        del dry
        return EventReader("unittest", _DETAIL)
