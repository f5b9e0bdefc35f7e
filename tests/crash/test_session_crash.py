"""Killed or out of space at every effect of every operation (spec 8, 10; bugs B20, B53).

Afterwards the chain is whole, the tree is the one before or the one after, nothing is lost or done
twice, and the operation can simply be asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acting import LONG, TAG, approve_all, ask, current
from effects import Died, Effects, buried
from frozen import Frozen, quick_directory
from support import Open

from spike_mcp.core.codes import Exit, Problem
from spike_mcp.host.evidence import RunOutcome
from spike_mcp.host.evidence.model import Evidence
from spike_mcp.host.ledger import verify_chain
from spike_mcp.host.measure import RunResult
from spike_mcp.session import decisions, ending, judging, rejecting, runs, scoring

FILES = {**LONG, "src/b.py": "b\n"}
GREEN = RunResult(RunOutcome.PASSED, 0, None, 0.1, b"", b"", 0, Evidence())
PATCH = (
    "--- a/src/a.py\n+++ b/src/a.py\n@@ -50 +50 @@\n-line 50\n+GREEN\n"
    "--- a/src/b.py\n+++ b/src/b.py\n@@ -1 +1 @@\n-b\n+bb\n"
    "--- /dev/null\n+++ b/src/deep/new.py\n@@ -0,0 +1 @@\n+new\n"
)


class Refused(Exception):  # noqa: N818  (an answer)
    """The agent was told no."""


def agent(o: Open, tool: str, **arguments: Any) -> Any:
    reply = o.desk.call(tool, arguments)
    if reply.outcome == "refused":
        raise Refused(reply.code)
    return reply


def send_patch(o: Open) -> None:
    agent(o, "spike_apply_patch", patch=PATCH, rationale="all of it")


def reject_all(o: Open) -> None:
    rejecting.reject(o.spike, [], "no", pending=True)


def undo(o: Open) -> None:
    rejecting.undo(o.spike)


def approve_one(o: Open) -> None:
    decisions.approve(o.spike, [current(o).pending[0].id], TAG)


def claim(o: Open) -> None:
    assert agent(o, "spike_run_test").ticket is not None


def finish(o: Open) -> None:
    (run,) = o.spike.state.open_runs
    ticket = runs.Ticket(run.id, "agent", None)  # type: ignore[arg-type]
    runs.finish(o.spike, ticket, GREEN, human=False)


def judge(o: Open) -> None:
    ask(o)


def close(o: Open) -> None:
    ending.kill(o.spike, "enough")


def restore(o: Open) -> None:
    decisions.restore(o.spike, everything=True)


def nothing(_o: Open) -> None:
    """No preparation."""


def foreign(o: Open) -> None:
    (o.spike.work / "src/a.py").write_bytes(b"foreign\n")
    (o.spike.work / "src/odd.py").write_bytes(b"foreign\n")


def patched_and_approved(o: Open) -> None:
    send_patch(o)
    approve_all(o)


@dataclass(frozen=True)
class Operation:
    """`before`: what leads up to it. `once`: rows that stand exactly once in the end."""

    name: str
    before: tuple[Callable[[Open], None], ...]
    do: Callable[[Open], None]
    once: tuple[str, ...]


OPERATIONS = [
    Operation("patch", (nothing,), send_patch, ("patch_applied",)),
    Operation("reject", (send_patch,), reject_all, ("hunk_rejected",)),
    Operation("undo", (send_patch, reject_all), undo, ("undone",)),
    Operation("approve", (send_patch,), approve_one, ("hunk_approved",)),
    Operation("claim", (send_patch,), claim, ()),
    Operation("finish", (send_patch, claim), finish, ()),
    Operation("verdict", (patched_and_approved,), judge, ("verdict",)),
    Operation("restore", (send_patch, foreign), restore, ()),
]
NAMES = [each.name for each in OPERATIONS]


@pytest.fixture(scope="module")
def frozen() -> Iterator[Frozen]:
    with quick_directory() as place:
        yield Frozen(place, files=FILES)


@pytest.fixture(autouse=True)
def green_without_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict's own effects are meant, not those of a hundred files copied and run."""
    monkeypatch.setattr(scoring, "run_clean", lambda *_a: GREEN)


def disk(o: Open) -> dict[str, bytes]:
    """Files of the worktree, temporary ones too."""
    top = o.spike.work
    return {
        str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()
    }


def events(o: Open) -> list[dict[str, Any]]:
    lines = (o.spike.judge / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def reached(frozen: Frozen, operation: Operation) -> tuple[Open, list[bytes], dict[str, bytes]]:
    """The moment before the operation: the spike, the ledger's lines, the tree."""
    o = frozen.thaw()
    for step in operation.before:
        step(o)
    lines = (o.spike.judge / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    return o, lines, disk(o)


def whole(frozen: Frozen, operation: Operation) -> tuple[dict[str, bytes], int, list[str]]:
    """The tree after an undisturbed run of it, and how many effects it has."""
    o, lines, _tree = reached(frozen, operation)
    effects = Effects(0)
    with effects.counted():
        operation.do(o)
    return disk(o), effects.count, [row["event"] for row in events(o)[len(lines) :]]


def check_sound(
    o: Open, lines: list[bytes], trees: tuple[dict[str, bytes], dict[str, bytes]] | None
) -> None:
    """The chain holds, no row of before is gone, and the tree is one of the two (if told)."""
    assert o.desk.call("spike_status", {}).code in ("", "spike_closed")
    assert not o.spike.damage
    path = o.spike.judge / "ledger.jsonl"
    chain = verify_chain(path)
    assert chain.torn == 0
    assert path.read_bytes().startswith(b"".join(lines))
    rows = events(o)
    patches = [row["patch"] for row in rows if row["event"] == "patch_applied"]
    assert len(set(patches)) == len(patches)
    assert o.spike.state.intent is None
    if trees is None:
        return
    found = disk(o)
    assert found in trees
    for name, data in found.items():
        if name.startswith("src/"):
            assert o.spike.work_bytes(name) == data


@pytest.mark.parametrize("torn", [False, True], ids=["before it", "half of it"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_killed_at_every_effect(frozen: Frozen, operation: Operation, torn: bool) -> None:
    after, count, told = whole(frozen, operation)
    assert count > 2
    for number in range(1, count + 1):
        o, lines, before = reached(frozen, operation)
        effects = Effects(number, torn=torn)
        with effects.counted(), pytest.raises(Died):
            operation.do(o)
        with buried():
            o = frozen.reopen()
            check_sound(o, lines, None if operation.name == "restore" else (before, after))
            again(o, operation)
        assert disk(o) == after
        rows = [row["event"] for row in events(o)[len(lines) :]]
        for event in operation.once:
            assert rows.count(event) == 1, (number, effects.log[-1], rows)
        unsure = {"run_started", "session_opened", "restored"}  # made once more, or made already
        assert set(told) <= {*rows, *unsure}, (number, rows)
        assert_settled(o, operation)


def again(o: Open, operation: Operation) -> None:
    """Ask for it once more, unless it has come about."""
    done = {row["event"] for row in events(o)}
    if operation.name == "finish":
        if o.spike.state.open_runs:
            finish(o)
        elif not any(r.finished for r in o.spike.state.runs.values() if r.purpose == "agent"):
            claim(o)
            finish(o)
        return
    if operation.name in ("claim", "verdict") or not set(operation.once) & done:
        try:
            operation.do(o)
        except (Refused, Problem) as no:
            assert operation.name == "restore", no


def assert_settled(o: Open, operation: Operation) -> None:
    if operation.name == "verdict":
        told = o.spike.verdict_dir / "result.json"
        answer = ask(o)
        assert answer.exit is Exit.OK
        assert json.loads(told.read_bytes()) == answer.result
        assert ending.verify(o.spike.root).findings == ()
    elif operation.name != "restore":
        assert judging.check(o.spike).decision in ("unexplained", "no_diff", "explained")
        assert not any(r.code == "out_of_band" for r in judging.check(o.spike).reasons)


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_a_full_disk_at_every_effect(frozen: Frozen, operation: Operation) -> None:
    """The answer is storage_full and nothing has changed, or it is yes and everything has."""
    after, _count, _told = whole(frozen, operation)
    number = 0
    while True:
        number += 1
        o, lines, before = reached(frozen, operation)
        effects = Effects(number, full=True)
        with effects.counted():
            refused = outcome(o, operation)
        if not effects.reached:
            assert not refused
            return
        assert refused in ("", "storage_full"), (number, refused)
        if not refused:
            assert disk(o) == after, (number, effects.log)
            assert set(operation.once) <= {row["event"] for row in events(o)}
        check_sound(o, lines, None if operation.name == "restore" else (before, after))
        if operation.name == "verdict" and refused:
            assert o.spike.state.verdict is None or ask(o).written
        again(o, operation)
        assert disk(o) == after
        rows = [row["event"] for row in events(o)[len(lines) :]]
        for event in operation.once:
            assert rows.count(event) == 1
        assert_settled(o, operation)


def outcome(o: Open, operation: Operation) -> str:
    try:
        operation.do(o)
    except Refused as no:
        return str(no)
    except Problem as problem:
        return problem.code.value
    return ""


def test_the_end_of_a_run_that_found_no_room_is_written_later(frozen: Frozen) -> None:
    """Otherwise the run would seem to go on, and every write would be refused for ever."""
    o = frozen.thaw()
    send_patch(o)
    claim(o)
    with Effects(1, full=True).counted():
        assert outcome(o, Operation("finish", (), finish, ())) == "storage_full"
    assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    (run,) = [r for r in o.spike.state.runs.values() if r.purpose == "agent"]
    assert run.finished is not None
    assert run.finished.green


def test_a_verdict_that_can_not_be_recorded_is_none(frozen: Frozen) -> None:
    o = frozen.thaw()
    patched_and_approved(o)
    number = 0
    written = False
    while not written:
        number += 1
        o = frozen.thaw()
        patched_and_approved(o)
        effects = Effects(number, full=True)
        with effects.counted():
            refused = outcome(o, OPERATIONS[NAMES.index("verdict")])
        rows = [row["event"] for row in events(o)]
        result: Path = o.spike.verdict_dir / "result.json"
        if "verdict" not in rows:
            assert refused == "storage_full"
            assert not result.exists()
            with pytest.raises(Problem):
                ending.ship(o.spike)
        written = not effects.reached
    assert number > 5


def test_a_verdict_command_that_died_does_not_hold_the_agent_up(frozen: Frozen) -> None:
    o = frozen.thaw()
    send_patch(o)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Died):
        patched.setattr(judging, "_close_verdict", killed)
        patched.setattr(judging, "_interrupted", killed)
        judge(o)
    assert o.spike.state.visit is not None
    assert o.spike.state.visit.checkpoint == "verify"
    with buried():
        o = frozen.reopen()
        assert o.edit("src/a.py", "line 9\n", "x\n").outcome == "accepted"
    stops = [row for row in events(o) if row["event"] == "stop"]
    assert stops[-1]["why"] == "verdict_lost"


def killed(*_arguments: Any, **_more: Any) -> None:
    raise Died


def test_what_stands_in_the_way_of_a_recovery_is_left_to_the_sweep(frozen: Frozen) -> None:
    """A deleted file whose place was taken by a link: the spike goes on, and names it."""
    o = frozen.thaw()
    text = "--- a/src/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Died):
        patched.setattr("spike_mcp.session.writes.consequences", killed)
        agent(o, "spike_apply_patch", patch=text, rationale="gone")
    (o.spike.work / "src/b.py").unlink()
    (o.spike.work / "src/b.py").symlink_to("/etc/hostname")
    with buried():
        o = frozen.reopen()
        assert o.desk.call("spike_status", {}).outcome == "accepted"
        assert judging.check(o.spike).exit is Exit.UNEXPLAINED
        restore(o)
    assert (o.spike.work / "src/b.py").read_bytes() == b"b\n"
