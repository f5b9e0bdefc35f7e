"""A ledger row as one line for people: what happened, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spike_mcp.core.clock import Reading
from spike_mcp.core.rows import Row
from spike_mcp.edge.cli.layout import clip, clock
from spike_mcp.edge.cli.out import Line
from spike_mcp.edge.text import safe_line

Fields = Mapping[str, Any]

_QUOTED = 120
_STYLES = {
    "hunk_approved": "green",
    "hunk_rejected": "yellow",
    "call_refused": "yellow",
    "out_of_band_seen": "red",
    "allowance_spent": "red",
    "start_failed": "red",
    "verdict": "bold",
}


def row_line(row: Row, start: Reading | None, width: int) -> Line:
    """`  12  +3:04  agent   patch_applied  P1 src/a.py "because"`; before the start `-`."""
    when = "-"
    if start is not None and row.reading.epoch >= start.epoch:
        boots = row.boot == start.boot_id
        passed = row.reading.boot_ms - start.boot_ms if boots else None
        seconds = passed / 1000 if passed is not None else row.epoch - start.epoch
        when = f"+{clock(seconds)}"
    head = f"{row.seq:>4}  {when:>7}  {row.actor.value:<11}  "
    words = f"{row.event:<19}  {_told(row.event, row.fields)}".rstrip()
    room = width - len(head) if width else 0
    return [(head, "dim"), (clip(safe_line(words, 2000), room), _STYLES.get(row.event, ""))]


def _told(event: str, fields: Fields) -> str:
    tell = _WORDS.get(event)
    try:
        return tell(fields) if tell else _any(fields)
    except (KeyError, TypeError, ValueError, IndexError):
        # A row of a newer program: its name and plain fields still say something.
        return _any(fields)


def _any(fields: Fields) -> str:
    plain = (int, float, bool, str)
    found = [f"{k}={v}" for k, v in fields.items() if isinstance(v, plain) and v not in ("", None)]
    return " ".join(found)


def _quote(text: object) -> str:
    shown = safe_line(str(text), _QUOTED)
    return f'"{shown}"' if shown else ""


def _paths(fields: Fields) -> str:
    names = [str(row[0]) for row in fields.get("files", ())]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _short(hunk: object) -> str:
    return f"h{str(hunk)[:8]}"


def _stop(fields: Fields) -> str:
    met = "met" if fields["met"] else "not met"
    over = ", OVER" if fields["over"] else ""
    why = f" ({fields['why']})" if fields.get("why") else ""
    return (
        f"{fields['checkpoint']} after {fields['minutes']:.1f} of {fields['allowed']:.1f} min: "
        f"{met}{over}{why}"
    )


def _run_finished(fields: Fields) -> str:
    word = "green" if fields["green"] else str(fields["outcome"])
    note = f" - {safe_line(str(fields['note']), _QUOTED)}" if fields.get("note") else ""
    return f"{fields['run']} {word} in {fields['seconds']:.1f} s{note}"


def _approved(fields: Fields) -> str:
    acked = f" acknowledged {', '.join(fields['acknowledged'])}" if fields["acknowledged"] else ""
    path = str(fields["regions"][0][1]) if fields["regions"] else ""
    signed = " signed" if fields.get("signature") else ""
    return f"{_short(fields['hunk'])} {path} {_quote(fields['tag'])}{acked}{signed}"


def _applied(fields: Fields) -> str:
    lapsed = f"; {len(fields['lapsed'])} approvals lapsed" if fields.get("lapsed") else ""
    return f"{fields['patch']} {_paths(fields)} {_quote(fields.get('rationale', ''))}{lapsed}"


_WORDS: Mapping[str, Callable[[Fields], str]] = {
    "created": lambda f: f"{f['name']} at {f['baseline'][:12]}, isolation {f['isolation']}",
    "started": lambda f: "by hand" if f.get("manual") else "",
    "start_failed": lambda f: f"{f['code']}: {f['detail']}",
    "start": lambda f: str(f["checkpoint"]),
    "stop": _stop,
    "extended": lambda f: str(f["checkpoint"]),
    "sealed": lambda f: f"{f['what']}: {len(f['tests'])} tests pinned, {len(f['red'])} red",
    "run_started": lambda f: f"{f['run']} for {f['purpose']}",
    "run_finished": _run_finished,
    "patch_started": lambda f: f"{f['patch']} by {f['tool']}: {_paths(f)}",
    "patch_applied": _applied,
    "hunk_approved": _approved,
    "withdrawal_accepted": lambda f: _short(f["hunk"]),
    "reject_started": lambda f: f"{f['decision']}: {_paths(f)}",
    "hunk_rejected": lambda f: f"{f['target']} {_quote(f['reason'])}",
    "undone": lambda f: str(f["undoes"]),
    "commented": lambda f: f"{_short(f['hunk'])} {f['path']} {_quote(f['text'])}",
    "restored": lambda f: ", ".join(map(str, f["paths"][:5])),
    "out_of_band_seen": lambda f: f"{f['count']}: {', '.join(map(str, f['names'][:5]))}",
    "droppings_removed": lambda f: f"{f['count']}: {', '.join(map(str, f['names'][:5]))}",
    "unknown_noted": lambda f: f"{f['unknown']} {_quote(f['text'])}",
    "session_opened": lambda f: f"{f['tier']} {f.get('client', '')}",
    "call_refused": lambda f: f"{f['tool']} {f['code']}: {f['message']}",
    "refusals_repeated": lambda f: f"{f['tool']} {f['code']}, {f['count']} more times",
    "reported": lambda f: f"{f['kind']} {_quote(f['text'])}",
    "verdict": lambda f: f"{f['decision']} {f['reason']}",
    "shipped": lambda f: f"{f['commit'][:12]} on {f['branch']}",
    "killed": lambda f: _quote(f.get("note", "")),
}
