"""Longer texts of the review screen: the help, a test's output, what stands in an empty pane."""

from __future__ import annotations

from spike_mcp.edge.desk import Sealed, Snapshot, TestRun
from spike_mcp.edge.text import safe, safe_line
from spike_mcp.edge.tui.keys import BOX_WORDS, KEYS
from spike_mcp.edge.tui.model import Entry, Review
from spike_mcp.edge.tui.paint import Line, pad, wrap

_OUTPUT_LINES = 2000


def help_lines(sealed: Sealed, width: int) -> list[Line]:
    """The help overlay."""
    lines: list[Line] = [[(" Keys", "title"), ("  (any other key closes this)", "dim")], []]
    column = 12 if width < 60 else 20
    for entry in KEYS:
        if entry.words:
            lines += _described(entry.shown, entry.words, column, width)
    lines += [[], [(" While something is asked", "title")], []]
    for shown, words in BOX_WORDS:
        lines += _described(shown, words, column, width)
    lines += [[], [(" Tags", "title")], []]
    rules = (
        "A tag says in three words or more what a hunk does, and names a word of the hypothesis: "
        f"{', '.join(sealed.tokens)}. If none fits, the hunk is out of scope: reject it. "
        "One tag serves several hunks only where their changed lines are identical (*)."
    )
    return lines + [[(" ", ""), *line] for line in wrap([(rules, "")], width - 2)]


def _described(shown: str, words: str, column: int, width: int) -> list[Line]:
    line: Line = [(f" {pad(shown, column)} ", "key"), (words, "")]
    return wrap(line, width - 1, column + 2)


def output_lines(run: TestRun, width: int) -> list[Line]:
    """The overlay with a run's output, made safe."""
    word = "green" if run.green else run.outcome
    head: Line = [(f" {run.run} {word}", "good" if run.green else "alarm")]
    head.append((f"  {run.seconds:.1f} s  (any other key closes this)", "dim"))
    lines: list[Line] = [head]
    if run.note:
        lines += wrap([(" ", ""), (safe_line(run.note, 600), "note")], width - 1, 1)
    lines.append([])
    for text in safe(run.output).split("\n")[-_OUTPUT_LINES:]:
        lines += wrap([(" ", ""), (text.replace("\t", "    "), "")], width - 1, 3)
    return lines


def instead(entry: Entry | None, review: Review, snapshot: Snapshot, width: int) -> list[Line]:
    """What the pane says where no hunk can be shown."""
    if entry is None:
        return _paragraphs(_empty_words(review, snapshot), width)
    if entry.state == "out of band":
        return _paragraphs(
            (
                "This file was changed without going through the server: no accepted patch made "
                "this. It can't be approved, and while it stands nothing can be.",
                "r puts the recorded bytes back; what stands there now is kept in the judge's "
                "blobs.",
            ),
            width,
        )
    tags = entry.withdrawn.tag if entry.withdrawn else ""
    return _paragraphs(
        (
            f'You approved this as "{safe_line(tags, 400)}". The agent took it out of the diff '
            "again.",
            "a accepts that it is gone; r puts the approved bytes back. Until then the verdict "
            "counts it as undecided.",
        ),
        width,
    )


def _empty_words(review: Review, snapshot: Snapshot) -> tuple[str, ...]:
    if snapshot.problem:
        return ("The hunk map can't be shown:", safe_line(snapshot.problem, 600))
    if review.filter:
        return (f'Nothing holds "{safe_line(review.filter, 80)}".', "Esc drops the filter.")
    if review.approved_only:
        return ("Nothing is approved yet.", "v shows everything again.")
    return (
        "No hunks yet: the worktree is the baseline.",
        "The agent's changes appear here as they are made.",
    )


def _paragraphs(words: tuple[str, ...], width: int) -> list[Line]:
    lines: list[Line] = [[]]
    for text in words:
        lines += [[("  ", ""), *line] for line in wrap([(text, "")], width - 4)]
        lines.append([])
    return lines
