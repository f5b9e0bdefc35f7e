"""The public suites, from the registries at exact versions.

They lie in the cache of the agent clients (`tests/clients/client_programs.py`), Node included.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "clients"))

from client_programs import NotInstalledError, _kept, _run, cache, node_bin

APP = Path(__file__).with_name("http_app.py")
SERVER = Path(sys.executable).with_name("spike-mcp")


def npm_program(package: str, version: str, program: str) -> Path:
    """A program of an npm package; skips the test where the registry can't be reached."""

    def fetch(place: Path) -> None:
        node = node_bin()
        npm = node.parent / "lib/node_modules/npm/bin/npm-cli.js"
        flags = ("--silent", "--no-audit", "--no-fund", "--no-update-notifier")
        where = ("--prefix", place, "--cache", cache() / "npm-cache")
        _run(node / "node", npm, "install", *flags, *where, f"{package}@{version}", path=node)

    name = package.rpartition("/")[2].replace("-", "_") + "_" + version.replace("-", "_")
    return _installed(name, fetch) / "node_modules/.bin" / program


def pip_package(package: str, version: str) -> Path:
    """A directory for PYTHONPATH with one PyPI package and what it needs."""

    def fetch(place: Path) -> None:
        wanted = f"{package}=={version}"
        _run(sys.executable, "-m", "pip", "install", "-q", "--target", place, wanted)

    return _installed(f"{package.replace('-', '_')}_{version}", fetch)


def _installed(name: str, fetch) -> Path:
    try:
        return _kept(name, fetch)
    except (NotInstalledError, subprocess.TimeoutExpired, OSError) as error:
        pytest.skip(f"{name} can't be installed: {error}")


def node_environment() -> dict[str, str]:
    """This process's environment with the cached Node first."""
    return {**os.environ, "PATH": f"{node_bin()}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def over_http(root: Path) -> Iterator[str]:
    """The same server on loopback; yields its URL."""
    process = subprocess.Popen(
        [sys.executable, str(APP), str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), "the test mount did not start"
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
