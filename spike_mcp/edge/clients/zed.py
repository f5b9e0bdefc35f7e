"""Zed: a user directory of the spike's own, with a profile that has our tools alone."""

from __future__ import annotations

from spike_mcp.edge.clients.model import NAME, TOOL_NAMES, Client, Place, Setup, as_json


def _setup(place: Place) -> Setup:
    profile = {
        "name": NAME,
        "tools": {},
        "enable_all_context_servers": False,
        "context_servers": {NAME: {"tools": dict.fromkeys(TOOL_NAMES, True)}},
    }
    settings = {
        "context_servers": {
            NAME: {"source": "custom", "command": place.command, "args": place.args, "env": {}}
        },
        "agent": {"default_profile": NAME, "profiles": {NAME: profile}},
    }
    return Setup(
        files={"data/config/settings.json": as_json(settings)},
        args=("--user-data-dir", place.path("data"), place.work),
        notes=(
            f"keep the profile `{NAME}` in the agent panel: another one has its own tools",
            "written from its documentation, never tried",
        ),
    )


CLIENT = Client(
    name="zed",
    title="Zed",
    program="zed",
    setup=_setup,
    prompt=(),
    shows="X",
    readable="nothing but what the spike's tools show, and the files that you open or attach",
    limits="its own defaults",
)
