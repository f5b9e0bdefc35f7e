"""Inside the sandbox: a way from its loopback to the proxy's socket, then the agent itself.

`python3 -I -S forwarder.py PORT SOCKET [HOST:PORT...] -- AGENT...`; standard library only, copied
into the run's directory. PORT takes proxy requests; each further HOST:PORT is a server on the
human's loopback (a local model), reached at the same port of the sandbox's.

The process becomes the agent, so bubblewrap sees the agent's own exit status; what forwards is a
grandchild in a session of its own, which the terminal's keys don't reach.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys

MAX_CONNECTIONS = 64
CHUNK = 1 << 16
RESET = ("SIGINT", "SIGQUIT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGPIPE", "SIGHUP", "SIGTERM")


class Flow:
    """One direction of a connection."""

    def __init__(
        self, source: socket.socket, target: socket.socket, data: bytes = b"", skip: bool = False
    ) -> None:
        self.source, self.target = source, target
        self.data = data
        self._skip = skip
        self._head = b""
        self.ended = False
        self.closed = False

    def reads(self) -> bool:
        return not (self.data or self.ended)

    def read(self) -> None:
        try:
            self.data = self.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self.data = b""
        self.ended = not self.data
        if self._skip and self.data:
            self._skip_head()

    def _skip_head(self) -> None:
        """Swallow the proxy's answer to our own CONNECT."""
        head, blank, rest = (self._head + self.data).partition(b"\r\n\r\n")
        self.data = rest if blank else b""
        self._head = head[:CHUNK]
        if blank:
            self._skip = False
            self.ended = not head.startswith(b"HTTP/1.1 200 ")
            self.data = b"" if self.ended else rest

    def write(self) -> None:
        """Send what was read; pass the end on once all is sent."""
        try:
            if self.data:
                self.data = self.data[self.target.send(self.data) :]
        except BlockingIOError:
            return
        except OSError:
            self.data, self.ended = b"", True
        if self.ended and not self.data and not self.closed:
            self.closed = True
            with contextlib.suppress(OSError):
                self.target.shutdown(socket.SHUT_WR)


def forward(doors: list[tuple[socket.socket, bytes]], path: str) -> None:
    """Carry bytes between the doors' connections and the socket at `path`, for ever."""
    pairs: list[tuple[Flow, Flow]] = []
    while True:
        wanted: dict[int, int] = {}
        for flow in (flow for pair in pairs for flow in pair):
            if flow.reads():
                wanted[flow.source.fileno()] = wanted.get(flow.source.fileno(), 0) | select.POLLIN
            elif flow.data:
                wanted[flow.target.fileno()] = wanted.get(flow.target.fileno(), 0) | select.POLLOUT
        if len(pairs) < MAX_CONNECTIONS:
            wanted.update({listener.fileno(): select.POLLIN for listener, _ in doors})
        poll = select.poll()
        for fd, events in wanted.items():
            poll.register(fd, events)
        ready = dict(poll.poll())
        for pair in pairs:
            step(pair, ready)
        pairs = [pair for pair in pairs if not finished(pair)]
        for listener, opening in doors:
            if listener.fileno() in ready:
                accept(listener, opening, path, pairs)


def step(pair: tuple[Flow, Flow], ready: dict[int, int]) -> None:
    """Move what can be moved of one connection."""
    for flow in pair:
        if flow.reads() and ready.get(flow.source.fileno()):
            flow.read()
        if flow.data or flow.ended:
            flow.write()


def finished(pair: tuple[Flow, Flow]) -> bool:
    """Close a connection whose two directions have ended."""
    if not all(flow.closed for flow in pair):
        return False
    for flow in pair:
        flow.source.close()
    return True


def accept(
    listener: socket.socket, opening: bytes, path: str, pairs: list[tuple[Flow, Flow]]
) -> None:
    """Take one connection, or drop it when the proxy is not there."""
    try:
        client, _ = listener.accept()
    except OSError:
        return
    proxy = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        proxy.connect(path)
    except OSError:
        client.close()
        proxy.close()
        return
    client.setblocking(False)
    proxy.setblocking(False)
    pairs.append((Flow(client, proxy, opening), Flow(proxy, client, skip=bool(opening))))


def open_door(port: int, opening: bytes = b"") -> tuple[socket.socket, bytes]:
    """Listen on the sandbox's loopback; returns the listener and what to tell the proxy first."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(MAX_CONNECTIONS)
    listener.setblocking(False)
    return listener, opening


def detach(doors: list[tuple[socket.socket, bytes]], path: str) -> None:
    """Forward in a grandchild that belongs to pid 1."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # the agent's last words need a way out
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.chdir("/")
        forward(doors, path)
    finally:
        os._exit(1)


def become(argv: list[str]) -> int:
    """Turn into the agent; returns a shell's status when that fails."""
    for name in RESET:  # some were ignored on the way here, so that keys don't end bubblewrap
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606  (no shell is the point)
    except OSError as error:
        sys.stderr.write(f"spike run: {argv[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def main(argv: list[str]) -> int:
    """Set up the ways out and become the agent."""
    end = argv.index("--")
    port, path, *local = argv[:end]
    doors = [open_door(int(port))]
    for name in local:
        opening = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
        try:
            doors.append(open_door(int(name.rpartition(":")[2]), opening))
        except OSError as error:  # a port below 1024
            sys.stderr.write(f"spike run: {name} is only reachable as a proxy: {error.strerror}\n")
    detach(doors, path)
    for listener, _ in doors:
        listener.close()
    return become(argv[end + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
