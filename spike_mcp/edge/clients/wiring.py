"""A client's configuration for one spike: printed, or written below <root>/agent/ (spec 14)."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.edge.clients import codex
from spike_mcp.edge.clients.model import FIRST_WORDS, Client, Place, Setup
from spike_mcp.host.files import write_atomic
from spike_mcp.session.spike import Spike

CATALOGUE_SECONDS = 30


@dataclass(frozen=True)
class Config:
    """What `spike client-config` answers: `data` for scripts, `lines` for people."""

    data: Mapping[str, Any]
    lines: tuple[str, ...]


def server_command(root: Path) -> tuple[str, ...]:
    """How a client starts this installation's server for a spike; absolute, so no PATH counts."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "spike-mcp")
    found = beside if os.access(beside, os.X_OK) else shutil.which("spike-mcp")
    program = (
        (os.path.abspath(found),)
        if found
        else (os.path.abspath(sys.executable), "-P", "-m", "spike_mcp.edge.server")
    )
    return (*program, "--spike", str(root))


def configure(spike: Spike, client: Client, *, write: bool) -> Config:
    """The configuration of tier `configured`; with `write`, as files of the human's alone."""
    directory = spike.agent_dir / client.name
    place = Place(
        str(directory), server_command(spike.root), str(spike.work), variables=frozenset(os.environ)
    )
    setup = client.setup(place)
    files = dict(setup.files)
    if write:
        files = complete(client, files)
        write_files(directory, files)
    start = command_line(client, setup, spike.work, client.prompt)
    headless = command_line(client, setup, spike.work, client.headless) if client.headless else ""
    data = {
        "client": client.name,
        "tier": "configured",
        "directory": str(directory),
        "written": write,
        "files": [
            {"path": place.path(name), "content": content} for name, content in files.items()
        ],
        "server": list(place.server),
        "env": dict(setup.env),
        "argv": [client.program, *setup.args],
        "cwd": str(spike.work),
        "start": start,
        "headless": headless,
        "shown_as": client.shows,
        "tools_left": list(client.left),
        "readable": client.readable,
        "time_outs": client.limits,
        "tried": client.tried,
        "notes": list(setup.notes),
    }
    return Config(data, tuple(_lines(client, data)))


def complete(client: Client, files: Mapping[str, str]) -> dict[str, str]:
    """Files with what only the installed program can tell. `Problem(USAGE)` where it does not."""
    done = dict(files)
    if codex.CATALOGUE in done:
        done[codex.CATALOGUE] = _catalogue(client)
    return done


def _catalogue(client: Client) -> str:
    hint = f"install {client.package}, or put {client.program} in your PATH"
    try:
        said = subprocess.run(
            [client.program, *codex.CATALOGUE_COMMAND],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CATALOGUE_SECONDS,
            check=True,
        )
        return codex.without_tools(said.stdout.decode())
    except (OSError, subprocess.SubprocessError) as error:
        message = f"{client.program} did not print its model catalogue"
        raise Problem(Usage.USAGE, f"{message}: {type(error).__name__}", hint) from error
    except (ValueError, KeyError, TypeError) as error:
        message = f"the model catalogue of this {client.program} has an unknown form"
        raise Problem(Usage.USAGE, message, f"version {client.tried} is known to hold") from error


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write a client's files; the directory is the human's alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        place = directory / name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(place, content.encode(), 0o600)


def command_line(client: Client, setup: Setup, work: Path, words: Sequence[str]) -> str:
    """What to type to start it, as one line of shell."""
    given = [f"{name}={shlex.quote(value)}" for name, value in setup.env.items()]
    argv = [client.program, *arguments(setup, words)]
    return f"cd {shlex.quote(str(work))} && {' '.join([*given, shlex.join(argv)])}"


def arguments(setup: Setup, words: Sequence[str]) -> list[str]:
    """Arguments of the program: the lock-down, then the first words."""
    return [*setup.args, *(word.replace("{}", FIRST_WORDS) for word in words)]


def _lines(client: Client, data: Mapping[str, Any]) -> Iterator[str]:
    verb = "wrote" if data["written"] else "file"
    for file in data["files"]:
        yield f"{verb} {file['path']}"
        if not data["written"]:
            content = file["content"] or f"(made with --write, by the installed {client.program})"
            yield from (f"  {line}" for line in content.rstrip("\n").split("\n"))
    if not data["written"]:
        yield "(nothing was written: add --write)"
    yield f"start     {data['start']}"
    if data["headless"]:
        yield f"headless  {data['headless']}"
    yield f"shown as  {client.shows} (X = the tool's name)"
    yield f"left      {', '.join(client.left) or 'no tool of its own'}"
    yield f"readable  {client.readable}"
    yield f"limits    {client.limits}"
    tried = f"version {client.tried}" if client.tried else "never tried with the real program"
    yield f"held      {tried}"
    yield from (f"note      {note}" for note in data["notes"])
    yield "tier      configured: a convention; `spike run` enforces it"
