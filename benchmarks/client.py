"""The smallest MCP client that can be timed: lines of JSON over a child's stdin and stdout.

The same bytes go to every server, ours and the peers', so what differs is the server alone.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 120.0
VERSION = "2025-06-18"
"""An era that every peer speaks."""


class Client:
    """A server process, initialized. `call` is one round trip of a tool."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._rest = b""
        self._next = 0
        hello = {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self.ask("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One request and its result; fails on a protocol error."""
        self._next += 1
        self._send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        while True:
            message = json.loads(self._line())
            if message.get("id") == self._next and "method" not in message:
                if "result" not in message:
                    raise RuntimeError(f"{method}: {message}")
                result: dict[str, Any] = message["result"]
                return result

    def begin(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Send a tools/call and do not wait for its answer."""
        self._next += 1
        params = {"name": tool, "arguments": arguments}
        self._send({"jsonrpc": "2.0", "id": self._next, "method": "tools/call", "params": params})

    def call(self, tool: str, **arguments: Any) -> str:
        """One tools/call; its text. Fails if the tool said no."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = "".join(part.get("text", "") for part in result.get("content", []))
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {text[:500]}")
        return text

    def _send(self, message: Mapping[str, Any]) -> None:
        view = memoryview(json.dumps(message).encode() + b"\n")
        while view:
            view = view[os.write(self._in, view) :]

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], PATIENCE)
            chunk = os.read(self._out, 1 << 16) if ready else b""
            if not chunk:
                raise RuntimeError("the server gave no answer")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self) -> None:
        """End of input, and the end of the process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
