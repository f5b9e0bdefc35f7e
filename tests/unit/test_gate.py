"""The gate: order and reach of every rule, pinned by `tests/vectors/gate.json` (spec 6)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spike_mcp.core import events as ev
from spike_mcp.core.budgets import Budgets
from spike_mcp.core.clock import ClockState, Reading
from spike_mcp.core.codes import Checkpoint, Problem, Refusal, Usage
from spike_mcp.core.decide import RULES, Accepted, Observation, Refused, decide
from spike_mcp.core.model import CheckpointState, State, Visit
from spike_mcp.core.requests import (
    Apply,
    ApplyPatch,
    Approve,
    CheckpointCommand,
    Decide,
    End,
    Kind,
    Malformed,
    ReadFile,
    Report,
    Request,
    RunTest,
    Status,
)

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "gate.json").read_text())
BUDGETS = Budgets()
KEYS = {
    *("name", "request", "answer", "minute", "life", "opened", "stood", "used", "closed_by"),
    *("over", "extended", "verify", "refusals", "stored", "runs", "damage", "seal", "tampered"),
    *("out_of_band", "running", "problem", "pending", "adds", "revert", "measured"),
    *("remarks", "backlog"),
}
REQUESTS: dict[str, Request | Malformed] = {
    "status": Status(),
    "read": ReadFile("a", 1, 1),
    "write": ApplyPatch("", ""),
    "apply": Apply("", ""),
    "run": RunTest(),
    "report": Report("done", ""),
    "approve": Approve(),
    "decide": Decide(),
    "end": End(),
    "checkpoint": CheckpointCommand(),
    "malformed": Malformed("spike_apply_patch", Kind.WRITE, "`patch` is missing"),
    "unknown": Malformed("spike_sudo", Kind.UNKNOWN, "there is no tool of this name"),
}
HUMAN = {"apply", "approve", "decide", "end", "checkpoint"}


def a_state(case: dict[str, Any]) -> State:
    life = case.get("life", "ready")
    if life == "created":
        return State()
    met = None if life == "starting" else True
    points = {name: CheckpointState() for name in Checkpoint}
    points[Checkpoint.SETUP] = CheckpointState(used=1, met=True, visits=1)
    points[Checkpoint.REPRODUCE] = CheckpointState(used=1, met=met, visits=1)
    opened, verify = case.get("opened"), case.get("verify")
    points[Checkpoint.ATTEMPT] = CheckpointState(
        used=case.get("used", 0.0),
        over=case.get("over", False),
        extended=case.get("extended", False),
        closed_by=case.get("closed_by", ""),
    )
    visit = None
    if opened is not None:
        visit = Visit(Checkpoint.ATTEMPT, opened * 60, case.get("stood", 0) * 60)
    if verify is not None:
        visit = Visit(Checkpoint.VERIFY, verify * 60)
    return State(
        clock=ClockState.begin(Reading(0.0, 0, "boot")),
        checkpoints=points,
        visit=visit,
        refusals=case.get("refusals", 0),
        remarks=case.get("remarks", 0),
        backlog_since=case["backlog"] * 60 if "backlog" in case else None,
        stored=case.get("stored", 0),
        agent_runs=case.get("runs", 0),
        hidden_started=life == "hidden",
        verdict=ev.VerdictWritten("PARK", "patch_too_large", "") if life == "verdict" else None,
        killed=ev.Killed() if life == "killed" else None,
    )


def a_problem(code: str) -> Problem:
    known = Refusal if code in set(Refusal) else Usage
    return Problem(known(code), "no")


def an_observation(case: dict[str, Any]) -> Observation:
    return Observation(
        elapsed=case.get("minute", 5) * 60,
        human=case["request"] in HUMAN,
        damage="a row is gone" if case.get("damage") else "",
        seal=("contract.toml",) if case.get("seal") else (),
        tampered=(".git",) if case.get("tampered") else (),
        out_of_band=("src/a.py",) if case.get("out_of_band") else (),
        running="R1" if case.get("running") else "",
        problem=a_problem(case["problem"]) if "problem" in case else None,
        pending_after=case.get("pending", 0),
        adds_hunk=case.get("adds", False),
        is_revert=case.get("revert", False),
        measured=case.get("measured", False),
    )


def answer_to(case: dict[str, Any]) -> str:
    found = decide(a_state(case), BUDGETS, an_observation(case), REQUESTS[case["request"]])
    return "accepted" if isinstance(found, Accepted) else found.code.value


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    assert not case.keys() - KEYS, "an unknown key says nothing to this test"
    assert answer_to(case) == case["answer"]


def test_the_order_of_the_rules_is_the_policy() -> None:
    assert [rule.code.value for rule in RULES] == VECTORS["order"]


TRIGGERS: dict[str, dict[str, Any]] = {
    "budget_spent": {"minute": 95},
    "spike_closed": {"life": "verdict"},
    "not_started": {"life": "starting"},
    "ledger_damaged": {"damage": True},
    "call_limit_spent": {"refusals": 2000},
    "seal_broken": {"seal": True},
    "worktree_tampered": {"tampered": True},
    "out_of_band_change": {"out_of_band": True},
    "run_in_progress": {"running": True},
    "writes_closed": {"minute": 72},
    "checkpoint_over": {"used": 30, "minute": 60},
    "checkpoint_closed": {"verify": 20, "minute": 30},
    "review_backlog": {"pending": 21, "adds": True},
    "test_runs_spent": {"runs": 60},
}


def cause(code: str, kind: str) -> dict[str, Any]:
    """What makes the rule object; the human's commands are refused before the start only."""
    return {"life": "created"} if (code, kind in HUMAN) == ("not_started", True) else TRIGGERS[code]


@pytest.mark.parametrize("kind", VECTORS["refuses"])
def test_every_rule_that_reaches_a_kind_comes_before_all_later_ones(kind: str) -> None:
    """All causes at once; the first is taken away, and the next one answers, down to the last."""
    codes = VECTORS["refuses"][kind]
    assert codes == [c for c in VECTORS["order"] if c in codes]
    for first in range(len(codes) + (kind != "unknown")):
        dropped = {*codes[:first], *(_LIVES if kind != "end" else ())} - set(codes[first:])
        case: dict[str, Any] = {"request": kind}
        for code in reversed(VECTORS["order"]):
            if code in TRIGGERS and code not in dropped:
                case |= cause(code, kind)
        assert answer_to(case) == (codes[first] if first < len(codes) else "accepted")


_LIVES = ("spike_closed", "not_started")
"""Two lives exclude each other: where a rule does not reach a kind, its life is left out."""


def test_the_kinds_that_a_rule_reaches_are_exactly_those_of_the_vectors() -> None:
    known = {kind.value for kind in Kind}
    assert set(VECTORS["refuses"]) == known
    for rule in RULES:
        if rule.code in (Refusal.MALFORMED_REQUEST, Refusal.UNKNOWN_TOOL):
            continue
        named = {kind for kind, codes in VECTORS["refuses"].items() if rule.code.value in codes}
        assert {kind.value for kind in rule.kinds} == named, rule.code


@pytest.mark.parametrize("code", VECTORS["problems"])
def test_what_preparing_found_is_the_last_reason(code: str) -> None:
    for request in ("write", "approve", "decide"):
        assert answer_to({"request": request, "problem": code}) == code
    assert answer_to({"request": "write", "problem": code, "damage": True}) == "ledger_damaged"


def test_every_code_of_the_specification_is_accounted_for() -> None:
    told = {*VECTORS["order"], *VECTORS["problems"], *VECTORS["not_from_the_gate"]}
    assert told == {code.value for code in Refusal}
    # Nothing that only a command can say is a rule of the gate.
    assert not set(VECTORS["order"]) & set(VECTORS["not_from_the_gate"])


def test_each_refusal_has_a_sentence_and_a_hint() -> None:
    for code, trigger in TRIGGERS.items():
        kind = next(k for k, codes in VECTORS["refuses"].items() if code in codes)
        case = {"request": kind, **trigger}
        found = decide(a_state(case), BUDGETS, an_observation(case), REQUESTS[kind])
        assert isinstance(found, Refused)
        assert found.code.value == code
        assert found.message
        assert found.hint


@pytest.mark.parametrize("kind", sorted(REQUESTS))
def test_time_alone_never_turns_a_refusal_into_an_acceptance(kind: str) -> None:
    lives = [{}, {"opened": 10}, {"opened": 10, "over": True, "extended": True}, {"verify": 60}]
    lives += [{"used": 10, "closed_by": by} for by in ("done", "human", "verify", "allowance")]
    lives += [{"life": life} for life in ("created", "starting", "hidden", "verdict")]
    for life in lives:
        refused = False
        for minute in range(121):
            now = answer_to({"request": kind, "minute": minute, **life}) != "accepted"
            assert now or not refused, (life, minute)
            refused = now


def test_a_spent_budget_refuses_everything_but_the_end() -> None:
    for name in REQUESTS:
        for more in ({}, {"revert": True}, {"measured": True}, {"opened": 80}):
            found = answer_to({"request": name, "minute": 90, **more})
            assert found == ("accepted" if name == "end" else "budget_spent")


def test_the_budgets_are_the_contracts() -> None:
    half = replace(BUDGETS, total=45.0)
    seen = Observation(45 * 60.0)
    assert isinstance(decide(a_state({}), half, seen, Status()), Refused)
    assert isinstance(decide(a_state({}), BUDGETS, seen, Status()), Accepted)
