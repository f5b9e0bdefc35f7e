"""Claude Code: everything by flags, so that none of the human's own settings counts."""

from __future__ import annotations

import json

from spike_mcp.edge.clients.model import CALL_SECONDS, NAME, Client, Place, Sandbox, Setup, as_json

_READERS = ("Read", "Grep", "Glob")
_DENIED = (
    *("Write", "Edit", "NotebookEdit", "Bash", "PowerShell", "Monitor", "Agent", "Workflow"),
    *("Skill", "WebFetch", "WebSearch"),
)


def _setup(place: Place) -> Setup:
    readers = _READERS if place.enforced else ()
    server = {
        "type": "stdio",
        "command": place.command,
        "args": place.args,
        "alwaysLoad": True,
        "timeout": CALL_SECONDS * 1000,
    }
    settings = {
        "permissions": {
            "allow": [f"mcp__{NAME}", *readers],
            "deny": list(_DENIED),
            "disableBypassPermissionsMode": "disable",
        },
        "disableAllHooks": True,
    }
    return Setup(
        files={
            "mcp.json": as_json({"mcpServers": {NAME: server}}),
            "settings.json": as_json(settings),
        },
        # Several of these take any number of values: what ends them is the next one.
        args=(
            *("--tools", ",".join(readers), "--strict-mcp-config"),
            *("--mcp-config", place.path("mcp.json"), "--settings", place.path("settings.json")),
            *("--setting-sources", ""),
        ),
        notes=("your own settings (model, hooks, API key helper) do not count in this session",),
    )


def _first_start() -> str:
    """What spares an agent's fresh home the questions of a first start."""
    trusted = {"{work}": {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    given = {"approved": ["{tail of ANTHROPIC_API_KEY}"], "rejected": []}
    return json.dumps(
        {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "projects": trusted,
            "customApiKeyResponses": given,
        }
    )


CLIENT = Client(
    name="claude",
    title="Claude Code",
    program="claude",
    package="@anthropic-ai/claude-code",
    tried="2.1.332",
    setup=_setup,
    headless=("--print", "{}"),
    shows="mcp__spike__X",
    left=("DeferredToolPlaceholder",),
    readers=_READERS,
    readable="nothing but what the spike's tools show",
    limits=f"call {CALL_SECONDS} s",
    node=22,
    sandbox=Sandbox(
        start={".claude.json": _first_start()},
        env={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
        keys=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        ),
        addresses=("ANTHROPIC_BASE_URL",),
        hosts=("api.anthropic.com:443", "platform.claude.com:443"),
        credentials=(".claude/.credentials.json",),
        transcripts=(".claude/projects",),
    ),
)
