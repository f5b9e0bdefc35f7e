"""What a human does with a spike, in one word each, for tests over `support.open_plain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support import Open

from spike_mcp.core.codes import Problem
from spike_mcp.session import decisions, judging
from spike_mcp.session.agent import Reply
from spike_mcp.session.judging import Answer
from spike_mcp.session.view import HunkMap, hunk_map

TAG = "rewriting the sample lines green"
LONG = {
    "src/a.py": "".join(f"line {n}\n" for n in range(1, 101)),
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": "grep -q GREEN src/a.py\n",
}
"""A file long enough for many hunks."""


def silent(_text: str) -> None:
    """Progress that nobody reads."""


def current(o: Open) -> HunkMap:
    """The map now."""
    o.spike.refresh()
    return hunk_map(o.spike)


def approve_all(o: Open, tag: str = TAG) -> None:
    """Approve whatever is pending, each hunk by itself."""
    for each in current(o).pending:
        decisions.approve(o.spike, [each.id], tag, acks=["all"])


def ask(o: Open, *, final: bool = False, on_progress: Callable[[str], None] = silent) -> Answer:
    """`spike verdict`."""
    return judging.ask(o.spike, final=final, on_progress=on_progress)


def verdict(answer: Answer) -> tuple[str, str, int]:
    """Decision, first reason, exit code."""
    return answer.result["decision"], answer.result["reason"], int(answer.exit)


def fix(o: Open, old: str = "line 50\n", new: str = "GREEN\n") -> Reply:
    """The edit that makes the measurement green."""
    reply = o.edit("src/a.py", old, new)
    assert reply.outcome == "accepted", reply
    return reply


def refused(call: Callable[[], Any]) -> str:
    """The code of the refusal that a command must raise."""
    try:
        done = call()
    except Problem as problem:
        return problem.code.value
    raise AssertionError(f"accepted: {done}")


def rows(o: Open, event: str = "") -> list[dict[str, Any]]:
    """The ledger's rows, or those of one kind."""
    lines = (o.spike.judge / "ledger.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [row for row in found if not event or row["event"] == event]
