"""`spike schema`, `completion`, `help`, and `--version`."""

from __future__ import annotations

import json

from spike_mcp import __version__
from spike_mcp.core.codes import Exit, Problem, Usage
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.out import SCHEMA_VERSION, Answer
from spike_mcp.edge.cli.parser import Parser
from spike_mcp.edge.cli.verbs import VERBS, Command


def version() -> Answer:
    """`spike --version`."""
    return Answer({"version": __version__}, [f"spike {__version__}"])


# --- help ---------------------------------------------------------------------------------------


def _help_options(parser: Parser) -> None:
    parser.add_argument("verb", nargs="?", default="", metavar="VERB", help="one verb's page")


def _help(context: Context) -> Answer:
    from spike_mcp.edge.cli import manual

    verb = context.args.verb
    if not verb:
        return manual.overview(context.out.width)
    if verb not in VERBS:
        raise Problem(Usage.USAGE, f"there is no verb {verb}", "all verbs: spike --help")
    return manual.page(verb, context.out.width)


# --- schema -------------------------------------------------------------------------------------


def _schema_options(parser: Parser) -> None:
    parser.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="which; none: list them"
    )


def _schema(context: Context) -> Answer:
    from spike_mcp.edge.cli.schemas import names, schema

    name = context.args.name
    if not name:
        return Answer({"schemas": list(names())}, names())
    if name not in names():
        raise Problem(Usage.USAGE, f"there is no schema {name}", f"there are: {', '.join(names())}")
    found = schema(name)
    # `schema_version` is no keyword of JSON Schema, so validators skip it: one form for both.
    text = json.dumps({"schema_version": SCHEMA_VERSION, **found}, indent=2)
    return Answer(found, text.split("\n"), Exit.OK)


# --- completion ---------------------------------------------------------------------------------


def _completion_options(parser: Parser) -> None:
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"
    )


def _completion(context: Context) -> Answer:
    from spike_mcp.edge.cli.completion import script

    text = script(context.args.shell)
    return Answer({"shell": context.args.shell, "script": text}, text.splitlines())


COMMANDS = {
    "help": Command(
        _help,
        usage=("[VERB]",),
        description="The list of verbs by the daily flow, or one verb's page.",
        options=_help_options,
        examples=(("spike help approve", "one verb"),),
    ),
    "schema": Command(
        _schema,
        usage=("[NAME]",),
        description="""
Prints the JSON Schema of what a verb answers with --json, of the error object, or of the
contract (whose keys a `spike init --from` file may hold).
""",
        options=_schema_options,
        examples=(("spike schema", "which there are"), ("spike schema status", "one of them")),
    ),
    "completion": Command(
        _completion,
        usage=("bash|zsh|fish",),
        description="""
Prints a completion script: verbs, options, and the ids of the current hunks. bash: put `source
<(spike completion bash)` into ~/.bashrc. zsh: the same into ~/.zshrc, after compinit. fish:
`spike completion fish | source`.
""",
        options=_completion_options,
        examples=(("spike completion bash", "to be sourced"),),
    ),
}
