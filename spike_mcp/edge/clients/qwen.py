"""Qwen Code: system settings, which nobody overrides; its rules name what has to go."""

from __future__ import annotations

from spike_mcp.edge.clients.model import CALL_SECONDS, NAME, Client, Place, Sandbox, Setup, as_json

_READERS = ("read_file", "list_directory", "glob", "grep_search")
_DENIED = (
    *("Edit", "Bash", "agent", "skill", "tool_call", "tool_search", "list_agents", "get_goal"),
    *("update_goal", "enter_worktree", "exit_worktree", "send_message", "task_stop"),
    "record_artifact",
)


def _setup(place: Place) -> Setup:
    denied = _DENIED if place.enforced else (*_DENIED, "Read")
    settings = {
        "security": {"folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "tools": {"core": list(_READERS)},
        "permissions": {"deny": list(denied), "allow": [f"mcp__{NAME}__*"]},
        "mcp": {"allowed": [NAME]},
        "mcpServers": {
            NAME: {
                "command": place.command,
                "args": place.args,
                "trust": True,
                "timeout": CALL_SECONDS * 1000,
            }
        },
        "$version": 4,
    }
    return Setup(
        files={"settings.json": as_json(settings)},
        env={"QWEN_CODE_SYSTEM_SETTINGS_PATH": place.path("settings.json")},
    )


CLIENT = Client(
    name="qwen",
    title="Qwen Code",
    program="qwen",
    package="@qwen-code/qwen-code",
    tried="0.24.4",
    setup=_setup,
    prompt=("--prompt-interactive", "{}"),
    headless=("{}",),
    shows="mcp__spike__X",
    left=("report_findings",),
    readers=_READERS,
    readable="nothing but what the spike's tools show",
    limits=f"call {CALL_SECONDS} s",
    node=22,
    sandbox=Sandbox(
        keys=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
        addresses=("OPENAI_BASE_URL",),
        hosts=("dashscope.aliyuncs.com:443", "dashscope-intl.aliyuncs.com:443"),
        credentials=(".qwen/oauth_creds.json",),
        transcripts=(".qwen/projects",),
    ),
)
