"""The SDK examples, played with the real packages: the model has the spike's tools alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from client_programs import NotInstalledError, packages
from client_record import record
from scripted_model import Model
from test_configured import WORK_STEPS, own_tools
from toolchains import interpreter

from spike_mcp.edge.clients import SDKS, client, client_config

pytestmark = [
    pytest.mark.clients,
    pytest.mark.heavy,
    pytest.mark.security,
    pytest.mark.timeout(400),
]


@dataclass(frozen=True)
class Sdk:
    """How one SDK is installed and pointed at the model."""

    packages: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    python: str = ""
    """The minor version that it needs, where ours is too old."""


_OPENAI = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{url}/v1"}
INSTALLED = {
    "openai-agents": Sdk(
        ("openai-agents=={}",),
        {**_OPENAI, "OPENAI_DEFAULT_MODEL": "scripted", "OPENAI_AGENTS_DISABLE_TRACING": "1"},
    ),
    "pydantic-ai": Sdk(
        ("pydantic-ai-slim[mcp,openai]=={}",), {**_OPENAI, "SPIKE_MODEL": "openai:scripted"}
    ),
    "claude-agent-sdk": Sdk(
        ("claude-agent-sdk=={}",),
        {
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": "{url}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "openhands-sdk": Sdk(
        ("openhands-sdk=={}",),
        {
            "SPIKE_MODEL": "openai/scripted",
            "SPIKE_MODEL_KEY": "none",
            "SPIKE_MODEL_URL": "{url}/v1",
        },
        python="3.12",
    ),
}


def test_every_sdk_has_an_example_of_its_own():
    assert set(INSTALLED) == set(SDKS)


@pytest.mark.parametrize("name", SDKS)
def test_an_sdk_example_plays_a_spike(name, opened, tmp_path):
    sdk, version = INSTALLED[name], client(name).tried
    python = interpreter(sdk.python) if sdk.python else sys.executable
    if not python:
        pytest.skip(f"there is no Python {sdk.python} here")
    try:
        where = packages(name, version, python, *(each.format(version) for each in sdk.packages))
    except NotInstalledError as error:
        pytest.skip(f"{name} can't be installed: {error}")
    config = client_config(opened.spike, name, write=True).data
    with Model([*WORK_STEPS, "finished"]) as model:
        env = {key: value.replace("{url}", model.url) for key, value in sdk.env.items()}
        done = subprocess.run(
            [python, *config["argv"][1:]],
            cwd=opened.spike.work,
            env={
                "HOME": str(tmp_path / "home"),
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(where),
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
        )
    results = model.results()
    assert "applied P1 to src/a.py" in results.get(1, ""), done.stdout[-3000:]
    assert "R3 green" in results[2]
    assert done.returncode == 0, done.stdout[-3000:]
    left = own_tools(name, model.offered)
    assert left <= set(client(name).left)
    assert Path(opened.spike.work / "src/a.py").read_text().startswith("GREEN\n")
    record(name, "configured", left=sorted(left), headless=config["start"])
