"""Writes the tables of docs/clients.md from the record of the tests with the real programs.

python docs/make_clients.py          rewrite the tables
python docs/make_clients.py --check  exit 1 if they are out of date

The record is tests/clients/record.json; `SPIKE_CLIENT_RECORD=1 make test-clients` makes it anew.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spike_mcp.edge.clients import PROGRAMS, SDKS, client
from spike_mcp.edge.clients.model import Client, Place

HERE = Path(__file__).parent
PAGE = HERE / "clients.md"
RECORD = HERE.parent / "tests/clients/record.json"
EXAMPLE = Place("AGENT", ("SERVER",), "WORK")


def tables(record: dict[str, Any]) -> dict[str, str]:
    """Name of a marked part of the page -> its text."""
    return {
        "clients": "\n".join(_clients(record)),
        "commands": "\n".join(_commands()),
        "sandbox": "\n".join(_sandbox()),
    }


def _clients(record: dict[str, Any]) -> Iterator[str]:
    yield "| client | version tried | the model sees X as | tools of its own left | time-outs |" + (
        " without our configuration | under `spike run` |"
    )
    yield "|---|---|---|---|---|---|---|"
    for each in map(client, (*PROGRAMS, *SDKS)):
        seen = record.get(each.name, {})
        tried = seen.get("version") == each.tried and "configured" in seen
        left = ", ".join(seen["configured"]["left"]) if tried else ", ".join(each.left)
        yield _row(
            each.title,
            each.tried if tried else "never tried",
            f"`{each.shows}`",
            left or "none",
            each.limits,
            _control(seen),
            _enforced(each, seen),
        )


def _control(seen: dict[str, Any]) -> str:
    found = seen.get("control", {}).get("written", [])
    return f"the same steps wrote {len(found)} files" if found else "–"


def _enforced(each: Client, seen: dict[str, Any]) -> str:
    if each.sandbox is None:
        return "not prepared: give its configuration by hand" if each.tried else "no"
    if "enforced" not in seen:
        return "not tried"
    readers = ", ".join(sorted(set(seen["enforced"]["left"]) - set(each.left)))
    said = f"held; may also use {readers}" if readers else "held"
    if "raid" in seen and "raid_control" in seen:
        outside = seen["raid_control"]["changed_outside"]
        said += f". Its own shell changed {outside} paths outside, none inside"
    return said


def _commands() -> Iterator[str]:
    yield "`AGENT` is the client's directory below `<root>/agent/`, `WORK` the worktree."
    yield ""
    yield "| client | command line |"
    yield "|---|---|"
    for each in map(client, PROGRAMS):
        setup = each.setup(EXAMPLE)
        env = [f"{name}={value}" for name, value in setup.env.items()]
        line = " ".join([*env, each.program, *map(_quoted, setup.args)])
        yield _row(each.name, f"`{_SEVERAL.sub(_first_and_dots, line)}`")


_SEVERAL = re.compile(
    r"(--allow spike_\w+)( --allow \w+)+|(--exclude \w+)( --exclude \w+)+|"
    r"(=spike-spike_\w+)(,spike-spike_\w+)+"
)
"""Lists of tools, of which one is enough to show."""


def _first_and_dots(found: re.Match[str]) -> str:
    return f"{found[1] or found[3] or found[5]} ..."


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./*-]+", word) else f"'{word}'"


def _sandbox() -> Iterator[str]:
    yield "| client | variables passed on | hosts | shown read-only of your home | copied | kept |"
    yield "|---|---|---|---|---|---|"
    for each in map(client, PROGRAMS):
        box = each.sandbox
        if box is not None:
            yield _row(
                each.name,
                ", ".join(box.keys),
                ", ".join(box.hosts),
                ", ".join((*box.credentials, *box.folders)) or "–",
                ", ".join(box.copied) or "–",
                ", ".join(box.transcripts),
            )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page(text: str, parts: dict[str, str]) -> str:
    """The page with its marked parts replaced."""
    for name, table in parts.items():
        mark = re.compile(rf"(<!-- begin {name}[^\n]*-->\n).*?(\n<!-- end {name} -->)", re.DOTALL)
        text, count = mark.subn(lambda found, table=table: found[1] + table + found[2], text)
        assert count == 1, f"docs/clients.md has no part {name}"
    return text


def main(argv: list[str]) -> int:
    """Rewrite or check the page."""
    old = PAGE.read_text()
    new = page(old, tables(json.loads(RECORD.read_text())))
    if "--check" in argv:
        if old != new:
            print("docs/clients.md is out of date: python docs/make_clients.py")
        return int(old != new)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
