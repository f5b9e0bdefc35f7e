"""`spike init`: make the places of a parsed draft and seal them (spec 3, 4).

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
from dataclasses import dataclass
from pathlib import Path

from spike_mcp.core import events as ev
from spike_mcp.core import globs, layout, paths
from spike_mcp.core.codes import Actor, Isolation, Problem, Usage
from spike_mcp.core.contract import Contract
from spike_mcp.core.fingerprint import fingerprint
from spike_mcp.core.paths import RepoPath, allow_pattern, check_pattern
from spike_mcp.host import judge_dir, signing
from spike_mcp.host.baseline import record_baseline
from spike_mcp.host.clock import Clock, SystemClock
from spike_mcp.host.files import Blobs, storage_errors, write_atomic
from spike_mcp.host.git import add_worktree, remove_worktree
from spike_mcp.host.ledger import Ledger
from spike_mcp.host.manifest import Manifest
from spike_mcp.host.pointer import Pointer
from spike_mcp.host.sandbox import self_test
from spike_mcp.session import first_look
from spike_mcp.session.draft import Draft, InitOptions, parse, taken, unwritable
from spike_mcp.session.spike import Spike

__all__ = ["InitOptions", "InitResult", "Progress", "init"]

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
class InitResult:
    """The opened spike and what the human should read."""

    root: Path
    spike: Spike
    tag_tokens: tuple[str, ...]
    fingerprint: str
    warnings: tuple[str, ...]
    overridden: tuple[str, ...]


def init(
    options: InitOptions,
    on_progress: Progress = lambda _text: None,
    clock: Clock | None = None,
) -> InitResult:
    """Open a spike. Raises `Problem` with nothing left behind."""
    draft = parse(options)
    if Isolation(options.isolation) is Isolation.NAMESPACES:
        self_test()
    with storage_errors(), _made(draft, on_progress) as (pointer, manifest, baseline):
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


# --- making -------------------------------------------------------------------------------------


@contextmanager
def _made(draft: Draft, on_progress: Progress) -> Iterator[tuple[Pointer, Manifest, str]]:
    """Directories, worktree and manifest; all of it is removed again if the body fails."""
    repository, root = draft.repository, draft.root
    new = [p for p in (root, *root.parents) if not p.exists()]
    pointer: Pointer | None = None
    baseline = repository.head
    _lay_out(root, new)
    try:
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
        _unmake(root, pointer, baseline, new)
        raise


def _lay_out(root: Path, new: Sequence[Path]) -> None:
    """Make the spike's directories, or none of them; another `spike init` may be at it too."""
    try:
        judge_dir.create_layout(root)
    except FileExistsError as error:  # it is the other's: nothing of it is removed
        raise taken(root) from error
    except OSError as error:
        _remove_empty((*judge_dir.places(root)[::-1], *new))
        raise unwritable(root, error) from error


def _remove_empty(directories: Sequence[Path]) -> None:
    for directory in directories:
        with suppress(OSError):
            directory.rmdir()


def _counted(on_progress: Progress, what: str) -> Callable[[int, int], None]:
    def tell(done: int, total: int) -> None:
        if total >= 2000:
            on_progress(f"{what} {done} of {total} files")

    return tell


def _unmake(root: Path, pointer: Pointer | None, baseline: str, new: Sequence[Path]) -> None:
    """Remove all that was made; `new` are the directories that were not there before."""
    if pointer is not None:
        with suppress(Problem, OSError):
            remove_worktree(root / layout.WORK, pointer, baseline)
    for place in (*judge_dir.places(root), root / layout.WORK):
        shutil.rmtree(place, ignore_errors=True)
    _remove_empty(new)


def _seal(
    draft: Draft, pointer: Pointer, manifest: Manifest, baseline: str, clock: Clock
) -> InitResult:
    _check_unseen(draft, manifest)
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


def _check_unseen(draft: Draft, manifest: Manifest) -> None:
    """A hidden part that was committed too would be read by the agent in its worktree."""
    parts = {"--vectors": draft.vectors} if draft.vectors else {}
    parts |= {f"--hidden {name}": data for name, data in draft.hidden.items()}
    parts |= {f"--negative-control {name}": data for name, data in draft.controls.items()}
    if not parts:
        return
    digests = {hashlib.sha256(data).hexdigest(): name for name, data in parts.items()}
    for path, entry in manifest.under(""):
        if entry.sha256 in digests:
            raise Problem(
                Usage.INVALID_CONTRACT,
                f"the file of {digests[entry.sha256]} is part of the baseline: {path}",
                "the agent could read it there; keep what is to be hidden out of the commit",
            )


def _contract(
    draft: Draft, blobs: Blobs, manifest: Manifest, baseline: str, public: str
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
        environment=draft.environment,
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


def _inputs(draft: Draft, manifest: Manifest) -> list[str]:
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
