"""A whole spike by the real command line and the real server, on whatever repository there is."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from init_world import Place, words
from refusal_world import CLI, Told, answered, run_json
from support import git, snapshot
from wire import Wire

TAG = "rewriting the sample lines"
_OWN = ("worktrees", "objects", "refs/heads/spike", "logs/refs/heads/spike")


@dataclass
class Story:
    """One spike from init to rm. `cwd`: the user's checkout; `common`: its git directory.

    `also`: other directories of the user's that must stay as they are.
    """

    place: Place
    cwd: Path
    also: tuple[Path, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.head = self.git("rev-parse", "HEAD")
        common = self.git("rev-parse", "--path-format=absolute", "--git-common-dir")
        self.common = Path(common)
        self.before = self._users()
        self.made = self._open()
        self.root, self.work = Path(self.made["root"]), Path(self.made["work"])
        self.environ = {name: self.place.environ[name] for name in ("HOME", "PATH", "SPIKE_HOME")}
        self.server: Wire | None = None

    def _open(self) -> dict[str, Any]:
        line = words(*self.more, **self.options)
        at = line.index("--")
        done = subprocess.run(
            [*CLI, *line[:at], "--json", *line[at:]],
            cwd=self.cwd,
            env=self.place.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.progress = done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def git(self, *arguments: str) -> str:
        """The user's own git in the user's own checkout."""
        return git(self.cwd, *arguments).strip()

    def human(self, *argv: str) -> dict[str, Any]:
        """A `spike` command that must succeed."""
        words = ("--spike", str(self.root), *argv)
        code, told = run_json(*words, cwd=self.cwd, env=self.place.environ)
        assert code == 0, (argv, told)
        return told

    def agent(self, tool: str, **arguments: Any) -> Told:
        """A tools/call; the server is started at the first one."""
        if self.server is None:
            self.server = Wire(self.root, env=self.environ)
        return answered(self.server, tool, arguments)

    def edit(self, old: str, new: str, path: str = "src/a.py") -> Told:
        """`spike_edit_file`."""
        why = "the sample file turns green"
        return self.agent("spike_edit_file", path=path, old_text=old, new_text=new, rationale=why)

    # --- the acts -------------------------------------------------------------------------------

    def start(self) -> None:
        """Red twice."""
        self.human("start")

    def fix(self, old: str = "two\n", new: str = "GREEN\n", path: str = "src/a.py") -> None:
        """The edit that turns the measurement green."""
        told = self.edit(old, new, path)
        assert told.code == "", told

    def ship(self) -> dict[str, Any]:
        """Measure, approve, judge, commit; then look at everything. Returns result.json."""
        told = self.agent("spike_run_test")
        assert " green" in told.message, told
        for hunk in self.human("map")["hunks"]:
            self.human("approve", hunk["id"], "--tag", TAG)
        assert self.human("check")["decision"] == "explained"
        result = self.human("verdict")
        assert (result["decision"], result["written"]) == ("SHIP", True), result
        commit = self.human("ship")["commit"]
        if self.server is not None:
            with self.server as server:
                assert server.close() == 0
        self._check_commit(commit, result)
        assert self._users() == self.before
        assert self.human("verify")["ok"]
        return result

    def _check_commit(self, commit: str, result: dict[str, Any]) -> None:
        assert self.git("rev-parse", "spike/new") == commit
        (parent,) = self.git("rev-list", "--parents", "-1", commit).split()[1:]
        assert parent == result["baseline"]
        tree = self.git("rev-parse", f"{commit}^{{tree}}")
        assert tree == result["scored_tree"]
        stored = json.loads((self.root / "verdict/result.json").read_bytes())
        assert stored["scored_tree"] == tree
        assert self._applied(parent) == tree

    def _applied(self, baseline: str) -> str:
        """The tree that `git apply` of ship.patch makes of the baseline, in an index of its own."""
        patch = self.root / "verdict/ship.patch"
        index = {**os.environ, "GIT_INDEX_FILE": str(self.place.base / "index-of-the-test")}

        def run(*arguments: str) -> str:
            done = subprocess.run(
                ["git", "-C", str(self.cwd), *arguments], env=index, capture_output=True, check=True
            )
            return done.stdout.decode().strip()

        run("read-tree", baseline)
        run("apply", "--cached", str(patch))
        return run("write-tree")

    def remove(self) -> None:
        """Merge and `spike rm`: nothing of the spike is left in the repository."""
        self.git("merge", "-q", "--no-ff", "-m", "the spike", "spike/new")
        self.human("rm")
        assert not self.root.exists()
        assert self.git("branch", "--list", "spike/*") == ""
        assert str(self.work) not in self.git("worktree", "list")

    def _users(self) -> dict[str, Any]:
        """What is the user's: checkouts, index, refs, config, stash; not objects and our branch."""
        found: dict[str, Any] = {}
        for top in (self.cwd, self.common, *self.also):
            skip = [f"{at}{name}" for at in ("", ".git/") for name in _OWN]
            kept = snapshot(top, skip=skip if top == self.common else skip[len(_OWN) :])
            found |= {f"{top}/{k}": v for k, v in kept.items() if v[1] or not _is_git(top, k)}
        return found


def _is_git(top: Path, name: str) -> bool:
    """Directories of git's: one entry more or less in them tells nothing by itself."""
    return top.name == ".git" or name.startswith(".git/") or top.suffix == ".git"


def tell(story: Story, old: str = "two\n", new: str = "GREEN\n") -> dict[str, Any]:
    """From start to rm with one edit of src/a.py."""
    story.start()
    story.fix(old, new)
    result = story.ship()
    story.remove()
    return result


def fast_import(repo: Path, paths: Iterable[str], content: bytes = b"x = 1\n") -> None:
    """Add these files to the branch main, without writing them to the checkout."""
    parts = [b"blob\nmark :1\ndata %d\n%s\n" % (len(content), content)]
    parts.append(b"commit refs/heads/main\ncommitter T <t@example.test> 1700000000 +0000\n")
    parts.append(b"data 4\nmany\nfrom refs/heads/main^0\n")
    parts += [b"M 100644 :1 %s\n" % path.encode() for path in paths]
    done = subprocess.run(
        ["git", "-C", str(repo), "fast-import", "--quiet", "--force"],
        input=b"".join(parts),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
