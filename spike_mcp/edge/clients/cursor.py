"""Cursor's command-line agent: a configuration directory of the spike's own, all else denied."""

from __future__ import annotations

from spike_mcp.edge.clients.model import NAME, Client, Place, Setup, as_json


def _setup(place: Place) -> Setup:
    permissions = {
        "allow": [f"Mcp({NAME}:*)"],
        "deny": ["Shell(*)", "Write(**)", "WebFetch(*)"],
    }
    config = {"version": 1, "editor": {"vimMode": False}, "permissions": permissions}
    server = {"command": place.command, "args": place.args}
    return Setup(
        files={
            "cli-config.json": as_json(config),
            "mcp.json": as_json({"mcpServers": {NAME: server}}),
        },
        env={"CURSOR_CONFIG_DIR": place.directory},
        notes=(
            "this client reads servers from ~/.cursor/mcp.json: put the entry of mcp.json there",
            "in the editor: the same entry under Settings, MCP; choose Ask mode, or a mode of your"
            " own with the spike's tools alone",
            "written from its documentation, never tried",
        ),
    )


CLIENT = Client(
    name="cursor",
    title="Cursor",
    program="cursor-agent",
    setup=_setup,
    shows="X",
    left=("read", "grep", "ls", "glob"),
    readable="every file that you can read, judge/ included: its readers can't be taken away",
    limits="its own defaults",
)
