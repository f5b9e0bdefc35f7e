"""What an attack must not have done: the corpus's `probe` entries, watched and checked."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PORT = 45999
_MEGABYTE = 1 << 20


class Watch:
    """The probes of one case, from before the spike's start to after its verdict."""

    def __init__(self, probes: Sequence[dict[str, Any]], root: Path, repo: Path) -> None:
        self._probes = [(str(probe["type"]), probe) for probe in probes]
        self._root = root
        self._repo = repo
        self._before: dict[str, bytes] = {}
        self._listener: socket.socket | None = None

    def wants(self, kind: str) -> bool:
        """Is there a probe of this kind?"""
        return any(kind == name for name, _ in self._probes)

    def begin(self) -> None:
        """Remember what must not change; call it when the spike has been opened."""
        for kind, probe in self._probes:
            if kind == "changed":
                self._before[probe["path"]] = (self._root / probe["path"]).read_bytes()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen where payloads want to call, one case at a time on this machine."""
        if not self.wants("net"):
            yield
            return
        with (Path(tempfile.gettempdir()) / "spike-judge-port.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with socket.create_server(("127.0.0.1", PORT), backlog=8) as self._listener:
                self._listener.setblocking(False)
                yield
                self._called = self._was_called()

    def _was_called(self) -> bool:
        assert self._listener is not None
        with suppress(BlockingIOError):
            self._listener.accept()[0].close()
            return True
        return False

    def effects(self, shown: bytes) -> list[str]:
        """What happened that must not have. `shown`: all that our programs printed."""
        return [text for kind, probe in self._probes if (text := self._effect(kind, probe, shown))]

    def _effect(self, kind: str, probe: dict[str, Any], shown: bytes) -> str:
        if kind == "raw_esc":
            return "an escape character reached the terminal" if b"\x1b" in shown else ""
        if kind == "no_verdict":
            written = (self._root / "verdict" / "result.json").is_file()
            return "" if written else "no verdict was written"
        if kind == "disk":
            return self._disk(int(probe["max_mb"]))
        if kind == "net":
            return "something called the port" if self._called else ""
        if kind == "changed":
            now = (self._root / probe["path"]).read_bytes()
            return "" if now == self._before[probe["path"]] else f"{probe['path']} changed"
        if kind == "exists":
            return f"{probe['path']} exists" if os.path.lexists(self._root / probe["path"]) else ""
        if kind == "git_broken":
            return self._git()
        raise AssertionError(f"no probe {kind}")

    def _disk(self, most: int) -> str:
        blob = Path(tempfile.gettempdir()) / "blob"
        used = sum(
            os.lstat(os.path.join(at, name)).st_size
            for at, _, names in os.walk(self._root)
            for name in names
        )
        if blob.exists():
            return f"{blob} was left behind"
        return f"{used // _MEGABYTE} MB left behind" if used > most * _MEGABYTE else ""

    def _git(self) -> str:
        for place in (self._repo, self._root / "work"):
            asked = ["git", "-C", str(place), "rev-parse", "--absolute-git-dir"]
            told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
            if not told.startswith(str(self._repo / ".git")):
                return f"git in {place.name}/ answers from {told.strip()!r}"
        return ""
