"""A user's repository and the worktree of a spike in it, made with the real git."""

import hashlib
import os
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spike_mcp.core.paths import RepoPath
from spike_mcp.host.baseline import record_baseline
from spike_mcp.host.git import Repository, add_worktree, discover
from spike_mcp.host.manifest import Manifest
from spike_mcp.host.pointer import Pointer
from spike_mcp.host.sweep import Expected, Finding, Report, Sweeper
from spike_mcp.host.worktree import Worktree

WHO = {
    f"GIT_{role}_{what}": "u@example.org"
    for role in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


@dataclass
class Spike:
    """What `spike init` leaves: a worktree, its pointer, its manifest."""

    work: Path
    judge: Path
    repository: Repository
    pointer: Pointer
    manifest: Manifest

    def __post_init__(self) -> None:
        self.tree = Worktree(self.work, self.manifest)

    def sweeper(self, *environment: str) -> Sweeper:
        """A sweeper as a fresh process has it."""
        return Sweeper(self.work, self.manifest, self.judge / "stat-cache", environment)

    def report(self, expected: Expected | None = None, *environment: str) -> Report:
        """One sweep by a fresh process."""
        return self.sweeper(*environment).sweep(expected or {})

    def findings(
        self, expected: Expected | None = None, *environment: str
    ) -> list[tuple[str, str]]:
        """The findings of one sweep as plain pairs."""
        return pairs(self.report(expected, *environment).findings)


def pairs(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    """Findings as (path, what)."""
    return [(finding.path, finding.what.value) for finding in findings]


def path(text: str) -> RepoPath:
    """A repository path, any bytes."""
    return RepoPath.trusted(text)


class Checkout:
    """A repository below `base`; every git call is the user's own git, not ours."""

    def __init__(self, base: Path, *init: str) -> None:
        self.base = base
        self.repo = base / "repo"
        self.repo.mkdir()
        self.git("init", "-q", "-b", "main", *init)

    def git(self, *arguments: str, cwd: Path | None = None, check: bool = True) -> str:
        """Run git as the user; stdout as text."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.repo,
            env={**os.environ, **WHO},
            check=check,
            capture_output=True,
        )
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def write(self, files: Mapping[str, bytes | str]) -> None:
        """Write files into the checkout."""
        for name, content in files.items():
            target = self.repo / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, bytes | str] | None = None) -> str:
        """Write files, commit everything, return the commit."""
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "by the user")
        return self.git("rev-parse", "HEAD")

    def spike(self, name: str = "x", commit: str = "") -> Spike:
        """Open a worktree on spike/<name> and record its baseline."""
        root = self.base / "spikes" / name
        judge = root / "judge"
        judge.mkdir(parents=True)
        repository = discover(self.repo)
        at = commit or repository.head
        pointer = add_worktree(repository, root / "work", f"spike/{name}", at)
        manifest = record_baseline(
            root / "work",
            repository.git.listing(at),
            repository.object_format,
            judge / "baseline.manifest",
            judge / "stat-cache",
        )
        return Spike(root / "work", judge, repository, pointer, manifest)


def snapshot(directory: Path) -> dict[str, str]:
    """Every path below `directory` with mode and content: for "nothing changed"."""
    found = {}
    for folder, below, files in os.walk(directory):
        for name in [*below, *files]:
            full = os.path.join(folder, name)
            facts = os.lstat(full)
            text = f"{facts.st_mode:o}"
            if stat.S_ISLNK(facts.st_mode):
                text += " " + os.readlink(full)
            elif stat.S_ISREG(facts.st_mode):
                text += " " + hashlib.sha256(Path(full).read_bytes()).hexdigest()
            found[os.path.relpath(full, directory)] = text
    return found
