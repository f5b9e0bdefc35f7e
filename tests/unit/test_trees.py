"""Which files a run read from the tree, and which modules came from the wrong place (spec 11)."""

import os
import socket
from pathlib import Path

import pytest

from spike_mcp.host.evidence.trees import foreign_modules, loaded_paths
from spike_mcp.host.sandbox.scan import Scan, scan

ROOTS = ("/s/work", "/home/u/repo")
SOURCES = frozenset({"invoice.py", "src/kit/__init__.py", "src/kit/a.py", "json.py"})


def test_loaded_is_relative_to_either_place_and_without_the_environment() -> None:
    modules = [
        ("invoice", "/s/work/invoice.py"),
        ("kit", "/home/u/repo/src/kit/__init__.py"),
        ("pytest", "/s/work/.venv/lib/pytest.py"),
        ("os", "/usr/lib/os.py"),
        ("near", "/s/workshop/near.py"),
    ]
    found = loaded_paths(modules, ["tests/data.json", ".venv/x"], ROOTS, (".venv",))
    assert found == ("invoice.py", "src/kit/__init__.py", "tests/data.json")


@pytest.mark.parametrize(
    ("name", "file", "foreign"),
    [
        ("invoice", "/s/work/invoice.py", False),
        ("invoice", "/home/u/repo/invoice.py", False),
        ("invoice", "/usr/lib/python3/dist-packages/invoice.py", True),
        ("kit.a", "/s/work/.venv/lib/site-packages/kit/a.py", True),
        ("kit", "/other/checkout/src/kit/__init__.py", True),
        ("pytest", "/usr/lib/python3/dist-packages/pytest.py", False),
        ("json", "/usr/lib/python3.11/json/__init__.py", False),
        ("__main__", "/run/spike/inside/pytest_run.py", False),
    ],
)
def test_a_module_of_the_tree_must_come_from_the_tree(name: str, file: str, foreign: bool) -> None:
    found = foreign_modules([(name, file)], ROOTS, (".venv",), SOURCES.__contains__)
    assert bool(found) is foreign


def test_the_scan_finds_bytecode_and_special_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pkg/__pycache__", ".git/x/__pycache__", "env/__pycache__", "node_modules/y"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "pkg/a.py").write_text("")
    (tmp_path / "env/b.py").write_text("")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.sock")
        found = scan(str(tmp_path), frozenset({"env"}))
    assert found.bytecode == ("pkg/__pycache__",)
    assert found.sockets == ("a.sock", "pipe")


def test_a_tree_that_can_not_be_read_is_empty(tmp_path: Path) -> None:
    assert scan(str(tmp_path / "missing")) == Scan((), ())
