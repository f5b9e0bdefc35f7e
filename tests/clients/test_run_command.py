"""`spike run` with agents that are small scripts: tier, rows, statuses, the deadline's verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import PLAIN, Open, open_plain

from spike_mcp.core import layout
from spike_mcp.host.agent import programs
from spike_mcp.session import ending

SPIKE = [sys.executable, "-m", "spike_mcp.edge.cli"]
PYTHON = programs.python_inside()[0]
STEPS = ("setup", "reproduce", "attempt", "verify")

# An agent that speaks MCP through the bridge, as a client's process would.
AGENT = r"""
import json, signal, subprocess, sys, time
server = subprocess.Popen(json.loads(sys.argv[1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
number = 0
def ask(method, **params):
    global number
    number += 1
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    server.stdin.write(line.encode() + b"\n"); server.stdin.flush()
    while True:
        answer = json.loads(server.stdout.readline())
        if answer.get("id") == number:
            return answer["result"]
info = {"name": "script", "version": "1"}
ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
def call(name, **arguments):
    text = ask("tools/call", name=name, arguments=arguments)["content"][0]["text"]
    print(text.split("\n")[0], flush=True)
if sys.argv[2:] == ["stay"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    call("spike_status")
    time.sleep(3600)
call("spike_edit_file", path="src/a.py", old_text="one\n", new_text="GREEN\n",
     rationale="rewriting the first line makes the file green")
call("spike_run_test")
call("spike_report", kind="done", text="green")
"""


def run(opened: Open, *words: str, env: dict[str, str] | None = None, timeout: float = 60):
    """`spike run` in a process of its own."""
    return subprocess.run(
        [*SPIKE, "--spike", str(opened.spike.root), "run", *words],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def notes(opened: Open) -> dict[str, dict]:
    """`spike run`'s own rows: what -> detail."""
    lines = (opened.spike.judge / layout.LEDGER).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return {row["what"]: row["detail"] for row in rows if row["event"] == "agent_note"}


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return open_plain(tmp_path)


@pytest.mark.security
def test_a_spike_played_under_spike_run_ships_as_enforced(opened):
    bridge = json.dumps(programs.bridge_command())
    done = run(opened, "--", PYTHON, "-I", "-c", AGENT, bridge)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()
    assert first[0].startswith("applied P1") and "green" in first[1], done.stdout
    assert (opened.spike.work / "src/a.py").read_text().startswith("GREEN\n")
    found = notes(opened)
    assert found["agent_started"]["network"] == "proxy"
    assert found["agent_connected"]["connection"] == 1
    assert found["agent_stopped"]["status"] == 0

    def spike(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*SPIKE, "--spike", str(opened.spike.root), *words]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    hunk = json.loads(spike("map", "--json").stdout)["hunks"][0]["id"]
    tag = "the first of the seven lines makes the file green"
    assert spike("approve", hunk, "--tag", tag).returncode == 0
    again = run(opened, "--exit", "verdict", "--", "/bin/sh", "-c", "exit 3")
    assert "verdict" in again.stderr
    result = json.loads((opened.spike.verdict_dir / layout.RESULT).read_text())
    assert (result["writer_tier"], result["approval_strength"]) == ("enforced", "enforced")
    # The plain command proves little, but the table's row is another part's business.
    assert again.returncode in (0, 6)
    assert ending.verify(opened.spike.root).ok


@pytest.mark.security
def test_an_agent_writes_nothing_by_itself(opened, tmp_path):
    home = tmp_path / "human"
    home.mkdir()
    targets = [
        *(opened.spike.work / "src/a.py", opened.repo / "src/a.py", opened.spike.judge / "x"),
        *(opened.spike.verdict_dir / "x", opened.spike.root / "agent/x", home / "x"),
    ]
    script = "".join(f"echo x >> {path} && echo WROTE {path};" for path in targets)
    env = {"HOME": str(home)}
    done = run(opened, "--", "/bin/sh", "-c", script + f"ls {opened.spike.judge}; true", env=env)
    assert done.returncode == 0
    assert "WROTE" not in done.stdout and layout.LEDGER not in done.stdout
    control = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True)
    assert control.stdout.count("WROTE") == len(targets)


def test_the_agents_status_is_the_commands(opened):
    assert run(opened, "--", "/bin/sh", "-c", "exit 7").returncode == 7
    never = run(opened, "--", "no-such-agent")
    assert never.returncode == 71 and "no-such-agent" in never.stderr


def test_variables_and_hosts_are_named_one_by_one(opened):
    env = {"MINE": "shown", "OTHER": "hidden"}
    words = ("--env", "MINE", "--allow", "127.0.0.1:9", "--", "/usr/bin/env")
    done = run(opened, *words, env=env)
    assert "MINE=shown" in done.stdout and "OTHER" not in done.stdout
    assert notes(opened)["agent_started"]["allowed"] == ["127.0.0.1:9"]
    missing = run(opened, "--env", "NOT_SET_HERE", "--", "/usr/bin/env")
    assert missing.returncode == 64 and "NOT_SET_HERE" in missing.stderr


def test_what_can_not_be_run_is_said(opened, tmp_path):
    unknown = run(opened, "--client", "nobody")
    assert unknown.returncode == 64 and "claude" in unknown.stderr
    ending.kill(opened.spike)
    closed = run(opened, "--", "/bin/true")
    assert closed.returncode == 78 and "spike_closed" in closed.stderr


@pytest.mark.security
@pytest.mark.slow
def test_at_the_deadline_the_agent_is_stopped_and_the_verdict_written(tmp_path):
    opened = open_plain(
        tmp_path,
        files=PLAIN,
        budgets={"total": 0.1, "write_cutoff": 0.08, **dict.fromkeys(STEPS, 0.025)},
    )
    bridge = json.dumps(programs.bridge_command())
    done = run(opened, "--", PYTHON, "-I", "-c", AGENT, bridge, "stay")
    assert "spike plain" in done.stdout
    assert done.returncode == 137
    result = json.loads((opened.spike.verdict_dir / layout.RESULT).read_text())
    assert result["decision"] == "KILL"
    assert notes(opened)["agent_stopped"]["by"] == "deadline"
    assert ending.verify(opened.spike.root).ok
