"""`spike status`: time left, checkpoints, hunks, and what to type next. The quick one (spec 15)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spike_mcp.core import layout
from spike_mcp.core.codes import Checkpoint, Exit, Problem
from spike_mcp.edge.cli import tiers
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.layout import bar, clock, count, labelled
from spike_mcp.edge.cli.out import Answer, Line, Part
from spike_mcp.edge.cli.parser import Parser
from spike_mcp.edge.cli.verbs import Command

if TYPE_CHECKING:
    from spike_mcp.session.spike import Spike
    from spike_mcp.session.status import Status

_SWEPT_FILES = 5000
"""Files up to which `status` looks through the whole tree: it must stay quick."""


def _options(parser: Parser) -> None:
    parser.switch("--exit-code", "exit 10 while hunks are pending")
    parser.switch("--sweep", "look through the whole tree, however large it is")


def _status(context: Context) -> Answer:
    from spike_mcp.session.status import status

    spike = context.spike()
    now = status(spike, spike.clock.read(), _out_of_band(context, spike))
    code = Exit.NOT_FINAL if context.args.exit_code and now.pending else Exit.OK
    data = now.to_dict()
    if spike.damage:
        data["damage"] = spike.damage
    return Answer(data, _lines(spike, now, context.out.width), code)


def _out_of_band(context: Context, spike: Spike) -> int | None:
    """How many paths were changed outside the tools; None where the tree was not looked at.

    Nothing is recorded: a look that takes no lock writes no row.
    """
    if spike.damage or spike.state.killed is not None or not spike.work.is_dir():
        return None
    if len(spike.manifest) > _SWEPT_FILES and not context.args.sweep:
        return None
    # Not through session.observe: that brings the gate and the seals, which `status` never asks.
    from spike_mcp.host.sweep import Sweeper

    expected = {
        path: (state.mode, state.sha256) if state.sha256 else None
        for path, state in spike.state.files.items()
    }
    cache = spike.judge / layout.STATS
    try:
        sweeper = Sweeper(spike.work, spike.manifest, cache, spike.contract.environment)
        swept = sweeper.sweep(expected)
    except Problem:
        return None
    return len(swept.findings)


# --- for people ---------------------------------------------------------------------------------


def _lines(spike: Spike, now: Status, width: int) -> Iterator[Line]:
    yield _headline(now)
    yield [(now.root, "dim")]
    yield ""
    yield from labelled(
        (
            ("hypothesis", now.hypothesis),
            ("tag words", ", ".join(now.tag_tokens)),
            ("agent may write", ", ".join(now.allowed)),
            ("measurement", shlex.join(now.measurement)),
        ),
        width,
    )
    yield ""
    for name in Checkpoint:
        yield _checkpoint_line(name.value, now)
    yield ""
    yield from labelled(_facts(now), width)
    if spike.damage:
        yield [("ledger damaged: ", "alarm"), spike.damage]
    yield ""
    yield from _next(spike, now)


def _headline(now: Status) -> Line:
    name, phase = (now.spike, "bold"), (now.phase, "cyan")
    if now.verdict:
        return [name, "  ", now.verdict]
    if now.phase == "created":
        return [name, "  not started; ", f"{now.total_minutes:g} minutes from `spike start` on"]
    if now.phase == "over":
        return [name, "  ", ("time is spent", "red")]
    left = f"{clock(now.remaining)} left of {clock(now.total_minutes * 60)}"
    closing = f"writes stop in {clock(now.writes_close_in)}"
    if now.writes_close_in <= 0:
        closing = "writes have stopped"
    elif now.done and now.phase == "waiting":
        closing = "no writes: the agent is done"
    return [name, "  ", phase, "  ", (left, "bold"), "  ", closing]


def _checkpoint_line(name: str, now: Status) -> Line:
    each = now.checkpoints[name]
    used, allowed = each["used_minutes"], each["allowed_minutes"]
    word, style = _checkpoint_word(name, now)
    text = f"  {name:<10} {bar(used, allowed)} {used:5.1f} of {allowed:g} min"
    return [text, "  ", (word, style)] if word else text


def _checkpoint_word(name: str, now: Status) -> tuple[str, str]:
    each = now.checkpoints[name]
    running = name == now.checkpoint
    if each["over"]:
        return ("over, still running" if running else "over"), "red"
    if running:
        return "running", "cyan"
    return {True: ("met", "green"), False: ("not met", "yellow"), None: ("", "dim")}[each["met"]]


def _facts(now: Status) -> Iterator[tuple[str, str]]:
    hunks = f"{now.pending} pending, {now.approved} approved"
    if now.withdrawn:
        hunks += f", {now.withdrawn} withdrawn"
    if now.out_of_band:
        hunks += f", {now.out_of_band} out of band"
    yield "hunks", hunks
    runs = f"{count(now.runs_left, 'run')} left for the agent"
    if now.running:
        runs = f"{now.running} is running; {runs}"
    elif now.last_run is not None:
        last = now.last_run
        word = "green" if last["green"] else last["outcome"].replace("_", " ")
        runs = f"{last['run']} ({last['purpose']}) {word}, {last['seconds']:.1f} s; {runs}"
    yield "test runs", runs
    yield "approvals", tiers.approvals(now.approval_strength)
    yield "agent", tiers.writer(now.writer_tier) + ("; it says it is done" if now.done else "")
    for each in now.unknowns:
        mark = "confirmed" if each["confirmed"] else f"spike unknown --confirm {each['number']}"
        yield f"unknown {each['number']}", f"{each['text']}  ({mark})"


def _next(spike: Spike, now: Status) -> Iterator[Line]:
    if now.verdict:
        action = _after_verdict(spike, now)
        yield ["next: ", (action, "bold")]
        return
    if now.phase == "created":
        yield ["next: ", ("spike start", "bold")]
        return
    if now.out_of_band:
        outside = f"{count(now.out_of_band, 'path')} changed outside the tools (spike map)"
        yield [(outside, "red"), "; next: ", ("spike restore --all", "bold")]
    elif now.pending or now.withdrawn:
        waiting = count(now.pending + now.withdrawn, "hunk")
        yield [f"next: {waiting} to decide ({_first(spike)}): ", ("spike review", "bold")]
    elif now.phase == "starting":
        yield ["next: ", *_start_again(spike)]
    elif now.approved:
        yield ["next: ", ("spike verdict", "bold")]
    else:
        yield ["next: the agent writes, ", ("spike watch", "bold"), " rings when a hunk waits"]


def _start_again(spike: Spike) -> list[Part]:
    """Setup and reproduce are not through: what opens the next of them, or ends the spike."""
    state = spike.state
    if state.start_failure in ("already_green", "flaky_baseline"):
        return [("spike kill", "bold"), f" ({state.start_failure}); or spike start, once more"]
    if not state.manual:
        return [("spike start", "bold"), " again, once what it named is mended"]
    name = "reproduce" if state.checkpoints[Checkpoint.SETUP].met else "setup"
    action = "stop" if state.visit is not None else "start"
    return [(f"spike checkpoint {action} {name}", "bold")]


def _first(spike: Spike) -> str:
    """The short name and file of the first hunk that waits, from the fold alone."""
    from spike_mcp.core import mapping
    from spike_mcp.core.hunks import short_ids

    state = spike.state
    waiting = [h for h in mapping.span_hunks(state) if mapping.is_pending(state, h)]
    found = [(hunk.id, hunk.path) for hunk in waiting]
    found += [(key, members[0].path) for key, members in mapping.withdrawn_groups(state).items()]
    if not found:
        return ""
    name, path = found[0]
    return f"{short_ids([name], state.hunk_ids)[name]} {path}{' ...' if len(found) > 1 else ''}"


def _after_verdict(spike: Spike, now: Status) -> str:
    state = spike.state
    if now.verdict.startswith("SHIP"):
        if state.shipped is None:
            return "spike ship"
        return f"git merge {state.shipped.branch}, spike report > spike.md, spike rm"
    if state.killed is None:
        return "spike kill --note TEXT, spike report > spike.md, spike rm"
    return "spike report > spike.md, spike rm; a new spike is the only appeal"


COMMANDS = {
    "status": Command(
        _status,
        usage=("[--exit-code] [--sweep]",),
        description="""
Shows the time left, when writes stop, the four checkpoints with their minutes, hunks by state,
the last test run, and the command to type next. Trees of up to 5,000 files are looked through
for changes made outside the tools; larger ones only with --sweep (out_of_band is null
otherwise).
""",
        options=_options,
        exits=(("10", "with --exit-code: hunks are pending"),),
        examples=(
            ("spike status", "once"),
            ("spike status --exit-code --json", "for a script: is anything waiting for me?"),
        ),
    )
}
