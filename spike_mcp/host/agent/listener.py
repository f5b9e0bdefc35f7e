"""The agent's way to the server: one unix socket, few connections, only its own processes.

`clientInfo` is no proof of anything; the kernel's word about the peer is. Ancillary data is never
read, so descriptors that the agent sends are dropped by the kernel.
"""

import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from spike_mcp.host.agent.channel import accepted
from spike_mcp.host.agent.model import Peer
from spike_mcp.host.agent.namespace import Namespace

MAX_CONNECTIONS = 4
MAX_ROWS = 50
"""Connections and refusals that get a ledger row each; the rest are only counted."""

Serve = Callable[[Peer, int, anyio.Event], Awaitable[None]]
OnEvent = Callable[[str, Mapping[str, Any]], Awaitable[None]]

_CREDENTIALS = struct.Struct("3i")


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Return (pid, uid) of the process that connected, as this process sees them."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


class Listener:
    """Hands the connections of the agent's own processes to `serve`, four at a time.

    `namespace` waits until the agent's namespace is known. `stop` ends the conversations.
    """

    def __init__(
        self,
        serve: Serve,
        on_event: OnEvent,
        namespace: Callable[[], Awaitable[Namespace]],
        stop: anyio.Event,
    ) -> None:
        self._serve = serve
        self._on_event = on_event
        self._namespace = namespace
        self._stop = stop
        self._live = 0
        self._ended = anyio.Event()
        self.connected = 0
        self.refused = 0

    async def run(self, listener: socket.socket) -> None:
        """Serve for ever."""
        async with anyio.create_task_group() as tasks:
            async for sock in accepted(listener):
                tasks.start_soon(self._receive, sock)

    async def idle(self) -> None:
        """Wait until no conversation is left."""
        while self._live:
            await self._ended.wait()

    async def _receive(self, sock: socket.socket) -> None:
        with sock:
            pid, uid = peer_of(sock)
            namespace = await self._namespace()
            if not namespace.holds(pid):
                await self._refuse(pid, "not a process of the agent")
            elif self._live >= MAX_CONNECTIONS:
                await self._refuse(pid, f"more than {MAX_CONNECTIONS} connections")
            else:
                await self._converse(sock, pid, uid)

    async def _converse(self, sock: socket.socket, pid: int, uid: int) -> None:
        self._live += 1
        self.connected += 1
        peer = Peer(pid, uid, self.connected)
        try:
            if peer.number <= MAX_ROWS:
                await self._on_event("agent_connected", {"pid": pid, "connection": peer.number})
            await self._serve(peer, sock.fileno(), self._stop)
        except Exception:
            # One broken conversation must end neither the run nor the others.
            logging.getLogger(__name__).exception("connection %d failed", peer.number)
        finally:
            self._live -= 1
            self._ended.set()
            self._ended = anyio.Event()

    async def _refuse(self, pid: int, reason: str) -> None:
        self.refused += 1
        if self.refused <= MAX_ROWS:
            await self._on_event("agent_refused_connection", {"pid": pid, "reason": reason})
