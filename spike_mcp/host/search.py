"""Search below a directory in a separate process: no pattern can hang the caller (spec 7)."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.files import PathLike

MAX_HITS = 200
MAX_LINE = 240
"""Characters of a line that are shown."""
MAX_FILE = 8 << 20
"""Bytes of a file above which it is not searched."""
SECONDS = 3.0

_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "search_worker.py")
_GRACE = 1.0
"""The kernel stops the worker; this much later it is killed from here."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that holds a match; `line` counts from 1, `text` has no line ending."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. `complete`: every file was looked at, or passed over for a reason.

    `more`: there were more hits than `MAX_HITS`. `searched` and `skipped` count files (binary, too
    large, linked, gone); 0 where the search did not come to its end.
    """

    hits: tuple[Hit, ...]
    complete: bool
    more: bool
    searched: int = 0
    skipped: int = 0


def search(
    root: PathLike,
    names: Sequence[str],
    pattern: str,
    *,
    regex: bool,
    seconds: float = SECONDS,
) -> Found:
    """Look for `pattern` in the files `names` below `root`, in their order.

    Never takes much longer than `seconds`, whatever the expression. `Problem(MALFORMED_REQUEST)`
    for an expression that is none.
    """
    job = {
        "root": os.fspath(root),
        "names": list(names),
        "pattern": pattern,
        "regex": regex,
        "hits": MAX_HITS,
        "line": MAX_LINE,
        "file": MAX_FILE,
        "seconds": seconds,
    }
    return _told(_run(json.dumps(job).encode("ascii"), seconds), names)


def _run(job: bytes, seconds: float) -> bytes:
    worker = subprocess.Popen(
        [sys.executable, "-I", "-S", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,
    )
    with worker:
        try:
            return worker.communicate(job, seconds + _GRACE)[0]
        except subprocess.TimeoutExpired:
            worker.kill()
            return worker.communicate()[0]
        except BaseException:
            worker.kill()
            raise


def _told(output: bytes, names: Sequence[str]) -> Found:
    hits: list[Hit] = []
    whole = output[: output.rfind(b"\n") + 1]  # the last line of a killed worker may be torn
    for line in whole.splitlines():
        kind, *rest = json.loads(line)
        if kind == "hit":
            hits.append(Hit(names[rest[0]], rest[1], rest[2]))
        elif kind == "bad":
            raise Problem(
                Refusal.MALFORMED_REQUEST,
                f"`pattern` is no regular expression: {rest[0][:200]}",
                "use Python's syntax, or leave regex out to look for the text itself",
            )
        elif kind == "more":
            return Found(tuple(hits), complete=False, more=True)
        elif kind == "done":
            return Found(tuple(hits), True, False, rest[0], rest[1])
    return Found(tuple(hits), complete=False, more=False)
