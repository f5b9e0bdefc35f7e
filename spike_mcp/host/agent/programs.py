"""Which programs the agent needs, and the smallest part of this machine that holds them.

A client is often a link in one directory to a script in another, run by an interpreter in a
third, all of them below the human's home. Each is shown read-only at its own path; a directory
that holds more than programs (the home itself, ~/.local) never is.
"""

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from spike_mcp.core.codes import Usage
from spike_mcp.host.agent.model import BRIDGE, SOCKET, AgentNeverRan

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_MAX_LINKS = 40
_SHEBANG_BYTES = 256
_ENV = ("/usr/bin/env", "/bin/env")


@dataclass(frozen=True, slots=True)
class Programs:
    """`argv` to start; `shown`: paths bound read-only; `links`: (path, target) made as links;
    `path`: directories for PATH beside the system's."""

    argv: tuple[str, ...]
    shown: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    path: tuple[str, ...]


def in_system(path: str) -> bool:
    """Whether the sandbox shows this path anyway."""
    return any(path == top or path.startswith(top + "/") for top in _SYSTEM)


def python_inside() -> tuple[str, tuple[str, ...]]:
    """The Python for our own files inside, and what has to be shown for it."""
    for candidate in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(candidate, os.X_OK):
            return candidate, ()
    real = os.path.realpath(sys.executable)
    return real, () if in_system(real) else (_part_of(real, os.path.realpath(sys.base_prefix)),)


def bridge_command() -> tuple[str, ...]:
    """What a client's configuration names as the command of our server, inside."""
    return (python_inside()[0], "-I", "-S", BRIDGE, SOCKET)


def find(argv: tuple[str, ...], search: str | None = None) -> Programs:
    """Resolve the agent's command in PATH (or `search`). AgentNeverRan when it is not there."""
    if not argv:
        raise _not_found("no command was given")
    found = shutil.which(argv[0], path=search)
    if found is None:
        raise _not_found(f"the agent's command {argv[0]!r} was not found")
    _check_shim(found)
    collected = _Collected(search)
    collected.program(os.path.abspath(found))
    return Programs(
        (os.path.abspath(found), *argv[1:]),
        outermost(collected.shown),
        tuple(collected.links.items()),
        tuple(dict.fromkeys(collected.path)),
    )


def _check_shim(found: str) -> None:
    """Refuse what only looks the program up: it would need the whole version manager inside."""
    shim = os.path.basename(os.path.realpath(found)) == "volta-shim"
    if shim or os.path.basename(os.path.dirname(found)) == "shims":
        problem = _not_found(f"{found} is a version manager's shim, not the program")
        name = os.path.basename(found)
        problem.hint = f"name the program itself: `pyenv which {name}` (asdf, mise, volta alike)"
        raise problem


def _not_found(message: str) -> AgentNeverRan:
    problem = AgentNeverRan(message, "install it, or give its full path after `--`")
    problem.code = Usage.USAGE
    return problem


class _Collected:
    """Follows one program through links and interpreters."""

    def __init__(self, search: str | None) -> None:
        self.shown: list[str] = []
        self.links: dict[str, str] = {}
        self.path: list[str] = []
        self._search = search

    def program(self, path: str) -> None:
        """Take a program, its links, its package and its interpreter."""
        if not in_system(path):
            self.path.append(os.path.dirname(path))
        real = os.path.realpath(path)
        if path != real:
            self._link(path, real)
        if not in_system(real):
            self.shown.append(package_of(real))
        for interpreter in self._interpreters(real):
            if interpreter not in self.links and interpreter not in self.shown:
                self.program(interpreter)

    def _link(self, path: str, real: str) -> None:
        """Keep the name it was called by: some programs look at it, virtual environments too."""
        if in_system(path):
            return
        prefix = package_of(path)
        if prefix != path and os.path.isdir(prefix):
            self.shown.append(prefix)
        else:
            self.links[path] = real
        # Links between the two that lie elsewhere (bin/x -> ../versions/1/x -> ...).
        step = path
        for _ in range(_MAX_LINKS):
            if not os.path.islink(step):
                return
            step = os.path.normpath(os.path.join(os.path.dirname(step), os.readlink(step)))
            if step != real and not in_system(step) and os.path.islink(step):
                self.links.setdefault(step, real)

    def _interpreters(self, real: str) -> list[str]:
        """Return the programs that the script's first line names."""
        try:
            with open(real, "rb") as file:
                first = file.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
        except OSError:
            return []
        if not first.startswith(b"#!"):
            return []
        words = os.fsdecode(first[2:]).split()
        if words and words[0] in _ENV:
            names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
            found = shutil.which(names[0], path=self._search) if names else None
            return [os.path.abspath(found)] if found else []
        return words[:1] if words and os.path.isabs(words[0]) else []


def package_of(path: str) -> str:
    """The directory that makes up the program at `path`, or the file alone.

    `.../node_modules`, a virtual environment, or a prefix with `bin/` that holds nothing else.
    """
    parts = path.split("/")
    if "node_modules" in parts:
        return _part_of(path, "/".join(parts[: parts.index("node_modules") + 1]))
    directory = os.path.dirname(path)
    prefix = os.path.dirname(directory)
    if os.path.basename(directory) == "bin" and _is_prefix(prefix):
        return _part_of(path, prefix)
    return path


def _is_prefix(directory: str) -> bool:
    """Whether a directory was made by one installation: a venv, or an interpreter's own prefix."""
    if os.path.exists(os.path.join(directory, "pyvenv.cfg")):
        return True
    return os.path.isdir(os.path.join(directory, "lib")) and (
        os.path.isdir(os.path.join(directory, "include"))
        or os.path.isdir(os.path.join(directory, "lib", "node_modules"))
    )


def _part_of(path: str, directory: str) -> str:
    return path if _holds_more(directory) else directory


def _holds_more(directory: str) -> bool:
    """Whether a directory is the human's home, a shared part of it, or above one."""
    home = os.path.realpath(os.path.expanduser("~"))
    shared = [home, *(os.path.join(home, name) for name in (".local", ".config", ".cache"))]
    inside = os.path.realpath(directory) + "/"
    return inside == "//" or any((known + "/").startswith(inside) for known in shared)


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Drop what lies below another of the paths; shortest first."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda item: (item.count("/"), item)):
        if not any(path.startswith(above.rstrip("/") + "/") for above in kept):
            kept.append(path)
    return tuple(kept)
