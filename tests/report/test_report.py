"""The report: everything a ticket needs, from one value, safe whatever the agent wrote."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support import INVOICE_FIX, Open, open_invoice, open_plain

from spike_mcp.core import events as ev
from spike_mcp.core.codes import Problem
from spike_mcp.core.model import State
from spike_mcp.edge import story
from spike_mcp.edge.report import make_report, render, to_html, to_json, to_markdown, write_reports
from spike_mcp.edge.report.markdown import code, fenced, plain
from spike_mcp.edge.report.value import Report
from spike_mcp.session import decisions, ending, judging, rejecting
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import hunk_map

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui"))
from hostile import ALL, CORPUS, bad_characters

TAG = "round_money now rounds half to even"


def play(opened: Open) -> None:
    """A refused call, two patches, a reject, an approval, a comment, a verdict."""
    opened.call(
        "spike_edit_file",
        path="tests/test_invoice.py",
        old_text="a",
        new_text="b",
        rationale="easier",
    )
    first = "from decimal import Decimal\n"
    opened.edit("invoice.py", first, "from decimal import Decimal  # `x` | <b>\n", "tidy *up*")
    hunk = hunk_map(opened.spike).hunks[0]
    rejecting.reject(opened.spike, [hunk.id], "out of [scope](http://e)")
    opened.edit("invoice.py", *INVOICE_FIX, "banker's rounding")
    opened.call("spike_run_test")
    hunk = hunk_map(opened.spike).hunks[0]
    decisions.approve(opened.spike, [hunk.id], TAG, sha=hunk.view, seconds=12.5)
    decisions.comment(opened.spike, hunk.id, "no more than this")
    opened.call("spike_report", kind="done", text="green")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Open:
    opened = open_invoice(tmp_path_factory.mktemp("spike"))
    play(opened)
    answer = judging.ask(opened.spike, final=True, on_progress=lambda _text: None)
    assert answer.result["decision"] == "SHIP", answer.result
    return opened


@pytest.fixture(scope="module")
def report(shipped: Open) -> Report:
    return make_report(shipped.spike)


def test_the_value_holds_the_whole_story(report: Report) -> None:
    assert report.headline == "SHIP oracle_unchanged_and_test_passed"
    assert report.verdict is not None
    assert report.verdict.next_action.startswith("Ship it")
    (hunk,) = report.hunks
    assert (hunk.state, hunk.tag, hunk.seconds, hunk.acknowledged) == ("approved", TAG, 12.5, ())
    assert hunk.comments == ("no more than this",)
    assert hunk.rationale == "banker's rounding"
    assert [line.sign for line in hunk.lines].count("+") == 1
    (reject,) = report.rejects
    assert reject.reason == "out of [scope](http://e)"
    assert reject.parts[0][2] == "from decimal import Decimal  # `x` | <b>\n"
    assert [run.purpose for run in report.runs] == ["reproduce", "reproduce", "agent", "scoring"]
    assert [run.green for run in report.runs] == [False, False, True, True]
    assert "1 passed" in report.runs[-1].head
    assert report.refusals == {"path_protected": 1}
    assert [patch.id for patch in report.patches] == ["P1", "P2"]
    assert all(visit.end is not None for each in report.checkpoints for visit in each.visits)
    minutes = [moment.minute for moment in report.timeline]
    assert minutes == sorted(minutes)
    assert report.timeline[-1].text == "verdict SHIP oracle_unchanged_and_test_passed"


def test_json_is_exact_and_ascii(report: Report) -> None:
    text = to_json(report)
    assert text.isascii()
    value = json.loads(text)
    assert value["hunks"][0]["tag"] == TAG
    assert value["schema_version"] == 1
    assert value["verdict"]["result"]["decision"] == "SHIP"


def test_markdown_says_everything_a_reader_needs(report: Report) -> None:
    text = to_markdown(report)
    for wanted in (
        "# Spike invoice: SHIP oracle_unchanged_and_test_passed",
        f"> {TAG}",
        "approved at minute",
        "after 12 s of looking",
        "**Next:** Ship it",
        "rejected h",
        "1/1 passed",
        "* `path_protected`: 1",
        "comment: no more than this",
        report.fingerprint,
        report.ledger_head,
    ):
        assert wanted in text, wanted
    assert "[scope](http://e)" not in text
    assert text.endswith("\n")


def test_html_is_one_file_without_script_or_address(report: Report) -> None:
    text = to_html(report)
    assert "<script" not in text
    assert not re.search(
        r"(?:src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org)", without_text(text)
    )
    assert "default-src 'none'" in text
    for wanted in ("<svg", TAG, "oracle_unchanged_and_test_passed", "12 s looked at", "approved"):
        assert wanted in text
    Balanced().check(text)


def without_text(html: str) -> str:
    return "".join(re.findall(r"<[^>]*>", html)) + "".join(
        re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    )


class Balanced(HTMLParser):
    """Fails on a tag that is not closed in order."""

    VOID = frozenset({"meta", "rect", "line", "path", "circle"})
    KNOWN = VOID | {
        "html",
        "head",
        "title",
        "style",
        "body",
        "main",
        "header",
        "section",
        "div",
        "article",
        "details",
        "summary",
        "figure",
        "figcaption",
        "footer",
        "h1",
        "h2",
        "h3",
        "p",
        "ul",
        "li",
        "table",
        "tr",
        "th",
        "td",
        "span",
        "strong",
        "code",
        "pre",
        "blockquote",
        "q",
        "svg",
        "g",
        "text",
    }
    ATTRIBUTES = frozenset(
        [
            "lang",
            "charset",
            "http-equiv",
            "content",
            "name",
            "class",
            "id",
            "viewbox",
            "role",
            "aria-label",
            "x",
            "y",
            "x1",
            "x2",
            "y1",
            "y2",
            "width",
            "height",
            "rx",
            "d",
            "cx",
            "cy",
            "r",
        ]
    )

    def check(self, text: str) -> None:
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs) -> None:
        assert tag in self.KNOWN
        assert {name for name, _value in attrs} <= self.ATTRIBUTES
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        pass

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


def test_files_are_written_beside_the_verdict(shipped: Open) -> None:
    write_reports(shipped.spike)
    page = (shipped.spike.verdict_dir / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert (shipped.spike.verdict_dir / "report.md").read_text("utf-8").startswith("# Spike")
    assert render(shipped.spike, "md") == (shipped.spike.verdict_dir / "report.md").read_text(
        "utf-8"
    )
    with pytest.raises(Problem, match="no format 'pdf'"):
        render(shipped.spike, "pdf")


def test_a_running_spike_has_a_report_too(tmp_path: Path) -> None:
    opened = open_plain(tmp_path)
    opened.edit("src/a.py", "two\n", "two for callers\n")
    made = make_report(opened.spike)
    assert made.verdict is None
    assert made.headline == "no verdict yet"
    assert [hunk.state for hunk in made.hunks] == ["pending"]
    assert made.checkpoints[2].visits[0].end is None
    assert "no verdict yet" in to_html(made)
    assert "**No verdict yet.**" in to_markdown(made)


def test_a_killed_spike_keeps_its_note_and_its_hunks(tmp_path: Path) -> None:
    opened = open_plain(tmp_path)
    opened.edit("src/a.py", "two\n", "two for callers\n")
    opened.call("spike_report", kind="unknown", text="needs the server")
    ending.kill(opened.spike, "It never read the header.")
    made = make_report(Spike(opened.spike.root))
    assert made.note == "It never read the header."
    assert made.headline == "KILL closed_by_human"
    assert [hunk.path for hunk in made.hunks] == ["src/a.py"]
    assert made.unknowns == ((1, "needs the server", False),)
    for text in (to_markdown(made), to_html(made)):
        assert "It never read the header." in text
        assert "needs the server" in text


def test_a_damaged_ledger_still_gives_a_report(tmp_path: Path) -> None:
    opened = open_plain(tmp_path)
    path = opened.spike.judge / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"R1"', b'"R9"', 1))
    made = make_report(Spike(opened.spike.root))
    assert made.problems
    assert "Problem" in to_markdown(made)


@pytest.mark.security
def test_hostile_text_in_every_field(report: Report) -> None:
    hostile = poisoned(report, ALL)
    for text in (to_markdown(hostile), to_html(hostile), to_json(hostile)):
        assert bad_characters(text) == []
    assert "<001b>" in to_markdown(hostile)
    page = to_html(hostile)
    assert "&lt;001b&gt;" in page
    assert "<script" not in page
    Balanced().check(page)
    assert json.loads(to_json(hostile))["name"] == ALL


@pytest.mark.security
@pytest.mark.parametrize("name", CORPUS)
def test_each_hostile_text_alone(report: Report, name: str) -> None:
    hostile = poisoned(report, CORPUS[name])
    for text in (to_markdown(hostile), to_html(hostile), to_json(hostile)):
        assert bad_characters(text) == []
    Balanced().check(to_html(hostile))


def poisoned(value, text: str, depth: int = 0):
    """Every string of the value replaced, ids of a fixed vocabulary excepted."""
    keep = {"sign", "state", "lane", "tone", "kind"}
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(poisoned(item, text, depth + 1) for item in value)
    if isinstance(value, dict):
        return {key: poisoned(item, text, depth + 1) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        names = [n for n in value.__dataclass_fields__ if n not in keep]
        return replace(value, **{n: poisoned(getattr(value, n), text, depth + 1) for n in names})
    return value


def test_markdown_pieces() -> None:
    assert plain("# a_b _c_ *d*") == r"\# a_b \_c\_ \*d\*"
    assert plain("1. x") == r"1\. x"
    assert plain("- [l](u) <b> | ~ & $") == r"\- \[l\](u) \<b\> \| \~ \& \$"
    assert plain("see https://e.x and www.e.x") == r"see https\://e.x and www\.e.x"
    assert code("a`b``c") == "```a`b``c```"
    assert code("`") == "`` ` ``"
    assert code("") == "`  `"
    assert fenced(["```", "x"]) == ["````", "```", "x", "````"]


def test_every_event_is_told_or_left_out_on_purpose() -> None:
    missing = [name for name, kind in ev.REGISTRY.items() if kind not in story._TELLERS]
    assert missing == []


def test_every_telling_is_one_safe_line(shipped: Open) -> None:
    for kind in ev.REGISTRY.values():
        fields = kind.__dataclass_fields__
        values = {name: _value(field.type, ALL) for name, field in fields.items() if name != "NAME"}
        told = story.tell(kind(**values), State())
        if told is not None:
            assert bad_characters(told.text) == []
            assert "\n" not in told.text
            assert told.lane in story.LANES


def _value(kind, text: str):
    table = {
        "str": text,
        "int": 3,
        "float": 1.5,
        "bool": True,
        "int | None": 3,
        str: text,
        int: 3,
        float: 1.5,
        bool: True,
    }
    if kind in table:
        return table[kind]
    shown = str(kind)
    if "FileRow" in shown or "tuple[str, str, str, int]" in shown:
        return ((text, "a", "b", 3),)
    if "RegionRow" in shown or "int, int, str, str" in shown:
        return (("k", text, "modify", 0, 1, "", ""),)
    if "tuple[tuple[str, str]" in shown or "tuple[tuple[str" in shown:
        return ((text, text),)
    if "Mapping" in shown:
        return {text: text}
    if "int, int]" in shown:
        return (text, 1, 2)
    return (text,)
