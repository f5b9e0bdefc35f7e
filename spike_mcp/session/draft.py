"""What `spike init` was asked for, checked before anything is made (spec 4)."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spike_mcp.core import layout
from spike_mcp.core.budgets import Budgets
from spike_mcp.core.codes import Isolation, Problem, Refusal, Usage
from spike_mcp.core.contract import Hypothesis, Measurement, check_name
from spike_mcp.core.paths import RepoPath, check_pattern
from spike_mcp.core.unsafe import quoted
from spike_mcp.core.vectors import parse as parse_vectors
from spike_mcp.host.git import PathState, Repository, discover
from spike_mcp.host.resolve import resolve


@dataclass(frozen=True)
class InitOptions:
    """What the human asked for. `budgets` holds explicit values only (`total` from --minutes)."""

    name: str
    hypothesis: str
    allow: tuple[str, ...]
    oracle: tuple[str, ...]
    cwd: Path
    include: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    budgets: Mapping[str, float] = field(default_factory=dict)
    root: Path | None = None
    setup: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    isolation: str = Isolation.NAMESPACES.value
    unprotect: tuple[str, ...] = ()
    vectors: Path | None = None
    hidden: Mapping[str, Path] = field(default_factory=dict)
    negative_controls: Mapping[str, Path] = field(default_factory=dict)
    accept_collection_error: bool = False
    allow_control: bool = False
    passphrase: str | None = None


@dataclass(frozen=True)
class Draft:
    """Everything that was parsed before anything is made."""

    options: InitOptions
    repository: Repository
    hypothesis: Hypothesis
    measurement: Measurement
    budgets: Budgets
    oracle: tuple[RepoPath, ...]
    include: tuple[RepoPath, ...]
    environment: tuple[str, ...]
    vectors: bytes
    hidden: Mapping[str, bytes]
    controls: Mapping[str, bytes]
    root: Path


def spikes_home() -> Path:
    """`$SPIKE_HOME` or `~/.spikes`."""
    given = os.environ.get("SPIKE_HOME")
    return Path(given) if given else Path.home() / ".spikes"


def default_root(toplevel: str, name: str) -> Path:
    """`<home>/<repo>-<hash6>/<name>`; the hash is over the repository's real path (spec 3)."""
    real = os.path.realpath(toplevel)
    short = hashlib.sha256(os.fsencode(real)).hexdigest()[:6]
    return spikes_home() / f"{os.path.basename(real)}-{short}" / name


def parse(options: InitOptions) -> Draft:
    """Check all that can be checked before anything is made; `Problem` for what does not fit."""
    name = check_name(options.name)
    repository = discover(options.cwd)
    _check_text(repository)
    budgets = Budgets.of(options.budgets)
    hypothesis = Hypothesis.parse(options.hypothesis, budgets.total, options.argv)
    if not hypothesis.argv:
        raise Problem(
            Usage.INVALID_CONTRACT,
            "there is no measurement command",
            'say "..., measured by COMMAND" in the hypothesis, or give it after --',
        )
    if not options.oracle or not options.allow:
        missing = "--oracle" if not options.oracle else "--allow"
        raise Problem(Usage.INVALID_CONTRACT, f"{missing} is missing", "`spike init --help`")
    include = tuple(RepoPath.parse(_inside(repository, p)) for p in options.include)
    oracle = tuple(RepoPath.parse(_inside(repository, p)) for p in options.oracle)
    _check_oracle(repository, oracle, include)
    _check_unprotected(options, oracle)
    environment = _environment(repository, options, include)
    root = Path(os.path.abspath(options.root or default_root(repository.toplevel, name)))
    _check_root(root, repository)
    vectors = _read(options.vectors) if options.vectors else b""
    if vectors:
        parse_vectors(vectors.decode("utf-8", "replace"))
    hidden = {_name(n): _read(f) for n, f in options.hidden.items()}
    controls = {_name(n): _read(f) for n, f in options.negative_controls.items()}
    measurement = Measurement.of(hypothesis.argv)
    if not options.setup:
        resolve(measurement.argv, Path(repository.toplevel), os.environ)
    return Draft(
        options,
        repository,
        hypothesis,
        measurement,
        budgets,
        oracle,
        include,
        environment,
        vectors,
        hidden,
        controls,
        root,
    )


def _check_text(repository: Repository) -> None:
    """The contract is UTF-8, and names the checkout and its git directory."""
    for path in (repository.toplevel, repository.common):
        try:
            path.encode()
        except UnicodeEncodeError:
            raise Problem(
                Usage.UNSUPPORTED_REPOSITORY,
                f"the repository's path is not UTF-8: {quoted(path)}",
                "rename the directory, or open the spike in a clone elsewhere",
            ) from None


def _inside(repository: Repository, raw: str) -> str:
    """A repository path; an absolute path of the checkout is taken too."""
    if os.path.isabs(raw):
        return os.path.relpath(os.path.realpath(raw), repository.toplevel)
    return raw.removeprefix("./")


def _name(raw: str) -> str:
    return RepoPath.parse(raw).text


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Problem(
            Usage.INVALID_CONTRACT, f"{file} can't be read: {error.strerror}", "check the path"
        ) from error


def _check_oracle(
    repository: Repository, oracle: Sequence[RepoPath], include: Sequence[RepoPath]
) -> None:
    for path in oracle:
        if path in include:
            continue
        state = repository.path_state(path)
        if state is PathState.CLEAN:
            continue
        words = {
            PathState.MODIFIED: "has changes that are not committed",
            PathState.UNCOMMITTED: "is not committed",
            PathState.DELETED: "is deleted in the checkout",
            PathState.MISSING: "does not exist",
            PathState.NO_FILE: "is no file",
        }
        raise Problem(
            Usage.ORACLE_NOT_COMMITTED,
            f"the oracle {path} {words[state]}",
            f"commit it, or take it into the baseline as it is: --include {path}",
        )


def _check_unprotected(options: InitOptions, oracle: Sequence[RepoPath]) -> None:
    for pattern in map(check_pattern, options.unprotect):
        if any(pattern == path.text for path in oracle):
            raise Problem(
                Usage.INVALID_CONTRACT,
                f"{pattern} is the oracle: nothing can unprotect it",
                "leave --unprotect out; what defines success stays as it is",
            )


def _environment(
    repository: Repository, options: InitOptions, include: Sequence[RepoPath]
) -> tuple[str, ...]:
    """Directories that setup makes: outside the diff, so nothing of the baseline may be there."""
    found = []
    for raw in options.environment:
        path = RepoPath.parse(raw.removeprefix("./").removesuffix("/"))
        below = any(each.text.startswith(path.text + "/") for each in include)
        if below or path.text == ".git" or repository.git.entry(repository.head, path.text):
            raise Problem(
                Usage.INVALID_CONTRACT,
                f"--environment {path} is part of the repository",
                "name a directory that setup makes, such as .venv/ or node_modules/",
            )
        found.append(path.text + "/")
    return tuple(found)


def _check_root(root: Path, repository: Repository) -> None:
    real = os.path.realpath(root)
    if real == repository.toplevel or real.startswith(repository.toplevel + os.sep):
        raise Problem(
            Usage.USAGE,
            "the spike's directory can't be inside the repository",
            "leave --root out, or name a directory elsewhere",
        )
    for above in Path(real).parents:
        # In work/ it would be a change from outside, in judge/ a stranger among sealed things.
        if (above / layout.JUDGE / layout.LEDGER).is_file():
            raise Problem(
                Usage.USAGE,
                f"the spike's directory can't be inside another spike's, {above}",
                "leave --root out, or name a directory elsewhere",
            )
    try:
        filled = root.exists() and (not root.is_dir() or any(root.iterdir()))
    except OSError as error:
        raise unwritable(root, error) from error
    if filled:
        raise taken(root)


def taken(root: Path) -> Problem:
    """The refusal of a directory where something is already."""
    return Problem(
        Usage.SPIKE_EXISTS,
        f"there is a spike (or something else) at {root}",
        "choose another name; `spike rm` archives a closed spike",
    )


_NO_PLACE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENXIO}
)
"""Reasons why no directory can have this path, whoever asks."""


def unwritable(root: Path, error: OSError) -> Problem:
    """The refusal of a place where no directory can be made, and whose fault it is."""
    if error.errno in _NO_PLACE:
        message = f"{root} can't be a directory: {error.strerror}"
        return Problem(Usage.USAGE, message, "name another place with --root or $SPIKE_HOME")
    return Problem(
        Refusal.STORAGE_FULL,
        f"{root} can't be made: {error.strerror}",
        "free space or make it writable; $SPIKE_HOME or --root name another place",
    )
