"""A client made of bytes for a real `spike-mcp` process, and spikes whose test is a script."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support import Open, open_plain

MODERN = "2026-07-28"
HANDSHAKES = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
META = "spike-mcp/reply"
PATIENCE = 60.0
SERVER = (sys.executable, "-m", "spike_mcp.edge.server")
CLOCKED = (sys.executable, str(Path(__file__).with_name("clocked_server.py")))

SCRIPT = {
    "src/run.sh": "exit 1\n",
    "src/notes.txt": "nothing yet\n",
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": ". src/run.sh\n",
}
"""A spike whose measurement runs what the agent wrote: tests say in src/run.sh what it does."""


def open_script(tmp: Path, **more: Any) -> Open:
    """A started spike over `SCRIPT`."""
    return open_plain(tmp, files=SCRIPT, **more)


class Wire:
    """One server process and the messages it sends; the newest reply's machine copy is `meta`."""

    def __init__(
        self,
        root: Path | None,
        version: str = MODERN,
        *,
        command: tuple[str, ...] = SERVER,
        words: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        spike = ("--spike", str(root)) if root is not None else ()
        self.version = version
        self.process = subprocess.Popen(
            [*command, *spike, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
        self.others: list[dict[str, Any]] = []
        self.lines: list[bytes] = []
        self.server: dict[str, Any] = {}
        self.meta: dict[str, Any] = {}
        self._rest = b""
        self._next = 0
        self._waiting: dict[Any, dict[str, Any]] = {}
        if version != MODERN:
            self._hello()

    def _hello(self) -> None:
        info = {"name": "wire", "version": "1"}
        hello = {"protocolVersion": self.version, "capabilities": {}, "clientInfo": info}
        self.server = self.ask("initialize", hello)["result"]
        self.send("notifications/initialized")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    # --- sending --------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Raw bytes."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.process.stdin.fileno(), view) :]

    def send(self, method: str, params: dict | None = None, request_id: Any = None) -> None:
        """One message; without an id a notification."""
        params = dict(params or {})
        if self.version == MODERN:
            params["_meta"] = {**ENVELOPE, **params.get("_meta", {})}
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
        self.write(json.dumps(message).encode() + b"\n")

    def ask(self, method: str, params: dict | None = None) -> dict[str, Any]:
        """A request and its answer."""
        self._next += 1
        self.send(method, params, self._next)
        return self.answer(self._next)

    def begin(self, tool: str, *, token: Any = None, **arguments: Any) -> int:
        """Send a tools/call and return its id."""
        self._next += 1
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        self.send("tools/call", params, self._next)
        return self._next

    def cancel(self, request_id: Any) -> None:
        """`notifications/cancelled`."""
        self.send("notifications/cancelled", {"requestId": request_id, "reason": "tired"})

    # --- receiving ------------------------------------------------------------------------------

    def line(self, patience: float = PATIENCE) -> bytes:
        """The next line of output."""
        end = time.monotonic() + patience
        while b"\n" not in self._rest:
            left = max(0.0, end - time.monotonic())
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            assert ready, "no answer"
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            assert chunk, "end of output"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        self.lines.append(line)
        return line

    def answer(self, request_id: Any, patience: float = PATIENCE) -> dict[str, Any]:
        """The answer to a request; what else arrives meanwhile is kept."""
        while request_id not in self._waiting:
            message = json.loads(self.line(patience))
            assert message["jsonrpc"] == "2.0"
            if "id" in message and "method" not in message:
                self._waiting[message["id"]] = message
            else:
                self.others.append(message)
        return self._waiting.pop(request_id)

    def result(self, request_id: Any, patience: float = PATIENCE) -> str:
        """The text of a tools/call's reply; `meta` holds its machine copy."""
        found = self.answer(request_id, patience)["result"]
        self.meta = found["_meta"][META]
        (block,) = found["content"]
        assert block["type"] == "text"
        assert "structuredContent" not in found
        assert found.get("isError", False) is (self.meta["outcome"] == "refused")
        return block["text"]

    def call(self, tool: str, **arguments: Any) -> str:
        """A tools/call and the text of its reply."""
        return self.result(self.begin(tool, **arguments))

    def edit(self, old: str, new: str, path: str = "src/run.sh") -> str:
        """Replace text in the script that the measurement runs."""
        why = "the sample file turns green"
        return self.call("spike_edit_file", path=path, old_text=old, new_text=new, rationale=why)

    def script(self, text: str) -> str:
        """Give src/run.sh a new content."""
        found = self.call("spike_read_file", path="src/run.sh")
        assert "sha256" in found
        return self.call(
            "spike_write_file",
            path="src/run.sh",
            content=text,
            expected_sha256=self.meta["sha256"],
            rationale="the sample file turns green",
        )

    def close(self) -> int:
        """End of input; the exit status."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def rows(opened: Open) -> list[dict[str, Any]]:
    """The ledger's rows as they stand."""
    text = (opened.spike.judge / "ledger.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def wait_for_row(opened: Open, event: str, patience: float = PATIENCE, **fields: Any) -> dict:
    """Wait until the ledger holds a row, and return it."""
    end = time.monotonic() + patience
    while True:
        for row in rows(opened):
            if row["event"] == event and all(row.get(k) == v for k, v in fields.items()):
                return row
        assert time.monotonic() < end, f"no row {event}"
        time.sleep(0.02)


def processes(marker: str) -> list[int]:
    """Pids of processes that have `marker` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def gone(marker: str, patience: float = 5.0) -> bool:
    """Whether no process with `marker` is left within `patience` seconds."""
    end = time.monotonic() + patience
    while processes(marker):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
