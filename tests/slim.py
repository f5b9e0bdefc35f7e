"""A Python environment that holds pytest and nothing else, made once a session.

`spike start` seals the measurement's packages by hashing them; the environment these tests run in
holds a hundred times as many as an oracle needs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest

_READY = "ready"


def shared_directory(factory: pytest.TempPathFactory) -> Path:
    """A directory that all xdist workers of this session, and no other session, see."""
    base = factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


def slim_environment(
    where: Path, distributions: Iterable[str] = ("pytest",), fetched: Iterable[str] = ()
) -> Path:
    """The environment's bin directory below `where`; whoever comes first makes it.

    `distributions` are copied from this environment; `fetched` are requirements that must not be
    in it (a pytest plugin speaks up in every run), installed from the registry.
    """
    where.mkdir(parents=True, exist_ok=True)
    home = where / "python"
    with (where / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / _READY).exists():
            shutil.rmtree(home, ignore_errors=True)
            _make(home, distributions)
            _fetch(home, tuple(fetched))
            (home / _READY).touch()
    return home / "bin"


def base_python() -> str:
    """The system's Python if it is of our version (its library is small), else our own base."""
    system = "/usr/bin/python3"
    ask = f"import sys, venv; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if os.path.exists(system) and subprocess.run([system, "-c", ask], check=False).returncode == 0:
        return system
    return getattr(sys, "_base_executable", sys.executable)


def _make(home: Path, distributions: Iterable[str]) -> None:
    subprocess.run([base_python(), "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = (home / "lib").glob("python3*/site-packages")
    for name in _closure(distributions):
        for file in metadata.files(name) or ():
            source = Path(str(file.locate()))
            if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
                continue
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    script = home / "bin" / "pytest"
    script.write_text(f"#!{home}/bin/python\nimport sys, pytest\nsys.exit(pytest.main())\n")
    script.chmod(0o755)


def _fetch(home: Path, requirements: tuple[str, ...]) -> None:
    if not requirements:
        return
    (packages,) = (home / "lib").glob("python3*/site-packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--upgrade", "--target", str(packages), *requirements], check=True)


def _closure(names: Iterable[str]) -> set[str]:
    """The distributions and all that they need here."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        for text in metadata.requires(name) or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                todo.append(need.name)
    return found
