"""A terminal of the agent's own, relayed to the human's (spec 14).

The human's terminal is never handed over: with it the agent could type into the human's shell
(TIOCSTI). With `--new-session` alone it would have neither job control nor SIGWINCH.
"""

import errno
import fcntl
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
import anyio.abc
import anyio.lowlevel

CHUNK = 1 << 16
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
            termios.tcsetattr(self._in, termios.TCSADRAIN, saved)

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
