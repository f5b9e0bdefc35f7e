"""The way out of the sandbox: an HTTP proxy with an exact list of `host:port` (spec 14).

CONNECT for TLS and absolute-form requests for plain http; everything else is refused. The proxy
resolves names, the sandbox can't. It reads no further than the request's head and never decrypts:
what a listed host does with the bytes is that host's affair.
"""

import re
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import SocketStream

from spike_mcp.host.agent.channel import Stream, accepted

MAX_CONNECTIONS = 64
MAX_HEAD = 64 << 10
HEAD_SECONDS = 30.0
CONNECT_SECONDS = 30.0
MAX_ROWS = 100
"""Refused targets that get a ledger row of their own; the rest are counted."""

Target = tuple[str, int]
OnEvent = Callable[[str, Mapping[str, Any]], Awaitable[None]]

_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9._-]{0,252}[a-z0-9_])?|[0-9a-f:.]{2,45}")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_REQUEST = re.compile(r"([A-Z]{1,20}) (\S{1,8192}) HTTP/1\.[01]")
_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"host")
)


def parse_target(text: str, default_port: int | None = None) -> Target | None:
    """Read `host:port`, `[v6]:port`, or `host` with a default port; None if it is neither."""
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        if default_port is None:
            return None
        host, port = text, str(default_port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    host = host.lower().removesuffix(".")
    if not _HOST.fullmatch(host) or not port.isascii() or not port.isdigit():
        return None
    number = int(port) if len(port) <= 5 else 0
    return (host, number) if 0 < number < 65536 else None


def name_of(target: Target) -> str:
    """Write `host:port`, an IPv6 address in brackets."""
    host, port = target
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_list(entries: Iterable[str]) -> frozenset[Target]:
    """Read an allow-list; ValueError names the first entry that is no `host:port`."""
    targets = set()
    for entry in entries:
        target = parse_target(entry)
        if target is None:
            raise ValueError(f"{entry!r} is not host:port")
        targets.add(target)
    return frozenset(targets)


@dataclass(frozen=True, slots=True)
class Request:
    """Where a request wants to go, and the head to send there ("" for CONNECT)."""

    target: Target
    head: bytes


def parse_head(head: bytes) -> Request | None:
    """Read a request's head (up to and with its blank line); None if it is not for a proxy.

    An absolute-form request is rewritten: origin form, Host from the URI, no hop-by-hop headers,
    one request a connection, so that the next one can't borrow this one's permission.
    """
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST.fullmatch(first.decode("latin-1"))
    if found is None or not all(_HEADER.fullmatch(line) for line in lines):
        return None
    method, where = found[1], found[2]
    if method == "CONNECT":
        target = parse_target(where)
        return None if target is None else Request(target, b"")
    scheme, _, rest = where.partition("://")
    authority, slash, path = rest.partition("/")
    target = parse_target(authority, 80)
    if scheme.lower() != "http" or target is None:
        return None
    kept = [line for line in lines if line.split(b":", 1)[0].lower() not in _HOP]
    rewritten = [
        f"{method} {slash or '/'}{path} HTTP/1.1".encode("latin-1"),
        f"Host: {authority}".encode("latin-1"),
        *kept,
        b"Connection: close",
    ]
    return Request(target, b"\r\n".join(rewritten) + b"\r\n\r\n")


class Proxy:
    """Serves the connections of one listener; `allowed` and `refused` count by target."""

    def __init__(self, allow: frozenset[Target], on_event: OnEvent) -> None:
        self._allow = allow
        self._on_event = on_event
        self.allowed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    async def run(self, listener: socket.socket) -> None:
        """Serve for ever."""
        slots = anyio.CapacityLimiter(MAX_CONNECTIONS)
        async with anyio.create_task_group() as tasks:
            async for sock in accepted(listener):
                await slots.acquire_on_behalf_of(sock)
                tasks.start_soon(self._serve, sock, slots)

    async def _serve(self, sock: socket.socket, slots: anyio.CapacityLimiter) -> None:
        try:
            with sock, suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._answer(Stream(sock))
        finally:
            slots.release_on_behalf_of(sock)

    async def _answer(self, client: Stream) -> None:
        head, body = await _read_head(client)
        request = parse_head(head) if head else None
        if request is None:
            await _say(client, "400 Bad Request", "this proxy takes CONNECT and http:// requests")
            return
        host, port = request.target
        name = name_of(request.target)
        if request.target not in self._allow:
            await self._refuse(client, name)
            return
        self.allowed[name] += 1
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                upstream = await anyio.connect_tcp(host, port)
        except (OSError, TimeoutError):
            await _say(client, "502 Bad Gateway", f"{name} can't be reached")
            return
        async with upstream:
            if request.head:
                await upstream.send(request.head + body)
            else:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if body:
                    await upstream.send(body)
            await _relay(client, upstream)

    async def _refuse(self, client: Stream, name: str) -> None:
        known = name in self.refused
        if known or len(self.refused) < MAX_ROWS:
            self.refused[name] += 1
        else:
            self.refused["(others)"] += 1
        await _say(client, "403 Forbidden", f"{name} is not on the allow-list of spike run")
        if not known and len(self.refused) <= MAX_ROWS and "(others)" not in self.refused:
            await self._on_event("egress_refused", {"target": name})


async def _read_head(client: Stream) -> tuple[bytes, bytes]:
    """Return (head with its blank line, what came behind it); the head is empty if none came."""
    data = b""
    with anyio.move_on_after(HEAD_SECONDS):
        while len(data) <= MAX_HEAD:
            end = data.find(b"\r\n\r\n")
            if end >= 0:
                return data[: end + 4], data[end + 4 :]
            chunk = await client.receive()
            if not chunk:
                break
            data += chunk
    return b"", b""


async def _say(client: Stream, status: str, text: str) -> None:
    body = text.encode() + b"\n"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    await client.send(head.encode() + body)


async def _relay(client: Stream, upstream: SocketStream) -> None:
    """Carry bytes both ways until both directions have ended or one has broken."""

    async def outwards() -> None:
        while data := await client.receive():
            await upstream.send(data)
        await upstream.send_eof()

    async def inwards() -> None:
        with suppress(anyio.EndOfStream):
            while True:
                await client.send(await upstream.receive())
        client.send_eof()

    async def guarded(direction: Callable[[], Awaitable[None]]) -> None:
        try:
            await direction()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(guarded, outwards)
        tasks.start_soon(guarded, inwards)
