"""What the tests of the public bug reports share: a real server and the real command line.

Every test drives `spike-mcp` over stdio or `spike` as a person would; the ids are those of the
reports that `docs/bugs.md` lists.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import PLAIN, Open, open_plain, snapshot
from wire import Wire, rows

A = PLAIN["src/a.py"]
WHY = "rewriting the lines of the sample"


def cli(opened: Open, *arguments: str, stdin: str = "") -> tuple[int, dict[str, Any]]:
    """One real `spike` command with `--json`; (exit code, the object it printed)."""
    command = [sys.executable, "-m", "spike_mcp.edge.cli", "--spike", str(opened.spike.root)]
    done = subprocess.run(
        [*command, *arguments, "--json"], capture_output=True, text=True, input=stdin, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def said(opened: Open, *arguments: str) -> str:
    """What a `spike` command prints for people."""
    command = [sys.executable, "-m", "spike_mcp.edge.cli", "--spike", str(opened.spike.root)]
    done = subprocess.run([*command, *arguments], capture_output=True, check=False)
    return (done.stdout + done.stderr).decode("utf-8")


class Bench:
    """A started spike, its server, and shorthand for what the reports do."""

    def __init__(self, opened: Open, server: Wire) -> None:
        self.opened = opened
        self.server = server
        self.work: Path = opened.spike.work
        self.judge: Path = opened.spike.judge

    def apply(self, patch: str) -> str:
        """spike_apply_patch; "" when accepted, else the refusal's code."""
        self.text = self.server.call("spike_apply_patch", patch=patch, rationale=WHY)
        return str(self.server.meta.get("code", ""))

    def edit(self, old: str, new: str, path: str = "src/a.py") -> str:
        """spike_edit_file; "" or the refusal's code."""
        self.text = self.server.call(
            "spike_edit_file", path=path, old_text=old, new_text=new, rationale=WHY
        )
        return str(self.server.meta.get("code", ""))

    def create(self, path: str, content: str = "x\n") -> str:
        """spike_write_file of a new file; "" or the refusal's code."""
        self.text = self.server.call("spike_write_file", path=path, content=content, rationale=WHY)
        return str(self.server.meta.get("code", ""))

    def run(self) -> bool:
        """spike_run_test; whether it was green."""
        self.text = self.server.call("spike_run_test")
        return bool(self.server.meta.get("green", False))

    def read(self, path: str = "src/a.py") -> bytes:
        """The file's bytes on disk."""
        return (self.work / path).read_bytes()

    def map(self) -> list[dict[str, Any]]:
        """`spike map`."""
        _code, told = cli(self.opened, "map")
        return list(told["hunks"])

    def pending(self) -> list[str]:
        """Ids of pending hunks."""
        return [hunk["id"] for hunk in self.map() if hunk["state"] == "pending"]

    def approve(self, *hunks: str, tag: str = "rewriting the sample lines") -> tuple[int, Any]:
        """`spike approve` with every flag acknowledged."""
        return cli(self.opened, "approve", *hunks, "--tag", tag, "--ack", "all")

    def refusals(self) -> list[str]:
        """Codes of the ledger's refusal rows."""
        return [row["code"] for row in rows(self.opened) if row["event"] == "call_refused"]

    def final(self) -> tuple[int, dict[str, Any]]:
        """`spike verdict --final`."""
        return cli(self.opened, "verdict", "--final")

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """work/ as it is on disk."""
        return snapshot(self.work)


@contextmanager
def bench(tmp: Path, files: Mapping[str, str | bytes] | None = None, **more: Any):
    """A started spike over the reports' fixture (with `files` added) and a server for it."""
    opened = open_plain(tmp, files={**PLAIN, **(files or {})}, **more)
    with Wire(opened.spike.root) as server:
        yield Bench(opened, server)


def diff(path: str, *lines: str, head: str = "@@ -1,3 +1,3 @@") -> str:
    """A one-file unified diff."""
    return f"--- a/{path}\n+++ b/{path}\n{head}\n" + "".join(line + "\n" for line in lines)


def creation(path: str, *lines: str) -> str:
    """A diff that creates a file."""
    head = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    return head + "".join(f"+{line}\n" for line in lines)
