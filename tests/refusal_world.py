"""A place where one request is refused, and everything that the refusal must leave as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import Open, git, make_repo, plain_options, snapshot
from wire import META, SERVER, Wire, rows

from spike_mcp.host.clock import ManualClock
from spike_mcp.session.checkpoints import checkpoint
from spike_mcp.session.opening import init
from spike_mcp.session.spike import Spike
from spike_mcp.session.starting import start

CLI = (sys.executable, "-m", "spike_mcp.edge.cli")
WHY = "rewriting the lines of the sample"
_MOVING = ("ledger.jsonl", "lock", "lock.turn", "stat-cache", "server.log")
"""Files of judge/ that may change without anything having happened to the spike."""
UNRECORDED = frozenset({"busy", "storage_full", "ledger_damaged"})
"""Refusals that need no row (spec 10)."""
EXITS = {"busy": 75, "not_authorised": 77, "internal_error": 70, "git_failed": 70}


@dataclass(frozen=True)
class Told:
    """What somebody was told: code, sentence, hint; `exit` of a command, -1 for a tool."""

    code: str
    message: str
    hint: str
    exit: int = -1


class Scene:
    """One spike, its agent's server (started when first asked), the human's command line."""

    def __init__(self, opened: Open, command: tuple[str, ...] = SERVER, words: tuple = ()) -> None:
        self.opened = opened
        self.root = opened.spike.root
        self.work, self.judge = opened.spike.work, opened.spike.judge
        self.repo = opened.repo
        self._command, self._words = command, words
        self._server: Wire | None = None

    @property
    def server(self) -> Wire:
        """The agent's server."""
        if self._server is None:
            self._server = Wire(self.root, command=self._command, words=self._words)
        return self._server

    def close(self) -> None:
        """End the server by its input's end, as a client does."""
        if self._server is not None:
            with self._server as server:
                assert server.close() == 0
            self._server = None

    # --- the two doors --------------------------------------------------------------------------

    def agent(self, tool: str, **arguments: Any) -> Told:
        """One tools/call."""
        return answered(self.server, tool, arguments)

    def edit(self, old: str, new: str, path: str = "src/a.py") -> Told:
        """`spike_edit_file`."""
        return self.agent("spike_edit_file", path=path, old_text=old, new_text=new, rationale=WHY)

    def patch(self, text: str) -> Told:
        """`spike_apply_patch`."""
        return self.agent("spike_apply_patch", patch=text, rationale=WHY)

    def write(self, path: str, content: str = "x\n", sha: str = "") -> Told:
        """`spike_write_file`."""
        more = {"expected_sha256": sha} if sha else {}
        return self.agent("spike_write_file", path=path, content=content, rationale=WHY, **more)

    def human(self, *argv: str, **options: Any) -> Told:
        """One `spike` command on this spike."""
        return command("--spike", str(self.root), *argv, **options)

    def hunks(self, state: str = "pending") -> list[str]:
        """Short ids of hunks in this state."""
        told = run_json("--spike", str(self.root), "map")[1]
        return [hunk["id"] for hunk in told["hunks"] if hunk["state"] == state]

    # --- the check ------------------------------------------------------------------------------

    def refused(
        self, code: str, act: Callable[[], Told], also: tuple[str, ...] = (), row: str = ""
    ) -> Told:
        """`act` must be refused with `code`, said properly, ledgered once, with no other effect.

        `also`: events of rows that go with it (the clock's, the sweep's). `row`: the event that
        tells the refusal where it is not `call_refused`.
        """
        before, known = self._photo(), rows(self.opened)
        told = act()
        after, fresh = self._photo(), rows(self.opened)[len(known) :]
        check_told(told, code)
        if not also:
            assert after == before, changed(before, after)
        else:
            assert after[:2] == before[:2], changed(before, after)
        mine = [r for r in fresh if r.get("code") == code and "code" in r]
        others = [r["event"] for r in fresh if r not in mine]
        assert set(others) <= set(also), fresh
        if code in UNRECORDED:
            assert mine == [], mine
        else:
            assert [r["event"] for r in mine] == [row or "call_refused"], fresh
            if "message" in mine[0]:
                assert told.message.startswith(mine[0]["message"])
        return told

    def _photo(self) -> tuple[Any, ...]:
        """work/, the user's repository, judge/ and verdict/, and the fold of the ledger."""
        state = Spike(self.root, ManualClock()).state
        fold = (state.patches, state.spans, state.files, state.decisions, state.withdrawn)
        kept = snapshot(self.judge, skip=_MOVING)
        return (
            snapshot(self.work),
            snapshot(self.repo),
            {**kept, **snapshot(self.root / "verdict")},
            (*fold, set(state.approvals), state.verdict, tuple(state.runs)),
        )


def changed(before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Any]:
    """What differs between two photos, for the message of a failing test."""
    found: list[Any] = []
    for old, new in zip(before, after, strict=True):
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += [name for name in {*old, *new} if old.get(name) != new.get(name)]
        elif old != new:
            found.append((old, new))
    return found


def check_told(told: Told, code: str) -> None:
    """A code, a sentence, a hint, the exit status that goes with the code; no traceback."""
    assert told.code == code, told
    assert told.message.strip() and told.hint.strip(), told
    # The end of a test's own output may hold one; nothing of ours ever does.
    assert "Traceback" not in told.message and "spike_mcp/" not in told.hint
    assert "\n" not in told.message, told
    if told.exit >= 0:
        assert told.exit == EXITS.get(code, 78), told


def answered(server: Wire, tool: str, arguments: Mapping[str, Any]) -> Told:
    """One tools/call on a server; the text and the machine copy must say the same."""
    reply = server.answer(server.begin(tool, **arguments))["result"]
    text, meta = reply["content"][0]["text"], reply["_meta"][META]
    if meta["outcome"] != "refused":
        return Told("", text.partition("\n")[0], "")
    lines = text.split("\n")
    assert reply["isError"] is True
    assert lines[0] == f"refused: {meta['code']}"
    assert meta["message"].partition("\n")[0] in text
    assert "remaining_seconds" in meta
    return Told(meta["code"], meta["message"], meta["hint"])


def run_json(*argv: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """One `spike` command as a process, with --json before any `--`."""
    words = [*argv]
    words.insert(words.index("--") if "--" in words else len(words), "--json")
    options = {"stdin": subprocess.DEVNULL, "timeout": 120, **options}
    done = subprocess.run([*CLI, *words], capture_output=True, check=False, **options)
    err = done.stderr.decode("utf-8", "replace")
    assert "Traceback" not in err, err
    return done.returncode, json.loads(done.stdout)


def command(*argv: str, **options: Any) -> Told:
    """One `spike` command and what it was told; code "" when it was not refused."""
    code, found = run_json(*argv, **options)
    error = found.get("error", {})
    return Told(error.get("code", ""), error.get("message", ""), error.get("hint", ""), exit=code)


def open_scene(
    tmp: Path, files: Mapping[str, str | bytes], *, started: bool = True, **more: Any
) -> Open:
    """A spike over `files` whose measurement is `sh check.sh`."""
    repo = make_repo(tmp / "repo", files)
    if "src/a.py" in files:
        (repo / "src/link.py").symlink_to("a.py")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", "a link")
    spike = init(plain_options(repo, tmp / "root", **more)).spike
    if started:
        start(spike, on_progress=lambda _text: None)
        checkpoint(spike, "start", "attempt")  # as the first write would, with a row of its own
    return Open(spike, repo)
