"""JSON Schemas of every `--json` answer, from one table (spec 13). Keys are added, never renamed.

All named keys are required; more may be there.
"""

from __future__ import annotations

from typing import Any

from spike_mcp.edge.cli.out import SCHEMA_VERSION

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"

S: Schema = {"type": "string"}
I: Schema = {"type": "integer"}  # noqa: E741  (one letter a type keeps the table readable)
N: Schema = {"type": "number"}
B: Schema = {"type": "boolean"}
MAYBE_INT: Schema = {"type": ["integer", "null"]}
MAYBE_BOOL: Schema = {"type": ["boolean", "null"]}
HEX: Schema = {"type": "string", "pattern": "^([0-9a-f]{64})?$"}


def obj(**properties: Schema) -> Schema:
    """An object with these keys, all required, more allowed."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def items(of: Schema) -> Schema:
    """A list of one kind."""
    return {"type": "array", "items": of}


def table(of: Schema) -> Schema:
    """An object with any keys and one kind of value."""
    return {"type": "object", "additionalProperties": of}


def one_of(*words: str) -> Schema:
    """One of these strings."""
    return {"enum": list(words)}


STRINGS = items(S)

_HUNK = obj(
    id={"type": "string", "description": "what HUNK takes; empty for an out of band entry"},
    state=one_of("pending", "approved", "withdrawn", "out_of_band"),
    path=S,
    kind={
        "type": "string",
        "description": "modify, create, delete; how an out of band path differs",
    },
    old_start=I,
    old_lines=I,
    new_start=I,
    new_lines=I,
    header=S,
    added=I,
    removed=I,
    tag=S,
    patches=STRINGS,
    rationale=S,
    flags=items(obj(name=S, line=I, text=S)),
    regions=items(obj(key=HEX, state=S, old_start=I, old_count=I, added=I, removed=I)),
    view_sha256={**HEX, "description": "what `approve --sha` takes"},
)
_VIEW = items(obj(sign=one_of(" ", "+", "-"), text=S, old=MAYBE_INT, new=MAYBE_INT))
_SHOWN = obj(hunks=items({"allOf": [_HUNK, obj(lines=_VIEW)]}))
_RUN = obj(run=S, purpose=S, green=B, outcome=S, seconds=N)
_CHECKPOINT = obj(used_minutes=N, allowed_minutes=N, over=B, met=MAYBE_BOOL)
_REASON = obj(code=S, path=S, hunk=S, detail=S)
_UNKNOWN = obj(number=I, text=S, confirmed=B)
_CHECKPOINT_NAMES = ("setup", "reproduce", "attempt", "verify")

_VERDICT = obj(
    decision=one_of("SHIP", "PARK", "KILL"),
    reason=S,
    reasons={**STRINGS, "minItems": 1, "description": "all that hold, in order of precedence"},
    elapsed_sec=N,
    deadline_sec=N,
    oracle_sha256=HEX,
    oracles=table(HEX),
    over=items(one_of(*_CHECKPOINT_NAMES)),
    checkpoints=table(obj(minutes=N, allowed=N, over=B, met=MAYBE_BOOL)),
    patch_lines=I,
    hunks=items(obj(id=S, path=S, state=S, tag=S, header=S)),
    baseline=S,
    scored_tree=S,
    measurement=STRINGS,
    evidence=S,
    isolation=one_of("namespaces", "none"),
    writer_tier=one_of("configured", "enforced", "none"),
    approval_strength=one_of("signed", "enforced", "none"),
    fingerprint=S,
    tamper_flags=items(obj(hunk=S, path=S, flag=S, line=I)),
    unknowns=items(_UNKNOWN),
    ledger_head=HEX,
    ledger_rows=I,
    next_action=S,
)
_DAMAGED = obj(decision={"const": "KILL"}, reason={"const": "ledger_damaged"}, damage=S)

_ROW = obj(
    seq={"type": "integer", "minimum": 1},
    event=S,
    at=S,
    epoch=N,
    boot_ms=I,
    actor=one_of("agent", "human", "scorekeeper", "host"),
    prev=HEX,
    schema=I,
)

_ANSWERS: dict[str, Schema] = {
    "init": obj(root=S, work=S, judge=S, tag_tokens=STRINGS, fingerprint=S, warnings=STRINGS),
    "list": obj(
        spikes=items(
            obj(name=S, root=S, phase=S, remaining_seconds=N, pending=I, verdict=S, problem=S)
        )
    ),
    "start": obj(manual=B, red=STRINGS, pinned=STRINGS, weak=S, sealed=STRINGS, loaded=STRINGS),
    "checkpoint": obj(checkpoint=S, action=S, over=B, met=MAYBE_BOOL, overruled=B, message=S),
    "status": obj(
        spike=S,
        root=S,
        phase=one_of(
            "created",
            "starting",
            "waiting",
            *_CHECKPOINT_NAMES,
            "over",
            "closed",
        ),
        checkpoint=one_of("", *_CHECKPOINT_NAMES),
        elapsed_seconds=N,
        remaining_seconds=N,
        writes_close_in_seconds=N,
        hunks=obj(pending=I, approved=I, withdrawn=I, out_of_band=MAYBE_INT),
        hypothesis=S,
        tag_tokens=STRINGS,
        allowed_paths=STRINGS,
        measurement=STRINGS,
        runs_left=I,
        last_run={"anyOf": [_RUN, {"type": "null"}]},
        approval_strength=one_of("signed", "enforced", "none"),
        writer_tier=one_of("configured", "enforced", "none"),
        checkpoints=table(_CHECKPOINT),
        unknowns=items(_UNKNOWN),
        verdict=S,
    ),
    "map": obj(hunks=items(_HUNK), lines=I, max_lines=I, out_of_band=STRINGS),
    "show": _SHOWN,
    "diff": _SHOWN,
    "approve": {"anyOf": [obj(approved=STRINGS, warnings=STRINGS), obj(withdrawn=STRINGS)]},
    "reject": obj(decision=S, rejected=S, paths=STRINGS, lapsed=STRINGS, revived=STRINGS),
    "comment": obj(commented=S),
    "undo": obj(decision=S, undone=S, paths=STRINGS),
    "restore": obj(restored=STRINGS),
    "apply": obj(patch=S, hunks=STRINGS, lapsed=STRINGS),
    "unknown": obj(unknown=I),
    "check": obj(
        decision=one_of("explained", "unexplained", "no_diff", "tampered"), reasons=items(_REASON)
    ),
    "test": obj(
        run=S,
        green=B,
        outcome=S,
        seconds=N,
        exit_code=MAYBE_INT,
        evidence=S,
        note=S,
        tests=table(S),
        output=obj(head=S, tail=S, dropped=I),
        tree=one_of("worktree", "approved"),
    ),
    "verdict": {
        "allOf": [{"anyOf": [_VERDICT, _DAMAGED]}, obj(written=B, todo=STRINGS)],
    },
    "ship": obj(commit=S, branch=S, patch=S, merge_hint=S),
    "kill": obj(decision=S, reason=S, removed=STRINGS, kept=STRINGS),
    "rm": obj(removed=S, archive=S, kept=STRINGS),
    "log": obj(rows=items(_ROW), damage=S),
    "verify": obj(ok=B, findings=STRINGS, rows=I, verdict=S, root=S),
    "doctor": obj(
        ok=B,
        findings=items(obj(name=S, level=one_of("ok", "warn", "bad"), detail=S, remedy=S)),
    ),
    "report": {
        "anyOf": [obj(format=S, report=S), obj(name=S, hypothesis=S)],
    },
    "client-config": obj(
        client=S,
        tier=S,
        directory=S,
        written=B,
        files=items(obj(path=S, content=S)),
        start=S,
    ),
    "completion": obj(shell=S, script=S),
    "error": obj(error=obj(code=S, message=S, hint=S)),
}
_OTHER = ("contract",)


def names() -> tuple[str, ...]:
    """What `spike schema NAME` knows."""
    return (*_ANSWERS, *_OTHER)


def schema(name: str) -> Schema:
    """The JSON Schema `name`; `KeyError` for one that is not in `names()`."""
    if name == "contract":
        from spike_mcp.core.contract import contract_schema

        return dict(contract_schema())
    versioned = obj(schema_version={"const": SCHEMA_VERSION})
    answer = _ANSWERS[name]
    return {
        "$schema": DRAFT,
        "title": f"spike {name} --json" if name != "error" else "any verb that failed, with --json",
        "allOf": [versioned, answer],
    }
