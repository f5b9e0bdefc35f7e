"""Finding a client: links, packages, interpreters, and never more of the home than needed."""

import os
import stat
import sys
from dataclasses import replace

import pytest

from spike_mcp.host.agent import programs
from spike_mcp.host.agent.model import AgentNeverRan, AgentRun
from spike_mcp.host.agent.run import warnings


def put(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def find(home, name, *directories):
    return programs.find((name, "-x"), ":".join(map(str, directories)) + ":/usr/bin:/bin")


def test_a_program_of_the_system_needs_nothing(home):
    found = programs.find(("sh", "-c", "true"), "/usr/bin:/bin")
    assert found.argv[1:] == ("-c", "true")
    assert (found.shown, found.links, found.path) == ((), (), ())


def test_a_version_file_behind_a_link_keeps_its_name(home):
    real = put(home / ".local/share/client/versions/2.1")
    link = home / ".local/bin/client"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    found = find(home, "client", link.parent)
    assert found.argv == (str(link), "-x")
    assert found.shown == (str(real),)
    assert found.links == ((str(link), str(real)),)
    assert found.path == (str(link.parent),)


def test_an_npm_client_brings_its_prefix_with_node(home):
    prefix = home / ".nvm/versions/node/v22"
    put(prefix / "bin/node", "\x7fELF")
    (prefix / "include").mkdir()
    cli = put(prefix / "lib/node_modules/@x/client/cli.js", "#!/usr/bin/env -S node --flag\n")
    (prefix / "bin/client").symlink_to("../lib/node_modules/@x/client/cli.js")
    found = find(home, "client", prefix / "bin")
    assert found.shown == (str(prefix),)
    assert found.links == ()
    assert found.path == (str(prefix / "bin"),)
    assert str(cli).startswith(str(prefix))


@pytest.mark.security
def test_modules_in_the_home_itself_show_only_themselves(home):
    put(home / "node_modules/client/cli.js", "#!/usr/bin/env node\n")
    bin_dir = home / "node_modules/.bin"
    bin_dir.mkdir()
    (bin_dir / "client").symlink_to("../client/cli.js")
    node = put(home / "bin/node", "\x7fELF")
    found = find(home, "client", bin_dir, home / "bin")
    assert found.shown == (str(node), str(home / "node_modules")) or found.shown == (
        str(home / "node_modules"),
        str(node),
    )


@pytest.mark.security
def test_a_prefix_that_is_shared_shows_the_file_alone(home):
    local = home / ".local"
    node = put(local / "bin/node", "\x7fELF")
    (local / "lib/node_modules").mkdir(parents=True)
    (local / "share/keyrings").mkdir(parents=True)
    found = find(home, "node", local / "bin")
    assert found.shown == (str(node),)


def test_a_virtual_environment_brings_its_base(home):
    venv, base = home / "venv", home / ".pyenv/versions/3"
    python = put(base / "bin/python3.x", "\x7fELF")
    (base / "lib").mkdir()
    (base / "include").mkdir()
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    (venv / "bin/python").symlink_to(python)
    put(venv / "bin/client", f"#!{venv}/bin/python\n")
    found = find(home, "client", venv / "bin")
    assert sorted(found.shown) == sorted([str(venv), str(base)])


def test_a_missing_command_and_a_shim_are_named(home):
    with pytest.raises(AgentNeverRan, match="not found") as caught:
        find(home, "no-such-client", home)
    assert caught.value.code == "usage"
    assert caught.value.exit_status == 71
    with pytest.raises(AgentNeverRan, match="no command"):
        programs.find(())
    put(home / ".pyenv/shims/client")
    with pytest.raises(AgentNeverRan, match="shim") as caught:
        find(home, "client", home / ".pyenv/shims")
    assert "pyenv which client" in caught.value.hint


def test_links_in_a_circle_end(home):
    a, b = home / "bin/a", home / "bin/b"
    a.parent.mkdir()
    a.symlink_to(b)
    b.symlink_to(a)
    with pytest.raises(AgentNeverRan):
        find(home, "a", home / "bin")


def test_our_own_files_run_with_a_python_that_can_be_shown():
    python, shown = programs.python_inside()
    assert os.access(python, os.X_OK)
    assert programs.in_system(python) or any(python.startswith(path) for path in shown)
    command = programs.bridge_command()
    assert command[0] == python
    assert command[1:3] == ("-I", "-S")
    assert sys.version_info >= (3, 11)


def test_what_is_weaker_is_said_beforehand(tmp_path, monkeypatch):
    spec = AgentRun(tmp_path, tmp_path / "work", None, ("x",), None, "proxy", (), {}, False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert warnings(spec) == ()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    root, network = warnings(replace(spec, network="host"))
    assert "ordinary user is safer" in root
    assert "UDP" in network
