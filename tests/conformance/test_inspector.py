"""The inspector's command line, a client that others wrote, sees what we promise."""

from __future__ import annotations

import json
import subprocess

import pytest
from public_tools import SERVER, node_environment, npm_program
from support import open_plain

from spike_mcp.edge import tools

VERSION = "0.15.0"

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(400)]


@pytest.fixture
def ask(tmp_path):
    program = npm_program("@modelcontextprotocol/inspector", VERSION, "mcp-inspector")
    root = open_plain(tmp_path).spike.root

    def ask(*words):
        done = subprocess.run(
            [program, "--cli", str(SERVER), "--spike", str(root), *words],
            env=node_environment(),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def call(ask, tool, *arguments):
    words = [word for argument in arguments for word in ("--tool-arg", argument)]
    return ask("--method", "tools/call", "--tool-name", tool, *words)


def test_the_inspector_lists_and_calls(ask):
    listed = ask("--method", "tools/list")["tools"]
    assert [tool["name"] for tool in listed] == [tool.name for tool in tools.TOOLS]
    assert all("outputSchema" not in tool for tool in listed)

    status = call(ask, "spike_status")
    assert not status.get("isError")
    assert status["_meta"]["spike-mcp/reply"]["phase"] == "waiting"

    read = call(ask, "spike_read_file", "path=src/a.py", "start_line=2", "line_count=1")
    assert "\ntwo\n" in read["content"][0]["text"]

    why = "rationale=the sample file"
    edit = ("path=src/a.py", "old_text=one", "new_text=GREEN", why)
    assert call(ask, "spike_edit_file", *edit)["_meta"]["spike-mcp/reply"]["patch"] == "P1"
    run = call(ask, "spike_run_test")
    assert run["_meta"]["spike-mcp/reply"]["green"] is True


def test_the_inspector_is_told_why_not(ask):
    refused = call(ask, "spike_read_file", "path=../outside")
    assert refused["isError"] is True
    assert refused["content"][0]["text"].startswith("refused: path_invalid\n")
