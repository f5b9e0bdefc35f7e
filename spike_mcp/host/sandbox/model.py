"""What a sandboxed run is made of, as plain values (spec 11)."""

from dataclasses import dataclass, field

HOME = "/home/spike"
"""HOME inside the sandbox: private, empty, gone after the run."""

INSIDE = "/run/spike/inside"
"""Where our own recorders are bound read-only inside the sandbox."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run. Seconds are floats, sizes bytes.

    `memory_bytes` and `processes` hold for the whole run where a control group can be made,
    otherwise per process and per user (`SandboxReport.memory` and `.processes` say which).
    `tree_bytes` limits what a run may add to its throw-away tree, and the size of one file;
    `tmp_bytes` limits /tmp and HOME each. `output_bytes` ends a run that never stops printing;
    of what was printed `output_head` + `output_tail` bytes are kept.
    """

    wall_seconds: float = 600.0
    cpu_seconds: float = 2400.0
    memory_bytes: int = 4 << 30
    processes: int = 512
    output_head: int = 65_536
    output_tail: int = 65_536
    output_bytes: int = 256 << 30
    tmp_bytes: int = 512 << 20
    tree_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class Places:
    """What a measurement needs from the machine, found once by `resolve` (spec 11).

    `program`: absolute path of what is executed. `argv`: the resolved command, `argv[0]` is
    `program`. `read_only`: absolute paths bound back read-only at the same path. `env`: variables
    of the fixed environment, sorted by name. `packages`: directories, `program_files`: single
    files, that are sealed because the verdict rests on them.
    """

    program: str
    argv: tuple[str, ...]
    read_only: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()
    program_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bwrap:
    """A bubblewrap program: absolute path and version numbers."""

    path: str
    version: tuple[int, ...]

    @property
    def text(self) -> str:
        """`0.11.0`."""
        return ".".join(str(number) for number in self.version)


@dataclass(frozen=True, slots=True)
class Host:
    """What of this machine the builders need to know; read once by `read_host`.

    `system`: top-level directories, each with the target of its link or '' for a directory.
    `etc`: the files under /etc that programs need and that hold no secret.
    """

    bwrap: str
    mount: str
    copy: str
    tar: str
    system: tuple[tuple[str, str], ...]
    etc: tuple[str, ...]
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Box:
    """One sandbox: everything the argv builders turn into options.

    `tree`: absolute path of the directory that is shown as a throw-away writable tree.
    `mount_at`: absolute paths where it appears; the first is the working directory.
    `covers`: (absolute source, repository path): sealed files shown read-only over the tree, in
    order. They are handed over as open descriptors, so that no path of theirs is visible inside.
    `bytecode` and `sockets`: repository paths that must not be seen.
    `read_only`: places of the machine; `hide`: absolute paths that must be unreachable.
    """

    tree: str
    mount_at: tuple[str, ...]
    covers: tuple[tuple[str, str], ...] = ()
    bytecode: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    inside: str = ""
    proc: bool = True
    overlay: bool = True
    limits: Limits = field(default_factory=Limits)
