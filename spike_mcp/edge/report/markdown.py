"""The report as Markdown that a ticket can hold.

Whatever an agent wrote stands in code spans or fenced blocks longer than any run of backticks in
it, or has its markup characters escaped; it can't open a link, an image or raw HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from spike_mcp.edge.present import UNICODE, bar, counted, minutes, reasons
from spike_mcp.edge.report.value import HunkLine, RejectLine, Report, RunLine, split_text, visible
from spike_mcp.edge.text import safe, safe_line

# What opens markup inside a line; an underscore inside a word does not. `://` and `www.` would
# become links by themselves.
_MARKUP = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.")
_LINE_START = re.compile(r"^(?:[#+=:-]|\d+(?=[.)]))")
_OUTPUT_LINES = 30
_NAMED = 40
_BAR = re.compile(r"(?<!\\)\|")
_BAR_SHOWN = r"\\|"
_TICKS = re.compile(r"`+")


def to_markdown(report: Report) -> str:
    """The page; ends in a newline."""
    report = visible(report)
    parts = [
        _head(report),
        _facts(report),
        _checkpoints(report),
        *_hunk_parts(report),
        *_runs(report),
        *_rejects(report),
        *_rest(report),
        _timeline(report),
        _foot(report),
    ]
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def plain(text: str, limit: int = 2000) -> str:
    """Text of somebody else's in running text: safe, on one line, no markup."""
    shown = _MARKUP.sub(lambda match: "\\" + match.group(), safe_line(text, limit))
    return _LINE_START.sub(_escaped_start, shown)


def _escaped_start(match: re.Match[str]) -> str:
    """`# x` would be a heading and `1. x` a list: `\\# x`, `1\\. x`."""
    start = match.group()
    return f"\\{start}" if not start.isdigit() else f"{start}\\"


def code(text: str, limit: int = 500) -> str:
    """A code span that its content can't leave."""
    shown = safe_line(text, limit)
    ticks = "`" * (max((len(run) for run in _TICKS.findall(shown)), default=0) + 1)
    space = " " if shown[:1] in ("`", " ", "") or shown[-1:] in ("`", " ") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def row(*cells: str) -> str:
    """A table row; a bar inside a code span would end its cell."""
    return f"| {' | '.join(_BAR.sub(_BAR_SHOWN, cell) for cell in cells)} |"


def fenced(lines: Iterable[str], language: str = "") -> list[str]:
    """A fenced block that its content can't close."""
    body = [line for text in lines for line in safe(text).split("\n")]
    longest = max((len(run) for line in body for run in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *body, fence]


def _head(report: Report) -> Iterator[str]:
    yield f"# Spike {plain(report.name)}: {plain(report.headline)}"
    yield ""
    yield f"> {plain(report.hypothesis, 4000)}"
    yield ""
    if report.verdict is None:
        yield f"**No verdict yet.** The spike is in phase {plain(report.phase)}."
    else:
        for reason in report.verdict.reasons:
            word = plain(report.verdict.decision)
            yield f"* **{word}** {code(reason.code)}: {plain(reason.sentence)}"
        for text in report.verdict.details[:_NAMED]:
            yield f"  * {plain(text)}"
        yield ""
        yield f"**Next:** {plain(report.verdict.next_action)}"
    if report.note:
        yield ""
        yield f"**Note:** {plain(report.note, 8000)}"
    for problem in report.problems:
        yield ""
        yield f"**Problem:** {plain(problem)}"
    yield ""


def _facts(report: Report) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    # The verdict's own time where there is one: both pages must say the same.
    elapsed = (report.verdict or report).elapsed_minutes
    spent = f"{minutes(elapsed)} of {minutes(report.total_minutes)} min"
    size = f"{report.lines}/{report.max_lines} lines"
    yield row("time", spent)
    yield row("change", f"{counted(len(report.hunks), 'hunk')}, {size}")
    yield row("measured by", code(" ".join(report.measurement)))
    yield row("allowed", ", ".join(code(path) for path in report.allowed_paths))
    yield row("oracle", ", ".join(code(path) for path in report.oracle))
    yield row("baseline", code(report.baseline))
    result = report.verdict.result if report.verdict else {}
    for key in ("evidence", "clean_run", "negative_control", "hidden_parts"):
        if result.get(key) not in (None, "", "none", "not_run"):
            yield row(key.replace("_", " "), plain(str(result[key])))
    yield row("sandbox", plain(report.isolation))
    yield row("approvals", plain(report.approval_strength))
    yield row("writer tier", plain(report.writer_tier))
    yield row("fingerprint", plain(report.fingerprint))
    yield ""


def _checkpoints(report: Report) -> Iterator[str]:
    yield "## Checkpoints"
    yield ""
    lines = []
    for each in report.checkpoints:
        word = "over" if each.over else {True: "met", False: "not met", None: "-"}[each.met]
        drawn = bar(each.used, each.allowed, 20, UNICODE)
        used = f"{minutes(each.used)}/{minutes(each.allowed)} min"
        lines.append(f"{each.name:<10} {drawn} {used:>12}  {word}")
    yield from fenced(lines)
    yield ""


def _hunk_parts(report: Report) -> Iterator[Iterator[str]]:
    yield iter(["## Hunks", ""])
    if not report.hunks:
        yield iter(["Nothing differs from the baseline.", ""])
    for each in report.hunks:
        yield _hunk(each)
    if report.withdrawn:
        lines = [f"* {code(s)} {code(p)}: {plain(t)}" for s, p, t in report.withdrawn]
        yield iter(["**Withdrawn**, approved once and taken out again:", "", *lines, ""])


def _hunk(each: HunkLine) -> Iterator[str]:
    mark = UNICODE.of(each.state)
    yield f"### {mark} {each.state} {code(each.id)} {code(each.path)}"
    yield ""
    if each.tag:
        yield f"> {plain(each.tag)}"
        yield ""
    for line in hunk_facts(each):
        yield f"* {line}"
    yield ""
    header = [each.header] if each.header else []
    body = [f"{line.sign}{_bare(line.text)}" for line in each.lines]
    yield from fenced([*header, *body], "diff")
    yield ""


def hunk_facts(each: HunkLine) -> Iterator[str]:
    """What else is known of a hunk, as Markdown items."""
    made = f"by {plain(', '.join(each.patches))}" if each.patches else "by no known patch"
    kind = "" if each.kind == "modify" else f", {plain(each.kind)}"
    yield f"+{each.added} -{each.removed}{kind}, {made}"
    if each.decided is not None:
        signed = ", signed" if each.signed else ""
        # `spike approve` knows no time of looking: nobody is said to have looked for 0 s.
        looked = f" after {each.seconds:.0f} s of looking" if each.seconds else ""
        yield f"approved at minute {minutes(each.decided)}{looked}{signed}"
    if each.rationale:
        yield f"the agent's reason: {plain(reasons(each.rationale, 4000))}"
    if each.like_rationale:
        yield "**the tag repeats the agent's reason**"
    for flag in each.flags:
        read = "read" if flag.name in each.acknowledged else "not acknowledged"
        yield f"flag {code(flag.name)} line {flag.line} ({read}): {code(flag.text)}"
    for comment in each.comments:
        yield f"comment: {plain(comment)}"


def _bare(text: str) -> str:
    """A line without its newline; a CR stays and is shown in hex."""
    return text.removesuffix("\n")


def _runs(report: Report) -> Iterator[Iterator[str]]:
    if not report.runs:
        return
    rows = ["## Runs", "", "| run | for | minute | seconds | outcome | evidence | tests |"]
    rows.append("|---|---|---|---|---|---|---|")
    rows += [_run_row(run) for run in report.runs]
    yield iter([*rows, ""])
    last = next((r for r in reversed(report.runs) if r.head or r.tail), None)
    if last is not None:
        dropped = [f"[{last.dropped} bytes left out]"] if last.dropped else []
        output = [*last.head.split("\n"), *dropped, *last.tail.split("\n")]
        shown = [line for line in output if line.strip()][-_OUTPUT_LINES:]
        yield iter([f"The end of the output of {plain(last.id)}:", "", *fenced(shown, "text"), ""])


def _run_row(run: RunLine) -> str:
    word = plain("green" if run.green else run.outcome)
    note = f" ({plain(run.note, 200)})" if run.note else ""
    passed = sum(outcome == "passed" for _test, outcome in run.tests)
    return row(
        plain(run.id),
        plain(run.purpose),
        minutes(run.begin),
        f"{run.seconds:.1f}",
        f"{word}{note}",
        plain(run.evidence),
        f"{passed}/{len(run.tests)} passed" if run.tests else "",
    )


def _rejects(report: Report) -> Iterator[Iterator[str]]:
    if not report.rejects:
        return
    yield iter(["## Rejected", ""])
    for each in report.rejects:
        yield _reject(each)


def _reject(each: RejectLine) -> Iterator[str]:
    undone = ", taken back later" if each.undone else ""
    yield f"* {plain(each.decision)}, minute {minutes(each.minute)}{undone}: {code(each.target)}"
    if each.reason:
        yield f"  reason: {plain(each.reason)}"
    yield ""
    for path, removed, added in each.parts:
        lines = [f"-{_bare(t)}" for t in split_text(removed)] + [
            f"+{_bare(t)}" for t in split_text(added)
        ]
        yield from fenced([path, *lines], "diff")
        yield ""


def _rest(report: Report) -> Iterator[Iterator[str]]:
    if report.unknowns:
        lines = [
            f"* {number}: {plain(text)} ({'confirmed' if confirmed else 'not confirmed'})"
            for number, text, confirmed in report.unknowns
        ]
        yield iter(["## New unknowns", "", *lines, ""])
    if report.refusals:
        lines = [f"* {code(name)}: {count}" for name, count in report.refusals.items()]
        yield iter(["## Refused requests", "", *lines, ""])


def _timeline(report: Report) -> Iterator[str]:
    yield "## Timeline"
    yield ""
    yield "| minute | who | what |"
    yield "|---|---|---|"
    for each in report.timeline:
        yield row(f"{each.minute:.1f}", plain(each.actor), plain(each.text))
    yield ""


def _foot(report: Report) -> Iterator[str]:
    yield f"Ledger: {report.ledger_rows} rows, head {code(report.ledger_head)}."
    yield "`spike verify` checks chain, seals, signatures, map and verdict offline."
