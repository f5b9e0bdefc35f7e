"""Writes the reference pages that are made from the code: refusals, verdicts, ledger.

python docs/make_reference.py          rewrite the pages
python docs/make_reference.py --check  exit 1 if one is out of date
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from spike_mcp.core import events
from spike_mcp.core.codes import Reason, Refusal
from spike_mcp.core.decide import RULES
from spike_mcp.core.next_actions import next_action
from spike_mcp.core.requests import Kind
from spike_mcp.core.verdict import ROWS, exit_code
from spike_mcp.edge.messages import message_of

HERE = Path(__file__).parent
_MADE = "<!-- made by docs/make_reference.py -->"


def refusals() -> str:
    """Every refusal code; first the gate's rules in their order, then the others."""
    lines = [
        "# Refusals",
        _MADE,
        "",
        'A request that gets "no" is told a stable code, a sentence and what to do about it; the ledger',
        "gets a row, and nothing else changes. Codes are added, never renamed.",
        "",
        "## The gate's rules, in order",
        "",
        "The first rule that objects wins. After them come the codes below that preparing the effect",
        "found (paths first, then the patch).",
        "",
        "| code | concerns | meaning | what to do |",
        "|---|---|---|---|",
    ]
    for rule in RULES:
        kinds = "all" if rule.kinds == frozenset(Kind) else ", ".join(sorted(rule.kinds))
        lines.append(_row(rule.code, kinds, message_of(rule.code).sentence, rule.hint))
    lines += ["", "## All other codes", "", "| code | meaning | what to do |", "|---|---|---|"]
    gate = {rule.code for rule in RULES}
    for code in Refusal:
        if code not in gate:
            said = message_of(code)
            lines.append(_row(code, said.sentence, said.hint))
    return "\n".join(lines) + "\n"


def verdicts() -> str:
    """The decision table."""
    lines = [
        "# Verdicts",
        _MADE,
        "",
        "The first row that holds decides; `result.json` names every row that holds. A written verdict",
        "is never overridden: a new spike is the only appeal.",
        "",
        "| # | decision | reason | meaning | exit | next |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        code = int(exit_code(row.decision, row.reason))
        meaning = message_of(row.reason).sentence
        following = next_action(row.decision, row.reason)
        lines.append(_row(row.number, row.decision, row.reason, meaning, code, following))
    missing = set(Reason) - {row.reason for row in ROWS}
    if missing:
        raise SystemExit(f"reasons without a row: {sorted(missing)}")
    return "\n".join(lines) + "\n"


def ledger() -> str:
    """Every row kind."""
    lines = [
        "# The ledger",
        _MADE,
        "",
        "`judge/ledger.jsonl`: one JSON object a line, appended under a lock with one synced write.",
        "Every row has `seq` (gapless from 1), `event`, `at` (RFC 3339), `epoch` (seconds), `boot_ms`",
        "(milliseconds since boot, suspension counted), `boot` (which boot), `actor` (agent, human,",
        "scorekeeper, host), `prev` (SHA-256 of the previous line without its newline; 64 zeros in the",
        "first) and `schema`. Fields too long for a row move to `judge/blobs/` and `spill` names their",
        "digests. A reader ignores keys it does not know.",
        "",
        "| event | fields | meaning |",
        "|---|---|---|",
    ]
    for name in sorted(events.REGISTRY):
        kind = events.REGISTRY[name]
        names = ", ".join(f"`{field.name}`" for field in fields(kind))
        about = " ".join((kind.__doc__ or "").split())
        lines.append(_row(f"`{name}`", names, about))
    return "\n".join(lines) + "\n"


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


PAGES = {"refusals.md": refusals, "verdicts.md": verdicts, "ledger.md": ledger}


def main() -> int:
    """Write or check the pages."""
    stale = []
    for name, make in PAGES.items():
        path = HERE / name
        text = make()
        if "--check" in sys.argv:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"out of date: {', '.join(stale)}; run python docs/make_reference.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
