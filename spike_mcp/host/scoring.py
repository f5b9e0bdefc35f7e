"""The fresh scoring copy: baseline + exactly the approved content, made anew for each verdict.

Never the tree that the agent used (spec 11): every baseline byte that is copied out of `work/` is
compared with the manifest's digest while it is copied, so a change made meanwhile ends the copy
instead of being scored. No bytecode, no cache, no dropping gets in: only what the manifest names.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.paths import RepoPath
from spike_mcp.host import handles
from spike_mcp.host.files import Blobs, storage_errors
from spike_mcp.host.manifest import Entry, Manifest
from spike_mcp.host.worktree import Worktree

PREFIX = ".scoring-"
_LONGEST = 1 << 40


@contextmanager
def scoring_copy(
    root: Path,
    worktree: Worktree,
    manifest: Manifest,
    blobs: Blobs,
    changed: Mapping[str, tuple[bytes | None, int]],
) -> Iterator[Path]:
    """A directory below `root` that holds the tree to be scored; gone afterwards.

    `changed`: path -> (approved content or None, st_mode). Raises `Problem(OUT_OF_BAND_CHANGE)`
    when a file of work/ is not the baseline's, `Problem(STORAGE_FULL)`.
    """
    remove_leftovers(root)
    with storage_errors():
        target, held = _made(root)
    try:
        with storage_errors():
            _fill(target, worktree, manifest, blobs, changed)
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)
        os.close(held)


def _made(root: Path) -> tuple[Path, int]:
    """A new directory and a descriptor that holds its lock; the kernel lets go of it for the dead.

    Somebody who clears up may have had the lock in the instant before us, and the directory too.
    """
    while True:
        target = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        held = _locked(target)
        if held is not None:
            if target.exists():
                return target, held
            os.close(held)


def remove_leftovers(root: Path) -> None:
    """Remove copies that killed processes left, and none that another scorer is at work on."""
    for entry in os.scandir(root):
        if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        held = _locked(Path(entry.path))
        if held is not None:
            shutil.rmtree(entry.path, ignore_errors=True)
            os.close(held)


def _locked(directory: Path) -> int | None:
    """A descriptor of the directory with its lock, None where somebody else has it (or it)."""
    try:
        held = os.open(directory, handles.DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _fill(
    target: Path,
    worktree: Worktree,
    manifest: Manifest,
    blobs: Blobs,
    changed: Mapping[str, tuple[bytes | None, int]],
) -> None:
    made: set[str] = {""}
    for path, entry in manifest.under(""):
        if path in changed or entry.is_absent:
            continue
        _parents(target, path, made)
        where = _join(target, path)
        if entry.is_gitlink:
            os.makedirs(where, exist_ok=True)
        elif entry.is_symlink:
            os.symlink(_link(worktree, path, entry), where)
        else:
            _write(where, _baseline(worktree, blobs, path, entry), entry.mode)
    for path, (data, mode) in changed.items():
        if data is not None:
            _parents(target, path, made)
            _write(_join(target, path), data, mode)


def _join(target: Path, path: str) -> bytes:
    return os.path.join(os.fsencode(target), path.encode("utf-8", "surrogateescape"))


def _parents(target: Path, path: str, made: set[str]) -> None:
    parent = path.rpartition("/")[0]
    if parent not in made:
        os.makedirs(_join(target, parent), exist_ok=True)
        made.add(parent)


def _write(where: bytes, data: bytes, mode: int) -> None:
    with open(where, "xb") as file:
        file.write(data)
    os.chmod(where, mode & 0o777)


def _baseline(worktree: Worktree, blobs: Blobs, path: str, entry: Entry) -> bytes:
    if blobs.has(entry.sha256):
        return blobs.get(entry.sha256)
    try:
        data = worktree.read(RepoPath.trusted(path), _LONGEST, linked=True)
    except Problem as problem:
        if problem.code is Refusal.WORKTREE_TAMPERED:
            raise
        raise _changed(path) from problem  # it is gone, or no file any more
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise _changed(path)
    return data


def _link(worktree: Worktree, path: str, entry: Entry) -> bytes:
    try:
        text = os.readlink(_join(Path(worktree.root), path))
    except OSError as error:
        raise _changed(path) from error
    if hashlib.sha256(text).hexdigest() != entry.sha256:
        raise _changed(path)
    return text


def _changed(path: str) -> Problem:
    return Problem(
        Refusal.OUT_OF_BAND_CHANGE,
        f"changed outside the tools: {path}",
        "`spike restore --all` puts the recorded bytes back",
    )
