"""The transport: MCP over a pair of descriptors, without threads (spec 7, "Transport").

`serve` works on any pair of pipes or on one connected socket; `run_stdio` adds what a whole process
needs: private descriptors, signals, an end within a second. Both protocol eras come from the
SDK's own loop (`Server.run`), which this module only feeds and drains.
"""

import os
import select
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc
import anyio.lowlevel
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from spike_mcp.edge import frames
from spike_mcp.edge.claim import claim_stdio
from spike_mcp.edge.outbox import Outbox

MAX_OPEN = 128
"""Requests in hand at once; the next line is read when one of them is answered."""
MAX_OPEN_BYTES = 16 << 20
"""Bytes of the requests in hand; one alone may be larger."""
CHUNK = 1 << 16
HANGUP_POLL_SECONDS = 0.25
STOP_HOOK_SECONDS = 0.5
STOP_SECONDS = 0.9
"""After a signal the process is gone this much later, whatever still runs."""
EOF_SECONDS = 5.0
"""The same after the end of input, on top of the drain."""


class End(Enum):
    """Why a conversation ended."""

    EOF = "eof"
    STOPPED = "stopped"
    STUCK = "stuck"


class Inbox:
    """The SDK's read stream: lines of a descriptor as messages, with back-pressure and a drain.

    What can't be read as a message is answered here and never reaches the SDK.
    """

    def __init__(
        self,
        fd: int,
        outbox: Outbox,
        *,
        drain: float,
        max_line: int,
        on_bad_frame: Callable[[frames.BadFrame], None] | None,
    ) -> None:
        self._fd = fd
        self._outbox = outbox
        self._drain = drain
        self._max_line = max_line
        self._on_bad_frame = on_bad_frame
        self._splitter = frames.LineSplitter(max_line)
        self._lines: deque[bytes | frames.Oversized] = deque()
        self._open: dict[RequestId, list[int]] = {}
        self._open_count = self._open_bytes = 0
        self._settled: anyio.Event | None = None
        self._eof = False

    async def receive(self) -> SessionMessage:
        """Return the next message; `EndOfStream` once the input has ended and is drained."""
        while True:
            try:
                if self._outbox.full:
                    await self._patiently(self._outbox.calm)
                while self._lines:
                    message = await self._read_line(self._lines.popleft())
                    if message is not None:
                        return message
            except anyio.BrokenResourceError:  # nobody will read the answers
                raise anyio.EndOfStream from None
            if self._eof:
                with anyio.move_on_after(self._drain):
                    await self._until(lambda: not self._open_count)
                self._outbox.hurry()
                raise anyio.EndOfStream
            if not self._has_room():
                await self._patiently(lambda: self._until(self._has_room))
            await self._fill()

    def settle(self, request_id: RequestId | None) -> None:
        """Note that a request got its answer, or will get none."""
        sizes = self._open.get(request_id) if request_id is not None else None
        if request_id is None or not sizes:
            return
        self._open_count -= 1
        self._open_bytes -= sizes.pop()
        if not sizes:
            del self._open[request_id]
        if self._settled is not None:
            self._settled.set()

    def _has_room(self) -> bool:
        return self._open_count < MAX_OPEN and self._open_bytes < MAX_OPEN_BYTES

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._settled = anyio.Event()
            await self._settled.wait()

    async def _patiently(self, wait: Callable[[], Awaitable[None]]) -> None:
        """Wait without reading; once the client has left, no longer than a drain."""
        patience = HANGUP_POLL_SECONDS
        while True:
            with anyio.move_on_after(patience) as scope:
                await wait()
            if not scope.cancelled_caught:
                return
            if patience == self._drain:
                self._outbox.hurry()
                raise anyio.EndOfStream
            if _hung_up(self._fd):
                patience = self._drain

    async def _fill(self) -> None:
        await _wait_readable(self._fd)
        try:
            chunk = os.read(self._fd, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # reset by peer, a terminal that hung up
            chunk = b""
        if chunk:
            self._lines.extend(self._splitter.feed(chunk))
        else:
            self._eof = True
            self._lines.extend(self._splitter.close())

    async def _read_line(self, line: bytes | frames.Oversized) -> SessionMessage | None:
        message = frames.parse(line, self._max_line)
        if isinstance(message, frames.BadFrame):
            if self._on_bad_frame is not None:
                self._on_bad_frame(message)
            await self._outbox.put(message.lines())
            return None
        if not isinstance(message, JSONRPCRequest):
            return None if message is None else SessionMessage(message)
        request_id = message.id
        size = len(line) if isinstance(line, bytes) else 0
        self._open.setdefault(request_id, []).append(size)
        self._open_count += 1
        self._open_bytes += size

        async def unanswered() -> None:  # cancelled by the client
            self.settle(request_id)

        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=unanswered))

    async def aclose(self) -> None:
        """Nothing to release: the descriptor belongs to the caller."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class Answers:
    """The SDK's write stream: messages into the outbox, and the inbox told what is settled."""

    def __init__(self, inbox: Inbox, outbox: Outbox) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Queue one message; waits while too much is unread, `BrokenResourceError` when hopeless.

        Progress is dropped rather than waited for.
        """
        if self._closed:
            raise anyio.ClosedResourceError
        message = item.message
        if (
            isinstance(message, JSONRPCNotification)
            and message.method == "notifications/progress"
            and self._outbox.full
        ):
            return
        try:
            await self._outbox.put(frames.encode(message))
        finally:
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                self._inbox.settle(message.id)

    async def aclose(self) -> None:
        """Take no more messages; what is queued still goes out."""
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


async def serve(
    server: Server[Any],
    read_fd: int,
    write_fd: int,
    *,
    stop: anyio.Event | None = None,
    drain: float = 2.0,
    max_line: int = 4 << 20,
    stall: float = 10.0,
    on_bad_frame: Callable[[frames.BadFrame], None] | None = None,
) -> End:
    """Serve one client over two descriptors (or one socket, given twice) until it is over.

    * End of input: requests in hand get `drain` seconds to finish and are answered (`End.EOF`).
    * `stop` set: handlers are cancelled, their requests answered with an error (`End.STOPPED`).
    * The client takes nothing for `stall` seconds while answers wait, or hung up: `End.STUCK`.

    Lines above `max_line` bytes and lines that are no message get the protocol's error;
    `on_bad_frame` sees each. The descriptors stay open: they are the caller's.
    """
    outbox = Outbox(write_fd, stall=stall)
    inbox = Inbox(read_fd, outbox, drain=drain, max_line=max_line, on_bad_frame=on_bad_frame)
    end = End.EOF

    async def watch(event: anyio.Event, meaning: End) -> None:
        nonlocal end
        await event.wait()
        end = meaning
        outbox.hurry()
        talk.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            talk = anyio.CancelScope()
            tasks.start_soon(outbox.run)
            tasks.start_soon(watch, outbox.broken, End.STUCK)
            if stop is not None:
                tasks.start_soon(watch, stop, End.STOPPED)
            with talk:
                await server.run(
                    inbox, Answers(inbox, outbox), server.create_initialization_options()
                )
            if outbox.broken.is_set():
                end = End.STUCK
            outbox.hurry()
            with anyio.move_on_after(drain if end is End.EOF else 0.1):
                await outbox.empty()
            tasks.cancel_scope.cancel()
    finally:
        outbox.close()
    return end


def run_stdio(
    make_server: Callable[[], Server[Any]],
    *,
    fds: tuple[int, int] | None = None,
    on_stop: Callable[[], Awaitable[None]] | None = None,
    on_bad_frame: Callable[[frames.BadFrame], None] | None = None,
    drain: float = 2.0,
) -> int:
    """Serve a whole process over stdio and return its exit status.

    `fds` are the descriptors of an earlier `claim_stdio()`; without, they are claimed here, before
    `make_server` is called. `on_stop` runs once, at the end: half a second long at most, before
    handlers are cancelled, after SIGTERM, SIGINT or SIGHUP; `drain` seconds at most otherwise.
    Status: 0 at the end of input, 128 + n after signal n, 141 when the client stopped reading.
    """
    read_fd, write_fd = fds if fds is not None else claim_stdio()
    status = 0
    hook = on_stop or _nothing

    async def heed_signals(
        stop: anyio.Event, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        nonlocal status, hook
        wanted = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup
            wanted.append(signal.SIGHUP)
        with anyio.open_signal_receiver(*wanted) as signals:
            task_status.started()
            async for number in signals:
                if status:
                    continue  # one client sends SIGINT, then SIGTERM 0.1 s later
                status = 128 + number
                _end_within(STOP_SECONDS, status)
                now, hook = hook, _nothing
                await _bounded(now, STOP_HOOK_SECONDS)
                stop.set()

    async def main() -> None:
        nonlocal status, hook
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            await tasks.start(heed_signals, stop)
            end = await serve(
                make_server(), read_fd, write_fd, stop=stop, drain=drain, on_bad_frame=on_bad_frame
            )
            if end is End.STUCK:
                status = status or 128 + signal.SIGPIPE
            if not status:
                _end_within(EOF_SECONDS + drain, 0)
            now, hook = hook, _nothing
            await _bounded(now, drain)
            tasks.cancel_scope.cancel()

    anyio.run(main)
    return status


async def _nothing() -> None:
    """Stand in for a hook that is absent or has run."""


async def _bounded(hook: Callable[[], Awaitable[None]], seconds: float) -> None:
    with anyio.move_on_after(seconds, shield=True):
        await hook()


def _end_within(seconds: float, status: int) -> None:
    """End the process after `seconds` even if a thread or a handler never returns."""
    timer = threading.Timer(seconds, os._exit, (status,))
    timer.daemon = True
    timer.start()


def _hung_up(fd: int) -> bool:
    """Tell whether the client will send nothing more, unread input aside."""
    poll = select.poll()
    poll.register(fd, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))


async def _wait_readable(fd: int) -> None:
    try:
        await anyio.wait_readable(fd)
    except PermissionError:  # a regular file or /dev/null: never has to wait
        await anyio.lowlevel.checkpoint()
