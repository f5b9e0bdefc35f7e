"""The table of verbs, by the daily flow, and what one verb consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spike_mcp.edge.cli.context import Context
    from spike_mcp.edge.cli.out import Answer
    from spike_mcp.edge.cli.parser import Parser


class Command:
    """One verb: its help and what it does.

    `usage` = lines of the synopsis without `spike VERB`; `examples` = (command line, what for);
    `exits` = (code, meaning) beside 0 and the codes that all verbs share; `options` adds arguments
    to a parser; `run` returns an `Answer`, or an exit code if it wrote everything itself;
    `takes_command` = what stands after `--` is a command and goes to `context.command`.
    """

    __slots__ = ("description", "examples", "exits", "options", "run", "takes_command", "usage")

    def __init__(
        self,
        run: Callable[[Context], Answer | int],
        *,
        usage: Sequence[str],
        description: str,
        examples: Sequence[tuple[str, str]],
        options: Callable[[Parser], Any] | None = None,
        exits: Sequence[tuple[str, str]] = (),
        takes_command: bool = False,
    ) -> None:
        self.run = run
        self.usage = usage
        self.description = description
        self.examples = examples
        self.options = options
        self.exits = exits
        self.takes_command = takes_command


GROUPS: dict[str, str] = {
    "open": "Open a spike",
    "work": "The agent works",
    "review": "Review its hunks",
    "end": "End it",
    "look": "Look",
    "tools": "Tools",
}

VERBS: dict[str, tuple[str, str, str]] = {
    "init": ("open", "opening", "open a spike: seal hypothesis, oracle and measurement"),
    "start": ("open", "life", "start the clock: set up, see the test red twice"),
    "checkpoint": ("open", "life", "start, stop or extend a checkpoint by hand"),
    "run": ("work", "elsewhere", "start the agent locked in, with nothing but our tools"),
    "client-config": ("work", "elsewhere", "print a client's configuration"),
    "watch": ("work", "elsewhere", "one line per event; rings when a hunk waits for you"),
    "review": ("review", "elsewhere", "approve and reject hunks on a screen"),
    "map": ("review", "looking", "all hunks and their states"),
    "show": ("review", "looking", "one hunk, every character of it visible"),
    "diff": ("review", "looking", "the whole diff against the baseline"),
    "approve": ("review", "deciding", "tie a hunk to the hypothesis"),
    "reject": ("review", "deciding", "take a hunk or a patch back out"),
    "comment": ("review", "deciding", "a remark on a hunk, for the agent"),
    "undo": ("review", "deciding", "take back the last decision"),
    "restore": ("review", "deciding", "put recorded bytes back over outside changes"),
    "apply": ("review", "deciding", "apply a patch file yourself, by the same rules"),
    "unknown": ("review", "deciding", "note or confirm something newly found unknown"),
    "check": ("end", "ending", "is every change explained?"),
    "test": ("end", "ending", "rehearse the measurement on the approved tree"),
    "verdict": ("end", "ending", "SHIP, PARK or KILL, or what is missing"),
    "ship": ("end", "ending", "commit the approved tree on the spike's branch"),
    "kill": ("end", "ending", "close the spike and remove its worktree"),
    "rm": ("end", "opening", "archive judge and verdict, remove the rest"),
    "status": ("look", "status", "time left, checkpoints, hunks, what to do next"),
    "list": ("look", "opening", "all spikes"),
    "log": ("look", "looking", "the ledger, row by row"),
    "verify": ("look", "ending", "check a spike offline: chain, seals, signatures, verdict"),
    "report": ("look", "elsewhere", "the whole spike as one page"),
    "doctor": ("tools", "doctor", "what this machine can do, and the remedy where it can't"),
    "demo": ("tools", "elsewhere", "the whole story on a bundled example, in a minute"),
    "schema": ("tools", "tools", "JSON Schema of an output or of the contract"),
    "completion": ("tools", "tools", "completion script for bash, zsh or fish"),
    "help": ("tools", "tools", "this list, or a verb's page"),
}
"""Verb -> (group, module of this package, one line)."""


def command(verb: str) -> Command:
    """What a verb of `VERBS` does; loads its module."""
    module = import_module(f"spike_mcp.edge.cli.{VERBS[verb][1]}")
    found: Command = module.COMMANDS[verb]
    return found
