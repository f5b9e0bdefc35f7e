"""The report as one HTML file: no script, nothing loaded from anywhere, light and dark.

Every text goes through `_t`: made safe, then escaped. A content security policy in the page itself
lets nothing but its own style in, should that ever fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources

from spike_mcp.edge.present import UNICODE, counted, minutes, reasons
from spike_mcp.edge.report.picture import timeline_svg
from spike_mcp.edge.report.value import (
    DiffLine,
    HunkLine,
    RejectLine,
    Report,
    RunLine,
    split_text,
    visible,
)
from spike_mcp.edge.text import safe, safe_line

_NAMED = 40
_CLASSES = {"SHIP": "ship", "PARK": "park", "KILL": "kill"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def to_html(report: Report) -> str:
    """The page."""
    report = visible(report)
    style = resources.files(__package__).joinpath("report.css").read_text("utf-8")
    title = _t(f"Spike {report.name}: {report.headline}")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{style}</style></head><body><main>",
        *_head(report),
        *_picture(report),
        *_facts(report),
        *_hunks(report),
        *_runs(report),
        *_rejects(report),
        *_rest(report),
        *_timeline(report),
        *_foot(report),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _t(text: str, limit: int = 4000) -> str:
    """One line of somebody's text."""
    return escape(safe_line(text, limit))


def _block(text: str) -> str:
    """Several lines of somebody's text; tabs and line ends stay."""
    return escape(safe(text))


def _code(text: str, limit: int = 500) -> str:
    return f"<code>{_t(text, limit)}</code>"


# --- head ---------------------------------------------------------------------------------------


def _head(report: Report) -> Iterator[str]:
    verdict = report.verdict
    word = verdict.decision if verdict else "OPEN"
    code = f" · {_code(verdict.reasons[0].code)}" if verdict else ""
    style = _CLASSES.get(word, "open")
    yield f'<header class="{style}"><p class="eyebrow">spike {_t(report.name)}{code}</p>'
    yield f'<h1><span class="verdict">{_t(word)}</span> '
    if verdict is None:
        yield f"no verdict yet, phase {_t(report.phase)}</h1>"
    else:
        yield f'<span class="reason">{_t(verdict.reasons[0].sentence)}</span></h1>'
    yield f'<p class="hypothesis">{_marked(report)}</p>'
    if verdict is not None:
        others = "".join(f"<li>{_code(r.code)} {_t(r.sentence)}</li>" for r in verdict.reasons[1:])
        yield f'<ul class="reasons">{others}</ul>' if others else ""
        details = "".join(f"<li>{_t(text)}</li>" for text in verdict.details[:_NAMED])
        yield f'<ul class="details">{details}</ul>' if details else ""
        yield f'<p class="next"><strong>Next:</strong> {_t(verdict.next_action)}</p>'
    if report.note:
        yield f'<p class="note"><strong>Note:</strong> {_t(report.note, 8000)}</p>'
    yield from (f'<p class="problem">{_t(text)}</p>' for text in report.problems)
    yield "</header>"


def _marked(report: Report) -> str:
    """The hypothesis; what its tag tokens come from stands out."""
    subject = report.subject
    if subject and report.hypothesis.startswith(subject):
        return f"<strong>{_t(subject)}</strong>{_t(report.hypothesis[len(subject) :])}"
    return _t(report.hypothesis)


def _picture(report: Report) -> Iterator[str]:
    svg = timeline_svg(report)
    if not svg:
        return
    yield f'<section><h2>Timeline</h2><figure>{svg}<figcaption class="legend">'
    for style, word in (
        ("met", "checkpoint met"),
        ("over", "over"),
        ("green", "run green"),
        ("red", "run not green"),
        ("circle", "approved"),
        ("cross", "rejected"),
    ):
        yield f'<span class="item"><span class="key {style}"></span>{word}</span>'
    yield "</figcaption></figure></section>"


def _facts(report: Report) -> Iterator[str]:
    yield '<section class="two"><div><h2>Facts</h2><table class="facts">'
    for name, value in _fact_rows(report):
        yield f"<tr><th>{name}</th><td>{value}</td></tr>"
    yield "</table></div><div><h2>Checkpoints</h2>"
    yield '<table class="grid"><tr><th>checkpoint</th><th>minutes</th><th></th></tr>'
    for each in report.checkpoints:
        word = "over" if each.over else {True: "met", False: "not met", None: "–"}[each.met]
        used = f"{minutes(each.used)} of {minutes(each.allowed)}"
        style = word.replace(" ", "-")
        yield f'<tr><td>{_t(each.name)}</td><td>{used}</td><td class="{style}">{word}</td></tr>'
    yield "</table></div></section>"


def _fact_rows(report: Report) -> Iterator[tuple[str, str]]:
    spent = (report.verdict or report).elapsed_minutes
    yield "time", f"{minutes(spent)} of {minutes(report.total_minutes)} min"
    size = f"{report.lines} of {report.max_lines} lines"
    yield "change", f"{counted(len(report.hunks), 'hunk')}, {size}"
    yield "measured by", _code(" ".join(report.measurement))
    yield "allowed", ", ".join(_code(path) for path in report.allowed_paths)
    yield "oracle", ", ".join(_code(path) for path in report.oracle)
    result = report.verdict.result if report.verdict else {}
    for key in ("evidence", "clean_run", "negative_control", "hidden_parts"):
        if result.get(key) not in (None, "", "none", "not_run"):
            yield key.replace("_", " "), _t(str(result[key]))
    yield "sandbox", _t(report.isolation)
    yield "approvals", _t(report.approval_strength)
    yield "writer tier", _t(report.writer_tier)
    yield "baseline", _code(report.baseline)
    yield "fingerprint", _t(report.fingerprint)


# --- hunks --------------------------------------------------------------------------------------


def _hunks(report: Report) -> Iterator[str]:
    yield "<section><h2>Hunks</h2>"
    if not report.hunks:
        yield "<p>Nothing differs from the baseline.</p>"
    for each in report.hunks:
        yield from _hunk(each)
    for short, path, tag in report.withdrawn:
        yield f'<article class="hunk withdrawn"><h3>{UNICODE.withdrawn} withdrawn {_code(short)} '
        yield f"{_code(path)}</h3><blockquote>{_t(tag)}</blockquote></article>"
    yield "</section>"


def _hunk(each: HunkLine) -> Iterator[str]:
    yield f'<article class="hunk {_t(each.state)}" id="{_t(each.id)}">'
    yield f'<h3><span class="state">{UNICODE.of(each.state)} {_t(each.state)}</span> '
    yield f'{_code(each.path)} <span class="id">{_t(each.id)}</span></h3>'
    if each.tag:
        yield f"<blockquote>{_t(each.tag)}</blockquote>"
    yield f'<p class="meta">{" · ".join(_hunk_facts(each))}</p>'
    if each.rationale:
        yield f'<p class="meta">the agent said: <q>{_t(reasons(each.rationale, 4000))}</q></p>'
    if each.like_rationale:
        yield '<p class="flag">! the tag repeats the agent\'s own reason</p>'
    for flag in each.flags:
        read = "read" if flag.name in each.acknowledged else "not acknowledged"
        words = f"! {_t(flag.name.replace('_', ' '))}, line {flag.line} ({read}): "
        yield f'<p class="flag">{words}{_code(flag.text)}</p>'
    yield from (f'<p class="comment">comment: {_t(text)}</p>' for text in each.comments)
    yield from _diff(each.header, each.lines)
    yield "</article>"


def _hunk_facts(each: HunkLine) -> Iterator[str]:
    yield f"+{each.added} −{each.removed}"
    if each.kind != "modify":
        yield f"{_t(each.kind)} file"
    if each.patches:
        yield f"made by {_t(', '.join(each.patches))}"
    if each.decided is not None:
        yield f"approved at minute {minutes(each.decided)}"
        if each.seconds:
            yield f"{each.seconds:.0f} s looked at"
    if each.signed:
        yield "signed"


def _diff(header: str, lines: Iterable[DiffLine]) -> Iterator[str]:
    yield '<div class="diff"><table>'
    if header:
        yield f'<tr class="at"><td></td><td></td><td></td><td>{_t(header)}</td></tr>'
    styles = {"+": "add", "-": "del", " ": "same"}
    for line in lines:
        numbers = f"<td>{line.old or ''}</td><td>{line.new or ''}</td>"
        text = line.text.removesuffix("\n").removesuffix("\r")
        sign = "−" if line.sign == "-" else line.sign
        row = f"<td>{sign}</td><td>{_block(text)}{_ending(line)}</td>"
        yield f'<tr class="{styles[line.sign]}">{numbers}{row}</tr>'
    yield "</table></div>"


def _ending(line: DiffLine) -> str:
    if line.sign == " ":
        return ""
    if line.text.endswith("\r\n"):
        return '<span class="eol">CR LF</span>'
    return "" if line.text.endswith("\n") else '<span class="eol">no newline</span>'


# --- runs, rejects, the rest --------------------------------------------------------------------


def _runs(report: Report) -> Iterator[str]:
    if not report.runs:
        return
    yield '<section><h2>Runs</h2><table class="grid"><tr><th>run</th><th>for</th><th>minute</th>'
    yield "<th>seconds</th><th>outcome</th><th>evidence</th></tr>"
    for run in report.runs:
        word = "green" if run.green else run.outcome
        style = "met" if run.green else "not-met"
        yield f"<tr><td>{_t(run.id)}</td><td>{_t(run.purpose)}</td><td>{run.begin:.1f}</td>"
        yield f'<td>{run.seconds:.1f}</td><td class="{style}">{_t(word)}</td>'
        yield f"<td>{_t(run.evidence)}</td></tr>"
    yield "</table>"
    for run in report.runs:
        if run.head or run.tail or run.note or run.tests:
            yield from _run_detail(run)
    yield "</section>"


def _run_detail(run: RunLine) -> Iterator[str]:
    passed = sum(outcome == "passed" for _test, outcome in run.tests)
    tests = f", {passed} of {counted(len(run.tests), 'test')} passed" if run.tests else ""
    yield f"<details><summary>{_t(run.id)}: output{tests}</summary>"
    if run.note:
        yield f'<p class="meta">{_t(run.note)}</p>'
    if run.tests:
        yield '<ul class="tests">'
        yield from (f"<li>{_code(test, 300)} {_t(outcome)}</li>" for test, outcome in run.tests)
        yield "</ul>"
    middle = f"\n[{run.dropped} bytes left out]\n" if run.dropped else ""
    yield f"<pre>{_block(run.head + middle + run.tail)}</pre></details>"


def _rejects(report: Report) -> Iterator[str]:
    if not report.rejects:
        return
    yield "<section><h2>Rejected</h2>"
    for each in report.rejects:
        yield from _reject(each)
    yield "</section>"


def _reject(each: RejectLine) -> Iterator[str]:
    undone = ", taken back later" if each.undone else ""
    yield f'<article class="hunk rejected"><h3><span class="state">✗ rejected{undone}</span> '
    yield f'{_code(each.target)} <span class="id">{_t(each.decision)}</span></h3>'
    if each.reason:
        yield f"<blockquote>{_t(each.reason)}</blockquote>"
    yield f'<p class="meta">minute {minutes(each.minute)}</p>'
    shown = ""
    for path, removed, added in each.parts:
        lines = [DiffLine("-", None, None, text) for text in split_text(removed)]
        lines += [DiffLine("+", None, None, text) for text in split_text(added)]
        yield from _diff("" if path == shown else path, lines)
        shown = path
    yield "</article>"


def _rest(report: Report) -> Iterator[str]:
    if report.unknowns:
        yield "<section><h2>New unknowns</h2><ul>"
        for number, text, confirmed in report.unknowns:
            word = "confirmed" if confirmed else "not confirmed"
            yield f"<li>{number}: {_t(text)} ({word})</li>"
        yield "</ul></section>"
    if report.refusals:
        yield '<section><h2>Refused requests</h2><table class="grid">'
        for name, count in report.refusals.items():
            yield f"<tr><td>{_code(name)}</td><td>{count}</td></tr>"
        yield "</table></section>"


def _timeline(report: Report) -> Iterator[str]:
    yield '<section><details><summary>Every event</summary><table class="grid events">'
    yield "<tr><th>minute</th><th>who</th><th>what</th></tr>"
    for each in report.timeline:
        who, what = _t(each.actor), _t(each.text)
        yield f"<tr><td>{each.minute:.1f}</td><td>{who}</td><td>{what}</td></tr>"
    yield "</table></details></section>"


def _foot(report: Report) -> Iterator[str]:
    yield f"<footer>Ledger: {report.ledger_rows} rows, head {_code(report.ledger_head)}. "
    yield "<code>spike verify</code> checks chain, seals, signatures, map and verdict from the "
    yield "directory alone.</footer>"
