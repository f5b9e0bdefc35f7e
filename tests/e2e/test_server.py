"""`spike-mcp` from outside: a real process, a real spike, every kind of call."""

import json
import os
import signal
import time

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from support import snapshot
from wire import (
    CLOCKED,
    HANDSHAKES,
    META,
    MODERN,
    PATIENCE,
    SERVER,
    Wire,
    gone,
    open_script,
    processes,
    rows,
    wait_for_row,
)

from spike_mcp.session.decisions import comment
from spike_mcp.session.runs import cancel_agent_run
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import hunk_map


@pytest.fixture
def opened(tmp_path):
    return open_script(tmp_path)


def events(opened):
    return [row["event"] for row in rows(opened)]


def test_the_ten_tools_tell_the_whole_story(opened):
    with Wire(opened.spike.root, cwd=opened.spike.work) as wire:
        status = wire.call("spike_status")
        assert status.startswith("spike plain: waiting")
        assert "you may write: src/" in status
        assert status.splitlines()[-1].startswith("time left: 89 min")
        assert wire.meta["remaining_seconds"] > 5000
        assert 0 < wire.meta["writes_close_in_seconds"] <= 1800
        assert wire.meta["allowed_paths"] == ["src/"]
        assert "root" not in wire.meta

        listed = wire.call("spike_list_files")
        assert "src/run.sh  (you may write)\n" in listed
        assert "tests/test_oracle.py\n" in listed

        read = wire.call("spike_read_file", path="src/run.sh")
        assert read.splitlines()[0] == "src/run.sh: lines 1-1 of 1"
        assert "\n--- text ---\nexit 1\n--- end ---\n" in read

        found = wire.call("spike_search_files", pattern="exit", path="src")
        assert "src/run.sh:1: exit 1" in found

        red = wire.call("spike_run_test")
        assert "not green" in red.splitlines()[0]
        assert wire.meta["stored"]  # the reproduce run was made on this very tree

        edited = wire.edit("exit 1", "echo loud; exit 0")
        assert edited.startswith("applied P1 to src/run.sh: 1 hunk pending review")

        green = wire.call("spike_run_test")
        assert "green, exit code 0" in green.splitlines()[0]
        assert "loud" in green
        assert wire.meta["green"] is True

        patch = "--- a/src/notes.txt\n+++ b/src/notes.txt\n@@ -1 +1 @@\n-nothing yet\n+a note\n"
        assert "applied P2" in wire.call("spike_apply_patch", patch=patch, rationale="a note")
        assert wire.call("spike_revert_patch", patch_id="P2", rationale="no note is needed")
        wire.call("spike_write_file", path="src/new.txt", content="new\n", rationale="a new file")
        assert wire.meta["patch"] == "P4"
        assert "src/new.txt  (you may write, new)" in wire.call("spike_list_files", path="src/")

        unknown = wire.call("spike_report", kind="unknown", text="needs the network")
        assert unknown.startswith("noted as unknown 1")
        done = wire.call("spike_report", kind="done", text="green")
        assert "2 hunks to review" in done
        assert "refused: checkpoint_closed" in wire.edit("loud", "louder")
        assert wire.close() == 0
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in wire.lines)
    assert opened.ledger().count("session_opened") == 1
    row = next(row for row in rows(opened) if row["event"] == "session_opened")
    assert (row["tier"], row["client"]) == ("configured", "wire 1")


@pytest.mark.parametrize("version", [MODERN, *HANDSHAKES])
def test_every_protocol_version_is_served(opened, version):
    with Wire(opened.spike.root, version) as wire:
        if version != MODERN:
            assert wire.server["protocolVersion"] == version
            assert set(wire.server["capabilities"]) == {"tools"}
        tools = wire.ask("tools/list")["result"]["tools"]
        assert len(tools) == 10
        assert wire.call("spike_status").startswith("spike plain")
        assert "refused: file_missing" in wire.call("spike_read_file", path="src/absent.py")
        assert wire.ask("prompts/list")["error"]["code"] == -32601
        assert wire.ask("resources/list")["error"]["code"] == -32601
        assert wire.close() == 0


@pytest.mark.parametrize("mode", ["auto", "legacy", MODERN])
def test_the_sdks_client_is_served(opened, mode):
    async def main():
        command, *words = SERVER
        arguments = [*words, "--spike", str(opened.spike.root)]
        async with Client(StdioServerParameters(command=command, args=arguments), mode=mode) as it:
            assert len((await it.list_tools()).tools) == 10
            result = await it.call_tool("spike_status", {})
            assert not result.is_error
            assert result.structured_content is None
            assert result.meta[META]["outcome"] == "accepted"
            heard = []

            async def progress(value, total, message):
                heard.append(message)

            why = {"rationale": "slow on purpose"}
            edit = {"path": "src/run.sh", "old_text": "exit 1", "new_text": "echo beat; sleep 5"}
            await it.call_tool("spike_edit_file", edit | why)
            result = await it.call_tool("spike_run_test", {}, progress_callback=progress)
            assert "green" in result.content[0].text
            assert "beat" in heard

    anyio.run(main)


@pytest.mark.security
def test_starting_listing_and_leaving_leave_no_trace(opened):
    before = snapshot(opened.spike.root)
    with Wire(opened.spike.root, "2025-06-18") as wire:
        wire.ask("tools/list")
        wire.ask("ping")
        time.sleep(1.2)  # longer than a round of chores
        assert wire.close() == 0
    assert snapshot(opened.spike.root) == before


HOSTILE = [
    ("spike_status", {}),
    ("spike_status", {"extra": 1}),
    ("spike_read_file", {"path": "src/run.sh"}),
    ("spike_read_file", {"path": 5}),
    ("spike_read_file", {}),
    ("spike_read_file", {"path": "../judge/ledger.jsonl"}),
    ("spike_read_file", {"path": "src/run.sh", "start_line": "1"}),
    ("spike_read_file", {"path": "src/run.sh", "line_count": True}),
    ("spike_list_files", {"page": 10**30}),
    ("spike_search_files", {"pattern": "(", "regex": True}),
    ("spike_run_test", {"command": "rm -rf /"}),
    ("spike_apply_patch", {"patch": "x" * 3_000_000, "rationale": "big"}),
    ("spike_edit_file", {"path": "src/run.sh", "old_text": "a", "new_text": "b"}),
    ("spike_write_file", {"path": "tests/test_oracle.py", "content": "", "rationale": "cheat"}),
    ("spike_revert_patch", {"patch_id": "P99", "rationale": "what was it"}),
    ("spike_report", {"kind": "approve", "text": "mine"}),
    ("spike_approve", {"hunk": "h1"}),
    ("write_file", {"path": "src/run.sh", "content": ""}),
    ("x" * 5000, {"deep": [[[[[1]]]]]}),
]
LINES = [
    b'{"jsonrpc":"2.0","id":"l1","method":"tools/call","params":{"name":"\xff\xfe"}}\n',
    b'{"jsonrpc":"2.0","id":"l2","method":"tools/call","params":{"name":"spike_status",'
    b'"arguments":{"x":"\\ud800"}}}\n',
    b'{"jsonrpc":"2.0","id":"l3","method":"tools/call","params":{"name":"spike_status",'
    b'"arguments":{"x":"' + b"y" * (5 << 20) + b'"}}}\n',
]


def hostile_round(wire):
    """Every hostile call, then every line that is no message: (outcome, code) of each."""
    found = []
    for name, arguments in HOSTILE:
        wire.call(name, **arguments)
        assert wire.meta["message"] or wire.meta["outcome"] == "accepted"
        found.append((wire.meta["outcome"], wire.meta["code"]))
    for number, line in enumerate(LINES, 1):
        wire.write(line)
        assert wire.answer(f"l{number}")["error"]["code"] in (-32700, -32600)
    assert wire.call("spike_status")
    return found


@pytest.mark.security
@pytest.mark.parametrize("version", [MODERN, "2024-11-05"])
def test_every_hostile_call_is_decided_by_the_gate_and_ledgered(opened, tmp_path, version):
    shift = tmp_path / "shift"
    before = snapshot(opened.spike.work)
    command = (*CLOCKED, "--spike", str(opened.spike.root), str(shift))
    with Wire(None, version, command=command) as wire:
        found = hostile_round(wire)
        assert [code for outcome, code in found if outcome == "refused"] == [
            "malformed_request",
            "malformed_request",
            "path_invalid",
            "malformed_request",
            "malformed_request",
            "malformed_request",
            "malformed_request",
            "too_large",
            "malformed_request",
            "path_protected",
            "malformed_request",
            "malformed_request",
            "unknown_tool",
            "unknown_tool",
            "unknown_tool",
        ]

        shift.write_text("5401")
        late = hostile_round(wire)
        assert late == [("refused", "budget_spent")] * len(HOSTILE)
        wire.call("spike_status")
        assert wire.meta["remaining_seconds"] == 0
        assert wire.close() == 0
    assert snapshot(opened.spike.work) == before
    spent = len(HOSTILE) + len(LINES) + 2  # and a status at the end of the round, and after it
    # Lines that are no call are noted behind the scenes: some of the first round may be late.
    assert spent <= refusals(opened, "budget_spent") <= spent + len(LINES)
    assert refusals(opened) == spent + 15 + len(LINES)


def refusals(opened, code=None):
    """Refused calls in the ledger, repeats counted."""
    number = 0
    for row in rows(opened):
        if code is None or row.get("code") == code:
            number += row["event"] == "call_refused"
            number += row.get("count", 0) if row["event"] == "refusals_repeated" else 0
    return number


def test_arguments_that_mean_nothing_are_named_and_ignored(opened):
    with Wire(opened.spike.root) as wire:
        text = wire.call("spike_status", wait_for_previous=True, zebra=1)
        assert "ignored arguments: wait_for_previous, zebra" in text
        assert wire.meta["outcome"] == "accepted"


def test_a_run_that_takes_long_answers_running_and_is_joined(opened, tmp_path):
    command = (*CLOCKED, "--spike", str(opened.spike.root), str(tmp_path / "shift"))
    with Wire(None, command=command) as wire:
        wire.script("echo begun; sleep 4; echo over; exit 0\n")
        assert wire.call("spike_run_test").startswith("running: R3 goes on")
        assert wire.meta["outcome"] == "running"
        assert "refused: run_in_progress" in wire.edit("begun", "too soon")
        assert "running: R3" in wire.call("spike_status")
        text = wire.call("spike_run_test")
        while text.startswith("running"):
            text = wire.call("spike_run_test")
        assert text.startswith("R3 green")
        assert "over" in text
    assert events(opened).count("run_started") == 3  # two red runs, one of the agent


@pytest.mark.security
@pytest.mark.parametrize("version", [MODERN, "2025-06-18"])
def test_cancelling_a_run_kills_its_tree_and_the_next_call_goes_on(opened, version):
    with Wire(opened.spike.root, version) as wire:
        wire.script("sleep 4321 & sleep 4321; exit 0\n")
        run = wire.begin("spike_run_test")
        wait_for_row(opened, "run_started", run="R3")
        assert "running: R3" in wire.call("spike_status")
        wire.cancel(run)
        assert "applied" in wire.edit("exit 0", "exit 3")
        assert gone("sleep\x004321")
        assert wait_for_row(opened, "run_finished", run="R3")["outcome"] == "cancelled"
        wire.edit("sleep 4321 & sleep 4321", "true")
        assert "R4 not green (failed), exit code 3" in wire.call("spike_run_test")
        assert wire.close() == 0
    opened.spike.refresh()
    assert opened.spike.state.agent_runs == 2  # also the one that it cancelled itself


@pytest.mark.security
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, None])
def test_no_end_of_the_server_leaves_a_process_or_a_torn_ledger(opened, end):
    with Wire(opened.spike.root) as wire:
        wire.script("(sleep 4322 &) ; sleep 4322\n")
        run = wire.begin("spike_run_test")
        wait_for_row(opened, "run_started", run="R3")
        while not processes("sleep\x004322"):
            time.sleep(0.02)
        if end is None:
            wire.process.stdin.close()
        else:
            wire.process.send_signal(end)
        status = wire.process.wait(PATIENCE)
        if end is None:
            assert status == 0
            assert "error" in wire.answer(run)
        else:
            assert status == (128 + end if end != signal.SIGKILL else -9)
        assert gone("sleep\x004322")
    assert not opened.spike.damage
    if end != signal.SIGKILL:
        assert rows(opened)[-1]["event"] == "run_finished"
        assert rows(opened)[-1]["outcome"] == "cancelled"
    with Wire(opened.spike.root) as wire:
        assert "running" not in wire.call("spike_status")
        if end == signal.SIGKILL:
            assert "run_lost" in events(opened)


def test_two_servers_work_on_one_spike_and_no_update_is_lost(opened):
    lines = "".join(f"echo {n}\n" for n in range(40))
    with Wire(opened.spike.root) as one, Wire(opened.spike.root, "2025-06-18") as two:
        one.script(lines)
        begun = []
        for n in range(0, 40, 4):
            for wire, at in ((one, n), (two, n + 2)):
                old, new = f"echo {at}\n", f"echo number {at}\n"
                begun.append(
                    (
                        wire,
                        wire.begin(
                            "spike_edit_file",
                            path="src/run.sh",
                            old_text=old,
                            new_text=new,
                            rationale="louder",
                        ),
                    )
                )
        assert all("applied P" in wire.result(number) for wire, number in begun)
        text = opened.spike.work.joinpath("src/run.sh").read_text()
        assert all(f"echo number {n}\n" in text for n in range(0, 40, 2))
        numbers = [row["patch"] for row in rows(opened) if row["event"] == "patch_applied"]
        assert numbers == [f"P{n}" for n in range(1, 22)]

        one.edit("echo number 0\n", "sleep 2\n")
        mine = one.begin("spike_run_test")
        wait_for_row(opened, "run_started", run="R3")
        joined = two.call("spike_run_test")
        assert joined.splitlines()[0] == one.result(mine).splitlines()[0]
        assert joined.startswith("R3 green")
    assert events(opened).count("run_started") == 3


@pytest.mark.security
def test_a_server_that_died_in_a_run_does_not_block_the_other(opened):
    with Wire(opened.spike.root) as one, Wire(opened.spike.root) as two:
        one.script("sleep 4323\n")
        one.begin("spike_run_test")
        wait_for_row(opened, "run_started", run="R3")
        joined = two.begin("spike_run_test")
        time.sleep(0.3)
        one.process.kill()
        wait_for_row(opened, "run_lost", run="R3")
        wait_for_row(opened, "run_started", run="R4")
        two.cancel(joined)
        assert wait_for_row(opened, "run_finished", run="R4")["outcome"] == "cancelled"
    assert gone("sleep\x004323")


def test_a_humans_command_ends_the_run_and_the_agent_is_told(opened):
    with Wire(opened.spike.root) as wire:
        wire.script("sleep 4324\n")
        run = wire.begin("spike_run_test")
        wait_for_row(opened, "run_started", run="R3")
        cancel_agent_run(opened.spike)
        assert wire.result(run).startswith("R3 not green (cancelled)")
        assert gone("sleep\x004324")
    assert wait_for_row(opened, "run_finished", run="R3")["outcome"] == "cancelled"


def test_what_the_human_says_is_told_once_at_the_end_of_a_run_too(opened):
    with Wire(opened.spike.root) as wire:
        wire.edit("exit 1", "sleep 1; exit 0")
        human = Spike(opened.spike.root)
        comment(human, hunk_map(human).hunks[0].id, "first remark")
        run = wire.begin("spike_run_test")
        wait_for_row(opened, "run_started", run="R3")
        comment(human, hunk_map(human).hunks[0].id, "second remark")
        text = wire.result(run)
        assert text.startswith("R3 green")
        assert text.count("first remark") == text.count("second remark") == 1
        assert [said.rpartition(": ")[2] for said in wire.meta["feedback"]] == [
            "first remark",
            "second remark",
        ]
        assert "remark" not in wire.call("spike_status")


@pytest.mark.security
def test_the_server_has_the_verdict_written_when_the_time_is_over(tmp_path):
    minutes = {"total": 0.25, "setup": 0.2, "reproduce": 0.2}
    opened = open_script(tmp_path, budgets=minutes)
    with Wire(opened.spike.root) as wire:
        wire.script("sleep 4325; exit 0\n")
        run = wire.begin("spike_run_test")
        assert wire.result(run).startswith("refused: budget_spent")
        assert gone("sleep\x004325")
        row = wait_for_row(opened, "verdict")
        assert (row["decision"], row["reason"]) == ("KILL", "deadline_exceeded")
        assert wire.call("spike_status").startswith("refused: budget_spent")
        result = opened.spike.verdict_dir / "result.json"
        while not result.exists():
            time.sleep(0.05)
        assert json.loads(result.read_text())["elapsed_sec"] == 15
    assert wait_for_row(opened, "run_finished", run="R3")["outcome"] == "cancelled"


def test_a_spike_that_is_not_there_is_said_by_every_call(tmp_path):
    with Wire(tmp_path / "nowhere") as wire:
        assert len(wire.ask("tools/list")["result"]["tools"]) == 10
        for tool in ("spike_status", "spike_run_test", "no_such_tool"):
            text = wire.call(tool)
            assert text.startswith("refused: spike_not_found\n")
            assert wire.meta["remaining_seconds"] is None
        assert wire.close() == 0
    with Wire(None, env={"SPIKE": ""}) as wire:
        assert "without naming a spike" in wire.call("spike_status")


def test_the_environment_names_the_spike_and_the_directory_never_does(opened):
    with Wire(None, env={"SPIKE": str(opened.spike.root)}) as wire:
        assert wire.call("spike_status").startswith("spike plain")
    with Wire(None, env={"SPIKE": ""}, cwd=opened.spike.work) as wire:
        assert wire.call("spike_status").startswith("refused: spike_not_found")


@pytest.mark.security
def test_a_fault_inside_reaches_the_log_and_not_the_agent(opened):
    with Wire(opened.spike.root) as wire:
        wire.call("spike_status")
        blobs = opened.spike.judge / "blobs"
        os.rename(blobs, opened.spike.judge / "moved")
        blobs.write_text("no directory")
        text = wire.edit("exit 1", "exit 0")
        assert text.startswith("refused: internal_error")
        assert "Traceback" not in text
        assert str(opened.spike.judge) not in text
        assert wire.call("spike_status").startswith("spike plain")
    log = (opened.spike.judge / "server.log").read_text()
    assert "Traceback" in log
