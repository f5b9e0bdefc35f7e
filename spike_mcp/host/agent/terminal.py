"""A terminal of the agent's own, relayed to the human's (spec 14).

The human's terminal is never handed over: with it the agent could type into the human's shell
(TIOCSTI). With `--new-session` alone it would have neither job control nor SIGWINCH.
"""

import errno
import fcntl
import os
import re
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
import anyio.abc
import anyio.lowlevel

CHUNK = 1 << 16
ANSWER_SECONDS = 0.5
"""For a terminal to answer; one that does not know the question keeps silent."""
RESET = (
    b"\x18\x1b\\"  # end a sequence that was left open: it would swallow what we print
    b"\x1b[?2026l\x1b[=0;1u"  # synchronized updates, kitty's keys
    b"\x1b[?1049l\x1b[?47l\x1b[!p"  # the other screen; soft reset
    b"\x1b[0m\x1b(B\x0f\x1b[?25h\x1b[?7h\x1b[?1l\x1b>\x1b[?5l"  # colours, letters, cursor, keys
    b"\x1b7\x1b[r\x1b8"  # the whole screen scrolls
    b"\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l"
    b"\x1b[?1015l\x1b[?1016l\x1b[?2004l"  # the mouse, focus, pasting
    b"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\"  # green is green again
)
"""What a reviewer's terminal needs after somebody else had it."""
_WHO_ARE_YOU = b"\x1b[c"
_ANSWER = re.compile(rb"\x1b\[\?[0-9;]*c")
STUB = (
    "import fcntl,os,signal,sys,termios\n"
    "fcntl.ioctl(0,termios.TIOCSCTTY,0)\n"
    "for n in(signal.SIGINT,signal.SIGQUIT,signal.SIGTSTP):signal.signal(n,signal.SIG_IGN)\n"
    "os.execv(sys.argv[1],sys.argv[1:])\n"
)
"""Runs between fork and bubblewrap: takes the terminal as its own, and keeps the keys from ending
bubblewrap itself (the agent gets its signals back inside)."""


def stub(argv: list[str]) -> list[str]:
    """Return the command that starts `argv` with its standard input as controlling terminal."""
    return [sys.executable, "-I", "-S", "-c", STUB, *argv]


class Terminal:
    """A pseudo-terminal: `slave` for the agent, the rest for the relay.

    `outer_in` and `outer_out` are the human's descriptors.
    """

    def __init__(self, outer_in: int = 0, outer_out: int = 1) -> None:
        self._in = outer_in
        self._out, self._own_out = _without_blocking(outer_out)
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self._resize()

    def started(self) -> None:
        """The agent has its copy of the slave: with its last one the relay ends."""
        os.close(self.slave)

    def close(self) -> None:
        """Release everything."""
        os.close(self.master)
        if self._own_out:
            os.close(self._out)

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Pass keys through untouched; the human's settings come back whatever happens."""
        try:
            saved = termios.tcgetattr(self._in)
        except termios.error:  # no terminal: nothing to set
            yield
            return
        tty.setraw(self._in, termios.TCSADRAIN)
        try:
            yield
        finally:
            self._calm()
            termios.tcsetattr(self._in, termios.TCSAFLUSH, saved)

    def _calm(self) -> None:
        """Undo what the agent's last words may have left behind, and swallow answers to them.

        A terminal answers questions as if somebody typed: into the human's shell, if the agent asks
        and leaves. Answers come in order, so with the one to our own question the last is in.
        """
        with suppress(OSError):
            os.write(self._out, RESET + _WHO_ARE_YOU)
            answer, end = b"", time.monotonic() + ANSWER_SECONDS
            while not _ANSWER.search(answer) and (left := end - time.monotonic()) > 0:
                if not select.select([self._in], [], [], left)[0]:
                    break
                more = os.read(self._in, CHUNK)
                if not more:
                    break
                answer = (answer + more)[-CHUNK:]

    async def relay(self) -> None:
        """Carry bytes and sizes until the agent's side is closed."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._follow_size)
            tasks.start_soon(self._copy_keys)
            await self._copy_output()
            tasks.cancel_scope.cancel()

    async def _copy_output(self) -> None:
        while True:
            await anyio.wait_readable(self.master)
            data = _read(self.master)
            if data == b"":
                return
            await _send(self._out, data or b"")

    async def _copy_keys(self) -> None:
        while True:
            await _ready(self._in)
            data = _read(self._in)
            if data == b"":
                return  # the human's terminal is gone: a signal says so too
            await _send(self.master, data or b"")

    async def _follow_size(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        with anyio.open_signal_receiver(signal.SIGWINCH) as signals:
            self._resize()
            task_status.started()
            async for _ in signals:
                self._resize()

    def _resize(self) -> None:
        with suppress(OSError):
            size = fcntl.ioctl(self._in, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)


def _read(fd: int) -> bytes | None:
    """Return what is there; b"" at the end, None when it was nothing after all."""
    try:
        return os.read(fd, CHUNK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError as error:
        if error.errno in (errno.EIO, errno.EBADF):  # the other side is closed
            return b""
        raise


async def _send(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view[: select.PIPE_BUF]) :]
        except (BlockingIOError, InterruptedError):
            await anyio.wait_writable(fd)
        except OSError:
            return  # nobody looks any more


async def _ready(fd: int) -> None:
    try:
        await anyio.wait_readable(fd)
    except PermissionError:  # a file: never has to wait
        await anyio.lowlevel.checkpoint()


def _without_blocking(fd: int) -> tuple[int, bool]:
    """Return (descriptor, is ours) that a slow terminal can't block.

    Opened anew: O_NONBLOCK on the human's own descriptor would change it for their shell too.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(f"/proc/self/fd/{fd}", flags), True
    except OSError:
        return fd, False


class Piped:
    """Carries what an agent without a terminal prints to the human's, where that is one.

    With a descriptor of a terminal itself, even one for writing, the agent could open it again by
    /proc and read what is typed. `stdout` and `stderr` are for the agent, None = inherit.
    """

    def __init__(self, outer: tuple[int, int] = (1, 2)) -> None:
        self._threads: list[threading.Thread] = []
        self._screens = [fd for fd in (*outer, 0) if _is_terminal(fd)]
        self.stdout, self.stderr = (self._piped(fd) for fd in outer)

    def _piped(self, outer: int) -> int | None:
        if outer not in self._screens:
            return None
        ours, theirs = os.pipe()
        thread = threading.Thread(target=_carry, args=(ours, outer), daemon=True)
        thread.start()
        self._threads.append(thread)
        return theirs

    def started(self) -> None:
        """The agent has its copies: with its last one the threads end."""
        for fd in (self.stdout, self.stderr):
            if fd is not None:
                os.close(fd)
        self.stdout = self.stderr = None

    def end(self, seconds: float) -> None:
        """Wait for the last of it, and leave the terminal as a reader needs it."""
        self.started()
        for thread in self._threads:
            thread.join(seconds)
        for fd in self._screens[:1]:
            with suppress(OSError):
                os.write(fd, RESET)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:  # closed
        return False


def _carry(ours: int, outer: int) -> None:
    with suppress(OSError):
        while data := os.read(ours, CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(outer, view) :]
    os.close(ours)
