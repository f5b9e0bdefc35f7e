"""What a command needs from the machine: through links, shims and interpreter lines (spec 11)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spike_mcp.core.codes import Problem
from spike_mcp.core.runners import detect
from spike_mcp.host.places import Found, script_line
from spike_mcp.host.resolve import resolve


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        (["pytest", "-q"], "pytest"),
        (["/x/bin/py.test"], "pytest"),
        (["python", "-m", "pytest", "t.py"], "pytest"),
        (["python3.11", "-X", "dev", "-W", "error", "-m", "pytest"], "pytest"),
        ([".venv/bin/python", "-I", "-m", "pytest"], "pytest"),
        (["pypy3", "-m", "unittest", "-v"], "unittest"),
        (["python3.13t", "-m", "unittest"], "unittest"),
        (["python", "bin/pytest"], "pytest"),
        (["python", "-c", "import pytest"], "plain"),
        (["python", "-m", "tox"], "plain"),
        (["python", "check.py", "-m", "pytest"], "plain"),
        (["python", "-m"], "plain"),
        (["python"], "plain"),
        (["go", "test", "./..."], "go"),
        (["go", "-C", "x", "test"], "go"),
        (["go", "vet"], "plain"),
        (["go", "test", "-c"], "plain"),
        (["cargo", "test", "-q"], "cargo"),
        (["cargo", "+nightly", "t"], "cargo"),
        (["cargo", "nextest", "run"], "plain"),
        (["cargo", "test", "--no-run"], "plain"),
        (["node", "--test", "t/"], "node"),
        (["node", "t.js"], "plain"),
        (["npm", "test"], "plain"),
        (["make", "check"], "plain"),
        (["sh", "t.sh"], "plain"),
        (["pythonic"], "plain"),
    ],
)
def test_which_adapter_reads_a_command(argv: list[str], want: str) -> None:
    assert detect(argv) == want


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _environ(*directories: Path) -> dict[str, str]:
    home = directories[0].parent.parent if directories else Path("/nowhere")
    return {"PATH": ":".join([*map(str, directories), "/usr/bin", "/bin"]), "HOME": str(home)}


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    return tmp_path / "env"


def test_a_virtual_environment_shows_itself_and_its_base(venv: Path, tmp_path: Path) -> None:
    found = resolve(["python", "-m", "pytest"], tmp_path, _environ(venv / "bin"))
    assert found.program == str(venv / "bin/python")
    assert found.argv == (found.program, "-m", "pytest")
    assert str(venv) in found.read_only
    real = os.path.realpath(venv / "bin/python")
    assert real in found.program_files
    shown = (*found.read_only, "/usr")
    assert any(real.startswith(place + "/") for place in shown)
    assert any(place.startswith(str(venv)) for place in found.packages)
    assert str(venv / "pyvenv.cfg") in found.program_files
    assert dict(found.env)["PATH"].split(":")[0] == str(venv / "bin")


def test_a_version_managers_shim_is_seen_through(venv: Path, tmp_path: Path) -> None:
    shim = _script(tmp_path / "shims/python", f'#!/bin/sh\nexec {venv}/bin/python "$@"\n')
    found = resolve(["python", "-m", "pytest"], tmp_path, _environ(shim.parent))
    assert found.program == str(venv / "bin/python")
    assert not [place for place in found.read_only if "shims" in place]


def test_a_console_script_runs_under_the_interpreter_of_its_first_line(
    venv: Path, tmp_path: Path
) -> None:
    script = _script(venv / "bin/pytest", f"#!{venv}/bin/python\nimport pytest\n")
    found = resolve(["pytest", "-q"], tmp_path, _environ(venv / "bin"))
    assert found.argv == (str(venv / "bin/python"), str(script), "-q")
    assert str(script) in found.program_files


def test_an_editable_install_elsewhere_is_shown_and_one_of_the_tree_is_not(
    venv: Path, tmp_path: Path
) -> None:
    site = next((venv / "lib").glob("python*/site-packages"))
    for name in ("repo/src", "other/src"):
        (tmp_path / name).mkdir(parents=True)
    (site / "x.pth").write_text(f"{tmp_path}/repo/src\n{tmp_path}/other/src\n")
    environ = _environ(venv / "bin")
    found = resolve(["python", "-m", "pytest"], tmp_path, environ, (str(tmp_path / "repo"),))
    assert str(tmp_path / "other/src") in found.read_only
    assert str(tmp_path / "other/src") in found.packages
    assert not [place for place in found.read_only if "repo" in place]


def test_a_program_in_a_home_directory_does_not_show_the_home(tmp_path: Path) -> None:
    tool = _script(tmp_path / "bin/check", "#!/bin/sh\nexit 0\n")
    found = resolve(["check"], tmp_path, _environ(tool.parent))
    assert found.read_only == (str(tool),)
    assert found.argv == (str(tool),)


def test_a_program_of_the_tree_is_found_from_there(tmp_path: Path) -> None:
    tool = _script(tmp_path / "scripts/check.sh", "#!/usr/bin/env sh\nexit 0\n")
    assert resolve(["scripts/check.sh"], tmp_path, _environ()).program == str(tool)


@pytest.mark.parametrize("name", ["no-such-program-here", "./missing", "sub/dir"])
def test_a_missing_program_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub/dir").mkdir(parents=True)
    with pytest.raises(Problem, match=name):
        resolve([name], tmp_path, _environ())


def test_a_python_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    tool = _script(tmp_path / "bin/python", "#!/bin/sh\necho broken >&2\nexit 3\n")
    with pytest.raises(Problem, match="broken"):
        resolve(["python", "-m", "pytest"], tmp_path, _environ(tool.parent))


def test_an_empty_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem):
        resolve([], tmp_path, _environ())


def test_every_link_on_the_way_is_shown(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "one").symlink_to("real")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    found = Found()
    found.bind(str(tmp_path / "two"))
    assert set(found.shown()) == {str(tmp_path / name) for name in ("real", "one", "two")}


def test_a_place_inside_another_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    found = Found()
    found.bind(str(tmp_path / "a/b"))
    found.bind(str(tmp_path / "a"))
    found.bind(str(tmp_path / "gone"))
    assert found.shown() == [str(tmp_path / "a")]


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"#!/bin/sh -e\n", ("/bin/sh", "-e")),
        (b"#! /usr/bin/env python3\n", ("/usr/bin/env", "python3")),
        (b"\x7fELF", ()),
        (b"", ()),
    ],
)
def test_interpreter_lines(data: bytes, want: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    assert script_line(str(tmp_path / "x")) == want
    assert script_line(str(tmp_path / "missing")) == ()
