"""The public MCP conformance suite passes what it passed, check by check, by a committed list.

Some of its scenarios pass on servers that lack what they are about, and most of those that fail ask
for the suite's own example tools, or for prompts, resources, logging, tasks or elicitation, which
this server has on purpose not (docs/protocol.md). So the list names checks, not scenarios.

To take over a change on purpose: `python tests/conformance/test_public_suite.py` writes it anew.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from public_tools import node_environment, npm_program, over_http
from support import open_plain

PACKAGE = "@modelcontextprotocol/conformance"
SUITES = {"handshake": "0.1.16", "2026-07-28": "0.2.0-alpha.12"}
"""The released suite, and the one that knows the newest protocol."""
EXPECTED = Path(__file__).with_name("public_suite.json")

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(400)]


def outcome(version: str, tmp_path: Path) -> dict[str, list[str]]:
    """Which checks of which scenarios passed and failed; a check named twice counts once."""
    program = npm_program(PACKAGE, version, "conformance")
    root = open_plain(tmp_path).spike.root
    out = tmp_path / "results"
    with over_http(root) as url:
        subprocess.run(
            [program, "server", "--url", url, "--suite", "all", "-o", str(out)],
            env=node_environment(),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
        )
    found: dict[str, list[str]] = {"passed": [], "failed": []}
    for file in sorted(out.glob("server-*/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name).removeprefix("server-")
        checks = json.loads(file.read_text())
        failed = {each["id"] for each in checks if each["status"] == "FAILURE"}
        passed = {each["id"] for each in checks if each["status"] == "SUCCESS"} - failed
        found["passed"] += [f"{scenario} {name}" for name in sorted(passed)]
        found["failed"] += [f"{scenario} {name}" for name in sorted(failed)]
    return found


@pytest.mark.parametrize("suite", SUITES)
def test_the_public_suite_passes_what_it_passed(suite, tmp_path):
    found = outcome(SUITES[suite], tmp_path)
    expected = json.loads(EXPECTED.read_text())[suite]
    assert found["passed"], "the suite ran nothing"
    assert found == expected


def write() -> None:
    """Write the list as it is now."""
    lists = {}
    for suite, version in SUITES.items():
        with tempfile.TemporaryDirectory() as place:
            lists[suite] = outcome(version, Path(place) / "spike")
    EXPECTED.write_text(json.dumps(lists, indent=1) + "\n")


if __name__ == "__main__":
    write()
