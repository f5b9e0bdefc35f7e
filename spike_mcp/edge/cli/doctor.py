"""`spike doctor`: what this machine can do for a spike, and the remedy for what it can't."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import NamedTuple

from spike_mcp.core.codes import Exit, Problem
from spike_mcp.edge.cli.context import Context
from spike_mcp.edge.cli.layout import pad, wrap
from spike_mcp.edge.cli.out import Answer, Line
from spike_mcp.edge.cli.verbs import Command
from spike_mcp.edge.find import spikes_home

_OLDEST_GIT = (2, 32)
_PACKAGES = ("mcp", "pygit2", "unidiff", "cryptography", "anyio", "textual")
_COLUMN = 14


class Finding(NamedTuple):
    """One thing looked at. `level`: ok, warn (a spike works, but weaker) or bad (it does not)."""

    name: str
    level: str
    detail: str
    remedy: str = ""

    def to_dict(self) -> dict[str, str]:
        """For scripts."""
        return self._asdict()


def _doctor(context: Context) -> Answer:
    found = [finding for look in LOOKS for finding in look(context.environ)]
    missing = [finding.name for finding in found if finding.level == "bad"]
    bad = bool(missing)
    said = f"no spike runs here without {', '.join(missing)}" if bad else "spikes can run here"
    data = {"ok": not bad, "findings": [finding.to_dict() for finding in found]}
    code = Exit.REFUSED if bad else Exit.OK
    return Answer(data, _lines(found, context.out.width), code, after=[said])


def _lines(found: list[Finding], width: int) -> Iterator[Line]:
    styles = {"ok": "green", "warn": "yellow", "bad": "alarm"}
    room = width - _COLUMN - 8 if width else 0
    for finding in found:
        first, *rest = wrap(finding.detail, room)
        yield [(pad(finding.level, 6), styles[finding.level]), pad(finding.name, _COLUMN), first]
        yield from (" " * (_COLUMN + 6) + line for line in rest)
        if finding.remedy:
            yield from (
                " " * (_COLUMN + 6) + line for line in wrap(f"remedy: {finding.remedy}", room)
            )


# --- what is looked at --------------------------------------------------------------------------


def _python(_environ: Mapping[str, str]) -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("python", "ok", f"{version} at {sys.executable}")
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            if name == "textual":
                yield Finding(
                    "textual",
                    "warn",
                    "not installed: `spike review` works with --plain only",
                    "pip install 'spike-referee[review]'",
                )
            else:
                yield Finding(name, "bad", "not installed", "pip install spike-referee")
    yield Finding("packages", "ok", ", ".join(found))


def _git(_environ: Mapping[str, str]) -> Iterator[Finding]:
    remedy = "install git 2.32 or newer"
    try:
        done = subprocess.run(
            ["git", "--version"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL
        )
        text = done.stdout.decode("ascii", "replace").removeprefix("git version ").strip()
        version = tuple(int(part) for part in text.split()[0].split(".")[:2])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        yield Finding("git", "bad", "git does not run", remedy)
        return
    if version < _OLDEST_GIT:
        yield Finding("git", "bad", f"{text} is too old", remedy)
    else:
        yield Finding("git", "ok", text)


def _sandbox(_environ: Mapping[str, str]) -> Iterator[Finding]:
    """bubblewrap itself, then what its self-test finds from inside."""
    from spike_mcp.host.sandbox import find_bwrap, self_test

    try:
        bwrap = find_bwrap()
        yield Finding("bubblewrap", "ok", f"{bwrap.text} at {bwrap.path}")
    except Problem as problem:
        yield Finding("bubblewrap", "bad", problem.message, problem.hint)
        return
    try:
        report = self_test()
    except Problem as problem:
        yield Finding("sandbox", "bad", problem.message, problem.hint)
        return
    weak = report.memory != "cgroup" and os.geteuid() == 0
    detail = "; ".join(line.strip() for line in report.lines()[1:])
    yield Finding(
        "sandbox",
        "warn" if weak else "ok",
        detail,
        "run as an ordinary user: limits bind root less" if weak else "",
    )


def _user(_environ: Mapping[str, str]) -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield Finding("user", "warn", "running as root", "run it as an ordinary user")
    else:
        yield Finding("user", "ok", f"uid {os.geteuid()}")


def _home(environ: Mapping[str, str]) -> Iterator[Finding]:
    home = spikes_home(environ)
    above = home
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    if os.access(above, os.W_OK | os.X_OK):
        yield Finding("spikes", "ok", f"kept in {home}")
    else:
        remedy = "set $SPIKE_HOME to a directory that you can write"
        yield Finding("spikes", "bad", f"{home} can't be written", remedy)


def _clients(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Agent clients in PATH: their versions, and what each would still offer (spec 14)."""
    from spike_mcp.edge.clients.installed import find, too_old_node

    found = find(environ)
    for each in found:
        remedy = "" if each.held else "look at its list of tools first, or use `spike run`"
        yield Finding(each.client.name, "ok" if each.held else "warn", each.about(), remedy)
    for name, needed in too_old_node(found, environ):
        yield Finding(name, "warn", f"needs node {needed} or newer", f"install node {needed}")
    if not found:
        yield Finding("clients", "ok", "no agent client that is known here is in your PATH")


LOOKS: tuple[Callable[[Mapping[str, str]], Iterator[Finding]], ...] = (
    _python,
    _git,
    _sandbox,
    _user,
    _home,
    _clients,
)
"""What `doctor` looks at, in order; a new look is one more function here."""

COMMANDS = {
    "doctor": Command(
        _doctor,
        usage=("",),
        description="""
Looks at python, git, bubblewrap and the sandbox (by trying, from inside, what it must refuse),
at the user it runs as, at the place where spikes are kept and at the agent clients in your PATH:
which versions are known to hold, and which tools of its own each would still offer. What is
missing comes with its remedy.
""",
        exits=(("78", "something that a spike needs is missing"),),
        examples=(("spike doctor", "first thing on a new machine"),),
    )
}
