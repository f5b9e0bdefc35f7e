"""Toolchains that tests borrow from this machine, where it has them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SHIMS = {"cargo": ("--version",), "go": ("version",)}
"""What may be only a shim (rustup, goenv) with nothing behind it, and a call that then fails."""
INSTALL = "apt install golang-go cargo nodejs npm make bubblewrap"


def without_dead_shims(path: str) -> str:
    """PATH without the directories whose cargo or go does not even tell its version."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if _alive(folder))


def _alive(folder: str) -> bool:
    for name, words in SHIMS.items():
        program = os.path.join(folder, name)
        if not os.access(program, os.X_OK):
            continue
        done = subprocess.run([program, *words], capture_output=True, check=False)
        if done.returncode != 0:
            return False
    return True


def needs(tool: str) -> str:
    """The path of `tool`; skips the test where it is not installed (in CI that is a failure)."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed ({INSTALL})")
    return found


def interpreter(version: str) -> str:
    """A Python of this minor version: from PATH, or one that pyenv has; "" if there is none."""
    found = shutil.which(f"python{version}")
    if (
        found
        and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
    ):
        return found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    places = sorted(pyenv.glob(f"{version}.*/bin/python"))
    return str(places[-1]) if places else ""
