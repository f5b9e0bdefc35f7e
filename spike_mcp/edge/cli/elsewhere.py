"""Verbs that other parts of the edge carry out: parse here, hand over there.

The parts never import each other (`docs/architecture`), so each is named in one table and loaded
when its verb is called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.out import Answer
from spike_mcp.edge.cli.parser import Parser, add_passphrase
from spike_mcp.edge.cli.verbs import Command

PARTS = {
    "run": ("spike_mcp.edge.cli.run", "run"),
    "client-config": ("spike_mcp.edge.clients", "client_config"),
    "watch": ("spike_mcp.edge.watch", "watch"),
    "review": ("spike_mcp.edge.tui", "review"),
    "report": ("spike_mcp.edge.report", "report"),
    "demo": ("spike_mcp.edge.demo", "main"),
}
"""Verb -> (module, function)."""


def part(verb: str) -> Callable[..., Any]:
    """The function behind a verb."""
    module, name = PARTS[verb]
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


# --- run ----------------------------------------------------------------------------------------


def _run_options(parser: Parser) -> None:
    parser.value("--client", "NAME", "claude, codex, gemini, qwen, opencode, copilot, ...")
    parser.add_argument(
        "--network",
        choices=("proxy", "host"),
        default="proxy",
        help="proxy: only what the client needs; host: weaker, and said so in the verdict",
    )
    parser.add_argument(
        "--exit",
        choices=("agent", "verdict"),
        default="agent",
        help="whose exit status becomes this command's",
    )


def _run(context: Context) -> int:
    args = context.args
    command = tuple(context.command or ())
    if not args.client and not command:
        raise Problem(
            Usage.USAGE,
            "name a --client, or the agent's command after --",
            "spike run --client claude",
        )
    done: int = part("run")(
        context.spike(),
        client=args.client,
        command=command,
        network=args.network,
        exit_with=args.exit,
        say=context.out.progress,
    )
    return done


# --- client-config ------------------------------------------------------------------------------


def _config_options(parser: Parser) -> None:
    parser.add_argument("client", metavar="CLIENT", help="claude, codex, gemini, qwen, ...")
    parser.switch("--write", "put the files under <root>/agent/ instead of printing them")


def _config(context: Context) -> Answer:
    spike = context.spike()
    found = part("client-config")(spike, context.args.client, write=context.args.write)
    return Answer(found.data, found.lines)


# --- watch, review ------------------------------------------------------------------------------


def _watch_options(parser: Parser) -> None:
    parser.value("--exec", "CMD", "run this when it rings; $SPIKE_EVENT says why")
    parser.switch("--quiet", "no bell")


def _watch(context: Context) -> int:
    args = context.args
    done: int = part("watch")(context.spike(), context.out, command=args.exec, quiet=args.quiet)
    return done


def _review_options(parser: Parser) -> None:
    parser.switch("--plain", "line by line, without a screen")
    parser.switch("--ascii", "only ASCII signs")
    add_passphrase(parser)


def _review(context: Context) -> int:
    args = context.args
    if context.out.as_json:
        raise Problem(
            Usage.USAGE, "review is for people", "scripts: spike map --json, spike approve"
        )
    spike = context.spike()
    done: int = part("review")(
        spike, signer=context.signer(spike), plain=args.plain, ascii_only=args.ascii
    )
    return done


# --- report, demo -------------------------------------------------------------------------------


def _report_options(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        choices=("md", "html", "json"),
        default="md",
        help="md (the default), html, json",
    )


def _report(context: Context) -> Answer:
    text: str = part("report")(context.spike(), context.args.format)
    return Answer({"format": context.args.format, "report": text}, text.splitlines())


def _demo_options(parser: Parser) -> None:
    parser.add_argument(
        "example", nargs="?", default="retry-after", metavar="EXAMPLE", help="retry-after"
    )
    parser.value("--keep", "DIR", "play it in this directory")


def _demo(context: Context) -> int:
    done: int = part("demo")(context.args.example, context.args.keep)
    return done


COMMANDS = {
    "run": Command(
        _run,
        usage=(
            "--client NAME [--network proxy|host] [--exit agent|verdict]",
            "[OPTION...] -- CMD ARG...",
        ),
        description="""
Starts the agent inside a sandbox of its own: the worktree read-only, the judge and your home
absent, no network but what the client needs, and the spike's tools as the only way to write. The
agent is stopped at the deadline, and the verdict is written whatever it did.
""",
        options=_run_options,
        takes_command=True,
        exits=(
            ("N", "the agent's own exit status, or with --exit verdict the verdict's"),
            ("71", "the agent never ran"),
        ),
        examples=(("spike run --client claude", "interactive, in this terminal"),),
    ),
    "client-config": Command(
        _config,
        usage=("CLIENT [--write]",),
        description="""
Prints the configuration that gives a client the spike's tools and takes its own write and shell
tools away. This asks the client to behave (tier `configured`); `spike run` enforces it.
""",
        options=_config_options,
        examples=(
            ("spike client-config claude", "to look at"),
            ("spike client-config codex --write", "as files"),
        ),
    ),
    "watch": Command(
        _watch,
        usage=("[--exec CMD] [--quiet]",),
        description="""
Prints one line per event and rings when a hunk becomes pending, and ten, five and one minutes
before writes stop and before the end.
""",
        options=_watch_options,
        examples=(("spike watch", "beside the agent, in a second terminal"),),
    ),
    "review": Command(
        _review,
        usage=("[--plain] [--ascii]",),
        description="""
The screen for deciding hunks while the agent works: a approves with a tag, r rejects, ? shows
all keys. Everything is saved as you go. --plain asks line by line instead (screen readers, dumb
terminals); approve, reject and undo do all of it without any screen.
""",
        options=_review_options,
        examples=(("spike review", "on a terminal"), ("spike review --plain", "line by line")),
    ),
    "report": Command(
        _report,
        usage=("[--format md|html|json]",),
        description="""
Prints the spike as one self-contained page for a ticket: checkpoints, runs, patches, decisions,
every hunk with its tag, the verdict.
""",
        options=_report_options,
        examples=(("spike report", "Markdown"), ("spike report --format html", "one HTML file")),
    ),
    "demo": Command(
        _demo,
        usage=("[EXAMPLE] [--keep DIR]",),
        description="""
Plays the whole story on a bundled example: a real worktree, a real server, a scripted agent that
tries to cheat and then fixes the bug, approvals through this command, a verdict of SHIP.
""",
        options=_demo_options,
        examples=(("spike demo", "takes less than a minute"),),
    ),
}
