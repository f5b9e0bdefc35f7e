"""`spike check`, `test`, `verdict`, `ship`, `kill`, `verify`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spike_mcp.core.codes import Exit, Problem, Usage
from spike_mcp.core.layout import JUDGE, VERDICT
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.elsewhere import write_reports
from spike_mcp.edge.cli.layout import count, hanging
from spike_mcp.edge.cli.out import Answer, Line
from spike_mcp.edge.cli.parser import Parser
from spike_mcp.edge.cli.verbs import Command
from spike_mcp.edge.find import is_spike

if TYPE_CHECKING:
    from spike_mcp.core.events import RunFinished
    from spike_mcp.session.ending import VerifyResult
    from spike_mcp.session.judging import CheckResult

# --- check --------------------------------------------------------------------------------------


def _check(context: Context) -> Answer:
    from spike_mcp.session.judging import check

    spike = context.spike()
    found = check(spike)
    reasons = [
        {"code": r.code, "path": r.path, "hunk": r.hunk, "detail": r.detail} for r in found.reasons
    ]
    data = {"decision": found.decision, "reasons": reasons}
    return Answer(
        data, _check_lines(found, context.out.width), found.exit, after=_check_next(found)
    )


def _check_lines(found: CheckResult, width: int) -> Iterator[Line]:
    words = {
        "explained": ("explained: every changed line is tied to the hypothesis", "green"),
        "unexplained": ("unexplained:", "yellow"),
        "no_diff": ("no diff: nothing differs from the baseline", "yellow"),
        "tampered": ("tampered:", "alarm"),
    }
    yield [words[found.decision]]
    for reason in found.reasons:
        what = " ".join(part for part in (reason.hunk, reason.path, reason.detail) if part)
        yield from hanging(f"  {reason.code}  ", what, width)


def _check_next(found: CheckResult) -> list[Line]:
    if found.decision == "explained":
        return [[("next: spike verdict", "dim")]]
    if found.decision == "unexplained":
        return [[("next: spike map, spike review", "dim")]]
    return []


# --- test ---------------------------------------------------------------------------------------


def _test_options(parser: Parser) -> None:
    parser.switch("--tree", "on the worktree as it is, not on what is approved")


def _test(context: Context) -> Answer:
    from spike_mcp.session import judging, runs

    spike = context.spike()
    row = judging.rehearse(spike, tree=context.args.tree, on_progress=context.out.progress)
    head, tail, dropped = runs.output_of(spike, row)
    data = {
        "run": row.run,
        "green": row.green,
        "outcome": row.outcome,
        "seconds": row.seconds,
        "exit_code": row.exit_code,
        "evidence": row.evidence,
        "note": row.note,
        "tests": dict(row.tests),
        "output": {"head": head, "tail": tail, "dropped": dropped},
        "tree": "worktree" if context.args.tree else "approved",
    }
    lines = _test_lines(row, head, tail, dropped, tree=context.args.tree)
    return Answer(data, lines, Exit.OK if row.green else Exit.TEST_FAILED)


def _test_lines(
    row: RunFinished, head: str, tail: str, dropped: int, *, tree: bool
) -> Iterator[Line]:
    yield from (f"| {line}" for line in head.splitlines())
    if dropped:
        yield f"| ... {dropped} bytes left out ..."
    yield from (f"| {line}" for line in tail.splitlines())
    word: tuple[str, str] = (
        ("green", "green") if row.green else (f"not green: {row.outcome}", "red")
    )
    where = "the worktree as it is" if tree else "the baseline with the approved hunks"
    yield [word, f" on {where}; {row.seconds:.1f} s, evidence {row.evidence}"]
    if row.note:
        yield f"note: {row.note}"


# --- verdict ------------------------------------------------------------------------------------


def _verdict_options(parser: Parser) -> None:
    parser.switch("--final", "write it, whatever it is")


def _verdict(context: Context) -> Answer:
    from spike_mcp.edge.cli.verdict_view import verdict_lines
    from spike_mcp.session.judging import ask

    spike = context.spike()
    answer = ask(spike, final=context.args.final, on_progress=context.out.progress)
    if answer.written:
        write_reports(spike, context.out)
    data = {**answer.result, "written": answer.written, "todo": list(answer.todo)}
    return Answer(data, verdict_lines(data, context.out.width), answer.exit)


# --- ship, kill ---------------------------------------------------------------------------------


def _ship(context: Context) -> Answer:
    from spike_mcp.session.ending import ship

    spike = context.spike()
    done = ship(spike)
    write_reports(spike, context.out)
    data = {
        "commit": done.commit,
        "branch": done.branch,
        "patch": str(done.patch),
        "merge_hint": done.merge_hint,
    }
    merge, _, instead = done.merge_hint.partition("   (or: ")
    lines: list[Line] = [
        [("shipped ", "green"), f"{done.commit} on {done.branch}"],
        f"patch:  {done.patch}",
        f"merge:  {merge}",
        *([f"    or  {instead.removesuffix(')')}"] if instead else []),
    ]
    return Answer(data, lines, after=["then: spike report > spike.md, spike rm"])


def _kill_options(parser: Parser) -> None:
    parser.value("--note", "TEXT", "three sentences on what the assistant missed; kept for good")


def _kill(context: Context) -> Answer:
    from spike_mcp.session.ending import kill

    spike = context.spike()
    done = kill(spike, context.args.note, context.out.progress)
    write_reports(spike, context.out)
    verdict = spike.state.verdict
    data = {
        "decision": verdict.decision if verdict else "",
        "reason": verdict.reason if verdict else "",
        "removed": list(done.removed),
        "kept": list(done.kept),
    }
    return Answer(data, _kill_lines(data, note=bool(context.args.note)))


def _kill_lines(data: dict[str, Any], *, note: bool) -> Iterator[Line]:
    if data["decision"]:
        yield [("closed: ", "bold"), f"{data['decision']} {data['reason']}"]
    yield from (f"  removed {text}" for text in data["removed"])
    yield from (f"  left alone: {text}" for text in data["kept"])
    tried = data["decision"] == "KILL" and data["reason"] not in ("already_green", "flaky_baseline")
    if tried and not note:
        yield "no note was given (--note): say in the ticket what the assistant missed"
    yield "ledger and verdict are kept; next: spike report > spike.md, then spike rm"


# --- verify -------------------------------------------------------------------------------------


def _verify_options(parser: Parser) -> None:
    parser.add_argument("dir", nargs="?", default="", metavar="DIR", help="the spike's directory")


def _verify(context: Context) -> Answer:
    from spike_mcp.session.ending import verify

    root = _verified_root(context)
    found = verify(root)
    data = {
        "ok": found.ok,
        "findings": list(found.findings),
        "rows": found.rows,
        "verdict": found.decision,
        "root": str(root),
    }
    lines = _verify_lines(root, found)
    return Answer(data, lines, Exit.OK if found.ok else Exit.TAMPERED)


def _verified_root(context: Context) -> Path:
    if not context.args.dir:
        return context.root()
    given = os.path.abspath(context.args.dir)
    for root in (given, os.path.dirname(given)):
        if is_spike(root) and (root == given or os.path.basename(given) in (JUDGE, VERDICT)):
            return Path(root)
    unpack = "unpack it first (tar -xzf), then " if given.endswith(".tar.gz") else ""
    raise Problem(
        Usage.SPIKE_NOT_FOUND,
        f"there is no judge with a ledger in {context.args.dir}",
        f"{unpack}name the directory that holds judge/ and verdict/",
    )


def _verify_lines(root: Path, found: VerifyResult) -> Iterator[Line]:
    if found.ok:
        from spike_mcp.session.spike import Spike

        signed = "signatures" if Spike(root).created.approval_key else "no signatures to check"
        verdict = f"verdict {found.decision}" if found.decision else "no verdict yet"
        rows = f"a chain of {count(found.rows, 'row')}"
        yield [("verified", "green"), f": {rows}, seals, map, {signed}; {verdict}"]
        return
    yield [("does not hold:", "alarm")]
    yield from (f"  {text}" for text in found.findings)


COMMANDS = {
    "check": Command(
        _check,
        usage=("",),
        description="""
Asks whether every byte of the diff is explained: each region approved, nothing withdrawn or out
of band, the map proved against the worktree, the seals whole. Runs no test and decides nothing.
""",
        exits=(
            ("0", "explained"),
            ("1", "unexplained diff"),
            ("2", "no diff"),
            ("5", "tampering"),
        ),
        examples=(("spike check", "before asking for the verdict"),),
    ),
    "test": Command(
        _test,
        usage=("[--tree]",),
        description="""
Runs the sealed measurement as the verdict would: on a fresh copy of baseline and approved hunks,
in the sandbox. With --tree on the worktree as it is. Your runs are free; they count for nothing.
""",
        options=_test_options,
        exits=(("0", "green"), ("4", "not green")),
        examples=(
            ("spike test", "what the verdict would see"),
            ("spike test --tree", "what the agent sees"),
        ),
    ),
    "verdict": Command(
        _verdict,
        usage=("[--final]",),
        description="""
Judges: seals, map, one clean run of the measurement on a fresh copy of baseline and approved
hunks, negative controls. SHIP is written at once. Anything else is only shown, with what could
still be done, until --final or the deadline writes it. A written verdict stands; a later `spike
verdict` prints it again.
""",
        options=_verdict_options,
        exits=(
            ("0", "SHIP"),
            ("1", "KILL unexplained_diff"),
            ("2", "KILL hypothesis_not_exercised"),
            ("3", "KILL deadline_exceeded, checkpoints_over_budget"),
            ("4", "KILL test_failed, tests_not_run, evidence_mismatch, twin_failed"),
            ("5", "KILL: something sealed was changed, or judge_fooled"),
            ("6", "PARK"),
            ("7", "KILL closed_by_human, already_green, flaky_baseline, unclassified"),
            ("10", "not final: nothing was written"),
        ),
        examples=(
            ("spike verdict", "what it would be, and SHIP if it is"),
            ("spike verdict --final --json", "write it, for a script"),
        ),
    ),
    "ship": Command(
        _ship,
        usage=("",),
        description="""
After SHIP: commits baseline and approved hunks on spike/NAME with the baseline as its only
parent, provided the tree is the one that was scored; writes verdict/ship.patch; tells how to
merge. Your checkout is not touched.
""",
        examples=(("spike ship", "then merge as it says"),),
    ),
    "kill": Command(
        _kill,
        usage=("[--note TEXT]",),
        description="""
Closes the spike: a KILL verdict if none is written yet, then the worktree and the branch go.
Ledger and verdict stay. The note is for what the assistant missed: three sentences, kept in the
report.
""",
        options=_kill_options,
        examples=(
            (
                'spike kill --note "It cached the header. It never read it from the 429."',
                "the end of an experiment is a result too",
            ),
        ),
    ),
    "verify": Command(
        _verify,
        usage=("[DIR]",),
        description="""
Checks a spike offline with nothing but its directory: the ledger's chain, the seals, the
signatures, that the map reproduces the tree, that result.json is the one the ledger names.
""",
        options=_verify_options,
        exits=(("0", "everything holds"), ("5", "something does not")),
        examples=(("spike verify", "the spike here"),),
    ),
}
