"""Every system call that changes a disk, counted: die at the Nth, or run out of space from there.

A dead process does nothing more: clean-up code that runs on the way out finds every effect closed
to it. A full disk stays full until it is said to have room again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spike_mcp.host import process
from spike_mcp.session import transaction

CHANGES = (
    *("write", "pwrite", "rename", "replace", "unlink", "rmdir", "mkdir", "ftruncate"),
    *("fsync", "fdatasync", "symlink", "link", "fchmod"),
)
TAKES_SPACE = ("write", "pwrite", "mkdir", "symlink", "open")


class Died(BaseException):
    """The process is gone."""


class Effects:
    """Counts the calls; `at` = the one that does not come about (0 = none)."""

    def __init__(self, at: int, *, torn: bool = False, full: bool = False) -> None:
        self.at, self.torn, self.full = at, torn, full
        self.count = 0
        self.log: list[str] = []

    @property
    def reached(self) -> bool:
        """Whether it came that far."""
        return bool(self.at) and self.count >= self.at

    def call(self, name: str, real: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """One call of `os.<name>`."""
        if name == "open" and not args[1] & os.O_EXCL:  # of a file that is there, or read only
            return real(*args, **more)
        if self.full and name not in TAKES_SPACE:
            return real(*args, **more)
        self.count += 1
        self.log.append(name)
        if not self.reached:
            return real(*args, **more)
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.torn and self.count == self.at and name in ("write", "pwrite"):
            real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
        raise Died

    @contextmanager
    def counted(self) -> Iterator[None]:
        """While this lasts."""
        with pytest.MonkeyPatch.context() as patched:
            for name in (*CHANGES, "open"):
                real = getattr(os, name)
                patched.setattr(
                    os, name, lambda *a, _n=name, _r=real, **m: self.call(_n, _r, *a, **m)
                )
            yield


@contextmanager
def buried() -> Iterator[None]:
    """The next process: whatever this one owned is owned by somebody dead."""
    transaction._owed.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process, "alive", lambda _owner: False)
        yield
