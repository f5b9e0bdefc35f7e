"""From a Box to a process: descriptors, option list, filter (spec 11)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from spike_mcp.host.sandbox import seccomp
from spike_mcp.host.sandbox.argv import command, options
from spike_mcp.host.sandbox.machine import sandbox_host, unavailable
from spike_mcp.host.sandbox.model import Box


@dataclass(frozen=True, slots=True)
class Boxed:
    """What `live.Spawn` needs: the command, descriptors to inherit, and our ends of two pipes."""

    argv: tuple[str, ...]
    inherit: tuple[int, ...]
    status: int
    block: int


def boxed(box: Box, payload: Sequence[str]) -> Boxed:
    """Open the descriptors and build the command. Problem(SANDBOX_UNAVAILABLE) if there is none."""
    machine = sandbox_host()
    filter_ = seccomp.program()
    if filter_ is None:
        raise unavailable(
            "no system-call filter is known for this processor",
            "measure on x86-64 or arm64, or open the spike with --isolation none (it can't ship)",
        )
    status_read, status_write = os.pipe()
    block_read, block_write = os.pipe()
    rules = _memory(filter_)
    told = options(machine.host, box, status_write, block_read, rules)
    listing = _memory(b"".join(os.fsencode(item) + b"\0" for item in told))
    word = f"/proc/self/fd/{status_write}"
    argv = command(machine.host, box, listing, word, payload)
    return Boxed(argv, (status_write, block_read, rules, listing), status_read, block_write)


def _memory(data: bytes) -> int:
    """An anonymous file with `data`, at its start, to be inherited."""
    fd = os.memfd_create("spike", 0)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
