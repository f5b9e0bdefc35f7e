"""The stage of a demo: the human's command line and the agent's MCP session, both for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from spike_mcp.edge.text import safe

_WIDEST, _NARROWEST = 96, 60
_MARGIN = "   | "


class Failed(Exception):  # noqa: N818  (the demo's own word)
    """A step did not do what the story says."""


class Stage:
    """Runs steps and prints them as they happen."""

    Failed = Failed

    def __init__(self, top: Path, repo: Path, name: str) -> None:
        self.top = top
        self.repo = repo
        self.name = name
        self.root = top / "spikes" / name
        self.verdict_line = ""
        columns = shutil.get_terminal_size((_WIDEST, 24)).columns
        self.width = min(max(columns, _NARROWEST), _WIDEST)
        # The tests run under this very Python, whatever `python` means in the user's shell.
        here = os.path.dirname(sys.executable)
        self.env = {**os.environ, "PATH": here + os.pathsep + os.environ.get("PATH", "")}
        self.env.pop("SPIKE", None)

    def chapter(self, title: str) -> None:
        """A heading."""
        print("\n" + f"== {title} ".ljust(self.width, "="), flush=True)

    def say(self, *lines: str) -> None:
        """Narration, as it stands: what is to be typed must not be broken."""
        for line in lines:
            print(f"   {line}".rstrip(), flush=True)

    # --- the human --------------------------------------------------------------------------------

    def human(
        self, *arguments: str, expect: int = 0, show: int = 40, cwd: Path | None = None
    ) -> str:
        """One real `spike` command; fails unless it exits with `expect`.

        Data and messages are shown as a terminal shows them: in the order they were written.
        """
        print(_command(arguments, self.width), flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "spike_mcp.edge.cli", *arguments],
            cwd=cwd or self.repo,
            env={**self.env, "COLUMNS": str(self.width - len(_MARGIN))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if show else subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            timeout=180,
            check=False,
        )
        self._print(done.stdout, show)
        if done.returncode != expect:
            raise Failed(f"expected exit {expect}, got {done.returncode}")
        if expect:
            print(f"   (exit {expect})", flush=True)
        return done.stdout

    def human_json(self, *arguments: str, expect: int = 0) -> dict[str, Any]:
        """The same with `--json`, printed only as the command."""
        out = self.human(*arguments, "--json", expect=expect, show=0)
        found: dict[str, Any] = json.loads(out)
        return found

    def pending(self, containing: str) -> str:
        """Id of the pending hunk whose diff holds a text: what a person finds by looking."""
        told = self._quiet("map", "--json")
        for hunk in json.loads(told)["hunks"]:
            if hunk["state"] == "pending" and containing in self._quiet("show", hunk["id"]):
                return str(hunk["id"])
        raise Failed(f"no pending hunk holds {containing!r}")

    def _quiet(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "spike_mcp.edge.cli", "--spike", str(self.root), *arguments],
            cwd=self.repo,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
        )
        return done.stdout

    # --- the agent --------------------------------------------------------------------------------

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """An MCP session with the real server over stdio."""
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "spike_mcp.edge.server", "--spike", str(self.root)],
            env=self.env,
        )
        async with Client(command) as client:
            yield Agent(self, client)

    def _print(self, text: str, limit: int) -> None:
        lines = safe(text).rstrip("\n").split("\n") if text.strip() else []
        for line in lines[:limit]:
            for part in textwrap.wrap(line, self.width - len(_MARGIN)) or [""]:
                print(f"{_MARGIN}{part}", flush=True)
        if len(lines) > limit > 0:
            print(f"{_MARGIN}... {len(lines) - limit} more lines", flush=True)


class Agent:
    """The scripted agent: calls tools and checks what comes back."""

    def __init__(self, stage: Stage, client: Client) -> None:
        self.stage = stage
        self.client = client

    async def call(self, tool: str, refused: str = "", **arguments: Any) -> dict[str, Any]:
        """One tools/call; fails unless it is accepted, or refused with this code."""
        shown = ", ".join(f"{k}={_short(v)}" for k, v in arguments.items())
        call = textwrap.wrap(f"agent> {tool}({shown})", self.stage.width, subsequent_indent="   ")
        print("\n".join(call), flush=True)
        result = await self.client.call_tool(tool, arguments)
        text = "\n".join(getattr(part, "text", "") for part in result.content)
        self.stage._print(text, 12)
        meta = dict(result.meta or {})
        reply: dict[str, Any] = dict(meta.get("spike-mcp/reply") or {})
        code = str(reply.get("code", "")) if result.is_error else ""
        if code != refused:
            raise Failed(f"{tool}: expected {refused or 'acceptance'}, got {code or 'acceptance'}")
        return reply


def _short(value: Any) -> str:
    text = str(value)
    first = text.split("\n", 1)[0]
    return repr(first[:50] + ("..." if len(text) > len(first[:50]) else ""))


def _command(arguments: Sequence[str], width: int) -> str:
    """The command line as one can type it, broken between arguments."""
    lines = ["human$ spike"]
    for word in map(_quoted, arguments):
        if len(lines[-1]) + len(word) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"         {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text or not text else text
