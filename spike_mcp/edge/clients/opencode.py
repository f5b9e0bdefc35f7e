"""opencode: an agent of its own that is denied all tools but ours, and no other agent.

A denial for all agents would not do: a human's `bash = allow` is more exact and wins.
"""

from __future__ import annotations

from spike_mcp.edge.clients.model import CALL_SECONDS, NAME, Client, Place, Sandbox, Setup, as_json

_AGENT = "spike"
_OTHERS = ("build", "plan", "general", "explore")
_READERS = ("read", "glob", "grep", "list")


def _setup(place: Place) -> Setup:
    allowed = [*(_READERS if place.enforced else ()), f"{NAME}_*"]
    permission = {"*": "deny", **dict.fromkeys(allowed, "allow")}
    config = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "permission": permission,
        "default_agent": _AGENT,
        "agent": {
            _AGENT: {"mode": "primary", "permission": permission},
            **{name: {"disable": True} for name in _OTHERS},
        },
        "mcp": {
            NAME: {
                "type": "local",
                "command": list(place.server),
                "enabled": True,
                "timeout": CALL_SECONDS * 1000,
            }
        },
    }
    return Setup(
        files={"opencode.json": as_json(config)},
        env={
            "OPENCODE_CONFIG": place.path("opencode.json"),
            # Later than OPENCODE_CONFIG, so a repository could give the tools back.
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_PURE": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
        },
        notes=("your own opencode configuration still counts for models and keys",),
    )


CLIENT = Client(
    name="opencode",
    title="opencode",
    program="opencode",
    package="opencode-ai",
    tried="1.18.33",
    setup=_setup,
    prompt=("--prompt", "{}"),
    headless=("run", "{}"),
    shows="spike_X",
    left=("list_mcp_resources", "read_mcp_resource"),
    readers=("read", "glob", "grep", "list"),
    readable="nothing but what the spike's tools show",
    limits=f"call {CALL_SECONDS} s without progress",
    sandbox=Sandbox(
        env={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
        keys=(
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENCODE_API_KEY"),
            *("GOOGLE_GENERATIVE_AI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_MODELS_PATH"),
        ),
        hosts=(
            *("opencode.ai:443", "api.anthropic.com:443", "api.openai.com:443"),
            *("generativelanguage.googleapis.com:443", "openrouter.ai:443", "models.dev:443"),
        ),
        credentials=(".local/share/opencode/auth.json",),
        transcripts=(".local/share/opencode/storage",),
    ),
)
