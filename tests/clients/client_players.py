"""What each real client needs to play a script: the way to the model, the attacks, the control.

An attack is a call of a tool that the lock-down hides. Each tries to make a file of its own, so the
positive control, the same client without our configuration, shows which of them would have worked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from client_programs import node_bin, program
from scripted_model import Call, Model, Step

from spike_mcp.edge.clients import client

PLAY_SECONDS = 150
GO = "Go now."
PLANTER = [sys.executable, str(Path(__file__).with_name("planter.py"))]
_OTHER = {"command": PLANTER[0], "args": PLANTER[1:]}


@dataclass(frozen=True)
class Player:
    """One client. `{url}` in `env`, `args` and `home` is the model's address.

    `attacks`: work directory -> the calls. `control`: arguments that make it run without asking.
    `home`: what the human has there, somebody else's server that writes files included; `other` is
    the full name of its tool, where that is not offered before it is searched for. `inside`: more
    variables for a run whose home is another one. `amend`: what the human adds to the written
    configuration, given its directory and the model's address. `gives_up`: its session ends at a
    tool that is not there.
    """

    name: str
    attacks: Callable[[Path], Sequence[Call]]
    control: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    home: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, str] = field(default_factory=dict)
    amend: Callable[[Path, str], None] | None = None
    other: str = ""
    gives_up: bool = False
    light: bool = False


@dataclass(frozen=True)
class Played:
    """A finished run."""

    model: Model
    status: int
    output: str


def play(
    player: Player,
    script: Sequence[Step],
    *,
    work: Path,
    home: Path,
    args: Sequence[str],
    env: Mapping[str, str],
    amend: Path | None = None,
) -> Played:
    """Run the client with `args` in front of the headless words, against a model with `script`.

    `amend`: the directory of a written configuration, for the human to add to.
    """
    with Model(script) as model:
        if amend is not None and player.amend is not None:
            player.amend(amend, model.url)
        argv, environ = command(player, model, home, args, env)
        done = subprocess.run(
            argv,
            cwd=work,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PLAY_SECONDS,
        )
        return Played(model, done.returncode, done.stdout.decode(errors="replace"))


def command(
    player: Player, model: Model, home: Path, args: Sequence[str], env: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Command line and environment; makes the home."""
    for name, content in player.home.items():
        place = home / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content.replace("{url}", model.url))
    home.mkdir(parents=True, exist_ok=True)
    words = [word.replace("{}", GO) for word in client(player.name).headless]
    own = [word.replace("{url}", model.url) for word in player.args]
    environ = {
        "HOME": str(home),
        "PATH": f"{node_bin()}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "SHELL": "/bin/sh",
        **{name: value.replace("{url}", model.url) for name, value in player.env.items()},
        **env,
    }
    if "SPIKE_CLIENT_DEBUG" in os.environ:
        print(environ, args, own, words)
    given = [word.replace("{home}", str(home)) for word in args]
    return [str(program(player.name)), *given, *own, *words], environ


def plant(player: Player, work: Path) -> Call:
    """Call the writing tool of somebody else's server."""
    name = player.other or "plant"
    return Call(name, {"path": str(work / "planted-other")}, hidden=bool(player.other))


def _touch(work: Path, name: str) -> str:
    return f"echo planted > {work / name}"


def _patch(name: str) -> str:
    return f"*** Begin Patch\n*** Add File: {name}\n+planted\n*** End Patch"


# --- codex --------------------------------------------------------------------------------------


def _codex(work: Path) -> list[Call]:
    shell = json.dumps({"cmd": _touch(work, "planted-shell")})
    patch = json.dumps(_patch("planted-nested"))
    guarded = "try {{ text(await tools.{}) }} catch (error) {{ text('failed: ' + error) }}"
    return [
        Call("apply_patch", script=_patch("planted-patch"), hidden=True),
        Call("exec", script=guarded.format(f"apply_patch({patch})"), hidden=True),
        Call("exec", script=guarded.format(f"exec_command({shell})"), hidden=True),
        Call("exec_command", {"cmd": _touch(work, "planted-exec")}, hidden=True),
        Call("shell", {"command": ["sh", "-c", _touch(work, "planted-sh")]}, hidden=True),
    ]


CODEX = Player(
    name="codex",
    attacks=_codex,
    control=("--dangerously-bypass-approvals-and-sandbox",),
    env={"SCRIPTED_KEY": "none"},
    args=(
        "-c",
        "model_provider=scripted",
        "-c",
        'model_providers.scripted={name="scripted",base_url="{url}/v1",wire_api="responses",'
        'env_key="SCRIPTED_KEY"}',
    ),
    home={
        ".codex/config.toml": "[mcp_servers.other]\n"
        f"command = {json.dumps(PLANTER[0])}\nargs = {json.dumps(PLANTER[1:])}\n"
        'default_tools_approval_mode = "approve"\n'
    },
    light=True,
)

# --- opencode -----------------------------------------------------------------------------------


def _opencode(work: Path) -> list[Call]:
    return [
        Call("write", {"filePath": str(work / "planted-write"), "content": "x"}, hidden=True),
        Call("bash", {"command": _touch(work, "planted-bash"), "description": "x"}, hidden=True),
        Call("apply_patch", {"patchText": _patch("planted-patch")}, hidden=True),
        Call(
            "task",
            {"description": "x", "prompt": "x", "subagent_type": "general"},
            hidden=True,
        ),
    ]


_SCRIPTED = {
    "model": "scripted/gpt-5.4",
    "permission": dict.fromkeys(("*", "bash", "edit", "external_directory"), "allow"),
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": "none"},
            "models": {"gpt-5.4": {"tool_call": True}},
        }
    },
}
OPENCODE = Player(
    name="opencode",
    attacks=_opencode,
    control=(),
    env={"OPENCODE_DISABLE_MODELS_FETCH": "1"},
    home={
        ".config/opencode/opencode.json": json.dumps(
            {**_SCRIPTED, "mcp": {"other": {"type": "local", "command": PLANTER}}}
        )
    },
    inside={"OPENCODE_CONFIG_CONTENT": json.dumps(_SCRIPTED)},
)

# --- gemini -------------------------------------------------------------------------------------


def _gemini(work: Path) -> list[Call]:
    return [
        Call("write_file", {"file_path": str(work / "planted-write"), "content": "x"}, hidden=True),
        Call("run_shell_command", {"command": _touch(work, "planted-shell")}, hidden=True),
        Call("invoke_agent", {"agent_name": "generalist", "prompt": "x"}, hidden=True),
    ]


GEMINI = Player(
    name="gemini",
    attacks=_gemini,
    control=("--yolo", "--skip-trust"),
    env={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{url}"},
    args=("--model", "gemini-2.5-pro"),
    home={
        ".gemini/settings.json": json.dumps(
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "mcpServers": {"other": {**_OTHER, "trust": True}},
            }
        )
    },
    light=True,
)

# --- claude -------------------------------------------------------------------------------------


def _claude(work: Path) -> list[Call]:
    agent = {"description": "x", "prompt": "x", "subagent_type": "general-purpose"}
    return [
        Call("Write", {"file_path": str(work / "planted-write"), "content": "x"}, hidden=True),
        Call("Bash", {"command": _touch(work, "planted-bash"), "description": "x"}, hidden=True),
        Call("Agent", agent, hidden=True),
    ]


CLAUDE = Player(
    name="claude",
    attacks=_claude,
    control=("--dangerously-skip-permissions",),
    env={
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": "{url}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # or it refuses to skip permissions as root
    },
    home={
        ".claude.json": json.dumps(
            {"mcpServers": {"other": {"type": "stdio", "alwaysLoad": True, **_OTHER}}}
        )
    },
    light=True,
)

# --- qwen ---------------------------------------------------------------------------------------


def _qwen(work: Path) -> list[Call]:
    shell = {"command": _touch(work, "planted-shell"), "is_background": False}
    monitor = {"command": _touch(work, "planted-monitor"), "description": "x"}
    return [
        Call("write_file", {"file_path": str(work / "planted-write"), "content": "x"}, hidden=True),
        Call("run_shell_command", shell, hidden=True),
        Call("monitor", monitor, hidden=True),
    ]


QWEN = Player(
    name="qwen",
    attacks=_qwen,
    control=("--yolo",),
    env={
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "{url}/v1",
        "OPENAI_MODEL": "scripted",
    },
    args=("--auth-type", "openai"),
    home={".qwen/settings.json": json.dumps({"mcpServers": {"other": {**_OTHER, "trust": True}}})},
    other="mcp__other__plant",
)

# --- copilot ------------------------------------------------------------------------------------


def _copilot(work: Path) -> list[Call]:
    shell = {"command": _touch(work, "planted-bash"), "description": "x", "mode": "sync"}
    task = {"description": "x", "prompt": "x", "agent_type": "general-purpose", "name": "x"}
    return [
        Call("create", {"path": str(work / "planted-create"), "file_text": "x"}, hidden=True),
        Call("bash", shell, hidden=True),
        Call("apply_patch", script=_patch("planted-patch"), hidden=True),
        Call("task", task, hidden=True),
    ]


COPILOT = Player(
    name="copilot",
    attacks=_copilot,
    control=("--allow-all-tools", "--allow-all-paths", "--no-auto-update"),
    env={
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "gpt-5.4",
    },
    home={
        ".copilot/mcp-config.json": json.dumps(
            {"mcpServers": {"other": {"type": "local", **_OTHER, "tools": ["*"]}}}
        )
    },
)

# --- cn -----------------------------------------------------------------------------------------

_CN_MODEL = {
    "name": "scripted",
    "provider": "openai",
    "model": "scripted",
    "apiBase": "{url}/v1",
    "apiKey": "none",
    "roles": ["chat"],
    "capabilities": ["tool_use"],
}


def _cn(work: Path) -> list[Call]:
    return [
        Call("Write", {"filepath": str(work / "planted-write"), "content": "x"}, hidden=True),
        Call("Bash", {"command": _touch(work, "planted-bash")}, hidden=True),
    ]


def _cn_model(directory: Path, url: str) -> None:
    place = directory / "config.yaml"
    config = json.loads(place.read_text())
    config["models"] = [json.loads(json.dumps(_CN_MODEL).replace("{url}", url))]
    place.write_text(json.dumps(config))


CN = Player(
    name="cn",
    attacks=_cn,
    control=("--auto", "--config", "{home}/mine.yaml"),
    env={"CONTINUE_TELEMETRY_ENABLED": "0"},
    home={
        "mine.yaml": json.dumps(
            {
                "name": "mine",
                "version": "1.0.0",
                "schema": "v1",
                "models": [_CN_MODEL],
                "mcpServers": [{"name": "other", "type": "stdio", **_OTHER}],
            }
        )
    },
    amend=_cn_model,
    gives_up=True,
)

# --- cline --------------------------------------------------------------------------------------


def _cline(work: Path) -> list[Call]:
    return [
        Call("editor", {"path": str(work / "planted-editor"), "new_text": "x"}, hidden=True),
        Call("run_commands", {"commands": [_touch(work, "planted-commands")]}, hidden=True),
    ]


CLINE = Player(
    name="cline",
    attacks=_cline,
    control=("--auto-approve", "true"),
    env={"CLINE_SESSION_BACKEND_MODE": "local"},
    args=("--provider", "openai-compatible", "--model", "scripted"),
    home={
        ".cline/data/settings/providers.json": json.dumps(
            {
                "version": 1,
                "lastUsedProvider": "openai-compatible",
                "modes": {},
                "providers": {
                    "openai-compatible": {
                        "settings": {
                            "provider": "openai-compatible",
                            "apiKey": "none",
                            "model": "scripted",
                            "baseUrl": "{url}/v1",
                        },
                        "updatedAt": "2026-01-01T00:00:00.000Z",
                        "tokenSource": "manual",
                    }
                },
            }
        ),
        ".cline/data/settings/cline_mcp_settings.json": json.dumps(
            {"mcpServers": {"other": {**_OTHER, "autoApprove": ["plant"]}}}
        ),
    },
    gives_up=True,
)

# --- kimi ---------------------------------------------------------------------------------------

_KIMI_MODEL = """
default_model = "scripted"
[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "none"
[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 100000
"""


def _kimi(work: Path) -> list[Call]:
    return [
        Call("Write", {"path": str(work / "planted-write"), "content": "x"}, hidden=True),
        Call("Bash", {"command": _touch(work, "planted-bash")}, hidden=True),
    ]


def _kimi_model(directory: Path, url: str) -> None:
    (directory / "config.toml").write_text(_KIMI_MODEL.replace("{url}", url))


KIMI = Player(
    name="kimi",
    attacks=_kimi,
    control=(),
    home={
        ".kimi-code/config.toml": _KIMI_MODEL,
        ".kimi-code/mcp.json": json.dumps({"mcpServers": {"other": _OTHER}}),
    },
    amend=_kimi_model,
)

PLAYERS = {
    player.name: player
    for player in (CODEX, OPENCODE, GEMINI, CLAUDE, QWEN, COPILOT, CN, CLINE, KIMI)
}


def players(*names: str) -> list:
    """Parameters: these players, or all; heavy ones marked."""
    chosen = [PLAYERS[name] for name in names] or PLAYERS.values()
    return [
        pytest.param(each, id=each.name, marks=() if each.light else pytest.mark.heavy)
        for each in chosen
    ]
