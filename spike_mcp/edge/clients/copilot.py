"""Copilot CLI: a list of the tools there are, and no servers of its own."""

from __future__ import annotations

from spike_mcp.edge.clients.model import (
    CALL_SECONDS,
    NAME,
    Client,
    Place,
    Sandbox,
    Setup,
    as_json,
    seen,
)

_READERS = ("view", "glob", "grep")


def _setup(place: Place) -> Setup:
    tools = [*seen("spike-X"), *(_READERS if place.enforced else ())]
    server = {
        "type": "local",
        "command": place.command,
        "args": place.args,
        "tools": ["*"],
        "timeout": CALL_SECONDS * 1000,
    }
    return Setup(
        files={"mcp.json": as_json({"mcpServers": {NAME: server}})},
        args=(
            f"--additional-mcp-config=@{place.path('mcp.json')}",
            f"--available-tools={','.join(tools)}",
            f"--allow-tool={NAME}",
            *("--disable-builtin-mcps", "--no-ask-user", "--allow-all-mcp-server-instructions"),
            "--no-auto-update",
        ),
    )


CLIENT = Client(
    name="copilot",
    title="GitHub Copilot CLI",
    program="copilot",
    package="@github/copilot",
    tried="1.0.102",
    setup=_setup,
    prompt=("--interactive", "{}"),
    headless=("--prompt", "{}"),
    shows="spike-X",
    readers=("view", "glob", "grep", "rg"),
    readable="nothing but what the spike's tools show",
    limits=f"call {CALL_SECONDS} s",
    sandbox=Sandbox(
        keys=(
            *("COPILOT_GITHUB_TOKEN", "COPILOT_MODEL", "COPILOT_OFFLINE"),
            *("COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_API_KEY"),
            *("COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_WIRE_API"),
            *("COPILOT_PROVIDER_MODEL_ID", "COPILOT_PROVIDER_WIRE_MODEL"),
        ),
        addresses=("COPILOT_PROVIDER_BASE_URL",),
        hosts=(
            *("api.githubcopilot.com:443", "api.individual.githubcopilot.com:443"),
            *("api.business.githubcopilot.com:443", "api.enterprise.githubcopilot.com:443"),
            "api.github.com:443",
        ),
        copied=(".copilot/config.json",),
        folders=(".cache/copilot/pkg",),
        transcripts=(".copilot/session-state",),
    ),
)
