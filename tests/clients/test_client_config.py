"""Configurations as values: where they lie, what they name, what `spike run` adds to them."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
from support import Open, open_plain

from spike_mcp.core.codes import Problem
from spike_mcp.edge.clients import CLIENTS, PROGRAMS, client, client_config, wiring
from spike_mcp.edge.clients.codex import without_tools
from spike_mcp.edge.clients.installed import find
from spike_mcp.edge.clients.model import TOOL_NAMES, Place, seen
from spike_mcp.edge.clients.sandboxed import host_of, prepare

SANDBOXED = [name for name in PROGRAMS if client(name).sandbox is not None]


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Open:
    return open_plain(tmp_path_factory.mktemp("spike"))


@pytest.fixture
def catalogue(tmp_path, monkeypatch) -> Path:
    """A `codex` that prints a small catalogue."""
    program = tmp_path / "bin/codex"
    program.parent.mkdir()
    models = {"models": [{"slug": "one", "apply_patch_tool_type": "freeform"}]}
    program.write_text(f"#!/bin/sh\nprintf '%s' '{json.dumps(models)}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


@pytest.mark.parametrize("name", CLIENTS)
def test_a_configuration_lies_outside_the_worktree_and_names_our_server(name, opened, catalogue):
    found = client_config(opened.spike, name, write=True)
    files = found.data["files"]
    assert files and found.data["tier"] == "configured"
    for file in files:
        path = Path(file["path"])
        assert path.is_relative_to(opened.spike.agent_dir)
        assert path.read_text() == file["content"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    command = found.data["server"]
    assert Path(command[0]).is_absolute() and command[-2:] == ["--spike", str(opened.spike.root)]
    text = "".join(file["content"] for file in files)
    assert command[0] in text and str(opened.spike.root) in text
    assert found.data["start"] in "\n".join(found.lines)
    assert f"cd {opened.spike.work}" in found.data["start"]


def test_nothing_is_written_unless_asked_for(tmp_path):
    opened = open_plain(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for name in CLIENTS:
        found = client_config(opened.spike, name, write=False)
        assert "(nothing was written: add --write)" in found.lines
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_are_well_formed_in_both_tiers(name):
    for enforced in (False, True):
        place = Place('/spikes/"a b"/agent', ("/usr/bin/server", "-x"), "/spikes/work", enforced)
        for file, content in client(name).setup(place).files.items():
            if file.endswith((".json", ".yaml")) and content:
                json.loads(content)
            elif file.endswith(".toml"):
                tomllib.loads(content)


def test_an_unknown_client_is_named_with_those_there_are(opened):
    with pytest.raises(Problem) as no:
        client_config(opened.spike, "nobody", write=False)
    assert "claude" in no.value.hint


def test_names_that_clients_give_our_tools_stay_below_their_limit():
    for name in CLIENTS:
        assert all(len(each) <= 64 for each in seen(client(name).shows))


def test_the_server_is_this_installations(tmp_path):
    command = wiring.server_command(tmp_path)
    assert Path(command[0]).exists() and command[-1] == str(tmp_path)


def test_codex_without_its_patch_tool():
    given = {"models": [{"slug": "x", "apply_patch_tool_type": "freeform", "kept": 1}]}
    [model] = json.loads(without_tools(json.dumps(given)))["models"]
    assert model["apply_patch_tool_type"] is None and model["kept"] == 1
    for broken in ("[]", "{}", "no json"):
        with pytest.raises((KeyError, ValueError, TypeError)):
            without_tools(broken)


def test_a_codex_that_prints_no_catalogue_is_said_so(opened, catalogue):
    catalogue.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(Problem) as no:
        client_config(opened.spike, "codex", write=True)
    assert "catalogue" in no.value.message
    catalogue.write_text("#!/bin/sh\necho '{}'\n")
    with pytest.raises(Problem) as no:
        client_config(opened.spike, "codex", write=True)
    assert "0.171.0" in no.value.hint


# --- under spike run ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SANDBOXED)
def test_a_run_gets_a_home_of_files_keys_and_hosts(name, tmp_path, catalogue):
    known, home = client(name), tmp_path / "human"
    for inside in (*known.sandbox.credentials, *known.sandbox.copied):
        (home / inside).parent.mkdir(parents=True, exist_ok=True)
        (home / inside).write_text("secret")
    environ = dict.fromkeys(known.sandbox.keys, "http://127.0.0.1:8765/v1") | {"OTHER": "x"}
    ready = prepare(known, tmp_path / "agent", tmp_path / "work", environ, home)
    needs = ready.needs
    assert {bind.path for bind in needs.binds} == set(known.sandbox.credentials)
    assert not any(bind.source == str(home) for bind in needs.binds)
    writable = {file.path for file in needs.files if not file.read_only}
    assert writable == {*known.sandbox.start, *known.sandbox.copied}
    assert "OTHER" not in needs.env and set(known.sandbox.keys) <= set(needs.env)
    assert ("127.0.0.1:8765" in needs.allow_hosts) == bool(known.sandbox.addresses)
    texts = [path.read_text() for path in (tmp_path / "agent").rglob("*") if path.is_file()]
    assert any("/run/spike/bridge.py" in text for text in texts)


def test_the_lock_down_goes_behind_the_program_and_nowhere_else(tmp_path, catalogue):
    ready = prepare(client("codex"), tmp_path / "agent", tmp_path / "work", {}, tmp_path)
    lock = ready.setup.args
    command = ("/opt/codex", "exec", "go on")
    assert ready.argv(command, screen=False) == ("/opt/codex", *lock, "exec", "go on")
    wrapper = ("wrapper", "codex")
    assert ready.argv(wrapper, screen=False) == wrapper and not ready.locks(wrapper)
    assert ready.argv((), screen=False)[: len(lock) + 2] == ("codex", *lock, "exec")
    assert ready.argv((), screen=True)[: len(lock) + 1] == ("codex", *lock)


def test_a_claude_that_was_never_started_asks_nothing(tmp_path):
    key = 'sk-"quoted"-and-a-long-tail-of-it'
    environ = {"ANTHROPIC_API_KEY": key}
    work = tmp_path / 'wo"rk'
    ready = prepare(client("claude"), tmp_path / "agent", work, environ, tmp_path)
    [state] = [file for file in ready.needs.files if file.path == ".claude.json"]
    told = json.loads(state.content)
    assert told["customApiKeyResponses"]["approved"] == [key[-20:]]
    assert told["projects"][str(work)]["hasTrustDialogAccepted"] is True


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.com/v1", "api.example.com:443"),
        ("http://127.0.0.1:8765", "127.0.0.1:8765"),
        ("http://gateway", "gateway:80"),
        ("", ""),
        ("api.example.com", ""),
        ("https://x:99999999", ""),
    ],
)
def test_the_host_of_an_address(url, host):
    assert host_of(url) == host


# --- doctor -------------------------------------------------------------------------------------


def test_installed_clients_and_what_they_would_still_offer(tmp_path):
    package = tmp_path / "node_modules/@openai/codex"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text('{"version": "0.171.0"}')
    program = package / "bin/codex.js"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "codex").symlink_to(program)
    for name, text in (("claude", "echo 9.9.9 '(Claude Code)'"), ("zed", "exit 1")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    found = {each.client.name: each for each in find({"PATH": str(folder)})}
    assert set(found) == {"codex", "claude", "zed"}
    assert found["codex"].held and "exec" in found["codex"].about()
    assert found["claude"].version == "9.9.9" and not found["claude"].held
    assert "known to hold" in found["claude"].about()
    assert found["zed"].version == "" and "never tried" in found["zed"].about()


def test_every_tool_is_named_where_a_client_wants_a_list(tmp_path):
    place = Place(str(tmp_path), ("server",), str(tmp_path))
    for name in ("copilot", "cn", "zed", "kimi"):
        setup = client(name).setup(place)
        text = " ".join([*setup.args, *setup.files.values()])
        assert all(tool in text for tool in TOOL_NAMES), name
