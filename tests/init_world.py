"""A user's repository and `spike init` in it: what a refused one must leave untouched."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from refusal_world import CLI, Told, check_told, command, run_json
from support import PLAIN, PLAIN_HYPOTHESIS, git, make_repo, snapshot

FULL_FORM = "reading the lines makes the sample green within {} minutes, measured by {}"
CHECK = ("sh", "check.sh")
ORACLE = "tests/test_oracle.py"
CODES = {"usage": 64, "invalid_contract": 64, "oracle_not_committed": 64, "spike_exists": 64}
CODES |= {"not_a_repository": 64, "unsupported_repository": 64, "spike_not_found": 69}


def words(
    *more: str | bytes,
    name: str = "new",
    hypothesis: str | bytes | None = PLAIN_HYPOTHESIS,
    allow: tuple[str, ...] = ("src/",),
    oracle: tuple[str, ...] = (ORACLE,),
    argv: tuple[str, ...] = CHECK,
) -> tuple[Any, ...]:
    """A command line of `spike init`."""
    said = () if hypothesis is None else ("--hypothesis", hypothesis)
    lists = [w for path in allow for w in ("--allow", path)]
    lists += [w for path in oracle for w in ("--oracle", path)]
    return ("init", name, *said, *lists, *more, *(("--", *argv) if argv else ()))


class Place:
    """A directory with the user's repository, a home, and nothing else."""

    def __init__(self, base: Path, files: dict[str, Any] | None = None, name: str = "repo") -> None:
        self.base = base
        self.home = base / "home"
        self.home.mkdir(parents=True)
        self.spikes = base / "spikes"
        self.repo = make_repo(base / name, {**PLAIN, **(files or {})})
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("SPIKE", "GIT_"))},
            "HOME": str(self.home),
            "SPIKE_HOME": str(self.spikes),
            "PATH": "/usr/bin:/bin",
        }

    def init(self, *line: Any, cwd: Path | None = None, **environ: str) -> Told:
        """Run a command line of `words`."""
        return command(*line, cwd=cwd or self.repo, env={**self.environ, **environ})

    def refused(
        self, code: str, line: tuple[Any, ...], cwd: Path | None = None, **environ: str
    ) -> Told:
        """It must be refused with `code`, and everything below `base` be as it was."""
        before = snapshot(self.base)
        told = self.init(*line, cwd=cwd, **environ)
        after = snapshot(self.base)
        different = [k for k in {*before, *after} if before.get(k) != after.get(k)]
        assert not different, (told, different)
        check_told(Told(told.code, told.message, told.hint), code)
        assert told.exit == CODES.get(code, 70 if code == "git_failed" else 78), told
        return told

    def opened(self, line: tuple[Any, ...], cwd: Path | None = None) -> dict[str, Any]:
        """It must succeed; the user's checkout, index, refs and config stay as they are."""
        before = self.users()
        code, told = run_json(*line, cwd=cwd or self.repo, env=self.environ)
        assert code == 0, told
        assert self.users() == before
        return told

    def users(self) -> dict[str, Any]:
        """What of the repository a spike must never touch."""
        own = ("worktrees", "objects", "refs/heads/spike", "logs/refs/heads/spike")
        found = snapshot(self.repo, skip=[f".git/{name}" for name in own])
        # Directories: an entry more changes none of what they hold for the user.
        return {k: v for k, v in found.items() if v[1] or not k.startswith(".git/")}

    def spike(self, root: str, *argv: str) -> tuple[int, dict[str, Any]]:
        """A command on the spike at `root`."""
        return run_json("--spike", root, *argv, cwd=self.base, env=self.environ)

    def git(self, *arguments: str) -> str:
        """The user's own git."""
        return git(self.repo, *arguments).strip()


def within(mount: str, *line: Any, place: Place) -> tuple[Told, list[str]]:
    """`spike init` where $SPIKE_HOME is a file system of its own (options `mount`).

    Also returns what is left below it. In a mount namespace: it ends with the command.
    """
    place.spikes.mkdir(exist_ok=True)
    script = (
        'mount -t tmpfs -o "$0" none "$SPIKE_HOME" || exit 99\n'
        '"$@"\ncode=$?\nfind "$SPIKE_HOME" -mindepth 1 >&2\nexit $code\n'
    )
    own = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    at = line.index("--")
    argv = [*CLI, *line[:at], "--json", *line[at:]]
    done = subprocess.run(
        ["unshare", *own, "sh", "-c", script, mount, *argv],
        cwd=place.repo,
        env=place.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    left = [line for line in done.stderr.splitlines() if line.startswith(str(place.spikes))]
    error = json.loads(done.stdout).get("error", {})
    told = Told(error.get("code", ""), error.get("message", ""), error.get("hint", ""))
    return Told(told.code, told.message, told.hint, done.returncode), left


def can_mount() -> bool:
    """Whether this user may make a mount namespace."""
    own = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    return subprocess.run(["unshare", *own, "true"], capture_output=True).returncode == 0
