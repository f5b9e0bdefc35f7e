"""Which agent clients this machine has, and whether their versions are those that were tried."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from spike_mcp.edge.clients import PROGRAMS, client
from spike_mcp.edge.clients.model import Client

VERSION_SECONDS = 10
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*[\w.+-]*")


@dataclass(frozen=True, slots=True)
class Installed:
    """A client found in PATH; `version` is "" where the program did not tell."""

    client: Client
    path: str
    version: str

    @property
    def held(self) -> bool:
        """Whether the tests held with exactly this version."""
        return bool(self.version) and self.version == self.client.tried

    def about(self) -> str:
        """The version, whether it is known to hold, and what it would still offer."""
        if self.held:
            known = "known to hold"
        elif self.client.tried:
            known = f"{self.client.tried} is known to hold"
        else:
            known = "never tried"
        left = ", ".join(self.client.left) or "no tool of its own"
        return f"{self.version or 'version unknown'} ({known}); left under client-config: {left}"


def find(environ: Mapping[str, str]) -> list[Installed]:
    """The clients in PATH, in the usual order. Asks each program for its version."""
    search = environ.get("PATH", "")
    there = [
        (each, path)
        for each in map(client, PROGRAMS)
        if (path := shutil.which(each.program, path=search)) is not None
    ]
    with ThreadPoolExecutor(max_workers=4) as pool:
        versions = pool.map(lambda pair: _version(pair[1], environ), there)
        return [
            Installed(each, path, version)
            for (each, path), version in zip(there, versions, strict=True)
        ]


def too_old_node(found: list[Installed], environ: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Clients that need a newer node than the one in PATH, with the version that they need."""
    needy = [each.client for each in found if each.client.node]
    path = shutil.which("node", path=environ.get("PATH", "")) if needy else None
    if path is None:
        return
    major = _version(path, environ).split(".")[0]
    for each in needy:
        if major.isdigit() and int(major) < each.node:
            yield each.name, each.node


def _version(path: str, environ: Mapping[str, str]) -> str:
    """From the npm package around the program, which takes no time, else from the program."""
    return _packaged(path) or _told(path, environ)


def _packaged(path: str) -> str:
    directory = os.path.dirname(os.path.realpath(path))
    while "node_modules" in directory.split("/"):
        try:
            with open(os.path.join(directory, "package.json"), encoding="utf-8") as file:
                version = json.load(file).get("version")
        except (OSError, ValueError, AttributeError):
            version = None
        if isinstance(version, str):
            return version
        directory = os.path.dirname(directory)
    return ""


def _told(path: str, environ: Mapping[str, str]) -> str:
    try:
        said = subprocess.run(
            [path, "--version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=VERSION_SECONDS,
            cwd="/",
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(said)
    return match[0].rstrip(".") if match else ""
