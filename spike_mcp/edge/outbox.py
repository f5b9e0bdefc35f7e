"""Bytes on their way to one client: never blocking, bounded in memory and in waiting."""

import os
import select
import socket
import stat
from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.lowlevel

HIGH_WATER = 1 << 20
"""Unread bytes above which senders wait; one message more may be queued."""


class Outbox:
    """The unsent bytes of a connection and the task that sends them.

    A line is queued whole or not at all, so a cancelled sender never tears one. `stall` is how
    many seconds the client may take nothing before the connection counts as broken.
    """

    def __init__(self, fd: int, *, stall: float) -> None:
        self._write, self._fd, self._release = _writer(fd)
        self._stall = stall
        self._unsent = bytearray()
        self._hurried = False
        self._wake = anyio.Event()
        self._progress = anyio.Event()
        self.broken = anyio.Event()
        """Set when the client hung up or took nothing for `stall` seconds."""

    @property
    def full(self) -> bool:
        """Whether a sender would have to wait."""
        return len(self._unsent) > HIGH_WATER

    async def calm(self) -> None:
        """Wait until a sender would not have to; `BrokenResourceError` when hopeless."""
        while self.full:
            if self._hurried or self.broken.is_set():
                raise anyio.BrokenResourceError
            await self._progress.wait()

    async def put(self, data: bytes) -> None:
        """Queue whole lines, waiting while the outbox is full."""
        await self.calm()
        if self.broken.is_set():
            raise anyio.BrokenResourceError
        idle = not self._unsent
        self._unsent += data
        if idle:  # the usual case: everything fits into the pipe at once
            self._send_some()
        if self._unsent:
            self._wake.set()

    async def empty(self) -> None:
        """Wait until everything is sent or nothing more can be."""
        while self._unsent and not self.broken.is_set():
            await self._progress.wait()

    def hurry(self) -> None:
        """Let nobody wait any more: who would have to gets `BrokenResourceError`."""
        self._hurried = True
        self._tell()

    async def run(self) -> None:
        """Send what could not be sent at once; ends only by cancellation."""
        while True:
            await self._wake.wait()
            while self._unsent and not self.broken.is_set():
                with anyio.move_on_after(self._stall) as patience:
                    await self._writable()
                if patience.cancelled_caught:
                    self._break()
                else:
                    self._send_some()
            self._wake = anyio.Event()

    def close(self) -> None:
        """Release what was opened beside the caller's descriptor."""
        self._release()

    async def _writable(self) -> None:
        try:
            await anyio.wait_writable(self._fd)
        except PermissionError:  # a regular file: never has to wait
            await anyio.lowlevel.checkpoint()

    def _send_some(self) -> None:
        try:
            while self._unsent:
                sent = self._write(self._unsent)
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._break()
        self._tell()

    def _break(self) -> None:
        self._unsent.clear()
        self.broken.set()
        self._tell()

    def _tell(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()


_Writer = tuple[Callable[[bytearray], int], int, Callable[[], None]]


def _writer(fd: int) -> _Writer:
    """Return (write, descriptor to wait on, release): a write that raises instead of blocking.

    O_NONBLOCK on the descriptor itself would change it for every process that shares it.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        sock = socket.socket(fileno=os.dup(fd))
        flags = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
        return (lambda data: sock.send(data, flags)), sock.fileno(), sock.close
    if stat.S_ISFIFO(mode):
        with suppress(OSError):  # no /proc, or the pipe belongs to somebody else
            own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            return (lambda data: os.write(own, data)), own, lambda: os.close(own)
    if stat.S_ISREG(mode):
        return (lambda data: os.write(fd, data)), fd, _nothing
    return (lambda data: _polite_write(fd, data)), fd, _nothing


def _nothing() -> None:
    """Release nothing."""


def _polite_write(fd: int, data: bytearray) -> int:
    """Write what a descriptor that is ready takes without blocking."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    if not poll.poll(0):
        raise BlockingIOError
    return os.write(fd, memoryview(data)[: select.PIPE_BUF])
