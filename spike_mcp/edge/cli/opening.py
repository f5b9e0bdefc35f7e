"""`spike init`, `list`, `rm`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.layout import clip, clock, columns, labelled
from spike_mcp.edge.cli.out import Answer, Line
from spike_mcp.edge.cli.parser import Parser, add_passphrase, positive
from spike_mcp.edge.cli.verbs import Command
from spike_mcp.edge.find import known

if TYPE_CHECKING:
    from spike_mcp.session.opening import InitResult

_ISOLATION = ("namespaces", "none")
_ARGV_RULE = "one value each; repeat the option for more"

# --- init ---------------------------------------------------------------------------------------


def _init_options(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="the spike's name")
    parser.value("--hypothesis", "TEXT", "one sentence; its words are what tags must use")
    parser.many("--allow", "PATH", "exact path, dir/ or glob that the agent may write")
    parser.many("--oracle", "PATH", "file that defines success, readable, never writable")
    parser.many("--include", "PATH", "uncommitted file to take into the baseline")
    parser.add_argument(
        "--minutes", type=positive, metavar="N", help="the total (90); scales all other minutes"
    )
    parser.add_argument(
        "--write-cutoff", type=positive, metavar="N", help="minute at which writes stop (70)"
    )
    parser.add_argument(
        "--max-lines", type=positive, metavar="N", help="SHIP needs fewer changed lines (40)"
    )
    parser.many("--budget", "NAME=N", "any other limit of the contract, attempt=20 for one")
    parser.value("--root", "DIR", "the spike's directory (else below $SPIKE_HOME or ~/.spikes)")
    parser.value("--setup", "CMD", "run by the host before the agent has a tool")
    parser.many("--environment", "PATH", "directory that setup makes, read-only to the agent")
    parser.add_argument(
        "--isolation", choices=_ISOLATION, help="sandbox of the measurement; none can never SHIP"
    )
    parser.many("--unprotect", "PATH", "your recorded exception from the protected paths")
    parser.value("--vectors", "FILE", "hidden calls with expected values (TOML), sealed")
    parser.many("--hidden", "NAME=FILE", "FILE in the place of NAME must pass too, unseen")
    parser.many("--negative-control", "NAME=FILE", "FILE in the place of NAME must fail")
    parser.switch("--accept-collection-error", "red may be a collection error; recorded as weaker")
    parser.switch("--allow-control", "control characters may be written; they are flagged")
    parser.switch("--passphrase", "sign every decision; the passphrase is asked for")
    add_passphrase(parser)
    parser.value("--from", "FILE", "take what is not given here from this TOML file")


def _init(context: Context) -> Answer:
    from spike_mcp.session.opening import init

    options = _given(context)
    made = init(options, context.out.progress)
    for path in made.overridden:
        context.out.warn(f"allowed, but protected all the same: {path}")
    for warning in made.warnings:
        context.out.warn(warning)
    elsewhere = context.environ.get("SPIKE", "")
    if elsewhere and not context.args.root:
        context.out.warn(f"$SPIKE is set to {elsewhere}: commands go there, not to this spike")
    data = {
        "spike": options.name,
        "root": str(made.root),
        "work": str(made.spike.work),
        "judge": str(made.spike.judge),
        "tag_tokens": list(made.tag_tokens),
        "fingerprint": made.fingerprint,
        "warnings": list(made.warnings),
        "overridden": list(made.overridden),
    }
    return Answer(data, _init_lines(data, made, context.out.width))


def _init_lines(data: Mapping[str, Any], made: InitResult, width: int) -> Iterator[Line]:
    yield [(f"spike {data['spike']} is open", "bold")]
    yield from labelled(
        (
            ("root", data["root"]),
            ("work", f"{data['work']}  (the agent's client runs here)"),
            ("measured by", shlex.join(made.spike.contract.measurement.argv)),
            ("tag words", ", ".join(data["tag_tokens"])),
            ("fingerprint", data["fingerprint"]),
        ),
        width,
    )
    yield ""
    yield ["next: ", ("spike start", "bold")]


def _given(context: Context) -> Any:
    """The command line over the file of --from, as `InitOptions`."""
    from spike_mcp.core import contract_values
    from spike_mcp.session.opening import InitOptions

    args = context.args
    base = _defaults(getattr(args, "from"))
    name = args.name or str(base.get("name", ""))
    if not name:
        raise Problem(Usage.USAGE, "NAME is missing", "spike init NAME --hypothesis TEXT ...")
    hypothesis = args.hypothesis or str(base.get("hypothesis", ""))
    if not hypothesis.strip():
        raise Problem(
            Usage.USAGE,
            "--hypothesis is missing",
            '--hypothesis "CHANGE makes OBSERVABLE true within N minutes, measured by COMMAND"',
        )
    setup = contract_values.argv("setup", args.setup) if args.setup else base.get("setup", ())
    return InitOptions(
        name=name,
        hypothesis=hypothesis,
        allow=_list(args.allow, base, "allowed"),
        oracle=_list(args.oracle, base, "oracle"),
        cwd=_cwd(context),
        include=_list(args.include, base, "included"),
        argv=tuple(context.command or base.get("measurement", ())),
        budgets=_budgets(args, base.get("budgets", {})),
        root=Path(args.root) if args.root else None,
        setup=tuple(setup),
        environment=_list(args.environment, base, "environment"),
        isolation=str(args.isolation or base.get("isolation", "namespaces")),
        unprotect=_list(args.unprotect, base, "unprotected"),
        vectors=Path(args.vectors) if args.vectors else None,
        hidden=_files("--hidden", args.hidden),
        negative_controls=_files("--negative-control", args.negative_control),
        accept_collection_error=_flag(
            args.accept_collection_error, base, "accept_collection_error"
        ),
        allow_control=_flag(args.allow_control, base, "allow_control"),
        passphrase=_passphrase(context),
    )


def _cwd(context: Context) -> Path:
    if not context.cwd:
        raise Problem(Usage.NOT_A_REPOSITORY, "the current directory is gone", "change to another")
    return Path(context.cwd)


def _defaults(file: str) -> dict[str, Any]:
    if not file:
        return {}
    from spike_mcp.core.contract import parse_defaults

    return parse_defaults(read_file(file))


def read_file(name: str) -> bytes:
    """A file that the human named; `Problem(USAGE)` where it can't be read."""
    try:
        return Path(name).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Problem(Usage.USAGE, f"{name} can't be read: {why}", "check the path") from error


def _list(given: Sequence[str], base: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(given or base.get(key, ()))


def _flag(given: bool, base: Mapping[str, Any], key: str) -> bool:
    return given or bool(base.get(key, False))


def _budgets(args: Any, base: Mapping[str, float]) -> dict[str, float]:
    found = dict(base)
    for text in args.budget:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise Problem(
                Usage.USAGE, f"--budget {text} is not NAME=N", "--budget attempt=20"
            ) from None
    flags = {
        "total": args.minutes,
        "write_cutoff": args.write_cutoff,
        "max_lines": args.max_lines,
    }
    found |= {name: value for name, value in flags.items() if value is not None}
    return found


def _files(option: str, given: Sequence[str]) -> dict[str, Path]:
    found = {}
    for text in given:
        name, separator, file = text.partition("=")
        if not (name and separator and file):
            raise Problem(
                Usage.USAGE, f"{option} {text} is not NAME=FILE", f"{option} tests/test_a.py=FILE"
            )
        if name in found:
            raise Problem(Usage.USAGE, f"{option} names {name} twice", _ARGV_RULE)
        found[name] = Path(file)
    return found


def _passphrase(context: Context) -> str | None:
    if context.args.passphrase or context.args.passphrase_fd is not None:
        return context.passphrase("passphrase for this spike's decisions: ", repeat=True)
    return None


# --- list ---------------------------------------------------------------------------------------


def _list_spikes(context: Context) -> Answer:
    rows = [_summary(root) for root in known(context.environ, context.cwd)]
    rows = [row for row in rows if context.args.all or row["phase"] != "closed"]
    if context.args.names:
        return Answer({"spikes": rows}, (row["name"] for row in rows))
    return Answer({"spikes": rows}, _list_lines(rows, context))


def _summary(root: str) -> dict[str, Any]:
    """One spike in a few words; one that can't be read says why."""
    from spike_mcp.session.spike import Spike
    from spike_mcp.session.status import status

    try:
        spike = Spike(Path(root))
        now = status(spike, spike.clock.read())
    except Problem as problem:
        return {
            "name": os.path.basename(root),
            "root": root,
            "phase": "unreadable",
            "remaining_seconds": 0.0,
            "pending": 0,
            "verdict": "",
            "problem": f"{problem.code.value}: {problem.message}",
        }
    return {
        "name": now.spike,
        "root": root,
        "phase": now.phase,
        "remaining_seconds": round(now.remaining, 3),
        "pending": now.pending,
        "verdict": now.verdict,
        "problem": spike.damage,
    }


def _list_lines(rows: Sequence[Mapping[str, Any]], context: Context) -> Iterator[Line]:
    if not rows:
        context.out.say("no spikes here; `spike init` opens one")
        return
    cells = [["NAME", "PHASE", "LEFT", "PENDING", "VERDICT", "DIRECTORY"]]
    for row in rows:
        ended = row["phase"] in ("closed", "unreadable")
        cells.append(
            [
                row["name"],
                row["phase"],
                "-" if ended else clock(row["remaining_seconds"]),
                "-" if ended else str(row["pending"]),
                row["verdict"] or row["problem"] or "-",
                _short(row["root"], context.environ.get("HOME", "")),
            ]
        )
    first, *rest = columns(cells, frozenset({2, 3}))
    width = context.out.width
    yield [(clip("  ".join(first), width), "bold")]
    yield from (clip("  ".join(row).rstrip(), width) for row in rest)


def _short(root: str, home: str) -> str:
    """A directory as a shell takes it, `~` for the home."""
    inside = home.startswith("/") and root.startswith(home.rstrip("/") + "/")
    return f"~{root[len(home.rstrip('/')) :]}" if inside else root


# --- rm -----------------------------------------------------------------------------------------


def _rm(context: Context) -> Answer:
    from spike_mcp.session.ending import remove

    if context.args.name:
        context.args.spike = context.args.name
    spike = context.spike()
    root = str(spike.root)
    done = remove(spike)
    archive = str(done.archive)
    lines: list[Line] = [
        f"removed {root}",
        f"judge and verdict are kept in {archive}",
        "  (tar -xzf unpacks it, spike verify DIR proves it)",
    ]
    lines += [f"left alone: {text}" for text in done.kept]
    return Answer({"removed": root, "archive": archive, "kept": list(done.kept)}, lines)


def _list_options(parser: Parser) -> None:
    parser.add_argument(
        "--open", dest="all", action="store_false", help="only those that have no verdict yet"
    )
    parser.switch("--names", "one name a line and nothing else")


def _rm_options(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="NAME|PATH", help="as --spike")


COMMANDS = {
    "init": Command(
        _init,
        usage=(
            "NAME --hypothesis TEXT --allow PATH --oracle PATH [OPTION...] [-- CMD ARG...]",
            "--from spike.toml [OPTION...] [-- CMD ARG...]",
        ),
        description="""
Makes the spike's directory with a git worktree of this repository at HEAD, and seals what
decides: the hypothesis, the oracle, the measurement command, the budgets. Nothing in your
checkout changes but for the worktree's entry and the branch spike/NAME.

The full form of a hypothesis is "CHANGE makes OBSERVABLE true within N minutes, measured by
COMMAND"; a plain sentence does too, with the command after --. List options take one value each
and may be repeated. Nothing can be widened afterwards: a new spike is the only change of mind.
""",
        options=_init_options,
        takes_command=True,
        examples=(
            (
                'spike init retry-after --hypothesis "reading the header makes Retry-After of a '
                "429 visible within 25 minutes, measured by python -m pytest "
                'tests/test_retry_after.py -q" --allow src/http_client.py '
                "--oracle tests/test_retry_after.py",
                "the command stands in the hypothesis",
            ),
            (
                'spike init retry-plain --hypothesis "a 429 shows its Retry-After to callers" '
                "--allow src/ --oracle tests/test_retry_after.py --minutes 45 "
                "-- python -m pytest tests/test_retry_after.py -q",
                "a plain sentence, half the time, a whole directory",
            ),
        ),
    ),
    "list": Command(
        _list_spikes,
        usage=("[--open] [--names]",),
        description="""
Lists the spikes below $SPIKE_HOME (or ~/.spikes), and those that the repository here has
worktrees of: name, phase, time left, pending hunks, verdict.
""",
        options=_list_options,
        examples=(("spike list", "all of them"), ("spike list --open --json", "for a script")),
    ),
    "rm": Command(
        _rm,
        usage=("[NAME|PATH]",),
        description="""
Archives judge/ and verdict/ of a closed spike and removes its worktree, its branch and its
directory. A shipped branch that is not merged yet is refused.
""",
        options=_rm_options,
        examples=(("spike rm retry-after", "by name"),),
    ),
}
