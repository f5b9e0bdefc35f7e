"""Agent clients: the configuration that gives them our tools and takes theirs away (spec 14).

One small module a client; what it holds is data. `client_config` is `spike client-config`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spike_mcp.core.codes import Problem, Usage

if TYPE_CHECKING:
    from spike_mcp.edge.clients.model import Client
    from spike_mcp.edge.clients.wiring import Config
    from spike_mcp.session.spike import Spike

PROGRAMS = (
    *("claude", "codex", "gemini", "qwen", "opencode", "copilot", "cn", "cline", "kimi"),
    *("cursor", "vscode", "zed"),
)
"""Clients with a module here, in the order in which they are listed."""
SDKS = ("openai-agents", "pydantic-ai", "claude-agent-sdk", "openhands-sdk")
CLIENTS = (*PROGRAMS, *SDKS)


def client(name: str) -> Client:
    """The client of this name. `Problem(USAGE)` where there is none."""
    if name in PROGRAMS:
        found: Client = import_module(f"spike_mcp.edge.clients.{name}").CLIENT
        return found
    if name in SDKS:
        from spike_mcp.edge.clients import sdks

        return next(each for each in sdks.SDKS if each.name == name)
    raise Problem(Usage.USAGE, f"no client is called {name!r}", f"there are {', '.join(CLIENTS)}")


def client_config(spike: Spike, name: str, *, write: bool) -> Config:
    """`spike client-config`: the configuration of a client for a spike, written with `write`."""
    from spike_mcp.edge.clients.wiring import configure

    return configure(spike, client(name), write=write)
