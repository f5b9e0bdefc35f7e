"""`spike-mcp connect SOCKET`: stdio on one side, the server's unix socket on the other.

Standard library only and nothing of this package: the file is copied into the agent's sandbox and
started there as `python3 -I -S bridge.py SOCKET` (spec 14). Lines pass unchanged. What it adds:

* the server may be 5 s late, and may be restarted: the handshake is replayed, the client's lines
  are held until it is answered, and the client notices nothing but the calls that were lost;
* a lost `tools/call` is answered with an error, for nobody knows whether it took effect; a lost
  request of any other kind is asked again;
* memory stays within about a line per direction, whoever stops reading.

Exit status: 0 the client is done or gone, 69 no server, 70 the server is lost for good.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time

PATIENCE = 5.0
"""Seconds to wait for a server, at the start and after a loss."""
LATE = 10.0
"""Seconds to wait for answers after the client's last line."""
FRUITLESS = 5
"""Connections in a row that ended without a word from the server."""
HIGH_WATER = 1 << 20
"""Unsent bytes above which the other side is not read."""
LONG_LINE = 5 << 20
"""Bytes of a client's line above which it is passed on in pieces (the server refuses it)."""
MAX_SOCKET_PATH = 100
CHUNK = 1 << 16
PIECE = select.PIPE_BUF
"""What a descriptor that is ready takes without blocking."""

OK, NO_SERVER, LOST = 0, 69, 70
LOST_CALL = (
    "the spike server was restarted while this call ran; it may have taken effect: "
    "look at the status (spike_status), then call again if needed"
)


class Ended(Exception):  # noqa: N818  (an end, not always an error)
    """The bridge is over; `status` is the exit status, the text what to say on stderr."""

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(text)
        self.status = status


class Lines:
    """Bytes in, lines out; with a `limit`, a longer line comes in pieces."""

    def __init__(self, limit: int | None = None) -> None:
        self._rest = bytearray()
        self._limit = limit
        self.inside = False
        """Whether the last piece was not the end of its line."""

    def feed(self, chunk: bytes) -> list[tuple[bytes, bool]]:
        """Return (piece, is a whole line) for all that is complete or too long to keep."""
        *ends, rest = chunk.split(b"\n")
        out = []
        for end in ends:
            out.append((bytes(self._rest) + end + b"\n", not self.inside))
            self._rest.clear()
            self.inside = False
        self._rest += rest
        if (
            self._rest
            and self._limit is not None
            and (self.inside or len(self._rest) > self._limit)
        ):
            out.append((bytes(self._rest), False))
            self._rest.clear()
            self.inside = True
        return out

    def close(self) -> list[tuple[bytes, bool]]:
        """Return the last line, if it had no newline."""
        return self.feed(b"\n") if self._rest or self.inside else []


def _parsed(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _key(request_id: object) -> str:
    return json.dumps(request_id)


class Conversation:
    """What the bridge remembers of the client's session, to carry it over a restart."""

    def __init__(self) -> None:
        self.initialize: dict[str, object] | None = None
        self.initialized = b""
        self.pending: dict[str, tuple[object, str, bytes]] = {}
        self._replays = 0
        self.awaited: str | None = None

    def sent(self, line: bytes) -> None:
        """Note a line of the client."""
        message = _parsed(line)
        method = message.get("method")
        if not isinstance(method, str):
            return
        if "id" in message:
            # The text of a call is not kept: it can be 4 MiB, and is never sent again.
            kept = b"" if method == "tools/call" else line
            self.pending[_key(message["id"])] = (message["id"], method, kept)
            if method == "initialize":
                self.initialize = message
        elif method == "notifications/initialized":
            self.initialized = line
        elif method == "notifications/cancelled":
            params = message.get("params")
            if isinstance(params, dict):
                self.pending.pop(_key(params.get("requestId")), None)

    def received(self, line: bytes) -> bool:
        """Note a line of the server; False when it is the answer to a replay, not the client's."""
        message = _parsed(line)
        if "id" not in message or "method" in message:
            return True
        key = _key(message["id"])
        self.pending.pop(key, None)
        if key != self.awaited:
            return True
        if "result" not in message:
            raise Ended(LOST, "the restarted server refused the handshake")
        self.awaited = None
        return False

    def losses(self) -> bytes:
        """Forget the lost calls and return the errors that answer them."""
        lost = [key for key, (_, method, _) in self.pending.items() if method == "tools/call"]
        out = b""
        for key in lost:
            request_id, _, _ = self.pending.pop(key)
            error = {"code": -32000, "message": LOST_CALL}
            answer = {"jsonrpc": "2.0", "id": request_id, "error": error}
            out += json.dumps(answer).encode() + b"\n"
        return out

    def handshake(self) -> bytes:
        """Return the line that opens a further connection; empty when none is needed.

        A handshake that was never answered is simply among `repeats`.
        """
        self.awaited = None
        if self.initialize is None or _key(self.initialize["id"]) in self.pending:
            return b""
        self._replays += 1
        replay_id = f"spike-bridge-{os.getpid()}-{self._replays}"
        self.awaited = _key(replay_id)
        return json.dumps({**self.initialize, "id": replay_id}).encode() + b"\n"

    def repeats(self) -> bytes:
        """Return what to send once the handshake stands: its end and the unanswered requests."""
        answered = self.initialize is None or _key(self.initialize["id"]) not in self.pending
        return (self.initialized if answered else b"") + b"".join(
            line for _, _, line in self.pending.values()
        )


class Bridge:
    """The select loop between descriptors 0 and 1 and the socket at `path`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._talk = Conversation()
        self._from_client = Lines(LONG_LINE)
        self._to_server = bytearray()
        self._to_client = bytearray()
        self._held: list[tuple[bytes, bool]] = []
        self._midway = False
        """A long line's beginning went to this connection; after a loss its rest is skipped."""
        self._skipping = False
        self._client_ended = False
        self._half_closed = False
        self._deadline: float | None = None
        self._fruitless = 0
        self._begin()

    def run(self) -> None:
        """Pass lines until `Ended` is raised."""
        while True:
            self._half_close_when_done()
            ready = self._wait()
            if ready.get(1, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                raise Ended(OK)
            if ready.get(1):
                self._write_client()
            if ready.get(0):
                self._read_client()
            events = ready.get(self._sock.fileno(), 0)
            if events & select.POLLOUT:
                self._write_server()
            if events & ~select.POLLOUT:
                self._read_server()

    # waiting

    def _wait(self) -> dict[int, int]:
        poll = select.poll()
        poll.register(1, select.POLLOUT if self._to_client else 0)
        unsent = len(self._to_server) + sum(len(piece) for piece, _ in self._held)
        if not self._client_ended and unsent < HIGH_WATER:
            poll.register(0, select.POLLIN)
        wanted = select.POLLIN if len(self._to_client) < HIGH_WATER else 0
        if self._to_server:
            wanted |= select.POLLOUT
        if wanted:  # a hang-up is always reported: nothing to wait for while the client is slow
            poll.register(self._sock, wanted)
        left = None
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._finish(OK)
        return dict(poll.poll(None if left is None else left * 1000 + 1))

    def _half_close_when_done(self) -> None:
        if self._client_ended and not (self._half_closed or self._to_server or self._held):
            self._half_closed = True
            with contextlib.suppress(OSError):  # a loss: the read side reports it
                self._sock.shutdown(socket.SHUT_WR)
            self._deadline = time.monotonic() + LATE

    # the client's side

    def _read_client(self) -> None:
        chunk = _read(0)
        self._client_ended = not chunk
        for piece in self._from_client.feed(chunk) if chunk else self._from_client.close():
            if self._talk.awaited is None:
                self._pass_on(*piece)
            else:
                self._held.append(piece)

    def _pass_on(self, piece: bytes, whole: bool) -> None:
        if whole:
            self._talk.sent(piece)
        if not self._skipping:
            self._to_server += piece
        if piece.endswith(b"\n"):
            self._skipping = False
            self._midway = False
        else:
            self._midway = True

    def _write_client(self) -> None:
        try:
            done = os.write(1, memoryview(self._to_client)[:PIECE])
        except OSError:
            raise Ended(OK) from None
        del self._to_client[:done]

    # the server's side

    def _begin(self) -> None:
        """Connect, and open the conversation again if there was one."""
        self._sock = self._connect()
        self._from_server = Lines()
        self._skipping = self._midway
        self._to_server[:] = self._talk.handshake()
        if self._talk.awaited is None:
            self._resume()

    def _resume(self) -> None:
        self._to_server += self._talk.repeats()
        held, self._held = self._held, []
        for piece in held:
            self._pass_on(*piece)

    def _connect(self) -> socket.socket:
        end = time.monotonic() + PATIENCE
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                _connect(sock, self._path)
            except OSError as error:
                sock.close()
                if time.monotonic() >= end:
                    raise Ended(NO_SERVER, f"no server at {self._path}: {error}") from None
                self._pause(0.05)
                continue
            sock.setblocking(False)
            return sock

    def _pause(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(1, 0)
        if poll.poll(seconds * 1000):
            raise Ended(OK)

    def _write_server(self) -> None:
        try:
            done = self._sock.send(self._to_server)
        except BlockingIOError:
            return
        except OSError:
            self._lose()
            return
        del self._to_server[:done]

    def _read_server(self) -> None:
        try:
            chunk = self._sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._lose()
            return
        for line, _ in self._from_server.feed(chunk):
            if self._talk.received(line):
                self._fruitless = 0
                self._to_client += line
            else:
                self._resume()

    def _lose(self) -> None:
        """Answer what is lost and start again."""
        self._sock.close()
        self._to_client += self._talk.losses()
        if self._half_closed or (self._client_ended and not (self._talk.pending or self._held)):
            self._finish(OK)
        self._fruitless += 1
        if self._fruitless > FRUITLESS:
            self._finish(LOST, "the server closes every connection")
        self._pause(0.1 * (self._fruitless - 1))
        try:
            self._begin()
        except Ended as ended:
            self._finish(LOST if ended.status == NO_SERVER else ended.status, str(ended))

    def _finish(self, status: int, text: str = "") -> None:
        """Deliver what the client still takes within `LATE` seconds, and end."""
        end = time.monotonic() + LATE
        poll = select.poll()
        poll.register(1, select.POLLOUT)
        while self._to_client and poll.poll(max(0, end - time.monotonic()) * 1000):
            self._write_client()
        raise Ended(status, text)


def _connect(sock: socket.socket, path: str) -> None:
    """Connect at any path length: a socket's own limit is 107 bytes."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        sock.connect(path)
        return
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        sock.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""


def main(argv: list[str]) -> int:
    """Run the bridge to the socket named by `argv[0]`; returns the exit status."""
    if len(argv) != 1:
        sys.stderr.write("usage: spike-mcp connect SOCKET\n")
        return 64
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        Bridge(argv[0]).run()
    except Ended as ended:
        if str(ended):
            sys.stderr.write(f"spike-mcp connect: {ended}\n")
        return ended.status
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
