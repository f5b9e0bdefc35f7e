"""From a Box to a process: descriptors, option list, filter (spec 11)."""

import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.sandbox import seccomp
from spike_mcp.host.sandbox.argv import command, covering, options, under
from spike_mcp.host.sandbox.machine import sandbox_host, unavailable
from spike_mcp.host.sandbox.model import Box

_MANY = 100
"""More things over a tree than this are mounted by one `mount -a` instead of by options."""


@dataclass(frozen=True, slots=True)
class Boxed:
    """What `live.Spawn` needs: the command, descriptors to inherit, and our ends of two pipes."""

    argv: tuple[str, ...]
    inherit: tuple[int, ...]
    status: int
    block: int


@dataclass(slots=True)
class _Open:
    """Descriptors that were opened for a child; closed again if something fails."""

    inherit: list[int] = field(default_factory=list)
    ours: list[int] = field(default_factory=list)

    def pipe(self, read_is_ours: bool) -> tuple[int, int]:
        """(our end, the child's end) of a new pipe."""
        read, write = os.pipe()
        ours, theirs = (read, write) if read_is_ours else (write, read)
        self.ours.append(ours)
        self.inherit.append(theirs)
        return ours, theirs

    def add(self, fd: int) -> int:
        """Remember a descriptor of the child's."""
        self.inherit.append(fd)
        return fd

    def close(self) -> None:
        """Give all of it up."""
        for fd in (*self.inherit, *self.ours):
            os.close(fd)


def boxed(box: Box, payload: Sequence[str]) -> Boxed:
    """Open the descriptors and build the command.

    Problem(SANDBOX_UNAVAILABLE) if there is no sandbox here, Problem(SYMLINK_IN_PATH) if a link
    stands where a sealed file must be, OSError if a sealed file can't be read.
    """
    machine = sandbox_host()
    filter_ = seccomp.program()
    if filter_ is None:
        raise unavailable(
            "no system-call filter is known for this processor",
            "measure on x86-64 or arm64, or open the spike with --isolation none (it can't ship)",
        )
    box = _without_links(box)
    opened = _Open()
    try:
        status, told = opened.pipe(read_is_ours=True)
        block, gate = opened.pipe(read_is_ours=False)
        archive, box = _many(box, opened)
        rules = opened.add(open_data(filter_))
        words = options(machine.host, box, told, gate, rules, _covers(box, opened))
        listing = opened.add(open_data(b"".join(os.fsencode(word) + b"\0" for word in words)))
        argv = command(machine.host, box, listing, f"/proc/self/fd/{told}", payload, archive)
    except BaseException:
        opened.close()
        raise
    return Boxed(argv, tuple(opened.inherit), status, block)


def _without_links(box: Box) -> Box:
    """Mounting follows links, and a link in the tree may lead anywhere on this machine.

    So nothing is mounted where the tree has one: for a sealed file or a place that is refused; an
    environment that is a link is left to the place that it names.
    """
    for path in (*(path for _, path in box.covers), *_places_within(box)):
        if _has_link(box.tree, path):
            raise Problem(
                Refusal.SYMLINK_IN_PATH,
                f"a link in the tree stands in the way of {path}",
                "restore the tree first (spike restore --all)",
            )
    kept = tuple(path for path in box.environment if not _has_link(box.tree, path))
    return replace(box, environment=kept)


def _places_within(box: Box) -> list[str]:
    """Repository paths of the directories that hold places of the machine inside the tree."""
    return [
        os.path.dirname(os.path.relpath(place, at))
        for at in box.mount_at
        for place in box.read_only
        if place != at and under(place, at)
    ]


def _has_link(tree: str, path: str) -> bool:
    parts = path.split("/") if path else []
    return any(
        os.path.islink(os.path.join(tree, *parts[: index + 1])) for index in range(len(parts))
    )


def _many(box: Box, opened: _Open) -> tuple[str, Box]:
    """(path of an archive for the stage, what is left for the options)."""
    if len(box.covers) + len(box.bytecode) + len(box.sockets) <= _MANY:
        return "", box
    # A mount needs something to stand on; a file that the tree lacks is left to the options.
    there = tuple(c for c in box.covers if os.path.isfile(os.path.join(box.tree, c[1])))
    left = tuple(cover for cover in box.covers if cover not in there)
    fd = opened.add(open_data(_archive(replace(box, covers=there))))
    rest = replace(box, covers=left, bytecode=(), sockets=())
    return f"/proc/self/fd/{fd}", rest


def _archive(box: Box) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _pack(archive, "fstab", covering(box), 0o400)
        for index, (source, _) in enumerate(box.covers):
            with open(source, "rb") as file:
                _pack(archive, f"f/{index}", file.read(), _mode(file.fileno()))
    return data.getvalue()


def _pack(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _mode(fd: int) -> int:
    return 0o555 if os.fstat(fd).st_mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH) else 0o444


def _covers(box: Box, opened: _Open) -> list[tuple[int, int, str]]:
    """Each sealed file, opened once per mount point (bubblewrap reads it to its end)."""
    found = []
    for at in box.mount_at:
        for source, path in box.covers:
            fd = opened.add(os.open(source, os.O_RDONLY | os.O_CLOEXEC))
            found.append((fd, _mode(fd), f"{at}/{path}"))
    return found


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
