"""The pages on clients and on what agents see are those that their scripts make."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from spike_mcp.edge.clients import PROGRAMS, client

ROOT = Path(__file__).parents[2]


def check(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"docs/{script}", "--check"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_tables_of_clients_are_made_from_the_record():
    done = check("make_clients.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_client_that_is_said_to_hold_is_in_the_record():
    import json

    record = json.loads((ROOT / "tests/clients/record.json").read_text())
    for name in PROGRAMS:
        known = client(name)
        if known.tried:
            assert record[name]["version"] == known.tried
            assert record[name]["configured"]["left"] is not None
            assert record[name]["control"]["written"], "a lock-down without its control"


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("pytest_asyncio") is not None, reason="that plugin prints into every run"
)
def test_the_transcript_is_what_an_agent_sees_today():
    done = check("make_agent.py")
    assert done.returncode == 0, done.stdout + done.stderr
