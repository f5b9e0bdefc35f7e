"""From a command line to an exit code (spec 13)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from spike_mcp.core.codes import Exit, Problem, Usage
from spike_mcp.edge.cli import failures
from spike_mcp.edge.cli.out import Out, Unwritable, process_streams
from spike_mcp.edge.cli.verbs import VERBS, command


class Line(NamedTuple):
    """A command line taken apart: the verb, its arguments (globals first), what follows `--`."""

    verb: str
    args: list[str]
    rest: list[str] | None


def run(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line; every end of it is an exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json, color = _peek(words)
    out = Out(*process_streams(), os.environ, as_json=as_json, color=color)
    try:
        with failures.signals():
            code = _guarded(words, out)
            out.flush()
            return code
    except BrokenPipeError:
        return _reader_left()
    except Unwritable as error:
        return _not_written(str(error))


def _guarded(words: list[str], out: Out) -> int:
    try:
        return _dispatch(words, out)
    except Problem as problem:
        code, message = problem.code.value, problem.message
        out.failure(code, message, _for_people(problem))
        return failures.exit_of(problem)
    except (KeyboardInterrupt, failures.Interrupted) as signal:
        number = signal.number if isinstance(signal, failures.Interrupted) else 2
        out.failure(failures.INTERRUPTED, f"ended by signal {number}", "")
        return 128 + number
    except (BrokenPipeError, Unwritable):
        raise
    except Exception as error:  # noqa: BLE001  (the last door: no traceback reaches a person)
        path = failures.record(error, os.environ)
        where = (
            f"the details are in {path}" if path else "the details could not be written anywhere"
        )
        message = f"something went wrong inside ({type(error).__name__})"
        out.failure("internal_error", message, f"{where}; `spike status` shows where things stand")
        return Exit.INTERNAL


def _for_people(problem: Problem) -> str:
    """What a person does about a problem, whether it says so itself or not; "" = nothing."""
    from spike_mcp.edge.text import hint_for_people, message_of

    said = hint_for_people(problem.code, problem.hint)
    return said or hint_for_people(problem.code, message_of(problem.code).hint)


def _dispatch(words: list[str], out: Out) -> int:
    line = take_apart(words)
    if line.verb == "--version":
        from spike_mcp.edge.cli.tools import version

        return out.answer(version())
    verb = command(line.verb)

    from spike_mcp.edge.cli.context import Context
    from spike_mcp.edge.cli.parser import HelpAsked, Parser, add_globals, parse

    parser = Parser(line.verb)
    if verb.options is not None:
        verb.options(parser)
    add_globals(parser)
    args, rest = line.args, line.rest
    if rest is not None and not verb.takes_command:
        args, rest = [*args, "--", *rest], None
    try:
        options = parse(parser, args)
    except HelpAsked:
        from spike_mcp.edge.cli.manual import page

        return out.answer(page(line.verb, out.width))
    answer = verb.run(Context(options, out, os.environ, rest))
    return answer if isinstance(answer, int) else out.answer(answer)


def take_apart(words: Sequence[str]) -> Line:
    """Find the verb; global options before it go to its own arguments. `Problem(USAGE)`."""
    from spike_mcp.edge.cli.parser import GLOBALS

    before: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("-h", "--help"):
            return Line("help", before, None)
        if word in ("-V", "--version"):
            return Line("--version", before, None)
        if word in GLOBALS:
            before += words[at : at + 2]
            at += 2
        elif word == "--json" or word.startswith(tuple(f"{name}=" for name in GLOBALS)):
            before.append(word)
            at += 1
        else:
            break
    if at >= len(words):
        from spike_mcp.edge.cli.manual import daily_flow

        flow = "\n".join(daily_flow())
        raise Problem(Usage.USAGE, "which verb?", f"`spike --help` lists all. A spike goes\n{flow}")
    if words[at] not in VERBS:
        raise _no_verb(words[at])
    after = list(words[at + 1 :])
    rest = after[after.index("--") + 1 :] if "--" in after else None
    own = after[: after.index("--")] if "--" in after else after
    return Line(words[at], [*before, *own], rest)


def _no_verb(word: str) -> Problem:
    if word.startswith("-"):
        return Problem(Usage.USAGE, f"there is no global option {word}", "see: spike --help")
    import difflib

    near = difflib.get_close_matches(word[:40], VERBS, n=1)
    hint = f"did you mean `spike {near[0]}`? " if near else ""
    return Problem(Usage.USAGE, f"there is no verb {word}", f"{hint}all verbs: spike --help")


def _peek(words: Sequence[str]) -> tuple[bool, str]:
    """--json and --color, wherever they stand: they hold for a wrong command line too."""
    own = words[: words.index("--")] if "--" in words else words
    color = "auto"
    for at, word in enumerate(own):
        value = word.partition("=")[2] if word.startswith("--color=") else ""
        if word == "--color" and at + 1 < len(own):
            value = own[at + 1]
        color = value if value in ("always", "never", "auto") else color
    return "--json" in own, color


def _reader_left() -> int:
    """Whoever read our output is gone (`spike log | head`): end as SIGPIPE would."""
    _silence()
    return 128 + 13


def _not_written(why: str) -> int:
    _silence()
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"error internal_error: the output can't be written: {why}\n")
    return Exit.INTERNAL


def _silence() -> None:
    """Nothing more goes to a stdout that can't take it; the interpreter flushes it at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    except OSError:
        return
