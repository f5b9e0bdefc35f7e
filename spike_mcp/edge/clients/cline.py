"""Cline CLI: settings files of its own, which switch every tool of its own off by name."""

from __future__ import annotations

from spike_mcp.edge.clients.model import (
    CALL_SECONDS,
    NAME,
    TOOL_NAMES,
    Client,
    Place,
    Setup,
    as_json,
)

_TEAM = (
    *("spawn_teammate", "shutdown_teammate", "status", "task", "run_task", "cancel_run"),
    *("list_runs", "await_runs", "send_message", "broadcast", "read_mailbox", "mission_log"),
    *("cleanup", "create_outcome", "attach_outcome_fragment", "review_outcome_fragment"),
    *("finalize_outcome", "list_outcomes"),
)
_DISABLED = (
    *("run_commands", "editor", "apply_patch", "fetch_web_content", "web_search"),
    *("spawn_agent", "teams", "tasks", "skills", "ask_question", "read_files", "search_codebase"),
    *(f"team_{name}" for name in _TEAM),
)


def _setup(place: Place) -> Setup:
    server = {
        "command": place.command,
        "args": place.args,
        "disabled": False,
        "autoApprove": list(TOOL_NAMES),
        "timeout": CALL_SECONDS,
    }
    settings = {
        "autoUpdateEnabled": False,
        "telemetryOptOut": True,
        "disabledTools": list(_DISABLED),
    }
    return Setup(
        files={
            "mcp.json": as_json({"mcpServers": {NAME: server}}),
            "settings.json": as_json(settings),
        },
        env={
            "CLINE_MCP_SETTINGS_PATH": place.path("mcp.json"),
            "CLINE_GLOBAL_SETTINGS_PATH": place.path("settings.json"),
            "CLINE_SESSION_BACKEND_MODE": "local",
        },
        notes=(
            "it waits about 3 s for a server and then goes on without it: look for the spike_"
            " tools before you let it work",
        ),
    )


CLIENT = Client(
    name="cline",
    title="Cline CLI",
    program="cline",
    package="cline",
    tried="3.0.65",
    setup=_setup,
    prompt=("--tui", "{}"),
    headless=("{}",),
    shows="spike__X",
    readable="nothing but what the spike's tools show",
    limits=f"call {CALL_SECONDS} s, start about 3 s",
)
