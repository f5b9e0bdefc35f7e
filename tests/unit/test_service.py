"""The service in this process: chores, runs that can't be made, faults, the end of the total."""

import threading
from contextlib import asynccontextmanager

import anyio
import pytest
from support import PLAIN, Open, make_repo, open_plain, plain_options
from wire import rows

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge import chores, running
from spike_mcp.edge.service import AgentService
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.evidence import Evidence, RunOutcome
from spike_mcp.host.measure import RunResult
from spike_mcp.session.opening import init

EDIT = {"path": "src/a.py", "old_text": "two", "new_text": "2", "rationale": "rewrites a line"}


class FakeRun:
    """A run that ends as it is told."""

    def __init__(self, outcome: RunOutcome, note: str = "", *, crash: bool = False) -> None:
        self.last_line = "almost there"
        self.result = None
        self._ended = anyio.Event()
        self._given = RunResult(outcome, 1, None, 0.1, b"out", b"", 0, Evidence(), note)
        self._crash = crash

    def cancel(self) -> None:
        self._given = RunResult(RunOutcome.CANCELLED, None, None, 0.1, b"", b"", 0, Evidence())
        self._ended.set()

    def end(self) -> None:
        self._ended.set()

    async def wait_async(self) -> None:
        await self._ended.wait()
        if not self._crash:
            self.result = self._given


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def opened(tmp_path, clock):
    return open_plain(tmp_path, clock)


@asynccontextmanager
async def serving(opened, clock, **more):
    service = AgentService(lambda: opened.spike.root, clock=clock, **more)
    async with anyio.create_task_group() as tasks:
        await tasks.start(service.run)
        yield service
        await service.stop()
        tasks.cancel_scope.cancel()


def fake(monkeypatch, *made):
    """Runs are not spawned but taken from `made`; exceptions are raised."""
    left = list(made)

    def start(_spec):
        found = left.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(running.Run, "start", start)


def events(opened):
    return [row["event"] for row in rows(opened)]


def drive(opened, clock, story, **more):
    async def main():
        async with serving(opened, clock, **more) as service:
            await story(service)

    anyio.run(main)


@pytest.mark.parametrize(
    "fault", [Problem(Refusal.SANDBOX_UNAVAILABLE, "no namespaces here"), OSError(11, "no forks")]
)
def test_a_run_that_cant_be_made_is_refused_and_released(opened, clock, monkeypatch, fault):
    fake(monkeypatch, fault)

    async def story(service):
        await service.call("spike_edit_file", EDIT)
        answer = await service.call("spike_run_test", {})
        assert (answer.outcome, answer.code) == ("refused", "sandbox_unavailable")
        assert "forks" not in str(answer)
        answer = await service.call("spike_edit_file", EDIT | {"old_text": "three"})
        assert answer.outcome == "accepted"

    drive(opened, clock, story)
    assert events(opened)[-5:-2] == ["run_started", "run_lost", "call_refused"]


def test_a_sandbox_that_fails_is_no_result(opened, clock, monkeypatch):
    run = FakeRun(RunOutcome.SANDBOX_ERROR, "bwrap: no")

    async def story(service):
        fake(monkeypatch, run)
        await service.call("spike_edit_file", EDIT)
        run.end()
        answer = await service.call("spike_run_test", {})
        assert answer.code == "sandbox_unavailable"
        assert "bwrap: no" in answer.lines[1]

    drive(opened, clock, story)
    opened.spike.refresh()
    assert opened.spike.state.agent_runs == 0


def test_a_run_on_another_tree_is_refused_each_time(opened, clock, monkeypatch):
    run = FakeRun(RunOutcome.WRONG_TREE, "imported from outside: invoice")

    async def story(service):
        fake(monkeypatch, run)
        await service.call("spike_edit_file", EDIT)
        run.end()
        for _ in range(2):  # the second time from the stored result
            answer = await service.call("spike_run_test", {})
            assert (answer.outcome, answer.code) == ("refused", "wrong_tree_imported")
            assert "invoice" in answer.lines[1]

    drive(opened, clock, story)
    assert events(opened).count("run_started") == 3
    assert [row["code"] for row in rows(opened) if row["event"] == "call_refused"] == [
        "wrong_tree_imported"
    ]


def test_a_run_that_crashed_inside_is_released(opened, clock, monkeypatch):
    run = FakeRun(RunOutcome.PASSED, crash=True)

    async def story(service):
        fake(monkeypatch, run)
        await service.call("spike_edit_file", EDIT)
        run.end()
        assert (await service.call("spike_run_test", {})).code == "sandbox_unavailable"
        assert (await service.call("spike_status", {})).data["running"] == ""

    drive(opened, clock, story)


def test_a_result_waits_for_a_lock_that_somebody_holds(opened, clock, monkeypatch):
    run = FakeRun(RunOutcome.FAILED)
    held, free = threading.Event(), threading.Event()

    def hold():
        with opened.spike.lock.hold(human=True, timeout=5):
            held.set()
            free.wait(20)

    async def story(service):
        fake(monkeypatch, run)
        await service.call("spike_edit_file", EDIT)
        answers = []

        async def call():
            answers.append(await service.call("spike_run_test", {}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            while service._open.runner.live is None:
                await anyio.sleep(0.01)
            thread = threading.Thread(target=hold)
            thread.start()
            await anyio.to_thread.run_sync(held.wait)
            run.end()
            await anyio.sleep(5.5)  # one wait for the lock is over
            assert not answers
            free.set()
        thread.join()
        assert answers[0].lines[0].startswith("R3 not green (failed)")

    drive(opened, clock, story)


def test_patience_ends_with_running_and_progress_was_told(opened, clock, monkeypatch):
    run = FakeRun(RunOutcome.FAILED)
    monkeypatch.setattr(running, "PROGRESS_SECONDS", 0.05)
    told = []

    async def progress(value, total, message):
        told.append((value, message))
        await anyio.sleep(0 if len(told) != 2 else 60)  # one notification that is never taken

    async def story(service):
        fake(monkeypatch, run)
        await service.call("spike_edit_file", EDIT)
        with anyio.fail_after(5):
            answer = await service.call("spike_run_test", {}, progress=progress)
        assert answer.outcome == "running"
        assert "almost there" in answer.lines[1]
        assert [message for _, message in told[:2]] == ["almost there"] * 2
        assert [value for value, _ in told] == sorted(value for value, _ in told)
        run.end()
        assert (await service.call("spike_run_test", {})).outcome == "accepted"

    drive(opened, clock, story, patience=0.8)


def test_stopping_kills_the_run_records_it_and_takes_no_more_calls(opened, clock, monkeypatch):
    run = FakeRun(RunOutcome.PASSED)

    async def story(service):
        fake(monkeypatch, run)
        await service.call("spike_edit_file", EDIT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.call, "spike_run_test", {})
            while service._open.runner.live is None:
                await anyio.sleep(0.01)
            await service.stop()
        assert rows(opened)[-1]["outcome"] == "cancelled"
        assert (await service.call("spike_status", {})).code == "busy"

    drive(opened, clock, story)


def test_repeated_refusals_become_a_row_in_time_and_at_the_end(opened, clock, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(chores.time, "monotonic", lambda: now[0])
    desk = opened.desk
    tended = chores.Chores(desk)
    for _ in range(3):
        desk.call("spike_nope", {})
    for seconds in (0, 5, 4):
        now[0] += seconds
        tended.do(0.0)
    row = rows(opened)[-1]
    assert (row["event"], row["count"]) == ("refusals_repeated", 2)
    desk.call("spike_nope", {})
    desk.flush()
    assert rows(opened)[-1]["count"] == 1


def test_an_idle_server_sweeps_the_tree_now_and_then(opened, clock, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(chores.time, "monotonic", lambda: now[0])
    tended = chores.Chores(opened.desk)
    (opened.spike.work / "src/stray.py").write_text("x = 1\n")
    now[0] += chores.SWEEP_SECONDS + 1
    tended.do(0.5)  # somebody called just now
    assert "out_of_band_seen" not in events(opened)
    tended.do(2.0)
    assert events(opened).count("out_of_band_seen") == 1
    tended.do(2.0)
    now[0] += chores.SWEEP_SECONDS + 1
    tended.do(2.0)
    assert events(opened).count("out_of_band_seen") == 1  # the same set is told once


def test_at_the_end_of_the_total_the_run_ends_and_the_verdict_is_asked_for_once(
    opened, clock, monkeypatch
):
    run = FakeRun(RunOutcome.PASSED)
    asked = []

    class Child:
        def __init__(self, argv, **more):
            asked.append((argv, more))

        def poll(self):
            return 0

    async def story(service):
        fake(monkeypatch, run)
        monkeypatch.setattr(chores.subprocess, "Popen", Child)
        await service.call("spike_edit_file", EDIT)
        answers = []

        async def call():
            answers.append(await service.call("spike_run_test", {}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            while service._open.runner.live is None:
                await anyio.sleep(0.01)
            clock.tick(91 * 60)
        assert (answers[0].outcome, answers[0].code) == ("refused", "budget_spent")
        assert answers[0].seconds == (0.0, 0.0)
        while not asked:
            await anyio.sleep(0.05)
        await anyio.sleep(1.5)

    drive(opened, clock, story)
    ((argv, more),) = asked
    assert argv[1:] == [
        "-P",
        "-m",
        "spike_mcp.edge.cli",
        "verdict",
        "--final",
        "--spike",
        str(opened.spike.root),
    ]
    assert more["cwd"] == "/"
    assert more["start_new_session"]
    assert next(r for r in rows(opened) if r.get("run") == "R3" and "outcome" in r)["outcome"] == (
        "cancelled"
    )


def test_a_spike_that_was_removed_is_said_so(opened, clock):
    async def story(service):
        await service.call("spike_status", {})
        opened.spike.root.rename(opened.spike.root.with_name("archived"))
        for tool in ("spike_status", "spike_edit_file"):
            answer = await service.call(tool, EDIT)
            assert (answer.code, answer.lines[1]) == ("spike_not_found", "the spike was removed")

    drive(opened, clock, story)


def test_before_the_start_only_status_answers(tmp_path, clock):
    repo = make_repo(tmp_path / "repo", PLAIN)
    spike = init(plain_options(repo, tmp_path / "root"), clock=clock).spike
    waiting = Open(spike, repo)

    async def story(service):
        answer = await service.call("spike_status", {})
        assert answer.lines[0] == "spike plain: created, checkpoint none"
        assert answer.seconds == (5400.0, 1800.0)
        for tool, arguments in (("spike_edit_file", EDIT), ("spike_run_test", {}), ("nope", {})):
            answer = await service.call(tool, arguments)
            assert answer.code == "not_started"
            assert "spike start" in answer.lines[2]

    drive(waiting, clock, story)
    assert events(waiting) == ["created", "call_refused", "call_refused", "call_refused"]


def test_a_busy_lock_is_refused_without_a_row_and_with_the_time(opened, clock):
    async def story(service):
        await service.call("spike_status", {})
        with opened.spike.lock.hold(human=True, timeout=5):
            assert (await service.call("spike_status", {})).outcome == "accepted"  # only looks
            answer = await service.call("spike_list_files", {})
        assert (answer.outcome, answer.code) == ("refused", "busy")
        assert answer.seconds[0] > 5000
        assert (await service.call("spike_status", {})).outcome == "accepted"

    before = len(rows(opened))
    drive(opened, clock, story)
    assert len(rows(opened)) == before + 1  # the session's


def test_a_status_writes_what_has_fallen_due(opened, clock):
    async def story(service):
        await service.call("spike_status", {})
        clock.tick(80 * 60)  # verify's turn
        assert (await service.call("spike_status", {})).data["checkpoint"] == "verify"

    drive(opened, clock, story)
    assert [row["event"] for row in rows(opened)][-1] == "start"


def test_a_status_sees_what_was_done_to_the_seals(opened, clock):
    async def story(service):
        await service.call("spike_status", {})
        contract = opened.spike.judge / "contract.toml"
        contract.chmod(0o600)
        contract.write_text("name = 'x'")
        assert (await service.call("spike_status", {})).code == "seal_broken"

    drive(opened, clock, story)


@pytest.mark.security
def test_a_worktree_of_somebody_else_is_refused_with_the_remedy(opened, clock, monkeypatch):
    import os

    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    async def story(service):
        answer = await service.call("spike_status", {})
        assert answer.code == "not_authorised"
        assert "4711" in answer.lines[1]
        assert "spike init" in answer.lines[2]

    drive(opened, clock, story)
