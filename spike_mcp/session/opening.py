"""`spike init`: parse everything, make the places, seal them (spec 3, 4).

Nothing half made stays: whatever was created is removed when a later step refuses.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from spike_mcp.core import events as ev
from spike_mcp.core import globs, layout, paths
from spike_mcp.core.budgets import Budgets
from spike_mcp.core.codes import Actor, Isolation, Problem, Refusal, Usage
from spike_mcp.core.contract import Contract, Hypothesis, Measurement, check_name
from spike_mcp.core.fingerprint import fingerprint
from spike_mcp.core.paths import RepoPath, allow_pattern, check_pattern
from spike_mcp.core.vectors import parse as parse_vectors
from spike_mcp.host import judge_dir, signing
from spike_mcp.host.baseline import record_baseline
from spike_mcp.host.clock import Clock, SystemClock
from spike_mcp.host.files import Blobs, write_atomic
from spike_mcp.host.git import PathState, Repository, add_worktree, discover, remove_worktree
from spike_mcp.host.ledger import Ledger
from spike_mcp.host.manifest import Manifest
from spike_mcp.host.pointer import Pointer
from spike_mcp.host.resolve import resolve
from spike_mcp.host.sandbox import self_test
from spike_mcp.session import first_look
from spike_mcp.session.spike import Spike

Progress = Callable[[str], None]

_KEPT_CONVERTED = 64 << 20
"""Bytes of converted files (eol, LFS, ...) kept in blobs: git can't give them back exactly."""

_CONFIGURATION = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"),
    *("sitecustomize.py", "usercustomize.py", ".coveragerc", "noxfile.py"),
    *("Makefile", "GNUmakefile", "package.json", ".npmrc", "package-lock.json"),
    *("go.mod", "go.sum", "Cargo.toml", "Cargo.lock", ".cargo/config.toml", "build.rs"),
)
"""Names that a runner looks for along the oracle's path; sealed as absent where they are."""


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
class InitResult:
    """The opened spike and what the human should read."""

    root: Path
    spike: Spike
    tag_tokens: tuple[str, ...]
    fingerprint: str
    warnings: tuple[str, ...]
    overridden: tuple[str, ...]


@dataclass(frozen=True)
class _Draft:
    """Everything that was parsed before anything is made."""

    options: InitOptions
    repository: Repository
    hypothesis: Hypothesis
    measurement: Measurement
    budgets: Budgets
    oracle: tuple[RepoPath, ...]
    include: tuple[RepoPath, ...]
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


def init(
    options: InitOptions,
    on_progress: Progress = lambda _text: None,
    clock: Clock | None = None,
) -> InitResult:
    """Open a spike. Raises `Problem` with nothing left behind."""
    draft = _parse(options)
    if Isolation(options.isolation) is Isolation.NAMESPACES:
        self_test()
    with _made(draft, on_progress) as (pointer, manifest, baseline):
        result = _seal(draft, pointer, manifest, baseline, clock or SystemClock())
        warnings = (*result.warnings, *first_look.dry_run(result.spike, on_progress))
    return InitResult(
        result.root,
        result.spike,
        result.tag_tokens,
        result.fingerprint,
        warnings,
        result.overridden,
    )


# --- parsing ------------------------------------------------------------------------------------


def _parse(options: InitOptions) -> _Draft:
    name = check_name(options.name)
    repository = discover(options.cwd)
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
    return _Draft(
        options,
        repository,
        hypothesis,
        measurement,
        budgets,
        oracle,
        include,
        vectors,
        hidden,
        controls,
        root,
    )


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


def _check_root(root: Path, repository: Repository) -> None:
    real = os.path.realpath(root)
    if real == repository.toplevel or real.startswith(repository.toplevel + os.sep):
        raise Problem(
            Usage.USAGE,
            "the spike's directory can't be inside the repository",
            "leave --root out, or name a directory elsewhere",
        )
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise Problem(
            Usage.SPIKE_EXISTS,
            f"there is a spike (or something else) at {root}",
            "choose another name; `spike rm` archives a closed spike",
        )


# --- making -------------------------------------------------------------------------------------


@contextmanager
def _made(draft: _Draft, on_progress: Progress) -> Iterator[tuple[Pointer, Manifest, str]]:
    """Directories, worktree and manifest; all of it is removed again if the body fails."""
    repository, root = draft.repository, draft.root
    parents = [p for p in root.parents if not p.exists()]
    pointer: Pointer | None = None
    baseline = repository.head
    try:
        try:
            judge_dir.create_layout(root)
        except OSError as error:
            raise _unwritable(root, error) from error
        if draft.include:
            named = ", ".join(path.text for path in draft.include)
            message = f"Baseline of spike {draft.options.name}\n\nIncludes {named}."
            baseline = repository.include(draft.include, message)
        on_progress("making the worktree")
        pointer = add_worktree(
            repository,
            root / layout.WORK,
            layout.branch(draft.options.name),
            baseline,
            _counted(on_progress, "checked out"),
        )
        manifest = record_baseline(
            root / layout.WORK,
            repository.git.listing(baseline),
            repository.object_format,
            root / layout.JUDGE / layout.MANIFEST,
            root / layout.JUDGE / layout.STATS,
            _counted(on_progress, "recorded"),
        )
        yield pointer, manifest, baseline
    except BaseException:
        _unmake(root, pointer, baseline, parents)
        raise


def _counted(on_progress: Progress, what: str) -> Callable[[int, int], None]:
    def tell(done: int, total: int) -> None:
        if total >= 2000:
            on_progress(f"{what} {done} of {total} files")

    return tell


def _unwritable(root: Path, error: OSError) -> Problem:
    return Problem(
        Refusal.STORAGE_FULL,
        f"{root} can't be made: {error.strerror}",
        "free space or make it writable; $SPIKE_HOME or --root name another place",
    )


def _unmake(root: Path, pointer: Pointer | None, baseline: str, parents: Sequence[Path]) -> None:
    if pointer is not None:
        with suppress(Problem, OSError):
            remove_worktree(root / layout.WORK, pointer, baseline)
    shutil.rmtree(root, ignore_errors=True)
    for parent in parents:
        with suppress(OSError):
            parent.rmdir()


def _seal(
    draft: _Draft, pointer: Pointer, manifest: Manifest, baseline: str, clock: Clock
) -> InitResult:
    root, judge = draft.root, draft.root / layout.JUDGE
    blobs = Blobs(judge / layout.BLOBS)
    public = ""
    if draft.options.passphrase is not None:
        public, secret = signing.create_key(draft.options.passphrase)
        write_atomic(judge / layout.SECRET_KEY, secret, 0o600)
    contract = _contract(draft, blobs, manifest, baseline, public)
    text = contract.to_toml()
    oracle = {path: _oracle_bytes(root, path) for path in draft.oracle}
    judge_dir.plant(judge, text, draft.hypothesis.text, oracle)
    kept = blobs.put(text)
    hidden = [contract.vectors] if contract.vectors else []
    hidden += [*contract.hidden.values(), *contract.negative_controls.values()]
    seals = judge_dir.seal(
        judge,
        argv=contract.measurement.argv,
        hypothesis=draft.hypothesis.text,
        inputs=judge_dir.input_digests(_inputs(draft, manifest), root / layout.WORK),
        hidden=hidden,
        approval_key=public,
    )
    pointer_sha = blobs.put(_json(pointer.to_json()))
    _keep_converted(root, manifest, blobs)
    ledger = Ledger(judge, blobs)
    ledger.create()
    words = fingerprint(text, public)
    row = ev.Created(
        spike_id=contract.spike_id,
        name=contract.name,
        baseline=baseline,
        fingerprint=words,
        contract=kept,
        seals=seals.digest,
        pointer=pointer_sha,
        isolation=contract.isolation.value,
        approval_key=public,
    )
    ledger.refresh(clock.read())
    ledger.append(row.NAME, ev.encode(row), Actor.HUMAN, clock.read())
    spike = Spike(root, clock)
    overrides = paths.overridden(spike.policy, manifest.names())
    overridden = tuple(f"{o.path}: {o.why}" for o in overrides)
    warnings = first_look.warnings(spike, draft.repository.submodules(baseline))
    return InitResult(root, spike, draft.hypothesis.tokens, words, warnings, overridden)


def _contract(
    draft: _Draft, blobs: Blobs, manifest: Manifest, baseline: str, public: str
) -> Contract:
    options = draft.options
    allowed = tuple(dict.fromkeys(allow_pattern(p, manifest.has_directory) for p in options.allow))
    return Contract(
        spike_id=str(uuid.uuid4()),
        name=options.name,
        hypothesis=draft.hypothesis,
        allowed=allowed,
        oracle=tuple(path.text for path in draft.oracle),
        unprotected=tuple(check_pattern(p) for p in options.unprotect),
        included=tuple(path.text for path in draft.include),
        measurement=draft.measurement,
        budgets=draft.budgets,
        baseline=baseline,
        repository=draft.repository.toplevel,
        git_dir=draft.repository.common,
        isolation=Isolation(options.isolation),
        setup=options.setup,
        environment=tuple(p.rstrip("/") + "/" for p in options.environment),
        vectors=blobs.put(draft.vectors) if draft.vectors else "",
        hidden={name: blobs.put(data) for name, data in draft.hidden.items()},
        negative_controls={name: blobs.put(data) for name, data in draft.controls.items()},
        accept_collection_error=options.accept_collection_error,
        allow_control=options.allow_control,
        approval_key=public,
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def _oracle_bytes(root: Path, path: RepoPath) -> tuple[bytes, int]:
    file = root / layout.WORK / path.text
    return file.read_bytes(), file.stat().st_mode & 0o777


def _json(value: Mapping[str, str | int]) -> bytes:
    import json

    return json.dumps(value, sort_keys=True).encode()


def _inputs(draft: _Draft, manifest: Manifest) -> list[str]:
    """Measurement inputs to seal, absent ones as absent: configuration along the oracle's path."""
    homes = {""}
    for path in draft.oracle:
        parent = path.parent
        while parent is not None:
            homes.add(parent.text + "/")
            parent = parent.parent
    wanted = {home + name for home in homes for name in _CONFIGURATION}
    oracle = {path.text for path in draft.oracle}
    protected = paths.protected_for(draft.measurement.runner, draft.measurement.argv)
    match = globs.matcher(tuple(item.pattern for item in protected))
    wanted |= {name for name in manifest.names() if match.matches(name)}
    return sorted(wanted - oracle)[:20_000]


def _keep_converted(root: Path, manifest: Manifest, blobs: Blobs) -> None:
    left = _KEPT_CONVERTED
    for path, entry in manifest.under(""):
        if not entry.converted or not entry.is_file or entry.size > left:
            continue
        data = (
            root / layout.WORK / os.fsdecode(path.encode("utf-8", "surrogateescape"))
        ).read_bytes()
        if hashlib.sha256(data).hexdigest() == entry.sha256:
            blobs.put(data)
            left -= len(data)
