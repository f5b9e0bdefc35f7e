"""Help pages: the list of verbs by the daily flow, and one man-style page a verb."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from spike_mcp.edge.cli.layout import pad, wrap
from spike_mcp.edge.cli.out import Answer, Line
from spike_mcp.edge.cli.parser import Parser, add_globals
from spike_mcp.edge.cli.verbs import GROUPS, VERBS, Command, command

_WIDEST = 100
_NARROWEST = 60
_COLUMN = 26

STORY = (
    ("spike init NAME --hypothesis TEXT ...", "seal what is to be shown"),
    ("spike start", "see it red, start the clock"),
    ("spike run --client claude", "the agent works"),
    ("spike review", "approve or reject its hunks"),
    ("spike verdict", "SHIP, or what is missing"),
    ("spike ship", "commit what was approved"),
)

_FOOT = (
    "A page for each verb: spike VERB --help. The spike meant is --spike, else $SPIKE, else the "
    "one whose work/ holds the current directory, else the only open one."
)

SHARED_EXITS = (
    ("64", "the command line does not fit"),
    ("69", "there is no such spike"),
    ("70", "internal error; the path of its log is printed"),
    ("75", "another command holds the spike's lock"),
    ("77", "not authorised: passphrase missing or wrong"),
    ("78", "refused"),
)


def daily_flow() -> Iterator[str]:
    """The verbs of an ordinary spike, in order, and what each is for."""
    column = max(len(line) for line, _what in STORY)
    yield from (f"{pad(line, column)}  {what}" for line, what in STORY)


def overview(width: int = 0) -> Answer:
    """`spike --help`."""
    lines = list(_overview(_room(width)))
    return Answer({"help": "\n".join(map(_plain, lines))}, lines)


def page(verb: str, width: int) -> Answer:
    """`spike VERB --help`."""
    if verb == "help":
        return overview(width)
    lines = list(_page(verb, command(verb), width))
    return Answer({"verb": verb, "help": "\n".join(map(_plain, lines))}, lines)


def _room(width: int) -> int:
    return min(max(width or 80, _NARROWEST), _WIDEST)


def _plain(line: Line) -> str:
    if isinstance(line, str):
        return line
    return "".join(part if isinstance(part, str) else part[0] for part in line)


def _overview(room: int) -> Iterator[Line]:
    yield "usage: spike [--spike NAME|PATH] [--json] [--color WHEN] VERB ..."
    yield ""
    yield "The referee's desk for one time-boxed experiment of a coding agent."
    yield ""
    yield from (f"  {line}" for line in daily_flow())
    for group, title in GROUPS.items():
        yield ""
        yield [(title, "bold")]
        for verb, (where, _module, summary) in VERBS.items():
            if where == group:
                yield f"  {verb:<14} {summary}"
    yield ""
    yield from wrap(_FOOT, room)


def _page(verb: str, what: Command, width: int) -> Iterator[Line]:
    room = _room(width)
    parser = Parser(verb)
    if what.options is not None:
        what.options(parser)
    own = len(parser.listed)
    add_globals(parser)
    yield [("NAME", "bold")]
    yield f"  spike {verb} - {VERBS[verb][2]}"
    yield ""
    yield [("SYNOPSIS", "bold")]
    for usage in what.usage:
        yield from _hanging(f"spike {verb} {usage}".rstrip(), room)
    yield ""
    yield [("DESCRIPTION", "bold")]
    for paragraph in what.description.strip().split("\n\n"):
        yield from (f"  {line}" for line in wrap(paragraph, room - 2))
        yield ""
    for title, actions in (
        ("OPTIONS", parser.listed[:own]),
        ("GLOBAL OPTIONS", parser.listed[own:]),
    ):
        if actions:
            yield [(title, "bold")]
            for action in actions:
                yield from _option(action, room)
            yield ""
    yield [("EXIT STATUS", "bold")]
    for code, meaning in (*_own_exits(what), *SHARED_EXITS):
        yield f"  {code:<4} {meaning}"
    yield ""
    yield [("EXAMPLES", "bold")]
    for line, purpose in what.examples:
        yield [f"  # {purpose}"]
        yield from _typed(line, room - 8 if width else 0)


def _typed(line: str, room: int) -> Iterator[str]:
    """A command line, broken so that a shell takes it (a hypothesis may hold line ends).

    `room` 0 = whole.
    """
    *parts, last = wrap(line, room)
    lead, quotes = "  $ ", 0
    for part in parts:
        quotes += part.count('"')
        yield f"{lead}{part}" if quotes % 2 else f"{lead}{part} \\"
        lead = "      "
    yield f"{lead}{last}"


def _option(action: argparse.Action, room: int) -> Iterator[str]:
    """`  --allow PATH            what for`, the text beside the name, or below a long one."""
    name = ", ".join(action.option_strings) or _metavar(action)
    if action.option_strings and action.nargs != 0:
        name = f"{name} {_metavar(action)}"
    lines = wrap(action.help or "", room - _COLUMN)
    if len(name) + 4 <= _COLUMN:
        yield f"  {pad(name, _COLUMN - 2)}{lines.pop(0)}"
    else:
        yield f"  {name}"
    yield from (" " * _COLUMN + line for line in lines)


def _metavar(action: argparse.Action) -> str:
    if action.choices and action.metavar is None:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _own_exits(what: Command) -> Iterator[tuple[str, str]]:
    if all(code != "0" for code, _meaning in what.exits):
        yield "0", "done"
    yield from what.exits


def _hanging(text: str, room: int) -> Iterator[str]:
    first, *rest = wrap(text, room - 6)
    yield f"  {first}"
    yield from (f"      {line}" for line in rest)
