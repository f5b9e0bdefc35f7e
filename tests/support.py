"""Real spikes for tests: a git repository in a temporary directory, opened and started for real."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spike_mcp.host.clock import Clock
from spike_mcp.host.measure import Run
from spike_mcp.session import runs
from spike_mcp.session.agent import AgentDesk, Reply, run_reply
from spike_mcp.session.opening import InitOptions, init
from spike_mcp.session.spike import Spike
from spike_mcp.session.starting import start

INVOICE = {
    "invoice.py": (
        "from decimal import Decimal\n\n\n"
        "def round_money(value: Decimal) -> Decimal:\n"
        '    raise NotImplementedError("spike target")\n'
    ),
    "tests/test_invoice.py": (
        "from decimal import Decimal\n\n"
        "from invoice import round_money\n\n\n"
        "def test_rounding():\n"
        '    assert round_money(Decimal("1.005")) == Decimal("1.00")\n'
        '    assert round_money(Decimal("1.015")) == Decimal("1.02")\n'
    ),
}
INVOICE_HYPOTHESIS = (
    "banker's rounding in round_money makes test_rounding true within 60 minutes, "
    "measured by python -m pytest tests/test_invoice.py::test_rounding -q"
)
INVOICE_FIX = (
    '    raise NotImplementedError("spike target")\n',
    '    return value.quantize(Decimal("0.01"), rounding="ROUND_HALF_EVEN")\n',
)
PLAIN = {
    "src/a.py": "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": "grep -q GREEN src/a.py\n",
}
"""Eight lines and a plain command that takes milliseconds instead of pytest's second."""
PLAIN_HYPOTHESIS = "rewriting the seven lines makes the sample file green for callers"


def git(repo: Path, *arguments: str) -> str:
    """Run git in a test repository, the user's configuration kept out."""
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Tess",
        "GIT_AUTHOR_EMAIL": "tess@example.test",
        "GIT_COMMITTER_NAME": "Tess",
        "GIT_COMMITTER_EMAIL": "tess@example.test",
    }
    done = subprocess.run(
        ["git", "-C", str(repo), *arguments], check=True, capture_output=True, env=env
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def make_repo(where: Path, files: Mapping[str, str | bytes] = INVOICE) -> Path:
    """A repository with one commit that holds `files`."""
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main")
    for name, content in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "baseline")
    return where


def plain_options(repo: Path, root: Path, **more: Any) -> InitOptions:
    """A spike over `PLAIN`: `sh check.sh` decides, everything below src/ may be written."""
    values: dict[str, Any] = {
        "name": "plain",
        "hypothesis": PLAIN_HYPOTHESIS,
        "allow": ("src/",),
        "oracle": ("tests/test_oracle.py",),
        "argv": ("sh", "check.sh"),
        "cwd": repo,
        "root": root,
    }
    return InitOptions(**{**values, **more})


def invoice_options(repo: Path, root: Path, **more: Any) -> InitOptions:
    """A spike over `INVOICE`: pytest decides, invoice.py may be written."""
    values: dict[str, Any] = {
        "name": "invoice",
        "hypothesis": INVOICE_HYPOTHESIS,
        "allow": ("invoice.py",),
        "oracle": ("tests/test_invoice.py",),
        "cwd": repo,
        "root": root,
    }
    return InitOptions(**{**values, **more})


@dataclass
class Open:
    """An opened and started spike with the agent's door."""

    spike: Spike
    repo: Path
    desk: AgentDesk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = AgentDesk(self.spike, "test")

    def call(self, tool: str, **arguments: Any) -> Reply:
        """One tools/call; a claimed run is made at once."""
        reply = self.desk.call(tool, arguments)
        if reply.ticket is None:
            return reply
        result = Run.start(reply.ticket.spec).wait()
        runs.finish(self.spike, reply.ticket, result, human=False)
        return run_reply(self.spike, self.spike.state.runs[reply.ticket.run])

    def edit(self, path: str, old: str, new: str, why: str = "because") -> Reply:
        """`spike_edit_file`."""
        return self.call("spike_edit_file", path=path, old_text=old, new_text=new, rationale=why)

    def ledger(self) -> list[str]:
        """Names of the events so far."""
        self.spike.refresh()
        lines = (self.spike.judge / "ledger.jsonl").read_text().splitlines()
        import json

        return [json.loads(line)["event"] for line in lines]


def open_plain(
    tmp: Path,
    clock: Clock | None = None,
    files: Mapping[str, str | bytes] = PLAIN,
    **more: Any,
) -> Open:
    """A started spike over the plain fixture below `tmp`."""
    repo = make_repo(tmp / "repo", files)
    # A short PATH: a plain command seals every toolchain that it might start.
    with patch.dict(os.environ, {"PATH": "/usr/bin:/bin"}):
        result = init(plain_options(repo, tmp / "root", **more), clock=clock)
        start(result.spike, on_progress=_quiet)
    return Open(result.spike, repo)


def open_invoice(tmp: Path, clock: Clock | None = None, **more: Any) -> Open:
    """A started spike over the invoice fixture below `tmp`."""
    repo = make_repo(tmp / "repo", INVOICE)
    result = init(invoice_options(repo, tmp / "root", **more), clock=clock)
    start(result.spike, on_progress=_quiet)
    return Open(result.spike, repo)


def _quiet(_text: str) -> None:
    return None


def snapshot(top: Path, skip: Sequence[str] = ()) -> dict[str, tuple[int, bytes]]:
    """path -> (mode, content or link target) of everything below `top`."""
    found: dict[str, tuple[int, bytes]] = {}
    for directory, names, files in os.walk(top):
        for name in (*names, *files):
            path = Path(directory, name)
            relative = str(path.relative_to(top))
            if any(relative == s or relative.startswith(s + "/") for s in skip):
                continue
            mode = path.lstat().st_mode
            if path.is_symlink():
                found[relative] = (mode, os.fsencode(os.readlink(path)))
            elif path.is_file():
                found[relative] = (mode, path.read_bytes())
            else:
                found[relative] = (mode, b"")
    return found
