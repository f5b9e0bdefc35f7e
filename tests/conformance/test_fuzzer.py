"""A public fuzzer finds no crash, and nothing malformed that is accepted.

It calls a reply `accepted malformed` whenever the reply is no error, however well-formed the call
was. So what really went over the line is judged here: a call that does not fit the schema that
tools/list gave must be refused. Arguments without a meaning are ignored and named on purpose.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from public_tools import SERVER, pip_package
from wire import open_script

from spike_mcp.core.requests import TOOLS, input_schema

VERSION = "0.7.0"
TAP = Path(__file__).with_name("tap.py")
KINDS = {"string": str, "integer": int, "boolean": bool}

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(400)]


@pytest.mark.parametrize("seed", [7, 2026])
def test_a_public_fuzzer_finds_no_crash_and_nothing_malformed_accepted(seed, tmp_path):
    opened = open_script(tmp_path / "spike")
    log = tmp_path / "line.log"
    said = fuzz(
        seed, f"{sys.executable} {TAP} {log} {SERVER} --spike {opened.spike.root}", tmp_path
    )
    assert "Status: completed" in said, said[-2000:]
    assert set(re.findall(r"(\d+) crashes", said)) == {"0"}, said[-2000:]
    assert set(re.findall(r"(\d+) transport/protocol anomalies", said)) == {"0"}

    talk = list(exchanges(log))
    assert len(talk) > 300
    assert [pair for pair in talk if pair[1] is None] == [], "every request has an answer"
    broken = [pair for pair in talk if is_malformed(pair[0])]
    assert len(broken) > 50, "the fuzzer sent what is malformed"
    assert [pair for pair in broken if not is_refused(pair[1])] == []

    opened.spike.refresh()
    assert not opened.spike.damage
    assert opened.spike.state.approvals == {}


def fuzz(seed: int, endpoint: str, place: Path) -> str:
    """Run the fuzzer; what it printed."""
    words = ["--mode", "all", "--phase", "both", "--protocol-phase", "aggressive"]
    words += ["--runs", "20", "--runs-per-type", "10", "--seed", str(seed), "--timeout", "30"]
    words += ["--protocol", "stdio", "--endpoint", endpoint, "--no-network", "--no-corpus"]
    packages = str(pip_package("mcp-fuzzer", VERSION))
    done = subprocess.run(
        [sys.executable, "-m", "mcp_fuzzer", *words, "--output-dir", str(place / "out")],
        cwd=place,
        env={**os.environ, "PYTHONPATH": packages, "HOME": str(place), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr


def exchanges(log: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Requests and their answers; an id that is used again belongs to the next answer."""
    waiting: dict[str, list[dict[str, Any]]] = {}
    for line in log.read_bytes().splitlines():
        message = json.loads(line[2:])
        mark = json.dumps(message.get("id"))
        if line.startswith(b"> ") and "id" in message and "method" in message:
            waiting.setdefault(mark, []).append(message)
        elif line.startswith(b"< ") and waiting.get(mark):
            yield waiting[mark].pop(0), message
    for left in waiting.values():
        for request in left:
            yield request, None


def is_refused(answer: dict[str, Any]) -> bool:
    return "error" in answer or answer["result"].get("isError") is True


def is_malformed(request: dict[str, Any]) -> bool:
    """Whether the answer must be no: a method or tool that there is not, wrong arguments."""
    method, params = request["method"], request.get("params") or {}
    if method == "tools/call":
        return not fits(params.get("name"), params.get("arguments", {}))
    if method == "tools/list":
        return "cursor" in params
    return method not in ("ping", "initialize")


def fits(tool: object, arguments: object) -> bool:
    """Whether the arguments are what the tool's schema asks for."""
    if tool not in TOOLS or not isinstance(arguments, dict):
        return False
    schema = input_schema(TOOLS[tool])
    if any(name not in arguments for name in schema["required"]):
        return False
    known = {name: value for name, value in arguments.items() if name in schema["properties"]}
    return all(one_fits(schema["properties"][name], value) for name, value in known.items())


def one_fits(schema: dict[str, Any], value: Any) -> bool:
    if type(value) is not KINDS[schema["type"]] or value not in schema.get("enum", [value]):
        return False
    if type(value) is int:
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return type(value) is bool or len(value) <= schema.get("maxLength", len(value))
