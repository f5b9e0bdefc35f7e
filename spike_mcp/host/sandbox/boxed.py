"""From a Box to a process: descriptors, option list, filter (spec 11)."""

import os
import tempfile
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
    rules = open_data(filter_)
    covers = _covers(box)
    told = options(machine.host, box, status_write, block_read, rules, covers)
    listing = open_data(b"".join(os.fsencode(item) + b"\0" for item in told))
    word = f"/proc/self/fd/{status_write}"
    argv = command(machine.host, box, listing, word, payload)
    inherit = (status_write, block_read, rules, listing, *(fd for fd, _, _ in covers))
    return Boxed(argv, inherit, status_read, block_write)


def _covers(box: Box) -> tuple[tuple[int, int, str], ...]:
    """Each sealed file, opened once per mount point (bubblewrap reads it to its end)."""
    found = []
    for at in box.mount_at:
        for source, path in box.covers:
            fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
            mode = 0o555 if os.fstat(fd).st_mode & 0o111 else 0o444
            found.append((fd, mode, f"{at}/{path}"))
    return tuple(found)


def open_data(data: bytes) -> int:
    """An anonymous file with `data`, at its start, to be inherited."""
    fd = os.memfd_create("spike", 0) if hasattr(os, "memfd_create") else _unnamed_file()
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _unnamed_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
