"""`spike run` from outside: statuses, deadline, death, terminal, connections, the way out."""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from spike_mcp.host.agent import programs
from spike_mcp.host.agent.terminal import RESET

DRIVER = Path(__file__).with_name("agent_driver.py")
PATIENCE = 30.0
PYTHON = programs.python_inside()[0]


class Run:
    """One `run_agent` in a process of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "spike"
        for name in ("work", "judge", "verdict", "agent"):
            (self.root / name).mkdir(parents=True)
        self.report = tmp_path / "report"
        self.process: subprocess.Popen | None = None

    def start(self, argv, stdin=subprocess.DEVNULL, env=None, tty=None, **spec):
        self.report.write_text("")
        spec = {"root": str(self.root), "argv": argv} | spec
        out = subprocess.PIPE if tty is None else tty
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(self.report), json.dumps(spec)],
            stdin=stdin if tty is None else tty,
            stdout=out,
            stderr=out,
            env=env,
            start_new_session=tty is not None,
        )
        return self

    def end(self) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, ((out or b"") + (err or b"")).decode()

    def sh(self, script: str, **spec) -> tuple[int, str]:
        return self.start(["/bin/sh", "-c", script], **spec).end()

    def py(self, code: str, **spec) -> tuple[int, str]:
        return self.start([PYTHON, "-I", "-c", code], **spec).end()

    def events(self) -> list:
        return [json.loads(line) for line in self.report.read_text().splitlines()]

    def event(self, name: str) -> dict:
        [found] = [fields for event, fields in self.events() if event == name]
        return found

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.report.read_text():
            assert time.monotonic() < end, self.report.read_text()
            time.sleep(0.02)


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path)
    yield run
    if run.process is not None and run.process.poll() is None:
        run.process.kill()
        run.process.wait()


def alive(marker: str) -> list[int]:
    """Processes whose command line holds `marker`; zombies don't count."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(int(name))
    return found


def gone(marker: str, seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while alive(marker):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


# exit statuses


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 7", 7),
        ("kill -SEGV $$", 139),
        ("kill -KILL $$", 137),
        ("trap 'exit 42' TERM; kill -TERM $$; sleep 5", 42),
        ("exec no-such-program 2>/dev/null", 127),
    ],
)
def test_the_status_is_the_agents(run, script, status):
    assert run.sh(script)[0] == status
    stopped = run.event("agent_stopped")
    assert (stopped["status"], stopped["by"]) == (status, "itself")


def test_output_and_input_pass(run, tmp_path):
    source = tmp_path / "in"
    source.write_text("hello")
    with source.open() as stdin:
        run.start(["/bin/sh", "-c", "cat; echo ' out'; echo err >&2"], stdin=stdin)
        assert run.end() == (0, "hello out\nerr\n")


def test_a_missing_command_is_71_and_leaves_nothing(run):
    assert run.start(["no-such-client"]).end()[0] == 71
    assert run.event("never")["code"] == "usage"
    assert list((run.root / "agent").rglob("*")) == []


@pytest.mark.security
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("Creating new namespace failed: nesting depth exceeded (ENOSPC)", "max_user_namespaces"),
        ("No permissions to create new namespace, likely because ...", "seccomp"),
        ("setting up uid map: Permission denied", "AppArmor"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
    ],
)
def test_no_namespaces_is_a_refusal_with_its_cause_and_no_fallback(run, tmp_path, words, hint):
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    marker = tmp_path / "started"
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit\n'
        f'echo "$@" >> {marker}\necho "bwrap: {words}" >&2\nexit 1\n'
    )
    fake.chmod(0o755)
    env = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    assert run.sh("touch /tmp/ran-anyway", env=env)[0] == 71
    never = run.event("never")
    assert never["code"] == "sandbox_unavailable"
    assert words in never["message"]
    assert hint in never["hint"]
    assert len(marker.read_text().splitlines()) == 1  # the probe, and nothing after it
    assert "/bin/true" in marker.read_text()
    assert [event for event, _ in run.events()] == ["never"]


# the end


@pytest.mark.security
def test_at_the_deadline_a_polite_agent_gets_its_last_words_and_the_verdict_is_written(run):
    status, out = run.sh("trap 'echo bye; exit 143' TERM; sleep 60 & wait", seconds=1.0)
    assert (status, out) == (143, "bye\n")
    assert [event for event, _ in run.events()] == ["agent_started", "agent_stopped", "verdict"]
    assert run.event("agent_stopped")["by"] == "deadline"


@pytest.mark.security
def test_what_an_agent_filled_the_disk_with_is_gone_before_the_verdict_needs_room(run):
    run.sh('echo "as much as there is" > "$HOME/file"; sleep 60', seconds=1.0)
    assert run.event("verdict") == {"homes": 0}


@pytest.mark.security
def test_an_agent_whose_time_nobody_knows_is_ended(run):
    status, out = run.sh("trap 'echo bye; exit 0' TERM; sleep 60 & wait", seconds=0.5, fault=True)
    assert status == 1
    assert "bye" in out
    assert "ValueError: the ledger is damaged" in out
    assert run.event("agent_stopped")["by"] == "fault"


@pytest.mark.security
def test_a_stubborn_tree_is_killed_after_its_grace(run, tmp_path):
    marker = f"{time.time_ns() % 10**9}.5"
    script = (
        f"trap '' TERM INT HUP; (trap '' TERM; setsid sleep {marker} &) ;"
        f" setsid sh -c \"trap '' TERM; sleep {marker}; sleep {marker}\" & "
        "while :; do sleep 1; done"
    )
    status, _ = run.sh(script, seconds=1.0)
    assert status == 137
    assert gone(marker, 2)
    assert run.events()[-1][0] == "verdict"


@pytest.mark.security
def test_an_agent_that_outlives_nothing_leaves_no_daemon(run):
    marker = f"{time.time_ns() % 10**9}.25"
    assert run.sh(f"(setsid sleep {marker} &); (setsid sleep {marker} &); exit 3")[0] == 3
    assert gone(marker, 2)


@pytest.mark.security
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_agent_gently(run, number):
    run.start(["/bin/sh", "-c", "trap 'echo bye; exit 1' TERM; echo up; sleep 60 & wait"])
    assert run.process.stdout.readline() == b"up\n"
    run.process.send_signal(number)
    assert run.end() == (128 + number, "bye\n")
    assert run.event("agent_stopped")["by"] == "signal"


@pytest.mark.security
def test_killing_spike_run_kills_everything_inside(run):
    marker = f"{time.time_ns() % 10**9}.75"
    run.start(["/bin/sh", "-c", f"(setsid sleep {marker} &); echo up; sleep {marker}"])
    assert run.process.stdout.readline() == b"up\n"
    assert alive(marker)
    run.process.kill()
    run.process.wait()
    assert gone(marker, 3)


@pytest.mark.security
def test_only_the_main_thread_may_start_it(run, tmp_path):
    """bubblewrap dies with the thread that started it."""
    code = (
        "import sys, threading\nsys.argv = ['x', '/dev/null', '{}']\n"
        "from spike_mcp.host.agent.run import run_agent\n"
        "def go():\n    try:\n        run_agent(None, None)\n"
        "    except RuntimeError as error:\n        print(error)\n"
        "t = threading.Thread(target=go); t.start(); t.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "main thread" in done.stdout, done.stderr


# its own directory


@pytest.mark.security
def test_the_home_is_fresh_and_thrown_away_but_for_transcripts(run, tmp_path):
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "pkg").write_text("package")
    client = {
        "files": [
            [".client/settings.json", '{"locked": true}', True],
            [".client/auth.json", "token", False],
        ],
        "binds": [[str(shown), ".cache/client/pkg"], ["/no/such/place", ".cache/none"]],
        "env": {"CLIENT_KEY": "k"},
        "transcripts": [".client/sessions", ".client/link"],
    }
    script = (
        "cd && cat .client/settings.json .client/auth.json .cache/client/pkg/pkg && "
        "echo changed > .client/auth.json && echo $CLIENT_KEY && "
        "! echo x 2>/dev/null > .client/settings.json && "
        "! echo x 2>/dev/null > .cache/client/pkg/pkg && "
        "mkdir -p .client/sessions/deep/er && echo talk > .client/sessions/deep/er/1.jsonl && "
        "ln -s /etc/passwd .client/sessions/passwd && mkfifo .client/sessions/pipe && "
        f"ln -s {shown} .client/link && chmod 000 .client/sessions/deep/er"
    )
    status, out = run.sh(script, client=client)
    assert (status, out) == (0, '{"locked": true}tokenpackagek\n')
    private = run.root / "agent/private"
    assert private.stat().st_mode & 0o777 == 0o700
    kept = [path for path in private.rglob("*") if path.is_file()]
    if os.geteuid() == 0:  # an ordinary user can't read what the agent closed
        assert [path.read_text() for path in kept] == ["talk\n"]
    assert [path.name for path in private.iterdir()] in (["transcripts"], [])
    assert run.sh("ls -A ~ && ls /run/spike | wc -l")[1] == "5\n"


@pytest.mark.security
def test_other_runs_homes_and_transcripts_are_not_shown(run):
    old = run.root / "agent/private/transcripts/run-1"
    old.mkdir(parents=True)
    (old / "talk").write_text("secret")
    out = run.sh(f"cat {old}/talk 2>&1; ls -A {run.root}/agent/private 2>&1; echo end")[1]
    assert "secret" not in out
    assert out.endswith("end\n")


def test_what_a_dead_run_left_is_removed(run):
    run.start(["/bin/sh", "-c", "echo up; sleep 60"])
    run.process.stdout.readline()
    run.process.kill()
    run.process.wait()
    assert len(list((run.root / "agent/private").iterdir())) == 1
    assert run.sh("true")[0] == 0
    assert list((run.root / "agent/private").iterdir()) == []


@pytest.mark.security
@pytest.mark.parametrize("secret", ["judge", "verdict", "", "agent/private"])
def test_a_client_can_not_ask_to_show_the_judge(run, secret):
    client = {"read_only": [str(run.root / secret)]}
    assert run.sh("true", client=client)[0] == 71
    assert "own files" in run.event("never")["message"]
    assert run.sh("true", client={"read_only": [os.path.expanduser("~")]})[0] == 71


def test_a_path_longer_than_a_sockets_is_no_obstacle(tmp_path):
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    run = Run(deep)
    code = "import socket; s = socket.socket(1); s.connect('/run/spike/mcp.sock'); print(s.recv(9))"
    assert run.py(code) == (0, "b'1\\n'\n")


# the way in


@pytest.mark.security
def test_four_connections_and_no_more_and_descriptors_are_not_taken(run):
    code = (
        "import array, os, socket\n"
        "def connect():\n"
        "    s = socket.socket(1); s.connect('/run/spike/mcp.sock'); return s\n"
        "several = [connect() for _ in range(12)]\n"
        "print(sorted(s.recv(9) for s in several))\n"
        "rights = array.array('i', [0, 1, 2])\n"
        "live = [s for s in several]\n"
        "for s in live:\n"
        "    try: s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
        "    except OSError: pass\n"
    )
    status, out = run.py(code)
    assert (status, out) == (0, str([b""] * 8 + [b"1\n", b"2\n", b"3\n", b"4\n"]) + "\n")
    stopped = run.event("agent_stopped")
    assert (stopped["connections"], stopped["refused_connections"]) == (4, 8)


@pytest.mark.security
def test_a_process_that_is_not_the_agents_is_refused(run):
    run.start(["/bin/sh", "-c", "echo up; sleep 60"])
    assert run.process.stdout.readline() == b"up\n"
    [path] = (run.root / "agent/private").glob("run-*/wire")
    handle = os.open(path, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"/proc/self/fd/{handle}/mcp.sock")
        assert sock.recv(9) == b""
    assert (path / "mcp.sock").stat().st_mode & 0o777 == 0o600
    os.close(handle)
    run.wait_for("agent_refused_connection")
    assert run.event("agent_refused_connection") == {
        "pid": os.getpid(),
        "reason": "not a process of the agent",
    }


def test_the_bridge_speaks_with_the_server_from_inside(run):
    code = (
        "import json, subprocess, sys\n"
        f"p = subprocess.Popen({list(programs.bridge_command())!r}, stdin=subprocess.PIPE,\n"
        "                     stdout=subprocess.PIPE)\n"
        "info = {'name': 'x', 'version': '1'}\n"
        "hello = {'protocolVersion': '2025-06-18', 'capabilities': {}, 'clientInfo': info}\n"
        "lines = [{'id': 1, 'method': 'initialize', 'params': hello},\n"
        "         {'method': 'notifications/initialized'}, {'id': 2, 'method': 'tools/list'}]\n"
        "text = ''.join(json.dumps({'jsonrpc': '2.0', **line}) + '\\n' for line in lines)\n"
        "out, _ = p.communicate(text.encode())\n"
        "ids = [json.loads(line)['id'] for line in out.splitlines()]\n"
        "print(ids, b'echo' in out, p.returncode)\n"
    )
    assert run.py(code, mcp=True) == (0, "[1, 2] True 0\n")


# the way out


class Site:
    """An HTTP server on the human's loopback that remembers what it was asked."""

    def __init__(self) -> None:
        seen = self.seen = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((self.path, self.headers["Host"], body))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


ASK = """
import http.client, sys
def ask(where, path, host, tunnel=None):
    try:
        c = http.client.HTTPConnection(*where, timeout=10)
        if tunnel: c.set_tunnel(*tunnel)
        c.request("POST", path, b"x" * 100000, {"Host": host})
        r = c.getresponse()
        print(r.status, r.read().decode().strip())
    except OSError as error:
        print(type(error).__name__, error)
proxy = ("127.0.0.1", 3128)
port = int(sys.argv[1])
ask(proxy, f"http://127.0.0.1:{port}/absolute", "evil")
ask(proxy, "/tunnel", "x", ("127.0.0.1", port))
ask(("127.0.0.1", port), "/local", "x")
ask(proxy, f"http://localhost:{port}/", "x")
ask(proxy, "/", "x", ("api.example.com", 443))
ask(proxy, "/", "x")
ask(("127.0.0.1", port + 1 if port < 65535 else 1024), "/", "x")
"""


@pytest.mark.security
def test_only_listed_places_are_reached_by_either_form_and_refusals_are_recorded(run, site):
    argv = [PYTHON, "-I", "-c", ASK, str(site.port)]
    status, out = run.start(argv, allow=[f"127.0.0.1:{site.port}"]).end()
    lines = out.splitlines()
    assert status == 0
    assert lines[:3] == ["200 ok"] * 3
    assert lines[3] == f"403 localhost:{site.port} is not on the allow-list of spike run"
    assert "403" in lines[4]
    assert lines[5].startswith("400 ")
    assert lines[6].startswith("ConnectionRefusedError")
    body = b"x" * 100000
    name = f"127.0.0.1:{site.port}"
    assert site.seen == [("/absolute", name, body), ("/tunnel", "x", body), ("/local", "x", body)]
    refused = [fields["target"] for event, fields in run.events() if event == "egress_refused"]
    assert refused == [f"localhost:{site.port}", "api.example.com:443"]
    assert run.event("agent_stopped")["egress"] == {name: 3}


@pytest.mark.security
def test_a_flood_of_refusals_is_a_bounded_number_of_rows(run):
    code = (
        "import socket\n"
        "for n in range(300):\n"
        "    s = socket.socket(); s.connect(('127.0.0.1', 3128))\n"
        "    s.sendall(b'CONNECT h%d:443 HTTP/1.1\\r\\n\\r\\n' % (n % 150))\n"
        "    s.recv(99); s.close()\n"
    )
    assert run.py(code)[0] == 0
    rows = [event for event, _ in run.events() if event == "egress_refused"]
    assert len(rows) == 100
    counts = run.event("agent_stopped")["egress_refused"]
    assert counts["(others)"] == 100


# the terminal


class Human:
    """A terminal with `spike run` in it."""

    def __init__(self, run: Run, argv, **spec) -> None:
        self.master, slave = pty.openpty()
        self.size(30, 100)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        run.start(argv, tty=slave, interactive=True, **spec)
        self.run = run
        self.seen = b""

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
        if self.__dict__.get("run"):
            self.run.process.send_signal(signal.SIGWINCH)  # it is not this terminal's session

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def read_until(self, text: bytes) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], end - time.monotonic())
            assert ready, self.seen
            self.seen += os.read(self.master, 65536)

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


def test_the_agent_has_a_terminal_with_sizes_and_keys(run):
    code = (
        "import os, signal, sys\n"
        "def say(*words): os.write(1, (' '.join(map(str, words)) + '\\n').encode())\n"
        "def size(*_): say('SIZE', *os.get_terminal_size())\n"
        "signal.signal(signal.SIGWINCH, size)\n"
        "signal.signal(signal.SIGINT, lambda *_: say('INTERRUPTED'))\n"
        "assert all(map(os.isatty, (0, 1, 2))) and os.tcgetpgrp(0) == os.getpgrp()\n"
        "size()\n"
        "while (line := sys.stdin.readline().strip()) != 'end': say('LINE', line)\n"
        "sys.exit(9)\n"
    )
    human = Human(run, [PYTHON, "-I", "-c", code])
    human.read_until(b"SIZE 100 30")
    human.size(40, 120)
    human.type(b"one\r")
    human.read_until(b"LINE one")
    human.read_until(b"SIZE 120 40")
    human.type(b"\x03")
    human.read_until(b"INTERRUPTED")  # the key empties the queue: type no sooner
    human.type(b"two\r")
    human.read_until(b"LINE two")
    human.type(b"end\r")
    assert run.process.wait(PATIENCE) == 9
    assert termios.tcgetattr(human.slave) == human.before, "raw mode is undone"
    human.close()


def test_an_interactive_shell_has_job_control(run):
    human = Human(run, ["/bin/bash", "--norc", "-i"])
    human.read_until(b"bash-")
    human.type(b"sleep 50 &\r")
    human.type(b"jobs; kill %1; echo DO''NE; exit 5\r")
    human.read_until(b"DONE")
    assert b"no job control" not in human.seen
    assert run.process.wait(PATIENCE) == 5
    human.close()


@pytest.mark.security
def test_an_agents_last_words_leave_neither_a_terminal_in_disorder_nor_keys_in_it(run):
    """A terminal answers questions as if somebody typed: into the human's shell, if one leaves."""
    code = (
        "import os\n"
        "os.write(1, b'\\x1b[?1049h\\x1b(0\\x1b]4;2;red\\x07\\x1b[6n\\x1b[6n\\x1b]0;never ends')\n"
    )
    human = Human(run, [PYTHON, "-I", "-c", code])
    human.read_until(b"never ends")
    human.read_until(RESET)
    human.read_until(b"\x1b[c")
    human.type(b"\x1b[5;5R\x1b[5;5R\x1b[?62;22c")
    assert run.process.wait(PATIENCE) == 0
    assert human.seen.endswith(RESET + b"\x1b[c")
    waiting = fcntl.ioctl(human.slave, termios.FIONREAD, b"\0" * 4)
    assert struct.unpack("i", waiting) == (0,)
    assert termios.tcgetattr(human.slave) == human.before
    human.close()


@pytest.mark.security
def test_an_agent_without_a_terminal_gets_no_descriptor_of_the_humans(run):
    """With one, opened again by /proc, it could read what is typed next."""
    code = (
        "import os\n"
        "for fd in (1, 2):\n"
        "    print('ISATTY', os.isatty(fd), os.readlink(f'/proc/self/fd/{fd}')[:5], flush=True)\n"
    )
    master, slave = pty.openpty()
    run.start([PYTHON, "-I", "-c", code], tty=slave, interactive=False)
    seen, end = b"", time.monotonic() + PATIENCE
    while RESET not in seen and time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            seen += os.read(master, 65536)
    assert run.process.wait(PATIENCE) == 0
    assert seen.count(b"ISATTY False pipe:") == 2
    assert seen.endswith(RESET)
    os.close(master)
    os.close(slave)


@pytest.mark.security
@pytest.mark.parametrize("how", ["interactive", "piped", "control"])
def test_nothing_can_be_typed_into_the_humans_terminal(run, tmp_path, how):
    code = (
        "import fcntl, os, termios\n"
        "for fd in (0, 1, 2):\n"
        "    try:\n"
        "        for c in b'touch INJECTED\\n': fcntl.ioctl(fd, termios.TIOCSTI, bytes([c]))\n"
        "        print('TYPED', fd)\n"
        "    except OSError as error: print('NO', fd, error.errno)\n"
        "try: os.open('/dev/tty', os.O_RDWR); print('TTY')\n"
        "except OSError: print('NOTTY')\n"
        "print('OVER')\n"
    )
    master, slave = pty.openpty()
    # A shell whose terminal this is: what is typed into it would run.
    argv = [PYTHON, "-I", "-c", code]
    spec = {"root": str(run.root), "argv": argv, "interactive": how == "interactive"}
    driver = [sys.executable, str(DRIVER), str(run.report), json.dumps(spec)]
    driver = argv if how == "control" else driver
    run.report.write_text("")
    shell = subprocess.Popen(
        [sys.executable, "-c", "import fcntl,termios,os\nfcntl.ioctl(0,termios.TIOCSCTTY,0)\n"
         "os.execvp('/bin/sh',['/bin/sh','-i'])"],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=tmp_path,
    )  # fmt: skip
    (tmp_path / "go").write_text("exec " + " ".join(map(_quoted, driver)) + "\n")
    os.write(master, b"sh ./go; echo SHELL-$?-AGAIN\n")
    seen = b""
    end = time.monotonic() + PATIENCE
    while b"SHELL-0-AGAIN" not in seen and time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            seen += os.read(master, 65536)
    os.write(master, b"exit\n")
    shell.wait(PATIENCE)
    os.close(slave)
    os.close(master)
    assert b"OVER" in seen
    assert b"SHELL-0-AGAIN" in seen
    if how == "control":  # without the sandbox it would run, where the kernel allows it at all
        legacy = Path("/proc/sys/dev/tty/legacy_tiocsti")
        typed = not legacy.exists() or legacy.read_text().strip() == "1"
        assert (tmp_path / "INJECTED").exists() is typed
        return
    assert (b"TTY\r\n" in seen.replace(b"NOTTY", b"")) is (how == "interactive")
    assert not list(tmp_path.glob("INJECTED*"))
    assert not (run.root / "work/INJECTED").exists()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
