"""`spike map`, `show`, `diff`, `log`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spike_mcp.core.codes import Exit, Problem, Refusal
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.out import Answer, Line
from spike_mcp.edge.cli.parser import Parser, whole
from spike_mcp.edge.cli.verbs import Command

if TYPE_CHECKING:
    from spike_mcp.core.rows import Row
    from spike_mcp.session.spike import Spike
    from spike_mcp.session.view import HunkMap, MapHunk

# --- map ----------------------------------------------------------------------------------------


def _map_options(parser: Parser) -> None:
    parser.switch("--pending", "only what waits for a decision")
    parser.switch("--ids", "one id a line and nothing else")


def _map(context: Context) -> Answer:
    from spike_mcp.edge.cli.map_view import entries, map_lines
    from spike_mcp.session.view import hunk_map

    spike = context.spike()
    current = hunk_map(spike)
    outside = outside_changes(spike)
    rows = entries(spike, current, outside)
    if context.args.pending:
        rows = [row for row in rows if row["state"] in ("pending", "withdrawn")]
    data = {
        "hunks": rows,
        "lines": current.lines,
        "max_lines": spike.contract.budgets.max_lines,
        "out_of_band": list(outside),
    }
    if context.args.ids:
        return Answer(data, (row["id"] for row in rows if row["id"]))
    return Answer(data, map_lines(data, current, context.out.width))


def outside_changes(spike: Spike) -> tuple[str, ...]:
    """`src/a.py (changed)` for each path changed outside the tools, as a sweep sees it now."""
    from spike_mcp.session import observe

    if spike.damage or not spike.work.is_dir():
        return ()
    try:
        swept = observe.watch(spike).sweeper.sweep(observe.expected_changes(spike))
    except Problem as problem:
        return (f"work/ ({problem.message})",)
    return tuple(observe.describe(finding) for finding in swept.findings)


# --- show ---------------------------------------------------------------------------------------


def _show_options(parser: Parser) -> None:
    parser.add_argument(
        "hunk", nargs="+", metavar="HUNK", help="id of `spike map`, or a unique start of one"
    )
    parser.switch("--reason", "the agent's reason too: read it after you have one of your own")


def _show(context: Context) -> Answer:
    from spike_mcp.edge.cli.hunk_view import hunk_data, hunk_lines, withdrawn_data, withdrawn_lines
    from spike_mcp.session.view import hunk_map

    spike = context.spike()
    current = hunk_map(spike)
    data: list[dict[str, Any]] = []
    lines: list[Line] = []
    for name in context.args.hunk:
        found = _find(current, name)
        if lines:
            lines.append("")
        if found is not None:
            data.append(hunk_data(found))
            lines += hunk_lines(found, current, context.out.width, reason=context.args.reason)
        else:
            entry = current.find_withdrawn(name)
            data.append(withdrawn_data(spike, entry))
            lines += withdrawn_lines(spike, entry, context.out.width)
    return Answer({"hunks": data}, lines, after=_decide_next(data))


def _decide_next(data: list[dict[str, Any]]) -> list[Line]:
    """What decides the one pending hunk that was shown."""
    if len(data) != 1 or data[0]["state"] != "pending":
        return []
    name = data[0]["id"]
    return [[(f"next: spike approve {name} --tag TEXT, or spike reject {name}", "dim")]]


def _find(current: HunkMap, name: str) -> MapHunk | None:
    """A current hunk, or None where the name is that of a withdrawn one."""
    try:
        return current.find(name)
    except Problem:
        try:
            current.find_withdrawn(name)
        except Problem:
            pass
        else:
            return None
        raise


# --- diff ---------------------------------------------------------------------------------------


def _diff_options(parser: Parser) -> None:
    parser.add_argument(
        "path", nargs="*", metavar="PATH|HUNK", help="only these files (dir/ too) or hunks"
    )
    parser.switch("--pending", "only what waits for a decision")
    parser.switch("--approved", "only what is approved: what would ship")


def _diff(context: Context) -> Answer:
    from spike_mcp.edge.cli.hunk_view import diff_lines, hunk_data
    from spike_mcp.session.view import hunk_map

    spike = context.spike()
    args = context.args
    current = hunk_map(spike)
    chosen = [h for h in current.hunks if not args.path or _is_meant(h, args.path)]
    if args.path and not chosen:
        raise Problem(
            Refusal.NO_CHANGES, f"no change at {', '.join(args.path[:5])}", "`spike map` shows all"
        )
    wanted = {
        *(["pending"] if args.pending else []),
        *(["approved"] if args.approved else []),
    }
    chosen = [h for h in chosen if not wanted or h.state in wanted]
    none = "nothing is in that state" if current.hunks else "nothing differs from the baseline"
    after = [] if chosen else [none]
    return Answer({"hunks": [hunk_data(h) for h in chosen]}, diff_lines(chosen), after=after)


def _is_meant(each: MapHunk, names: list[str]) -> bool:
    return any(
        each.path == name
        or each.path.startswith(name.rstrip("/") + "/")
        or (len(name) > 4 and each.id.startswith(name.removeprefix("h").lower()))
        for name in names
    )


# --- log ----------------------------------------------------------------------------------------


def _log_options(parser: Parser) -> None:
    parser.add_argument(
        "-n", "--last", type=whole, default=0, metavar="N", help="only the last N rows"
    )
    parser.many("--event", "NAME", "only rows of this kind, hunk_approved for one")


def _log(context: Context) -> Answer:
    from spike_mcp.edge.cli.log_view import row_lines, told_rows
    from spike_mcp.host.files import Blobs
    from spike_mcp.host.ledger import Ledger

    spike = context.spike()
    rows: list[Row] = []
    damage = spike.damage
    try:
        rows = Ledger(spike.judge, Blobs(spike.judge / "blobs")).read()
    except Problem as problem:
        damage = damage or problem.message
    args = context.args
    told = [t for t in told_rows(rows) if not args.event or t.row.event in args.event]
    told = told[-args.last :] if args.last else told
    data: dict[str, Any] = {"rows": [_row_data(t.row) for t in told], "damage": damage}
    lines: Iterator[Line] = (line for t in told for line in row_lines(t, context.out.width))
    if damage:
        context.out.warn(f"the ledger is damaged: {damage}")
    return Answer(data, lines, Exit.TAMPERED if damage else Exit.OK)


def _row_data(row: Row) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "event": row.event,
        "at": row.at,
        "epoch": row.epoch,
        "boot_ms": row.boot_ms,
        "actor": row.actor.value,
        "prev": row.prev,
        **row.fields,
        "schema": row.schema,
    }


COMMANDS = {
    "map": Command(
        _map,
        usage=("[--pending] [--ids]",),
        description="""
Lists every hunk of the diff against the baseline with its state: pending, approved, withdrawn
(approved once, gone by the agent's doing), out of band (made by no accepted patch). A hunk is
what git shows under one @@; approvals hang on its bytes and lapse when those change.
""",
        options=_map_options,
        examples=(
            ("spike map", "all of it"),
            ("spike map --pending --ids", "ids that wait, for a loop"),
        ),
    ),
    "show": Command(
        _show,
        usage=("HUNK... [--reason]",),
        description="""
Shows one hunk the way it must be seen before it is approved: old and new line numbers, the state
of each region (p pending, a approved, l lapsed), blanks at line ends, odd line endings, a
missing last newline, and every character that hides or moves text as <hex>. Flags are named with
what --ack takes.
""",
        options=_show_options,
        examples=(("spike show h1a2b3c4d", "before you approve it"),),
    ),
    "diff": Command(
        _diff,
        usage=("[PATH|HUNK...] [--pending] [--approved]",),
        description="""
Prints the diff against the recorded baseline as a unified diff; each hunk's id and state stand
behind its @@. Characters that hide are shown as <hex>, so this is a text to read; the exact
bytes to apply are in verdict/ship.patch after `spike ship`.
""",
        options=_diff_options,
        examples=(
            ("spike diff", "everything"),
            ("spike diff src/http_client.py --pending", "what waits in one file"),
        ),
    ),
    "log": Command(
        _log,
        usage=("[-n N] [--event NAME]",),
        description="""
Prints the ledger for people: number, minutes since the start, who, what. With --json every row
as it was written. The chain is verified while reading; exit 5 if it is damaged.
""",
        options=_log_options,
        exits=(("5", "the ledger is damaged"),),
        examples=(
            ("spike log -n 20", "the last twenty rows"),
            ("spike log --event call_refused", "what the agent was refused"),
        ),
    ),
}
