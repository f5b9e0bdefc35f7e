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

CLIENTS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot")
"""Clients with a module here, in the order in which they are listed."""


def client(name: str) -> Client:
    """The client of this name. `Problem(USAGE)` where there is none."""
    if name not in CLIENTS:
        raise Problem(
            Usage.USAGE, f"no client is called {name!r}", f"there are {', '.join(CLIENTS)}"
        )
    found: Client = import_module(f"spike_mcp.edge.clients.{name}").CLIENT
    return found


def client_config(spike: Spike, name: str, *, write: bool) -> Config:
    """`spike client-config`: the configuration of a client for a spike, written with `write`."""
    from spike_mcp.edge.clients.wiring import configure

    return configure(spike, client(name), write=write)
