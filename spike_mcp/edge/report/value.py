"""The report as one value: Markdown, HTML and JSON are made from it and from nothing else.

Strings are exact, as the ledger and the files have them; whoever prints makes them safe. Minutes
count from `spike start`, are floats, and are 0.0 for what was before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from spike_mcp.edge.text import safe

SCHEMA_VERSION = 1

T = TypeVar("T")


def split_text(text: str) -> list[str]:
    """Lines of a text, endings kept; a line ends at a newline and nowhere else."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def visible(value: T) -> T:
    """The same value with every string in it made safe: what pages are printed from."""
    if isinstance(value, str):
        return cast(T, safe(value))
    if isinstance(value, tuple | list):
        return cast(T, type(value)(visible(item) for item in value))
    if isinstance(value, dict):
        return cast(T, {visible(key): visible(item) for key, item in value.items()})
    if is_dataclass(value) and not isinstance(value, type):
        changes = {each.name: visible(getattr(value, each.name)) for each in fields(value)}
        return cast(T, replace(value, **changes))
    return value


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline."""

    seq: int
    minute: float
    at: str
    actor: str
    lane: str
    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit of a checkpoint; `end` is None while it is open."""

    begin: float
    end: float | None


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """One checkpoint: minutes used and allowed, and what became of it."""

    name: str
    used: float
    allowed: float
    over: bool
    met: bool | None
    visits: tuple[Visit, ...]


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run of the measurement with its evidence; `tests` = (id, outcome), as far as listed."""

    id: str
    purpose: str
    begin: float
    seconds: float
    outcome: str
    green: bool
    evidence: str
    exit_code: int | None
    tests: tuple[tuple[str, str], ...]
    note: str
    head: str
    tail: str
    dropped: int


@dataclass(frozen=True, slots=True)
class PatchLine:
    """An accepted write."""

    id: str
    minute: float
    actor: str
    tool: str
    rationale: str
    files: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a hunk: sign, 1-based numbers, text with its ending."""

    sign: str
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True, slots=True)
class FlagLine:
    """A flag of a hunk."""

    name: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class HunkLine:
    """A hunk of the current diff. `seconds`: how long a human looked before deciding; `decided`
    is the minute of the newest approval, None while there is none."""

    id: str
    full_id: str
    path: str
    kind: str
    header: str
    state: str
    tag: str
    added: int
    removed: int
    patches: tuple[str, ...]
    rationale: str
    decided: float | None
    seconds: float
    acknowledged: tuple[str, ...]
    like_rationale: bool
    signed: bool
    flags: tuple[FlagLine, ...]
    comments: tuple[str, ...]
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class RejectLine:
    """A reject; `parts` = (path, removed text, added text) of what was taken out."""

    decision: str
    target: str
    minute: float
    reason: str
    undone: bool
    parts: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class ReasonLine:
    """A reason of the verdict in words."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The written verdict; `result` is the content of result.json, `details` what it names."""

    decision: str
    reasons: tuple[ReasonLine, ...]
    next_action: str
    elapsed_minutes: float
    result: dict[str, Any]
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything a ticket needs to know about a spike."""

    schema_version: int
    name: str
    phase: str
    hypothesis: str
    verdict: VerdictLine | None
    subject: str = ""
    tag_tokens: tuple[str, ...] = ()
    allowed_paths: tuple[str, ...] = ()
    oracle: tuple[str, ...] = ()
    measurement: tuple[str, ...] = ()
    baseline: str = ""
    isolation: str = ""
    fingerprint: str = ""
    approval_strength: str = ""
    writer_tier: str = ""
    elapsed_minutes: float = 0.0
    total_minutes: float = 0.0
    cutoff_minutes: float = 0.0
    lines: int = 0
    max_lines: int = 0
    note: str = ""
    checkpoints: tuple[CheckpointLine, ...] = ()
    timeline: tuple[Moment, ...] = ()
    runs: tuple[RunLine, ...] = ()
    patches: tuple[PatchLine, ...] = ()
    hunks: tuple[HunkLine, ...] = ()
    rejects: tuple[RejectLine, ...] = ()
    withdrawn: tuple[tuple[str, str, str], ...] = ()
    unknowns: tuple[tuple[int, str, bool], ...] = ()
    refusals: dict[str, int] = field(default_factory=dict)
    ledger_head: str = ""
    ledger_rows: int = 0
    problems: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """`SHIP oracle_unchanged_and_test_passed`, or where the spike stands."""
        if self.verdict is not None:
            return f"{self.verdict.decision} {self.verdict.reasons[0].code}"
        return "no verdict yet"
