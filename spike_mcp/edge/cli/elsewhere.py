"""Verbs that other parts of the edge carry out: parse here, hand over there.

The parts never import each other (`docs/architecture`), so each is named in one table and loaded
when its verb is called.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.out import Answer
from spike_mcp.edge.cli.parser import Parser, add_passphrase
from spike_mcp.edge.cli.verbs import Command

if TYPE_CHECKING:
    from spike_mcp.edge.cli.out import Out
    from spike_mcp.host.signing import Signer
    from spike_mcp.session.spike import Spike

PARTS = {
    "run": ("spike_mcp.edge.cli.run", "run"),
    "client-config": ("spike_mcp.edge.clients", "client_config"),
    "watch": ("spike_mcp.edge.watch", "main"),
    "review": ("spike_mcp.edge.tui", "main"),
    "review --plain": ("spike_mcp.edge.plain", "main"),
    "report": ("spike_mcp.edge.report", "render"),
    "reports": ("spike_mcp.edge.report", "write_reports"),
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
        help="proxy: only what the client needs; host: weaker, and said so in the ledger",
    )
    parser.many("--allow", "HOST:PORT", "something more that the proxy lets through")
    parser.many("--env", "NAME", "a variable of yours that the agent gets too")
    parser.add_argument(
        "--exit",
        choices=("agent", "verdict"),
        default="agent",
        help="whose exit status becomes this command's",
    )


def _run(context: Context) -> int:
    _for_people(context, "the agent's own output is what it writes")
    args = context.args
    command = tuple(context.command or ())
    if not args.client and not command:
        raise Problem(
            Usage.USAGE,
            "name a --client, or the agent's command after --",
            "spike run --client claude",
        )
    spike = context.spike()
    done: int = part("run")(
        spike,
        client=args.client or None,
        command=command,
        network=args.network,
        exit_with=args.exit,
        say=context.out.progress,
        allow=tuple(args.allow),
        env=tuple(args.env),
    )
    return done


# --- client-config ------------------------------------------------------------------------------


def _config_options(parser: Parser) -> None:
    parser.add_argument(
        "client", nargs="?", default="", metavar="CLIENT", help="claude, codex, gemini, qwen, ..."
    )
    parser.switch("--write", "put the files under <root>/agent/ instead of printing them")


def _config(context: Context) -> Answer:
    if not context.args.client:
        from spike_mcp.edge.clients import CLIENTS

        raise Problem(Usage.USAGE, "CLIENT is missing", f"there are {', '.join(CLIENTS)}")
    spike = context.spike()
    found = part("client-config")(spike, context.args.client, write=context.args.write)
    return Answer(found.data, found.lines)


# --- watch, review ------------------------------------------------------------------------------


def _watch_options(parser: Parser) -> None:
    parser.value("--exec", "CMD", "run this when it rings; $SPIKE_EVENT and $SPIKE_MESSAGE say why")
    parser.switch("--quiet", "no bell")


def _watch(context: Context) -> int:
    _for_people(context, "spike log --json")
    args = context.args
    spike = context.spike()
    return _int(
        part("watch")(
            spike,
            args.exec,
            not args.quiet,
            sys.stdout,
            lambda judged: write_reports(judged, context.out),
        )
    )


def _review_options(parser: Parser) -> None:
    parser.switch("--plain", "line by line, without a screen")
    parser.switch("--ascii", "only ASCII signs")
    add_passphrase(parser)


def _review(context: Context) -> int:
    args = context.args
    _for_people(context, "spike map --json, spike approve")
    spike = context.spike()

    def signer() -> Signer | None:
        return context.signer(spike)

    if args.plain or context.environ.get("TERM") == "dumb":
        return _int(part("review --plain")(spike, signer, sys.stdin, sys.stdout))
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise Problem(
            Usage.USAGE,
            "the review's screen needs a terminal",
            "spike review --plain asks line by line; spike approve needs no screen at all",
        )
    if find_spec("textual") is None:
        context.out.warn("Textual is not installed (pip install 'spike-referee[review]')")
        return _int(part("review --plain")(spike, signer, sys.stdin, sys.stdout))
    return _int(part("review")(spike, signer, args.ascii, _wish(args.color)))


def _for_people(context: Context, instead: str) -> None:
    """Refuse --json where what is written is no answer but a conversation."""
    if context.out.as_json:
        raise Problem(
            Usage.USAGE, "this verb is for people, it has no --json", f"scripts: {instead}"
        )


def _int(code: object) -> int:
    return int(code) if isinstance(code, int) else 0


def _wish(color: str) -> bool | None:
    return {"always": True, "never": False}.get(color)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


# --- report, demo -------------------------------------------------------------------------------


def _report_options(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        choices=("md", "html", "json"),
        default="md",
        help="md (the default), html, json",
    )


def _report(context: Context) -> Answer:
    spike = context.spike()
    chosen = context.args.format
    text: str = part("report")(spike, chosen)
    data = json.loads(text) if chosen == "json" else {"format": chosen, "report": text}
    return Answer(data, text.rstrip("\n").split("\n"))


def write_reports(spike: Spike, out: Out) -> None:
    """verdict/report.md and report.html; a page that can't be written never hides the verdict."""
    try:
        part("reports")(spike)
    except (Problem, OSError) as error:
        out.warn(f"the report could not be written: {error}")


def _demo_options(parser: Parser) -> None:
    parser.add_argument(
        "example",
        nargs="?",
        default="retry-after",
        choices=("retry-after", "invoice-rounding"),
        metavar="EXAMPLE",
        help="retry-after (the default) or invoice-rounding",
    )
    parser.value("--keep", "DIR", "play it in this directory, new or empty")


def _demo(context: Context) -> int:
    _for_people(context, "spike init, start, apply, approve, verdict")
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
        examples=(
            ("spike demo", "about a minute"),
            ("spike demo invoice-rounding", "the smaller one"),
        ),
    ),
}
