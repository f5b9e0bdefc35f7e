"""Visual Studio Code: a user directory of its own, with an agent that has our tools alone."""

from __future__ import annotations

from spike_mcp.edge.clients.model import FIRST_WORDS, NAME, Client, Place, Setup, as_json

_USER = "data/User"


def _setup(place: Place) -> Setup:
    server = {"type": "stdio", "command": place.command, "args": place.args}
    settings = {
        "chat.tools.terminal.enableAutoApprove": False,
        "security.workspace.trust.enabled": False,
    }
    agent = "\n".join(
        (
            "---",
            f"name: {NAME}",
            "description: Writes and runs by the tools of the spike alone.",
            f"tools: ['{NAME}/*']",
            "agents: []",
            "---",
            FIRST_WORDS,
            "",
        )
    )
    return Setup(
        files={
            f"{_USER}/mcp.json": as_json({"servers": {NAME: server}}),
            f"{_USER}/settings.json": as_json(settings),
            f"{_USER}/prompts/{NAME}.agent.md": agent,
        },
        args=("--user-data-dir", place.path("data"), place.work),
        notes=(
            f"choose the agent `{NAME}` in the chat: another one has its own tools",
            "written from its documentation, never tried",
        ),
    )


CLIENT = Client(
    name="vscode",
    title="Visual Studio Code",
    program="code",
    setup=_setup,
    prompt=(),
    shows="mcp_spike_X",
    readable="nothing but what the spike's tools show, and the files that you open or attach",
    limits="its own defaults",
)
