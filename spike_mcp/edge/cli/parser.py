"""Command lines: one small argparse parser for the verb that was asked for, and man-style help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from spike_mcp.core.codes import Problem, Usage

GLOBALS = ("--spike", "--color")
"""Global options with a value; `--json` has none. All may stand before or after the verb."""

COLORS = ("auto", "always", "never")


class HelpAsked(Exception):  # noqa: N818  (a question, not a fault)
    """`--help` stood in the command line."""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """argparse makes one to check each argument; without a width it loads shutil for it."""
    return argparse.HelpFormatter(prog, width=80)


class Parser(argparse.ArgumentParser):
    """A parser that raises `Problem(USAGE)` where argparse would print and exit."""

    def __init__(self, verb: str) -> None:
        name = f"spike {verb}"
        super().__init__(
            prog=name,
            usage=name,  # else argparse formats one at every parse
            add_help=False,
            allow_abbrev=False,
            formatter_class=_formatter,
        )
        self.color = False  # argparse of Python 3.14 colours by itself
        self.verb = verb
        self.listed: list[argparse.Action] = []

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """As argparse has it; the help page lists the actions in this order."""
        action = super().add_argument(*names, **options)
        self.listed.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        """Say what does not fit, in our words."""
        said, hint = self._plain(message)
        raise Problem(Usage.USAGE, said, f"{hint}see: spike {self.verb} --help")

    def _plain(self, message: str) -> tuple[str, str]:
        """argparse's sentence as ours, and what may have been meant."""
        what, _, rest = message.partition(": ")
        if what == "the following arguments are required":
            return f"{rest} {'are' if ', ' in rest else 'is'} missing", ""
        if what == "unrecognized arguments":
            return self._unknown(rest)
        message = message.removeprefix("argument ")
        if message.endswith(": expected one argument"):
            return f"{message.partition(':')[0]} needs a value", ""
        if ": ignored explicit argument" in message:
            return f"{message.partition(':')[0]} takes no value", ""
        if ": invalid choice: " in message and " (choose from " in message:
            name, _, rest = message.partition(": invalid choice: ")
            given, _, choices = rest.partition(" (choose from ")
            listed = choices.removesuffix(")").replace("'", "")
            return f"{name} can't be {given}", f"it is one of {listed}; "
        return message, ""

    def _unknown(self, rest: str) -> tuple[str, str]:
        word = next((each for each in rest.split() if each.startswith("-")), "")
        if not word:
            return f"that is more than `spike {self.verb}` takes: {rest}", ""
        import difflib

        flags = [flag for action in self.listed for flag in action.option_strings]
        near = difflib.get_close_matches(word.partition("=")[0][:40], flags, n=1)
        return f"there is no option {word}", f"did you mean {near[0]}? " if near else ""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """argparse never ends the process here."""
        raise Problem(Usage.USAGE, message or f"exit {status}", f"see: spike {self.verb} --help")

    def many(self, flag: str, metavar: str, text: str, dest: str = "") -> None:
        """A list option: one value, may be repeated."""
        self.add_argument(
            flag,
            action="append",
            default=[],
            metavar=metavar,
            dest=dest or flag.strip("-").replace("-", "_"),
            help=f"{text} (may be repeated)",
        )

    def switch(self, flag: str, text: str) -> None:
        """An option without a value."""
        self.add_argument(flag, action="store_true", help=text)

    def value(self, flag: str, metavar: str, text: str, default: str = "") -> None:
        """An option with one text value."""
        self.add_argument(flag, default=default, metavar=metavar, help=text)


class _Help(argparse.Action):
    def __call__(self, *_args: object, **_options: object) -> NoReturn:
        raise HelpAsked


def add_globals(parser: Parser) -> None:
    """Options that every verb takes."""
    parser.add_argument(
        "--spike",
        default="",
        metavar="NAME|PATH",
        help="the spike meant; else $SPIKE, else the one whose work/ holds the current directory, "
        "else the only open one",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--color", choices=COLORS, default="auto", help="auto (the default), always or never"
    )
    parser.add_argument("-h", "--help", action=_Help, nargs=0, help="show this page")


def parse(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """The options of a verb; positionals and options may be mixed. Raises `Problem(USAGE)`."""
    try:
        return parser.parse_intermixed_args(list(argv))
    except (TypeError, ValueError, argparse.ArgumentError) as error:
        raise Problem(Usage.USAGE, str(error), f"see: spike {parser.verb} --help") from error


def add_passphrase(parser: Parser) -> None:
    """Where scripts give the passphrase of a spike whose decisions are signed."""
    parser.add_argument(
        "--passphrase-fd", type=whole, metavar="N", help="read the passphrase from descriptor N"
    )


def positive(text: str) -> float:
    """An option's number above 0: minutes, lines."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"not a number above 0: {text}")
    return number


def whole(text: str) -> int:
    """An option's whole number, 0 or more: a file descriptor, a number of rows."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"not a whole number: {text}")
    return int(text)
