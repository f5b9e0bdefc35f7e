"""`spike report`: one page about a spike that can be attached to a ticket (spec 13).

`make_report` gives the value; `render` prints it. `write_reports` puts report.md and report.html
beside result.json.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from spike_mcp.core import layout
from spike_mcp.core.codes import Problem, Usage
from spike_mcp.edge.report.html import to_html
from spike_mcp.edge.report.making import make_report
from spike_mcp.edge.report.markdown import to_markdown
from spike_mcp.edge.report.value import Report
from spike_mcp.host.files import write_atomic
from spike_mcp.session.spike import Spike

__all__ = ["Report", "make_report", "render", "to_html", "to_json", "to_markdown", "write_reports"]

FORMATS = ("md", "html", "json")


def to_json(report: Report) -> str:
    """The value as JSON, ASCII only: texts are exact, and no control byte is in the output."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def render(spike: Spike, fmt: str) -> str:
    """The report as `md`, `html` or `json`. `Problem(USAGE)` for another format."""
    printers = {"md": to_markdown, "html": to_html, "json": to_json}
    if fmt not in printers:
        raise Problem(
            Usage.USAGE, f"there is no format {fmt!r}", f"take one of {', '.join(FORMATS)}"
        )
    return printers[fmt](make_report(spike))


def write_reports(spike: Spike) -> None:
    """Write verdict/report.md and verdict/report.html, each replaced whole."""
    report = make_report(spike)
    for name, text in (
        (layout.REPORT_MD, to_markdown(report)),
        (layout.REPORT_HTML, to_html(report)),
    ):
        write_atomic(spike.verdict_dir / name, text.encode("utf-8"), 0o644)
