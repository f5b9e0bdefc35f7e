"""The command as a process: signals, pipes, what it loads, passphrases, deadlines."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_desk import INIT, spike, valid
from late_clock import put_forward
from support import Open, open_plain

from spike_mcp.core.clock import Reading
from spike_mcp.edge.cli import app, failures
from spike_mcp.host.clock import SystemClock

SPIKE = [sys.executable, "-m", "spike_mcp.edge.cli"]


def process(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A command of its own."""
    options = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([*SPIKE, *argv], **options)  # type: ignore[call-overload,no-any-return]


# --- what it loads ------------------------------------------------------------------------------

_LOADED = """
import json, sys
from spike_mcp.edge.cli import main
sys.stdout = open({quiet!r}, "w")
code = main({argv!r})
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""
HEAVY = {"mcp", "pydantic", "pygit2", "textual", "cryptography", "unidiff", "anyio", "asyncio"}


def loaded(*argv: str) -> set[str]:
    """Names of the modules that a verb loads."""
    code = _LOADED.format(quiet=os.devnull, argv=list(argv))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    status, names = json.loads(done.stderr.splitlines()[-1])
    assert status == 0, done.stderr
    return {name.partition(".")[0] for name in names} | {
        name for name in names if name.startswith("spike_mcp.")
    }


def test_status_loads_nothing_of_weight(started: Open) -> None:
    started.edit("src/a.py", "two\n", "GREEN\n")
    found = loaded("status")
    assert not found & HEAVY
    assert not found & {"subprocess", "shutil", "tempfile", "importlib.metadata", "pathlib2"}
    for gate in ("core.decide", "core.requests", "core.patches", "session.transaction"):
        assert f"spike_mcp.{gate}" not in found, gate


@pytest.mark.parametrize(
    "argv", [["--help"], ["approve", "--help"], ["list"], ["log"], ["completion", "bash"]]
)
def test_no_verb_that_looks_loads_the_server_or_the_screen(started: Open, argv: list[str]) -> None:
    assert not loaded(*argv) & {"mcp", "pydantic", "textual", "anyio"}


# --- streams and signals ------------------------------------------------------------------------


def test_a_reader_that_leaves_ends_it_like_sigpipe(started: Open) -> None:
    with subprocess.Popen([*SPIKE, "log"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 141


def test_a_full_disk_or_a_closed_stdout_is_no_traceback(started: Open) -> None:
    with open("/dev/full", "wb") as full:
        done = process("status", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 70 and done.stderr.startswith("error internal_error: ")
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *SPIKE, "status"], capture_output=True, timeout=60
    )
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_a_terminal_that_can_not_show_a_character_gets_its_escape(started: Open) -> None:
    started.edit("src/a.py", "two\n", "\u6f22 GREEN\n")
    done = process("map", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "\\u6f22 GREEN" in done.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_ends_it_with_128_and_its_number(
    place: Path, number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = open_plain(place, files={**_PLAIN_SLOW}, argv=("sh", "check.sh"))
    monkeypatch.setenv("SPIKE", str(made.spike.root))
    made.edit("src/a.py", "two\n", "slow\n")
    with subprocess.Popen(
        [*SPIKE, "test", "--tree", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as run:
        for _ in range(200):
            if made.spike.refresh().open_run is not None:
                break
            time.sleep(0.05)
        run.send_signal(number)
        out, err = run.communicate(timeout=30)
    assert run.returncode == code, err
    assert json.loads(out)["error"]["code"] == failures.INTERRUPTED
    assert "Traceback" not in err
    assert spike("check").code == 1
    assert made.spike.refresh().open_run is None


_PLAIN_SLOW = {
    "src/a.py": "one\ntwo\n",
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": "if grep -q slow src/a.py; then sleep 60; fi\ngrep -q GREEN src/a.py\n",
}


def test_run_ends_as_the_agent_did_or_with_71_if_there_was_none(started: Open) -> None:
    done = process("run", "--", "sh", "-c", "exit 7", stdin=subprocess.DEVNULL)
    assert done.returncode == 7, done.stderr
    none = process("run", "--", "/no/such/agent", stdin=subprocess.DEVNULL)
    assert none.returncode == 71 and "Traceback" not in none.stderr
    judged = process("run", "--exit", "verdict", "--", "true", stdin=subprocess.DEVNULL)
    assert judged.returncode == 10, judged.stderr


def test_an_unplanned_error_leaves_a_log_and_exits_70(
    opened: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_words: object, _out: object) -> int:
        raise RuntimeError("secret\x1b[2J of the inside")

    monkeypatch.setattr(app, "_dispatch", broken)
    assert app.run(["status"]) == 70
    told = capsys.readouterr()
    assert told.out == "" and "secret" not in told.err and "RuntimeError" in told.err
    path = told.err.partition("details are in ")[2].partition(";")[0]
    log = Path(path).read_text()
    assert "Traceback" in log and "secret" in log
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert app.run(["status", "--json"]) == 70
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "internal_error"


def test_a_held_lock_is_busy_with_75(started: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spike_mcp.session.transaction.HUMAN_SECONDS", 0.05)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys, time\n"
            "file = open(sys.argv[1], 'r+')\n"
            "fcntl.flock(file, fcntl.LOCK_EX)\n"
            "print('held', flush=True)\n"
            "time.sleep(60)",
            str(started.spike.judge / "lock"),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        told = spike("check", "--json")
        error = valid("check", told)["error"]
        assert (told.code, error["code"]) == (75, "busy")
        assert f"process {holder.pid} has the lock" in error["hint"]
        assert spike("status").code == 0
        holder.send_signal(signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)
        assert f"kill -CONT {holder.pid}" in spike("check").err
    finally:
        holder.kill()
        holder.wait()


# --- passphrases --------------------------------------------------------------------------------


@pytest.fixture
def signed(repo: Path, place: Path) -> Path:
    """A started spike whose decisions are signed; its root."""
    told = with_secret("open sesame\n", "init", "plain", "--json", *with_fd(INIT))
    assert told.code == 0, told.out
    assert spike("start").code == 0
    return Path(told.json["root"])


def with_fd(words: tuple[str, ...]) -> list[str]:
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--passphrase-fd", "FD", *words[at:]]


def with_secret(secret: str, *argv: str):  # type: ignore[no-untyped-def]
    """Run with `FD` standing for a descriptor that gives the secret."""
    reader, writer = os.pipe()
    os.write(writer, secret.encode())
    os.close(writer)
    try:
        return spike(*(str(reader) if word == "FD" else word for word in argv))
    finally:
        os.close(reader)


def test_decisions_of_a_signed_spike_need_the_passphrase(signed: Path, place: Path) -> None:
    patch = place / "fix.patch"
    patch.write_text("--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+GREEN\n")
    assert spike("apply", str(patch)).code == 0
    name = spike("map", "--ids").out.strip()
    approve = ["approve", name, "--tag", "rewriting the seven lines"]
    bare = spike(*approve, "--json")
    assert (bare.code, valid("approve", bare)["error"]["code"]) == (77, "not_authorised")
    wrong = with_secret("close sesame\n", *approve, "--passphrase-fd", "FD", "--json")
    assert (wrong.code, wrong.error) == (77, "not_authorised")
    assert spike(*approve, "--passphrase-fd", "999").code == 64
    assert with_secret("open sesame\n", *approve, "--passphrase-fd", "FD").code == 0
    assert spike("status", "--json").json["approval_strength"] == "signed"
    assert spike("log", "--json", "--event", "hunk_approved").json["rows"][0]["signature"]
    assert spike("check").code == 0
    assert with_secret("open sesame", "undo", "--passphrase-fd", "FD").code == 0
    assert spike("comment", spike("map", "--ids").out.strip(), "no signature for words").code == 0


def test_a_passphrase_is_asked_for_on_a_terminal_and_never_shown(signed: Path, place: Path) -> None:
    patch = place / "fix.patch"
    patch.write_text("--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+GREEN\n")
    assert spike("apply", str(patch)).code == 0
    name = spike("map", "--ids").out.strip()
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [*SPIKE, "approve", name, "--tag", "rewriting the seven lines"])
    said = b""
    while b"passphrase: " not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, b"open sesame\n")
    while True:
        try:
            more = os.read(terminal, 1024)
        except OSError:
            break
        if not more:
            break
        said += more
    _pid, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, said
    assert b"sesame" not in said and b"approved" in said


# --- the deadline -------------------------------------------------------------------------------


class Later(SystemClock):
    """The machine's clock, some seconds on."""

    seconds = 0.0

    def read(self) -> Reading:
        return put_forward(super().read(), self.seconds)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> type[Later]:
    """Commands read this clock; set `seconds` to let time pass."""
    monkeypatch.setattr("spike_mcp.session.spike.SystemClock", Later)
    monkeypatch.setattr(Later, "seconds", 0.0)
    return Later


def test_whoever_looks_first_after_the_total_writes_the_verdict(
    started: Open, later: type[Later]
) -> None:
    started.edit("src/a.py", "two\n", "GREEN\n")
    later.seconds = 90 * 60 + 1
    told = spike("status", "--json")
    status = valid("status", told)
    assert (status["phase"], status["verdict"]) == ("closed", "KILL deadline_exceeded")
    assert "time is spent" in told.err
    result = started.spike.root / "verdict" / "result.json"
    assert json.loads(result.read_text())["elapsed_sec"] == 90 * 60
    verdict = spike("verdict", "--json")
    assert (verdict.code, valid("verdict", verdict)["reason"]) == (3, "deadline_exceeded")
    assert spike("approve", "h1", "--tag", "x").code == 78
    os.unlink(result)
    assert spike("map").code == 0
    assert result.exists()


def test_an_attempt_that_ran_over_stops_with_3(started: Open, later: type[Later]) -> None:
    started.edit("src/a.py", "two\n", "GREEN\n")
    later.seconds = 31 * 60
    assert "over, still running" in spike("status").out
    assert spike("checkpoint", "extend", "attempt").code == 0
    stopped = spike("checkpoint", "stop", "attempt")
    assert stopped.code == 3
    assert stopped.out == "budget void, close the spike and write the verdict\n"
    later.seconds = 71 * 60
    assert "writes have stopped" in spike("status").out
