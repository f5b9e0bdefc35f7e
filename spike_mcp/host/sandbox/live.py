"""A live process tree: spawn, drain, limit, kill (spec 11).

Spawning happens on the calling thread, because `--die-with-parent` fires when the THREAD that
spawned ends (facts.md). Everything after that is one supervising thread, so that the server's
event loop and the CLI's main thread stay free and a run can be waited for from both.
"""

import json
import os
import select
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from spike_mcp.host.sandbox.limits import Cage, make_cage
from spike_mcp.host.sandbox.model import Limits

_CHUNK = 1 << 20
_DRAIN_SECONDS = 2.0  # for what is still in the pipes after everything is dead
_TICK_SECONDS = 0.25


class Stop(StrEnum):
    """Why we ended a run; '' if it ended by itself."""

    NO = ""
    TIME = "time"
    OUTPUT = "output"
    PROCESSES = "processes"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process tree ended. `exit_code` is None if the payload never ran or was killed by us.

    `signal` is the payload's fatal signal. `copied`: the tree had to be copied, no overlay.
    """

    stop: Stop
    exit_code: int | None
    signal: int | None
    seconds: float
    out_of_memory: bool
    started: bool
    copied: bool


def _ignore(chunk: bytes) -> None:
    del chunk


@dataclass(slots=True)
class Spawn:
    """What to start. `inherit` stays open in the child; all `inherit` are closed here afterwards.

    `boxed`: bubblewrap reports the payload through `status`, and `block` holds it back.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    limits: Limits
    cwd: str = "/"
    inherit: list[int] = field(default_factory=list)
    status: int | None = None
    block: int | None = None
    channel: int | None = None
    apart: bool = False
    on_output: Callable[[bytes], None] = _ignore
    on_text: Callable[[bytes], None] = _ignore
    on_event: Callable[[bytes], None] = _ignore


class Live:
    """One running process tree. `done` is set when it is dead and drained; then `ending` stands."""

    def __init__(self, spawn: Spawn, finish: Callable[[Ending], None]) -> None:
        self._spawn = spawn
        self._finish = finish
        self._cage: Cage = make_cage(spawn.limits)
        self._began = time.monotonic()
        self._stop = Stop.NO
        self._inner: int | None = None  # pidfd of the sandbox's first process
        self._inner_pid = 0
        self._exit: int | None = None
        self._started = False
        self._copied = False
        self._bytes = 0
        self._status = b""
        self._ended: float | None = None
        self._lock = threading.Lock()
        self.done = threading.Event()
        self._wake_in, self._wake_out = os.pipe()
        self._open = selectors.DefaultSelector()
        self._process = self._start()
        try:
            self._thread = threading.Thread(target=self._supervise, name="spike-run", daemon=True)
            self._thread.start()
        except BaseException:
            self._end_group()  # a signal's exception may arrive here: nobody else knows the group
            raise

    @property
    def pid(self) -> int:
        """Process id of the outermost process."""
        return self._process.pid

    def cancel(self) -> None:
        """Kill the whole tree; `done` follows. Safe to call at any time from any thread."""
        with self._lock:
            if not self.done.is_set():
                os.write(self._wake_out, b"c")

    # -- spawning, on the caller's thread

    def _start(self) -> "subprocess.Popen[bytes]":
        spawn = self._spawn
        out_read, out_write = os.pipe()
        text = os.pipe() if spawn.apart else None
        with suppress(OSError, ImportError, AttributeError):
            import fcntl

            fcntl.fcntl(out_read, fcntl.F_SETPIPE_SZ, _CHUNK)
        try:
            process = subprocess.Popen(
                spawn.argv,
                stdin=subprocess.PIPE,
                stdout=text[1] if text else out_write,
                stderr=out_write,
                env=dict(spawn.env),
                cwd=spawn.cwd,
                pass_fds=spawn.inherit,
                start_new_session=True,
            )
        except BaseException:
            ours = (spawn.status, spawn.block, spawn.channel)
            for fd in (out_read, *(text or ()), self._wake_in, self._wake_out, *ours):
                if fd is not None:
                    os.close(fd)
            self._open.close()
            self._cage.close()
            raise
        finally:
            for fd in (out_write, *spawn.inherit):
                os.close(fd)
        if text:
            os.close(text[1])
            self._watch(text[0], self._text)
        self._watch(out_read, self._output)
        self._watch(self._wake_in, self._wake)
        if spawn.status is not None:
            self._watch(spawn.status, self._read_status)
        if spawn.channel is not None:
            self._watch(spawn.channel, self._event)
        return process

    def _watch(self, fd: int, handler: Callable[[bytes], None]) -> None:
        os.set_blocking(fd, False)
        self._open.register(fd, selectors.EVENT_READ, handler)

    # -- supervising, on our own thread

    def _supervise(self) -> None:
        try:
            if self._spawn.status is None:
                self._release(self._process.pid)
            while not self._over():
                self._turn()
        finally:
            self._kill(Stop.CANCEL)  # only does something if a handler failed
            self._close()

    def _turn(self) -> None:
        for key, _ in self._open.select(self._patience()):
            self._read(key.fd, key.data)
        now = time.monotonic()
        if now - self._began > self._spawn.limits.wall_seconds:
            self._kill(Stop.TIME)
        if self._bytes > self._spawn.limits.output_bytes:
            self._kill(Stop.OUTPUT)
        if self._cage.processes == "watch" and self._cage.tasks_over(self._inner_pid):
            self._kill(Stop.PROCESSES)
        if self._ended is None and self._process.poll() is not None:
            self._ended = now
            self._kill_inner()  # daemons that outlived the payload

    def _patience(self) -> float:
        if self._ended is not None:
            return 0.02
        left = self._began + self._spawn.limits.wall_seconds - time.monotonic()
        tick = 0.02 if self._cage.processes == "watch" else _TICK_SECONDS
        return max(0.0, min(tick, left + 0.01))

    def _over(self) -> bool:
        if self._ended is None:
            return False
        streams = [key for key in self._open.get_map().values() if key.fd != self._wake_in]
        return not streams or time.monotonic() - self._ended > _DRAIN_SECONDS

    def _read(self, fd: int, handler: Callable[[bytes], None]) -> None:
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            handler(chunk)
        else:
            self._open.unregister(fd)
            os.close(fd)
            # The last pipe closes when the last process is gone: no need to wait for a tick.
            if self._ended is None and self._spawn.status is None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(0.05)

    def _output(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        self._spawn.on_output(chunk)

    def _text(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        self._spawn.on_text(chunk)

    def _event(self, chunk: bytes) -> None:
        self._spawn.on_event(chunk)

    def _wake(self, chunk: bytes) -> None:
        del chunk
        self._kill(Stop.CANCEL)

    def _read_status(self, chunk: bytes) -> None:
        *lines, self._status = (self._status + chunk).split(b"\n")
        for line in lines:
            with suppress(ValueError):
                self._take_status(json.loads(line))

    def _take_status(self, row: Mapping[str, object]) -> None:
        pid, code = row.get("child-pid"), row.get("exit-code")
        self._copied = self._copied or row.get("tree") == "copy"
        if isinstance(code, int):
            self._exit = code
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5)
        if isinstance(pid, int) and self._inner is None:
            try:
                self._inner = os.pidfd_open(pid)
            except OSError:
                return
            self._inner_pid = pid
            self._release(pid)

    def _release(self, pid: int) -> None:
        """The limits are on before the first instruction of the payload; then let it go."""
        if self._stop is Stop.NO:
            with suppress(ProcessLookupError, BrokenPipeError):
                self._cage.attach(pid)
                if self._spawn.block is not None:
                    os.write(self._spawn.block, b"g")
                if self._process.stdin is not None:
                    with suppress(OSError):
                        self._process.stdin.write(b"go\n")
                        self._process.stdin.flush()
                self._started = True
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    # -- killing

    def _kill(self, why: Stop) -> None:
        if self._stop is not Stop.NO or self._ended is not None:
            return
        self._stop = why
        self._kill_inner()
        self._end_group()

    def _end_group(self) -> None:
        """Kill what is left of the process group, as long as its leader's number can't be reused.

        bubblewrap's own child asks to die with its parent only after a few steps: where the parent
        is gone before that, the child waits for it for ever.
        """
        if self._process.returncode is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _kill_inner(self) -> None:
        if self._inner is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
        self._cage.kill_all()

    def _close(self) -> None:
        self._end_group()
        self._process.wait()
        self._bury()
        seconds = time.monotonic() - self._began
        oom = self._cage.out_of_memory()
        for key in list(self._open.get_map().values()):
            with suppress(OSError):
                os.close(key.fd)
        self._open.close()
        for extra in (self._spawn.block, self._inner):
            if extra is not None:
                os.close(extra)
        self._cage.close()
        code, fatal = self._exit_of()
        ending = Ending(self._stop, code, fatal, seconds, oom, self._started, self._copied)
        with self._lock:
            os.close(self._wake_out)
            try:
                self._finish(ending)
            finally:
                self.done.set()

    def _bury(self) -> None:
        """Wait until the sandbox's first process is gone: the kernel ends all others before it."""
        if self._inner is not None:
            select.select([self._inner], [], [], _DRAIN_SECONDS)

    def _exit_of(self) -> tuple[int | None, int | None]:
        """(exit code, fatal signal) of the payload."""
        code = self._exit if self._spawn.status is not None else self._process.returncode
        if code is None or self._stop is not Stop.NO:
            return None, None
        if code < 0:
            return 128 - code, -code
        return code, code - 128 if 128 < code <= 128 + 64 else None
