"""Unix sockets of one run: bound at any path length, accepted and moved without blocking."""

import os
import socket
from collections.abc import AsyncIterator

import anyio


def bind(directory: str, name: str, backlog: int) -> socket.socket:
    """Listen on `directory/name`, mode 0600.

    Bound through the directory's descriptor: a socket's path is limited to 107 bytes.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        listener.bind(f"/proc/self/fd/{handle}/{name}")
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(old)
        os.close(handle)
    return listener


async def accepted(listener: socket.socket) -> AsyncIterator[socket.socket]:
    """Yield connections, non-blocking, for ever."""
    while True:
        await anyio.wait_readable(listener)
        try:
            sock, _ = listener.accept()
        except OSError:  # gone again, or out of descriptors: not a reason to stop listening
            await anyio.sleep(0.05)
            continue
        sock.setblocking(False)
        yield sock


class Stream:
    """The few operations of a byte stream that the proxy needs, on a non-blocking socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def receive(self, size: int = 1 << 16) -> bytes:
        """Return what has come, b"" at the end; never reads ancillary data."""
        while True:
            await anyio.wait_readable(self._sock)
            try:
                return self._sock.recv(size)
            except BlockingIOError:
                continue

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._sock)

    def send_eof(self) -> None:
        """End this direction."""
        self._sock.shutdown(socket.SHUT_WR)
