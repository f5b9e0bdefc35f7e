"""A verdict for people: the decision, why, what could still be done, what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spike_mcp.core.codes import Reason
from spike_mcp.edge.cli import tiers
from spike_mcp.edge.cli.layout import count, hanging, labelled
from spike_mcp.edge.cli.out import Line
from spike_mcp.edge.text import message_of

_STYLES = {"SHIP": "green", "PARK": "yellow", "KILL": "alarm"}
_NAMED = 20


def verdict_lines(data: Mapping[str, Any], width: int) -> Iterator[Line]:
    """`data` = result.json with `written` and `todo`; a damaged ledger's result has few keys."""
    decision, reason = str(data["decision"]), str(data["reason"])
    written = bool(data["written"])
    style = _STYLES.get(decision, "bold")
    lead = "" if written else "would be "
    yield [lead, (decision, style), f" {reason}"]
    yield f"  {_sentence(reason)}"
    for other in data["reasons"][1:]:
        yield f"  also {other}: {_sentence(str(other))}"
    for text in _details(data):
        yield from hanging("  - ", text, width)
    if "elapsed_sec" in data:
        yield ""
        yield from labelled(_facts(data), width)
    yield ""
    if written:
        yield from hanging("next: ", data["next_action"], width)
        return
    yield [("not final, nothing was written.", "bold"), " What could still be done:"]
    for text in data["todo"]:
        yield from hanging("  - ", text, width)


def _sentence(reason: str) -> str:
    try:
        return message_of(Reason(reason)).sentence
    except ValueError:
        return reason


def _details(data: Mapping[str, Any]) -> Iterator[str]:
    """Each unexplained thing, each changed thing, each note of the runs."""
    named = list(data.get("details", ()))
    for each in named[:_NAMED]:
        what = " ".join(str(each[key]) for key in ("hunk", "path", "detail") if each[key])
        yield f"{each['code']}  {what}"
    if len(named) > _NAMED:
        yield f"and {len(named) - _NAMED} more"
    for what, texts in data.get("changed", {}).items():
        yield from (f"{what}: {text}" for text in texts)
    for key in ("damage", "note"):
        if data.get(key):
            yield str(data[key])
    yield from (f"negative control: {text}" for text in data.get("negative_controls", ()))
    yield from (f"hidden: {text}" for text in data.get("hidden", ()))


def _evidence(data: Mapping[str, Any]) -> str:
    """What the clean run proved, and in what it ran."""
    kind, isolation = str(data["evidence"]), str(data["isolation"])
    proof = "no clean run was made" if kind == "none" else f"{kind}"
    return f"{proof}; sandbox: {isolation}"


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    spent, total = data["elapsed_sec"] / 60, data["deadline_sec"] / 60
    over = f"; over: {', '.join(data['over'])}" if data["over"] else ""
    yield "time", f"{spent:.1f} of {total:g} min{over}"
    size = f"{data['patch_lines']}/{data['max_lines']} lines" if "max_lines" in data else ""
    yield "change", f"{count(len(data['hunks']), 'hunk')}, {size}"
    yield "evidence", _evidence(data)
    yield "approvals", tiers.approvals(str(data["approval_strength"]))
    yield "agent", tiers.writer(str(data["writer_tier"]))
    flags = [f"{flag['hunk']} {flag['flag']}" for flag in data.get("tamper_flags", ())]
    if flags:
        yield "flags", ", ".join(flags[:_NAMED])
    for unknown in data.get("unknowns", ()):
        mark = "confirmed" if unknown["confirmed"] else "not confirmed"
        yield f"unknown {unknown['number']}", f"{unknown['text']} ({mark})"
    if data.get("clock"):
        yield "clock", str(data["clock"])
    yield "fingerprint", str(data["fingerprint"])
