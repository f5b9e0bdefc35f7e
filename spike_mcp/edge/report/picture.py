"""The timeline as inline SVG: checkpoints, runs, patches, decisions over minutes.

Shapes tell things apart, colour only helps. Every mark has a title, so that it can be read out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from spike_mcp.edge.present import minutes
from spike_mcp.edge.report.value import Moment, Report
from spike_mcp.edge.text import safe_line

_WIDTH = 960
_LEFT = 96
_RIGHT = 24
_ROW = 34
_TOP = 14
_LANES = ("checkpoints", "runs", "patches", "decisions", "other")
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 240)
_MARK_GAP = 9.0


class _Scale:
    """Minutes to pixels."""

    def __init__(self, report: Report) -> None:
        elapsed = report.elapsed_minutes
        near_end = elapsed > report.total_minutes * 0.6
        self.last = max(report.total_minutes, elapsed) if near_end else max(elapsed * 1.06, 0.2)
        self.step = next((s for s in _STEPS if self.last / s <= 10), _STEPS[-1])

    def x(self, minute: float) -> float:
        """Pixels of a minute."""
        share = min(max(minute / self.last, 0.0), 1.0)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def ticks(self) -> Iterator[float]:
        """Minutes that get a line."""
        count = int(self.last / self.step + 1e-9)
        return (round(number * self.step, 3) for number in range(count + 1))


def timeline_svg(report: Report) -> str:
    """The picture, or "" before the start."""
    if not any(visit for each in report.checkpoints for visit in each.visits):
        return ""
    scale = _Scale(report)
    bottom = _TOP + _ROW * len(_LANES)
    parts = [
        f'<svg class="timeline" viewBox="0 0 {_WIDTH} {bottom + 26}" role="img" '
        f'aria-label="Timeline of {minutes(report.elapsed_minutes)} minutes">',
        *_grid(report, scale, bottom),
        *_visits(report, scale),
        *_runs(report, scale),
        *_moments(report, scale),
        "</svg>",
    ]
    return "\n".join(parts)


def _middle(lane: str) -> float:
    return _TOP + _ROW * _LANES.index(lane) + _ROW / 2


def _grid(report: Report, scale: _Scale, bottom: float) -> Iterator[str]:
    for minute in scale.ticks():
        x = scale.x(minute)
        yield f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{x}" y="{bottom + 16}">{minute:g}</text>'
    yield f'<text class="lane" x="0" y="{bottom + 16}">minutes</text>'
    for lane in _LANES:
        yield f'<text class="lane" x="0" y="{_middle(lane) + 4}">{lane}</text>'
    for minute, word in ((report.cutoff_minutes, "writes stop"), (report.total_minutes, "end")):
        if minute <= scale.last:
            x = scale.x(minute)
            yield f'<line class="limit" x1="{x}" y1="{_TOP - 4}" x2="{x}" y2="{bottom}"/>'
            yield f'<text class="limit-word" x="{x - 3}" y="{_TOP - 4}">{word}</text>'


def _visits(report: Report, scale: _Scale) -> Iterator[str]:
    y = _middle("checkpoints") - 10
    for each in report.checkpoints:
        name = escape(safe_line(each.name, 40))
        for visit in each.visits:
            end = report.elapsed_minutes if visit.end is None else visit.end
            x = scale.x(visit.begin)
            width = max(3.0, round(scale.x(end) - x, 1))
            state = "over" if each.over else "met" if each.met else "open"
            used = f"{minutes(each.used)} of {minutes(each.allowed)} min"
            yield f"<g><title>{name}: {used}, {state}</title>"
            size = f'width="{width}" height="20" rx="3"'
            yield f'<rect class="visit {state}" x="{x}" y="{y}" {size}/>'
            if width > 8 * len(name):
                yield f'<text class="inside" x="{x + 5}" y="{y + 14}">{name}</text>'
            yield "</g>"


def _runs(report: Report, scale: _Scale) -> Iterator[str]:
    y = _middle("runs")
    for run in report.runs:
        x = scale.x(run.begin)
        width = max(6.0, round(scale.x(run.begin + run.seconds / 60) - x, 1))
        word = "green" if run.green else safe_line(run.outcome, 40)
        style = "green" if run.green else "red"
        title = escape(f"{run.id} {word}, {run.seconds:.1f} s, for {safe_line(run.purpose, 40)}")
        yield f"<g><title>{title}</title>"
        yield f'<rect class="run {style}" x="{x}" y="{y - 8}" width="{width}" height="16" rx="2"/>'
        if not run.green:
            yield f'<path class="strike" d="M{x} {y + 8} L{x + width} {y - 8}"/>'
        yield "</g>"


def _moments(report: Report, scale: _Scale) -> Iterator[str]:
    lanes = {"patches": "patches", "decisions": "decisions", "agent": "other", "end": "other"}
    for lane in ("patches", "decisions", "other"):
        moments = [m for m in report.timeline if lanes.get(m.lane) == lane and m.minute > 0]
        yield from _spread(moments, lane, scale)


def _spread(moments: Iterable[Moment], lane: str, scale: _Scale) -> Iterator[str]:
    """Marks of one lane; those too close to each other are moved apart by a little."""
    y = _middle(lane)
    last = -_MARK_GAP
    for moment in moments:
        x = max(scale.x(moment.minute), last + _MARK_GAP)
        if x > _WIDTH - 6:
            x = scale.x(moment.minute)
        last = x
        title = escape(f"minute {moment.minute:.1f}: {moment.text}")
        yield f"<g><title>{title}</title>{_mark(moment, lane, x, y)}</g>"


def _mark(moment: Moment, lane: str, x: float, y: float) -> str:
    if lane == "patches":
        return f'<rect class="mark {moment.tone}" x="{x - 4}" y="{y - 5}" width="8" height="10"/>'
    if lane == "decisions" and moment.tone == "good":
        return f'<circle class="mark good" cx="{x}" cy="{y}" r="5"/>'
    if lane == "decisions" and moment.tone == "bad":
        cross = f"M{x - 4} {y - 4} L{x + 4} {y + 4} M{x - 4} {y + 4} L{x + 4} {y - 4}"
        return f'<path class="mark cross" d="{cross}"/>'
    diamond = f"M{x} {y - 5} L{x + 5} {y} L{x} {y + 5} L{x - 5} {y} Z"
    return f'<path class="mark {moment.tone}" d="{diamond}"/>'
