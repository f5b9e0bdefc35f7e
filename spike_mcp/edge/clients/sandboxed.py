"""A client under `spike run`: its files in a fresh home, its keys, its model's address (spec 14).

Nothing of the human's home is shown but credentials, read-only; a client's real folder never is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from spike_mcp.edge.clients import wiring
from spike_mcp.edge.clients.model import Client, Place, Sandbox, Setup
from spike_mcp.host.agent.model import ClientNeeds, HomeBind, HomeFile
from spike_mcp.host.agent.programs import bridge_command

MAX_COPIED = 1 << 20
KEY_TAIL = 20
"""Characters by which one client remembers a key that the human said yes to."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A client that can be started: what it needs, and its configuration's arguments."""

    client: Client
    setup: Setup
    needs: ClientNeeds

    def argv(self, command: tuple[str, ...], *, screen: bool) -> tuple[str, ...]:
        """The agent's command: the lock-down goes right behind the client's program.

        Without a command the client is started with first words. Another program (a wrapper) is
        started as it is: `locks` tells.
        """
        if command and not self.locks(command):
            return command
        words = self.client.prompt if screen else self.client.headless
        rest = command[1:] if command else wiring.arguments(Setup(), words)
        program = command[0] if command else self.client.program
        return (program, *self.setup.args, *rest)

    def locks(self, command: tuple[str, ...]) -> bool:
        """Whether the lock-down's arguments can be put into this command."""
        return not command or os.path.basename(command[0]) == self.client.program


def prepare(
    client: Client, agent_dir: Path, work: Path, environ: Mapping[str, str], home: Path
) -> Prepared:
    """Write the client's files below the spike's agent/ and gather what it needs."""
    sandbox = client.sandbox or Sandbox()
    directory = agent_dir / f"{client.name}-run"
    place = Place(str(directory), bridge_command(), str(work), True, frozenset(environ))
    setup = client.setup(place)
    files = wiring.complete(client, setup.files)
    wiring.write_files(directory, files)
    needs = ClientNeeds(
        name=client.name,
        files=tuple(_files(sandbox, files, home, str(work), environ)),
        binds=tuple(_binds(sandbox, home)),
        env={**sandbox.env, **setup.env, **_keys(sandbox, environ)},
        transcripts=sandbox.transcripts,
        allow_hosts=(*sandbox.hosts, *_addresses(sandbox, environ)),
    )
    return Prepared(client, setup, needs)


def _files(
    sandbox: Sandbox, files: Mapping[str, str], home: Path, work: str, environ: Mapping[str, str]
) -> Iterator[HomeFile]:
    for name, inside in sandbox.home.items():
        yield HomeFile(inside, files[name].encode())
    for inside, content in sandbox.start.items():
        yield HomeFile(inside, _filled(content, work, environ).encode(), read_only=False)
    for inside in sandbox.copied:
        path = home / inside
        if path.is_file() and path.stat().st_size <= MAX_COPIED:
            yield HomeFile(inside, path.read_bytes(), read_only=False)


def _filled(content: str, work: str, environ: Mapping[str, str]) -> str:
    """A JSON text with its placeholders filled in."""

    def tail(found: re.Match[str]) -> str:
        return json.dumps(environ.get(found[1], "")[-KEY_TAIL:])[1:-1]

    content = re.sub(r"\{tail of (\w+)\}", tail, content)
    return content.replace("{work}", json.dumps(work)[1:-1])


def _binds(sandbox: Sandbox, home: Path) -> Iterator[HomeBind]:
    for inside in sandbox.credentials:
        if (home / inside).is_file():
            yield HomeBind(str(home / inside), inside)
    for inside in sandbox.folders:
        if (home / inside).is_dir():
            yield HomeBind(str(home / inside), inside)


def _keys(sandbox: Sandbox, environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in sandbox.keys if environ.get(name)}


def _addresses(sandbox: Sandbox, environ: Mapping[str, str]) -> Iterator[str]:
    """`host:port` of a model's address that the human's environment names."""
    for name in sandbox.addresses:
        found = host_of(environ.get(name, ""))
        if found:
            yield found


def host_of(url: str) -> str:
    """`host:port` of a URL, "" if it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.hostname}:{port}" if parts.hostname and port else ""
