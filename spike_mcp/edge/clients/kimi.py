"""Kimi Code: a home of the spike's own, and an agent whose list of tools holds ours alone."""

from __future__ import annotations

from spike_mcp.edge.clients.model import (
    CALL_SECONDS,
    FIRST_WORDS,
    NAME,
    START_SECONDS,
    Client,
    Place,
    Setup,
    as_json,
    seen,
)


def _setup(place: Place) -> Setup:
    server = {
        "command": place.command,
        "args": place.args,
        "toolTimeoutMs": CALL_SECONDS * 1000,
        "startupTimeoutMs": START_SECONDS * 1000,
    }
    agent = "\n".join(
        (
            "---",
            f"name: {NAME}",
            'description: "Writes and runs by the tools of the spike alone."',
            f"tools: [{', '.join(seen('mcp__spike__X'))}]",
            "---",
            FIRST_WORDS,
            "",
        )
    )
    return Setup(
        files={"mcp.json": as_json({"mcpServers": {NAME: server}}), "agent.md": agent},
        args=("--agent-file", place.path("agent.md")),
        env={"KIMI_CODE_HOME": place.directory},
        notes=("log in once for this directory: KIMI_CODE_HOME=DIRECTORY kimi login",),
    )


CLIENT = Client(
    name="kimi",
    title="Kimi Code",
    program="kimi",
    package="@moonshot-ai/kimi-code",
    tried="2.1.0",
    setup=_setup,
    prompt=(),
    headless=("--prompt", "{}"),
    shows="mcp__spike__X",
    readable="nothing but what the spike's tools show",
    limits=f"call {CALL_SECONDS} s, start {START_SECONDS} s",
    node=22,
)
