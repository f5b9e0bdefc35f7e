"""The run's own directory: a fresh home, the sockets, and what is left of them afterwards.

A home is never used twice and nothing in it is ever run or read as configuration again: a hook or
a `notify` that an agent wrote into a client's real folder ran outside at the next start.

    <root>/agent/private/        0700, hidden from every agent
        run-<id>/home/           the agent's home, writable
        run-<id>/fixed/          generated files, shown read-only inside the home
        run-<id>/wire/           mcp.sock, proxy.sock, and our own files that run inside
        run-<id>/lock            held while the run lives
        transcripts/<id>/        what a client wrote about its session, kept as data
"""

import fcntl
import os
import secrets
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from spike_mcp.core.layout import AGENT
from spike_mcp.core.paths import RepoPath
from spike_mcp.host.agent.model import ClientNeeds

PRIVATE = "private"
TRANSCRIPTS = "transcripts"
HOMES = ("/home/agent", "/home/spike-agent")
MAX_TRANSCRIPT_FILES = 2000
MAX_TRANSCRIPT_BYTES = 64 << 20
MAX_TRANSCRIPT_DEPTH = 16

_INSIDE = (
    ("spike_mcp.edge", "bridge.py"),
    ("spike_mcp.host.agent.inside", "forwarder.py"),
    ("spike_mcp.host.agent.inside", "landlock.py"),
)


@dataclass(frozen=True, slots=True)
class RunDir:
    """One run's directory. `home_files` are (source, place inside) of read-only mounts."""

    path: Path
    home: str
    home_files: tuple[tuple[str, str], ...]
    lock: int

    @property
    def home_source(self) -> Path:
        """The agent's home, outside."""
        return self.path / "home"

    @property
    def wire(self) -> Path:
        """The directory shown as /run/spike."""
        return self.path / "wire"


def home_inside(shown: tuple[str, ...]) -> str:
    """Choose the agent's home: not below /tmp (codex refuses that), not over anything shown."""
    for home in HOMES:
        if not any((path + "/").startswith(home + "/") for path in shown):
            return home
    return HOMES[-1]


def create(root: Path, needs: ClientNeeds | None, home: str) -> RunDir:
    """Make the directory of a new run; removes those of runs that died."""
    private = root / AGENT / PRIVATE
    private.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_dead(private)
    path = private / f"run-{secrets.token_hex(6)}"
    path.mkdir(mode=0o700)
    lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for name in ("home", "fixed", "wire"):
        (path / name).mkdir(mode=0o700)
    for package, name in _INSIDE:
        _write(path / "wire" / name, files(package).joinpath(name).read_bytes(), 0o444)
    return RunDir(path, home, tuple(_furnish(path, needs, home)), lock)


def remove(run: RunDir, root: Path, needs: ClientNeeds | None) -> None:
    """Keep the transcripts, remove the rest: copies of credentials lie in it."""
    with suppress(OSError):
        kept = root / AGENT / PRIVATE / TRANSCRIPTS / run.path.name
        for name in needs.transcripts if needs else ():
            _keep(run.home_source, name, kept)
    _remove_tree(run.path)
    os.close(run.lock)


def _furnish(path: Path, needs: ClientNeeds | None, home: str) -> Iterator[tuple[str, str]]:
    if needs is None:
        return
    for number, file in enumerate(needs.files):
        inside = RepoPath.parse(file.path).text
        if file.read_only:
            source = path / "fixed" / str(number)
            _write(source, file.content, 0o400)
            yield str(source), f"{home}/{inside}"
        else:
            place = path / "home" / inside
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(place, file.content, 0o600)
    for bind in needs.binds:
        if os.path.exists(bind.source):
            yield bind.source, f"{home}/{RepoPath.parse(bind.path).text}"


def _write(path: Path, content: bytes, mode: int) -> None:
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


def _remove_dead(private: Path) -> None:
    for path in private.glob("run-*"):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # being made, or being removed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_tree(path)
        except OSError:
            pass  # alive
        finally:
            os.close(lock)


def _remove_tree(path: Path) -> None:
    """Remove a directory that an agent could write to.

    By the system's tools: they follow no links, and unlike our own recursion they end at no depth.
    """
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    for command in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        subprocess.run(
            [*command, "--", str(path)], env=environment, stderr=subprocess.DEVNULL, check=False
        )


def _keep(home: Path, name: str, target: Path) -> None:
    """Copy a directory's regular files: no links, no devices, no modes, up to the limits."""
    source = home / name
    if os.path.realpath(source) != os.path.join(os.path.realpath(home), name):
        return  # the agent put a link in its place
    count = size = 0
    for directory, names, entries in os.walk(source):
        if os.path.relpath(directory, source).count("/") >= MAX_TRANSCRIPT_DEPTH:
            names.clear()
        for entry in entries:
            path = os.path.join(directory, entry)
            data = _read_regular(path, MAX_TRANSCRIPT_BYTES - size)
            if data is None:
                continue
            count, size = count + 1, size + len(data)
            if count > MAX_TRANSCRIPT_FILES:
                return
            place = target / os.path.relpath(path, home)
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(place, data, 0o600)


def _read_regular(path: str, limit: int) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit or found.st_nlink != 1:
            return None
        return file.read(limit)
