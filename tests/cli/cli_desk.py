"""One `spike` command line in this process, with its output caught."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from support import PLAIN_HYPOTHESIS

from spike_mcp.edge.cli import main
from spike_mcp.edge.cli.schemas import names, schema


@dataclass(frozen=True)
class Told:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        found = json.loads(self.out)
        assert found["schema_version"] == 1
        return found

    @property
    def error(self) -> str:
        """The error's code, from the object or from the text."""
        if self.out.startswith('{"schema_version"'):
            return str(self.json.get("error", {}).get("code", ""))
        return self.err.partition("error ")[2].partition(":")[0]


def spike(*argv: str) -> Told:
    """Run one command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(argv))
    told = Told(int(code), out.getvalue(), err.getvalue())
    assert "Traceback" not in told.out + told.err
    assert told.error != "internal_error", told.err + told.out
    return told


def valid(verb: str, told: Told) -> dict[str, Any]:
    """The answer, checked against its schema; a failure against that of failures."""
    name = "error" if "error" in told.json else verb
    assert name in names()
    Draft202012Validator(schema(name)).validate(told.json)
    return told.json


INIT = (
    "--hypothesis",
    PLAIN_HYPOTHESIS,
    "--allow",
    "src/",
    "--oracle",
    "tests/test_oracle.py",
    "--",
    "sh",
    "check.sh",
)
