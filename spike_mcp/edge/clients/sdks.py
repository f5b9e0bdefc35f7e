"""Agent SDKs: ten lines each that give an agent the spike's tools and no others."""

from __future__ import annotations

from functools import partial
from importlib.resources import files

from spike_mcp.edge.clients.model import Client, Place, Setup

_PLACEHOLDER = 'SERVER = ["spike-mcp", "--spike", "NAME"]'
SCRIPT = "agent.py"


def example(name: str) -> str:
    """The example as it is shipped."""
    return files("spike_mcp").joinpath("examples", "sdk", f"{name}.py").read_text()


def _setup(name: str, notes: tuple[str, ...], place: Place) -> Setup:
    server = f"SERVER = {list(place.server)!r}"
    return Setup(
        files={SCRIPT: example(name).replace(_PLACEHOLDER, server)},
        args=(place.path(SCRIPT),),
        notes=notes,
    )


def _sdk(
    name: str, title: str, tried: str, *, shows: str = "X", left: tuple[str, ...] = (), note: str
) -> Client:
    module = name.replace("-", "_")
    return Client(
        name=name,
        title=title,
        program="python",
        package=name,
        tried=tried,
        setup=partial(_setup, module, (note,)),
        prompt=(),
        shows=shows,
        left=left,
        readable="nothing but what the spike's tools show",
        limits="call 900 s",
    )


SDKS = (
    _sdk(
        "openai-agents",
        "OpenAI Agents SDK",
        "0.24.0",
        note="pip install openai-agents; the model comes from OPENAI_DEFAULT_MODEL",
    ),
    _sdk(
        "pydantic-ai",
        "Pydantic AI",
        "2.68.0",
        note="pip install 'pydantic-ai-slim[mcp,openai]'; SPIKE_MODEL=openai:NAME",
    ),
    _sdk(
        "claude-agent-sdk",
        "Claude Agent SDK",
        "0.2.189",
        shows="mcp__spike__X",
        left=("DeferredToolPlaceholder",),
        note="pip install claude-agent-sdk",
    ),
    _sdk(
        "openhands-sdk",
        "OpenHands SDK",
        "1.21.0",
        left=("finish",),
        note="pip install openhands-sdk (Python 3.12); SPIKE_MODEL and SPIKE_MODEL_KEY; it can't"
        " take spike_report, so end the attempt yourself: spike checkpoint stop attempt",
    ),
)
