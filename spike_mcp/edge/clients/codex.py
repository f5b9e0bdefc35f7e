"""Codex: everything in a configuration directory of the spike's own.

`apply_patch` has no switch. Read-only and never asking make it fail; a model catalogue that says
the models have no such tool takes it away, so the installed program's own catalogue is rewritten.
"""

from __future__ import annotations

import json
from typing import Any

from spike_mcp.edge.clients.model import (
    CALL_SECONDS,
    NAME,
    START_SECONDS,
    Client,
    Place,
    Sandbox,
    Setup,
    as_toml,
)

CATALOGUE = "models.json"
CATALOGUE_COMMAND = ("debug", "models")
"""Arguments that make the program print its catalogue."""

_OFF = (
    *("shell_tool", "unified_exec", "sleep_tool", "goals", "view_image", "apps", "plugins"),
    *("skill_search", "tool_suggest", "image_generation", "browser_use", "computer_use", "hooks"),
)


def without_tools(catalogue: str) -> str:
    """The catalogue with models that patch nothing and see our tools at once.

    ValueError where it is not the form that is known.
    """
    found: dict[str, Any] = json.loads(catalogue)
    for model in found["models"]:
        model["apply_patch_tool_type"] = None
        model["experimental_supported_tools"] = []
        model["supports_search_tool"] = False
    return json.dumps(found)


def _setup(place: Place) -> Setup:
    config = {
        "model_catalog_json": place.path(CATALOGUE),
        "approval_policy": "never",
        "sandbox_mode": "read-only",
        "web_search": "disabled",
        "check_for_update_on_startup": False,
        "agents": {"enabled": False},
        "features": dict.fromkeys(_OFF, False),
        "projects": {place.work: {"trust_level": "untrusted"}},
        "mcp_servers": {
            NAME: {
                "command": place.command,
                "args": place.args,
                "required": True,
                "startup_timeout_sec": START_SECONDS,
                "tool_timeout_sec": CALL_SECONDS,
                "default_tools_approval_mode": "approve",
            }
        },
    }
    env = {} if place.enforced else {"CODEX_HOME": place.directory}
    return Setup(
        files={"config.toml": as_toml(config), CATALOGUE: ""},
        args=("--strict-config",),
        env=env,
        notes=(
            "log in once for this directory: CODEX_HOME=DIRECTORY codex login, or set"
            " CODEX_API_KEY for `codex exec`",
            "the model catalogue is made from the installed program when the files are written",
        ),
    )


CLIENT = Client(
    name="codex",
    title="Codex",
    program="codex",
    package="@openai/codex",
    tried="0.171.0",
    setup=_setup,
    headless=("exec", "{}"),
    shows="mcp__spike__X",
    left=(
        *("exec", "wait", "request_user_input"),
        *("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"),
    ),
    readable="nothing but what the spike's tools show: its JavaScript reaches no files",
    limits=f"call {CALL_SECONDS} s, start {START_SECONDS} s",
    sandbox=Sandbox(
        home={"config.toml": ".codex/config.toml"},
        keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
        hosts=("api.openai.com:443", "chatgpt.com:443"),
        credentials=(".codex/auth.json",),
        transcripts=(".codex/sessions",),
    ),
)
