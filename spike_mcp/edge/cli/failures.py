"""From what went wrong to a text and an exit code: the only place that knows both (spec 13)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from spike_mcp.core.codes import Exit, Problem, Refusal, Usage
from spike_mcp.edge.find import spikes_home

INTERRUPTED = "interrupted"
"""Error code of a command that a signal ended; exit 128 + n."""

_EXITS: dict[Refusal | Usage, Exit] = {
    Refusal.BUSY: Exit.BUSY,
    Refusal.NOT_AUTHORISED: Exit.NOT_AUTHORISED,
    Refusal.INTERNAL_ERROR: Exit.INTERNAL,
    Usage.SPIKE_NOT_FOUND: Exit.NOT_FOUND,
    Usage.GIT_FAILED: Exit.INTERNAL,
}


class Interrupted(BaseException):
    """A signal asked the command to end; locks and processes are let go of on the way."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def exit_of(problem: Problem) -> Exit:
    """Exit code of a "no": what the gate refuses is 78, what the command line can't be is 64.

    A problem that knows better says so itself (`exit_status`: an agent that never ran).
    """
    own = getattr(problem, "exit_status", None)
    if isinstance(own, int):
        return Exit(own)
    return _EXITS.get(problem.code, Exit.USAGE if isinstance(problem.code, Usage) else Exit.REFUSED)


@contextmanager
def signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command by `Interrupted`, so that it cleans up after itself."""
    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        try:
            before[number] = signal.signal(number, _interrupt)
        except ValueError:  # not the main thread: whoever called `main` handles signals
            break
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)


def record(error: BaseException, environ: Mapping[str, str]) -> str:
    """Write the traceback of an unplanned error to a file and return its path, "" if none can be.

    The terminal gets a sentence and the path: a traceback is no message.
    """
    import tempfile
    import time
    import traceback

    text = "".join(
        (
            f"spike {' '.join(map(ascii, sys.argv[1:]))}\n",
            f"python {sys.version}\n",
            *traceback.format_exception(error),
        )
    )
    name = f"spike-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (os.path.join(spikes_home(environ), "log"), tempfile.gettempdir()):
        path = os.path.join(folder, name)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(
                os.open(path, flags, 0o600), "w", encoding="ascii", errors="backslashreplace"
            ) as file:
                file.write(text)
        except OSError:
            continue
        return path
    return ""
