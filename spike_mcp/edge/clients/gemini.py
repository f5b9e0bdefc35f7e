"""Gemini CLI: a home of the spike's own, and an admin policy that denies all tools but ours.

Its system settings would leave the human's home alone, but count only in directories of root's.
"""

from __future__ import annotations

from spike_mcp.edge.clients.model import (
    CALL_SECONDS,
    NAME,
    Client,
    Place,
    Sandbox,
    Setup,
    as_json,
    as_toml,
)

SETTINGS = ".gemini/settings.json"
_READERS = ("read_file", "list_directory", "glob", "grep_search")


def _setup(place: Place) -> Setup:
    key = "GEMINI_API_KEY" in place.variables
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key" if key else "oauth-personal"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "mcp": {"allowed": [NAME]},
        "mcpServers": {
            NAME: {
                "command": place.command,
                "args": place.args,
                "trust": True,
                "timeout": CALL_SECONDS * 1000,
            }
        },
    }
    rules = [
        {"toolName": "*", "decision": "deny", "priority": 900},
        {"mcpName": NAME, "toolName": "*", "decision": "allow", "priority": 999},
    ]
    if place.enforced:
        rules.append({"toolName": list(_READERS), "decision": "allow", "priority": 950})
    return Setup(
        files={SETTINGS: as_json(settings), "policy.toml": as_toml({"rule": rules})},
        args=("--skip-trust", "--admin-policy", place.path("policy.toml")),
        env={} if place.enforced else {"GEMINI_CLI_HOME": place.directory},
        notes=("the login is this directory's own: set GEMINI_API_KEY, or log in once there",),
    )


CLIENT = Client(
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    package="@google/gemini-cli",
    tried="0.61.0",
    setup=_setup,
    prompt=("--prompt-interactive", "{}"),
    headless=("--prompt", "{}"),
    shows="mcp_spike_X",
    readers=_READERS,
    readable="nothing but what the spike's tools show",
    limits=f"call {CALL_SECONDS} s",
    sandbox=Sandbox(
        home={SETTINGS: SETTINGS},
        keys=(
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL"),
            *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
        ),
        addresses=("GOOGLE_GEMINI_BASE_URL",),
        hosts=(
            *("generativelanguage.googleapis.com:443", "cloudcode-pa.googleapis.com:443"),
            *("oauth2.googleapis.com:443", "aiplatform.googleapis.com:443"),
        ),
        credentials=(".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/.env"),
        transcripts=(".gemini/tmp",),
    ),
)
