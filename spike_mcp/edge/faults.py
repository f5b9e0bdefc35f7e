"""What went wrong inside: the details to a log below judge/, one line to stderr, none to the agent.

The agent learns that nothing was changed, and that is all (spec 6).
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from spike_mcp.core import layout

LOG = "server.log"
MAX_LOG = 1 << 20
"""Bytes above which nothing is added: a fault that repeats must not fill the disk."""

SENTENCE = "something went wrong inside the server; nothing more was changed"
HINT = "look at spike_status, try once more, then tell the human"


def record(error: BaseException, root: Path | None) -> None:
    """Append the traceback to judge/server.log of the spike at `root`. Never raises."""
    name = type(error).__name__
    with suppress(OSError, ValueError):
        sys.stderr.write(f"spike-mcp: internal error ({name}); details: {LOG} in judge/\n")
        sys.stderr.flush()
    if root is None:
        return
    text = "".join(traceback.format_exception(error))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with suppress(OSError):
        _append(root / layout.JUDGE / LOG, f"{stamp} pid {os.getpid()}\n{text}\n")


def _append(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        if os.fstat(fd).st_size < MAX_LOG:
            os.write(fd, text.encode("utf-8", "backslashreplace"))
    finally:
        os.close(fd)
