"""Continue's cn: a configuration file of its own, and every tool of its own left out by name."""

from __future__ import annotations

from spike_mcp.edge.clients.model import NAME, TOOL_NAMES, Client, Place, Setup, as_json

_EXCLUDED = (
    *("Write", "Edit", "MultiEdit", "Bash", "CheckBackgroundJob", "Fetch", "Skills"),
    *("Checklist", "AskQuestion", "Exit", "Read", "List", "Search", "Diff", "Subagent"),
)


def _setup(place: Place) -> Setup:
    config = {
        "name": NAME,
        "version": "1.0.0",
        "schema": "v1",
        "models": [],
        "mcpServers": [
            {"name": NAME, "type": "stdio", "command": place.command, "args": place.args}
        ],
    }
    return Setup(
        # JSON is YAML too.
        files={"config.yaml": as_json(config)},
        args=(
            *("--config", place.path("config.yaml")),
            *(word for name in TOOL_NAMES for word in ("--allow", name)),
            *(word for name in _EXCLUDED for word in ("--exclude", name)),
        ),
        notes=("put your model under `models` of the written file: this client reads no other",),
    )


CLIENT = Client(
    name="cn",
    title="Continue CLI",
    program="cn",
    package="@continuedev/cli",
    tried="1.5.47",
    setup=_setup,
    headless=("-p", "{}"),
    shows="X",
    readable="nothing but what the spike's tools show",
    limits="call 60 s, which our answers keep",
)
