"""Which spike is meant (spec 13): --spike, else $SPIKE, else where one stands, else the only open.

A spike that is judged but neither shipped nor closed counts as open where none is running, so that
`spike verdict` and `spike ship` follow each other.

Nothing in here opens a spike: directories are looked at, and the ledger's row names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from spike_mcp.core import layout
from spike_mcp.core.codes import Problem, Usage

_ENDINGS = re.compile(rb'^\{"seq":\d+,"event":"(verdict|shipped|killed)"', re.MULTILINE)
_NAMED = 8


def spikes_home(environ: Mapping[str, str]) -> str:
    """`$SPIKE_HOME`, else `~/.spikes`."""
    given = environ.get("SPIKE_HOME", "")
    return os.path.abspath(given or os.path.expanduser("~/.spikes"))


def is_spike(root: str) -> bool:
    """Whether a directory holds a judge with a ledger."""
    return os.path.isfile(os.path.join(root, layout.JUDGE, layout.LEDGER))


def stage(root: str) -> int:
    """How far a spike has come: 0 = no verdict yet, 1 = judged, 2 = shipped or closed.

    A quick look at raw rows, good enough to choose by: whoever opens the spike reads them properly.
    """
    try:
        with open(os.path.join(root, layout.JUDGE, layout.LEDGER), "rb") as file:
            found = set(_ENDINGS.findall(file.read()))
    except OSError:
        return 2
    if found & {b"shipped", b"killed"}:
        return 2
    return 1 if found else 0


def known(environ: Mapping[str, str], cwd: str) -> list[str]:
    """Roots of all spikes under the home, and of those that the repository here has worktrees of.

    The second half finds spikes that were put elsewhere with `init --root`.
    """
    found = {*_below(spikes_home(environ)), *_worktree_roots(cwd)}
    return sorted(os.path.realpath(root) for root in found)


def locate(wanted: str, environ: Mapping[str, str], cwd: str) -> str:
    """The root that is meant; `wanted` = value of --spike or "".

    `Problem(SPIKE_NOT_FOUND)` where there is none, or more than one that fits.
    """
    wanted = wanted or environ.get("SPIKE", "")
    if wanted:
        return _named(wanted, environ, cwd)
    here = standing_in(cwd)
    if here:
        return here
    first = _foremost(known(environ, cwd))
    if len(first) == 1:
        return first[0]
    if first:
        raise _ambiguous("several spikes are open", first)
    raise Problem(Usage.SPIKE_NOT_FOUND, "there is no spike", "open one: spike init")


def standing_in(cwd: str) -> str:
    """The spike whose work/ (or another of its directories) holds `cwd`, or "".

    The outermost one: the agent writes inside work/, and what it could put there must not pass for
    a judge.
    """
    if not cwd:
        return ""
    parts = cwd.split(os.sep)
    above = (os.sep.join(parts[:end]) for end in range(2, len(parts) + 1))
    return next((root for root in above if is_spike(root)), "")


def _named(wanted: str, environ: Mapping[str, str], cwd: str) -> str:
    path = os.path.abspath(os.path.join(cwd, wanted)) if cwd else os.path.abspath(wanted)
    for root in (path, os.path.dirname(path)):
        inside = os.path.basename(path) in (layout.WORK, layout.JUDGE, layout.VERDICT, layout.AGENT)
        if is_spike(root) and (root == path or inside) and not _planted(root):
            return os.path.realpath(root)
    fitting = [root for root in known(environ, cwd) if _fits(root, wanted)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise _ambiguous(f"several spikes are called {wanted}", fitting)
    raise Problem(
        Usage.SPIKE_NOT_FOUND,
        f"there is no spike {wanted}",
        "`spike list` shows all; --spike takes a name or the path of a spike's directory",
    )


def _planted(root: str) -> bool:
    """Whether what looks like a spike lies inside another one, where its agent may have put it.

    A name of `--spike` is tried as a path first, and who stands in work/ would find that one.
    """
    return any(standing_in(path) not in ("", path) for path in (root, os.path.realpath(root)))


def _foremost(roots: list[str]) -> list[str]:
    """The spikes that need somebody most: the running ones, else the judged ones, else all."""
    stages = [stage(root) for root in roots]
    least = min(stages, default=0)
    return [root for root, reached in zip(roots, stages, strict=True) if reached == least]


def _fits(root: str, wanted: str) -> bool:
    """NAME (its directory may be called otherwise), or as much of the path as tells two apart."""
    part = wanted.strip(os.sep)
    return bool(part) and (root.endswith(os.sep + part) or name_of(root) == part)


def name_of(root: str) -> str:
    """The name that `spike init` gave, from the ledger's first row; "" where it can't be read."""
    try:
        row = json.loads(_first_line(os.path.join(root, layout.JUDGE, layout.LEDGER)))
        return str(row["name"])
    except (ValueError, KeyError, TypeError):
        return ""


def _ambiguous(what: str, roots: Iterable[str]) -> Problem:
    listed = sorted(roots)
    shown = ", ".join(listed[:_NAMED]) + (", ..." if len(listed) > _NAMED else "")
    return Problem(
        Usage.SPIKE_NOT_FOUND, f"{what}: {shown}", "say which: --spike NAME, or --spike PATH"
    )


def _below(home: str) -> Iterator[str]:
    for folder in _folders(home):
        for root in _folders(folder):
            if is_spike(root):
                yield root


def _folders(path: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir() and not entry.name.startswith("."):
            yield entry.path


def _worktree_roots(cwd: str) -> Iterator[str]:
    """Roots of spikes among the worktrees that the repository around `cwd` names."""
    common = _common_dir(cwd)
    for folder in _folders(os.path.join(common, "worktrees")) if common else ():
        pointed = _first_line(os.path.join(folder, "gitdir"))
        work = os.path.dirname(os.path.abspath(os.path.join(folder, pointed))) if pointed else ""
        root = os.path.dirname(work)
        if os.path.basename(work) == layout.WORK and is_spike(root):
            yield root


def _common_dir(cwd: str) -> str:
    path = cwd
    while path:
        git = os.path.join(path, ".git")
        if os.path.isdir(git):
            return git
        pointed = _first_line(git)
        if pointed.startswith("gitdir: "):
            own = os.path.abspath(os.path.join(path, pointed.removeprefix("gitdir: ")))
            common = _first_line(os.path.join(own, "commondir"))
            return os.path.abspath(os.path.join(own, common))
        above = os.path.dirname(path)
        path = "" if above == path else above
    return ""


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(1 << 14).rstrip("\n")
    except (OSError, ValueError):
        return ""
