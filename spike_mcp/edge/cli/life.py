"""`spike start` and `spike checkpoint`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spike_mcp.core.codes import Checkpoint, Exit
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.layout import count
from spike_mcp.edge.cli.out import Answer, Line
from spike_mcp.edge.cli.parser import Parser
from spike_mcp.edge.cli.verbs import Command

if TYPE_CHECKING:
    from spike_mcp.session.checkpoints import CheckpointResult
    from spike_mcp.session.spike import Spike
    from spike_mcp.session.starting import StartResult

_NAMED = 12
_STEPS = ("setup", "reproduce")


def _start_options(parser: Parser) -> None:
    parser.switch("--manual", "only start the clock; setup and reproduce by `spike checkpoint`")


def _start(context: Context) -> Answer:
    from spike_mcp.session.starting import start

    spike = context.spike()
    done = start(spike, manual=context.args.manual, on_progress=context.out.progress)
    if done.weak:
        context.out.warn(f"a weaker red: {done.weak}")
    data = {
        "spike": spike.contract.name,
        "manual": done.manual,
        "red": list(done.red),
        "pinned": list(done.pins),
        "weak": done.weak,
        "sealed": list(done.sealed),
        "loaded": list(done.loaded),
        "work": str(spike.work),
    }
    return Answer(data, _start_lines(spike, done))


def _start_lines(spike: Spike, done: StartResult) -> Iterator[Line]:
    budgets = spike.contract.budgets
    yield [
        ("the clock runs", "bold"),
        f": {budgets.total:g} minutes, writes stop at minute {budgets.write_cutoff:g}",
    ]
    if done.manual:
        yield ["next: ", ("spike checkpoint start setup", "bold")]
        return
    if done.red:
        yield f"red twice, {count(len(done.red), 'test')} of {len(done.pins)}:"
        yield from _some(done.red)
    else:
        yield "red twice, by exit status"
    if done.sealed:
        yield "sealed with the oracle, since the red runs loaded them:"
        yield from _some(done.sealed)
    if done.loaded:
        yield "loaded too, and the agent may change them:"
        yield from _some(done.loaded)
    yield ["next: ", ("spike run --client NAME", "bold"), ", or your own client:"]
    yield "  spike client-config NAME"


def _some(names: tuple[str, ...]) -> Iterator[Line]:
    yield from (f"  {name}" for name in names[:_NAMED])
    if len(names) > _NAMED:
        yield f"  and {len(names) - _NAMED} more"


# --- checkpoint ---------------------------------------------------------------------------------


def _checkpoint_options(parser: Parser) -> None:
    parser.add_argument(
        "action",
        choices=("start", "stop", "extend"),
        metavar="start|stop|extend",
        help="what to do",
    )
    parser.add_argument(
        "name",
        choices=[name.value for name in Checkpoint],
        metavar="NAME",
        help="setup, reproduce, attempt or verify",
    )
    parser.add_argument(
        "--met", choices=("yes", "no"), default="", help="stop: `no` lowers what the evidence says"
    )


def _checkpoint(context: Context) -> Answer:
    from spike_mcp.core.codes import Problem, Usage
    from spike_mcp.session.checkpoints import checkpoint

    args = context.args
    if args.met and args.action != "stop":
        raise Problem(Usage.USAGE, "--met goes with stop", "spike checkpoint stop NAME --met no")
    spike = context.spike()
    done = checkpoint(spike, args.action, args.name, met=args.met, on_progress=context.out.progress)
    data = {
        "checkpoint": done.name,
        "action": done.action,
        "over": done.over,
        "met": done.met,
        "overruled": done.overruled,
        "message": done.message,
    }
    word = "" if done.met is None else ": met" if done.met else ": not met"
    said = done.message if done.over or done.overruled else f"{done.message}{word}"
    return Answer(data, [said], _checkpoint_exit(done), after=_after_checkpoint(done))


_NEXT = {
    ("start", "setup"): "spike checkpoint stop setup (runs the setup command, seals what it made)",
    ("stop", "setup"): "spike checkpoint start reproduce",
    ("start", "reproduce"): "spike checkpoint stop reproduce (runs the test twice)",
    ("stop", "reproduce"): "spike run --client NAME, or spike client-config NAME",
    ("start", "attempt"): "the agent may write until it ends or `spike checkpoint stop attempt`",
    ("stop", "attempt"): "spike review, spike verdict",
    ("start", "verify"): "spike verdict",
    ("stop", "verify"): "spike verdict",
}


def _after_checkpoint(done: CheckpointResult) -> list[Line]:
    """The step that follows; none where this one did not go as it should."""
    missed = done.over or done.overruled or (done.met is False and done.name in _STEPS)
    found = "" if missed else _NEXT.get((done.action, done.name), "")
    return [[(f"next: {found}", "dim")]] if found else []


def _checkpoint_exit(done: CheckpointResult) -> Exit:
    if done.action == "stop" and done.over:
        return Exit.OVER
    return Exit.REFUSED if done.overruled else Exit.OK


COMMANDS = {
    "start": Command(
        _start,
        usage=("[--manual]",),
        description="""
Starts the clock of the total, runs the setup command if there is one, then the measurement twice
on the untouched baseline: it must fail twice, with the same tests. Then the agent's tools
answer. Refused with setup_failed, not_red, already_green or flaky_baseline it may be repeated;
the clock runs on meanwhile.
""",
        options=_start_options,
        exits=(("78", "refused: not red twice, or already running"),),
        examples=(
            ("spike start", "all by itself"),
            ("spike start --manual", "step by step, with spike checkpoint"),
        ),
    ),
    "checkpoint": Command(
        _checkpoint,
        usage=("start|stop|extend NAME [--met yes|no]",),
        description="""
Opens or closes a checkpoint by hand. `stop` says whether it was met by the evidence; --met no
lowers that, --met yes can't raise it. `start attempt` resumes an attempt that has minutes left.
`extend attempt` lets one that is over run on to the write cut-off: PARK is the best that can
follow.
""",
        options=_checkpoint_options,
        exits=(
            ("3", "stop: the checkpoint ran over its minutes"),
            ("78", "refused, or --met yes against the evidence"),
        ),
        examples=(
            ("spike checkpoint stop attempt", "the agent is done, the attempt's clock stands"),
            ("spike checkpoint start attempt", "it goes on"),
        ),
    ),
}
