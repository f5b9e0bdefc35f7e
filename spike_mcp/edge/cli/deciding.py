"""`spike approve`, `reject`, `comment`, `undo`, `restore`, `apply`, `unknown`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.layout import count
from spike_mcp.edge.cli.out import Answer, Line
from spike_mcp.edge.cli.parser import Parser, add_passphrase, whole
from spike_mcp.edge.cli.verbs import Command
from spike_mcp.edge.text import safe_line

if TYPE_CHECKING:
    from spike_mcp.session.spike import Spike

_HUNK = "id of `spike map`, or a unique start of one"

# --- approve ------------------------------------------------------------------------------------


def _approve_options(parser: Parser) -> None:
    parser.add_argument("hunk", nargs="+", metavar="HUNK", help=_HUNK)
    parser.value("--tag", "TEXT", "how the hunk serves the hypothesis: three words or more")
    parser.value("--sha", "SHA", "view_sha256 of `map`: refused if the hunk looks different now")
    parser.many("--ack", "FLAG|all", "a flag of the hunk that you have looked at")
    parser.switch("--withdrawn", "accept that this approved hunk is gone")
    add_passphrase(parser)


def _approve(context: Context) -> Answer:
    from spike_mcp.session import decisions

    args = context.args
    if args.withdrawn and (args.tag or args.sha or args.ack):
        raise Problem(
            Usage.USAGE, "--withdrawn takes no --tag, --sha or --ack", "it accepts a removal"
        )
    spike = context.spike()
    if args.withdrawn:
        signer = context.signer(spike)
        gone = [decisions.accept_withdrawal(spike, name, signer=signer) for name in args.hunk]
        return Answer({"withdrawn": gone}, [f"accepted: {name} is gone" for name in gone])
    signer = context.signer(spike)
    done = decisions.approve(spike, args.hunk, args.tag, sha=args.sha, acks=args.ack, signer=signer)
    for warning in done.warnings:
        context.out.warn(warning)
    lines: list[Line] = [[("approved ", "green"), name] for name in done.hunks]
    left, more = _pending_left(spike)
    return Answer(
        {"approved": list(done.hunks), "warnings": list(done.warnings), "pending": left},
        lines,
        after=[more],
    )


def _pending_left(spike: Spike) -> tuple[int, Line]:
    """How many hunks still wait, and the line that says so with the next command."""
    from spike_mcp.core import mapping
    from spike_mcp.core.hunks import short_ids

    state = spike.state
    left = mapping.pending_count(state)
    gone = len(mapping.withdrawn_groups(state))
    if left:
        first = next(h for h in mapping.span_hunks(state) if mapping.is_pending(state, h))
        name = short_ids([first.id], state.hunk_ids)[first.id]
        more = f"{count(left, 'hunk')} pending; next: spike show {name}"
    elif gone:
        more = f"{count(gone, 'withdrawn hunk')} to decide; next: spike map"
    elif state.approvals:
        more = "nothing pending; next: spike verdict"
    else:
        more = "nothing pending"
    return left, [(more, "dim")]


# --- reject -------------------------------------------------------------------------------------


def _reject_options(parser: Parser) -> None:
    parser.add_argument(
        "target", nargs="*", metavar="HUNK|PATCH", help=f"{_HUNK}; or one patch, P3"
    )
    parser.switch("--pending", "all pending hunks")
    parser.value("--reason", "TEXT", "told to the agent at its next call")
    parser.switch("--to-baseline", "not back to what was approved before, but to the baseline")
    add_passphrase(parser)


def _reject(context: Context) -> Answer:
    from spike_mcp.session import rejecting

    args = context.args
    if bool(args.target) == bool(args.pending):
        raise Problem(
            Usage.USAGE, "name HUNKs or a PATCH, or give --pending", "spike map lists them"
        )
    spike = context.spike()
    signer = context.signer(spike)
    options = {"pending": args.pending, "to_baseline": args.to_baseline}
    for name in _recut(spike, args.target, **options):
        context.out.warn(f"the approval of {name} ends with this: its lines are cut anew")
    done = rejecting.reject(spike, args.target, args.reason, signer=signer, **options)
    restored = bool(done.revived) and not done.rejected
    where = ", ".join(done.paths)
    lines: list[Line] = [
        [("put back ", "green"), f"{done.target} in {where}: approved as before"]
        if restored
        else [("rejected ", "yellow"), f"{done.target}: taken back in {where}"]
    ]
    if done.revived and not restored:
        verb = "stands" if len(done.revived) == 1 else "stand"
        lines.append(f"{count(len(done.revived), 'earlier approval')} {verb} again")
    left, more = _pending_left(spike)
    told: Line = [("the agent will be told; `spike undo` takes this back", "dim")]
    data = {
        "decision": done.decision,
        "rejected": done.target,
        "paths": list(done.paths),
        "lapsed": list(done.lapsed),
        "revived": list(done.revived),
        "pending": left,
        "attempt_resumed": done.resumed,
    }
    return Answer(data, [*lines, *_resumed(done.resumed)], after=[told, more])


def _resumed(resumed: bool) -> list[Line]:
    """The clock that a human's command set going again is said (spec 5)."""
    return [[("the attempt goes on: its clock runs again", "yellow")]] if resumed else []


def _recut(
    spike: Spike, targets: Sequence[str], *, pending: bool, to_baseline: bool
) -> tuple[str, ...]:
    """Approvals that a reject would cut anew: said before anything happens.

    The plan needs no lock and is made again under it; what speaks against the reject is said there.
    """
    from spike_mcp.session.rejecting import plan_reject

    try:
        return plan_reject(spike, targets, pending=pending, to_baseline=to_baseline).recut
    except Problem:
        return ()


# --- undo, comment ------------------------------------------------------------------------------


def _undo(context: Context) -> Answer:
    from spike_mcp.edge.story import tell
    from spike_mcp.session import rejecting

    spike = context.spike()
    done = rejecting.undo(spike, signer=context.signer(spike))
    was = next(each.event for each in spike.state.decisions if each.id == done.target)
    told = tell(was, spike.state)
    data = {"decision": done.decision, "undone": done.target, "paths": list(done.paths)}
    line: Line = [("took back ", "yellow"), f"{done.target}: {told.text if told else was.NAME}"]
    back = [f"the bytes are back in {', '.join(done.paths)}"] if done.paths else []
    _left, more = _pending_left(spike)
    return Answer(data, [line, *back], after=[more])


def _comment_options(parser: Parser) -> None:
    parser.add_argument("hunk", metavar="HUNK", help=_HUNK)
    parser.add_argument("text", metavar="TEXT", help="what the agent shall hear at its next call")


def _comment(context: Context) -> Answer:
    from spike_mcp.session import decisions

    spike = context.spike()
    name = decisions.comment(spike, context.args.hunk, context.args.text)
    return Answer({"commented": name}, [f"noted on {name}; the agent hears it at its next call"])


# --- restore, apply, unknown --------------------------------------------------------------------


def _restore_options(parser: Parser) -> None:
    parser.add_argument("path", nargs="*", metavar="PATH", help="as `spike map` names it")
    parser.switch("--all", "every path that was changed outside the tools")


def _restore(context: Context) -> Answer:
    from spike_mcp.session import decisions

    args = context.args
    if bool(args.path) == bool(args.all):
        raise Problem(Usage.USAGE, "name PATHs, or give --all", "spike map names them")
    done = decisions.restore(context.spike(), args.path, everything=args.all)
    lines: list[Line] = [f"restored {path}" for path in done.paths]
    return Answer(
        {"restored": list(done.paths)}, lines or ["nothing was changed outside the tools"]
    )


def _apply_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a patch file; - reads standard input")
    parser.value("--rationale", "TEXT", "why; kept with the patch")


def _apply(context: Context) -> Answer:
    from spike_mcp.core.hunks import short_ids
    from spike_mcp.edge.cli.opening import read_file
    from spike_mcp.session import ending

    args = context.args
    data = sys.stdin.buffer.read() if args.file == "-" else read_file(args.file)
    text = data.decode("utf-8", "surrogateescape")
    spike = context.spike()
    done = ending.apply(spike, text, args.rationale)
    names = short_ids([hunk.id for hunk in done.hunks], spike.state.hunk_ids)
    made = [(names[hunk.id], hunk.path) for hunk in done.hunks]
    lines: list[Line] = [[("applied ", "green"), f"as {done.patch}"]]
    lines += [f"  {name}  {safe_line(path, 300)}" for name, path in made]
    left, more = _pending_left(spike)
    answer = {
        "patch": done.patch,
        "hunks": [name for name, _path in made],
        "lapsed": [key for key, _why in done.lapsed],
        "pending": left,
        "attempt_resumed": done.resumed,
    }
    return Answer(answer, [*lines, *_resumed(done.resumed)], after=[more])


def _unknown_options(parser: Parser) -> None:
    parser.add_argument("text", nargs="?", default="", metavar="TEXT", help="what is unknown")
    parser.add_argument(
        "--confirm", type=whole, metavar="N", help="confirm what the agent reported"
    )


def _unknown(context: Context) -> Answer:
    from spike_mcp.session import decisions

    args = context.args
    if bool(args.text) == (args.confirm is not None):
        raise Problem(Usage.USAGE, "give a TEXT, or --confirm N", "spike status lists unknowns")
    spike = context.spike()
    if args.confirm is not None:
        decisions.confirm_unknown(spike, args.confirm)
        number = args.confirm
    else:
        number = decisions.note_unknown(spike, args.text)
    return Answer({"unknown": number}, [f"unknown {number} is confirmed; the verdict counts it"])


COMMANDS = {
    "approve": Command(
        _approve,
        usage=("HUNK... --tag TEXT [--sha SHA] [--ack FLAG|all]", "--withdrawn HUNK..."),
        description="""
Ties hunks to the hypothesis. The tag says how: it needs a word of the hypothesis (tag words of
`spike status`) and at least three words of your own. Approvals are stored by content: when the
bytes change, the approval lapses. One tag serves several hunks only when their changed lines are
equal.

A flagged hunk (!) needs --ack for each flag, or --ack all. With --sha the approval is refused
unless the hunk still looks as `spike map --json` showed it.
""",
        options=_approve_options,
        examples=(
            (
                'spike approve h1a2b3c4d --tag "read the retry-after header of a 429"',
                "after spike show h1a2b3c4d",
            ),
        ),
    ),
    "reject": Command(
        _reject,
        usage=("HUNK... [--reason TEXT] [--to-baseline]", "PATCH [--reason TEXT]", "--pending"),
        description="""
Takes hunks back out of the worktree: each region returns to its last approved bytes, whose
approval stands again, or to the baseline. What was rejected is kept; `spike undo` restores it.
The agent hears the reason. A patch (P3) is reversed as a whole.
""",
        options=_reject_options,
        examples=(
            ('spike reject h1a2b3c4d --reason "caching is out of scope"', "one hunk"),
            ("spike reject P1", "what one patch changed"),
            ("spike reject --pending", "everything undecided"),
        ),
    ),
    "comment": Command(
        _comment,
        usage=("HUNK TEXT",),
        description="Leaves a remark on a hunk. The agent is told once, at its next call.",
        options=_comment_options,
        examples=(('spike comment h1a2b3c4d "why a default of 60?"', "ask before deciding"),),
    ),
    "undo": Command(
        _undo,
        usage=("",),
        description="Takes back the last decision that stands (approval, rejection), as new rows.",
        options=add_passphrase,
        examples=(("spike undo", "the last decision"),),
    ),
    "restore": Command(
        _restore,
        usage=("PATH...", "--all"),
        description="""
Puts the recorded bytes back where something outside the tools changed a file. Such a change
can't be approved; undone, it leaves no trace but its row. What was found is kept in the judge's
blobs.
""",
        options=_restore_options,
        examples=(("spike restore --all", "everything that `spike map` calls out of band"),),
    ),
    "apply": Command(
        _apply,
        usage=("FILE [--rationale TEXT]",),
        description="""
Applies a patch file by the same gate, clock and map as the agent's writes: a patch from an
assistant without MCP, or a reviewer's own small fix. Its hunks are pending like all others.
""",
        options=_apply_options,
        examples=(('spike apply fix.patch --rationale "typo in the header name"', "your own fix"),),
    ),
    "unknown": Command(
        _unknown,
        usage=("TEXT", "--confirm N"),
        description="""
Notes that the hypothesis turned out to need something unknown when the spike began, or confirms
what the agent reported. A confirmed unknown turns a failing test from KILL into PARK.
""",
        options=_unknown_options,
        examples=(
            ('spike unknown "the proxy strips Retry-After"', "your own finding"),
            ("spike unknown --confirm 1", "the agent's"),
        ),
    ),
}
