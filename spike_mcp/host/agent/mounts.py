"""The bubblewrap options of an agent: values in, arguments out (spec 14).

An allow-list: what is not named here is not there. Never `--ro-bind / /`: a read-only mount does
not stop connect() on a path socket (docker, dbus, ssh-agent, wayland). The options travel through
`--args FD`, for pid 1's command line is readable inside.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from spike_mcp.host.agent.model import WIRE

_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl", "pki", "ca-certificates"),
    *("localtime", "timezone", "nsswitch.conf", "resolv.conf", "hosts", "host.conf", "gai.conf"),
    *("services", "protocols", "passwd", "group", "os-release", "gitconfig"),
)
_ETC_PRIVATE = ("/etc/ssl/private", "/etc/pki/tls/private", "/etc/pki/entitlement")
"""Keys of this machine that root could read through the directories above."""
_PROC_ALSO = ("acpi", "driver", "fs", "mtrr", "pressure", "scsi")
_TMP_BYTES = 2 << 30
_SHM_BYTES = 256 << 20
_RUN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class System:
    """The machine's own part: top directories as (path, link target or ""), and files of /etc."""

    top: tuple[tuple[str, str], ...]
    etc: tuple[str, ...]
    etc_private: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mounts:
    """Everything an agent's sandbox shows. Paths are absolute; a pair is (source, destination).

    `shown` and `links` come from `programs`; `home_files` are read-only and lie in `home`;
    `agent_dir` holds the configuration the agent may read, `private` in it homes and transcripts
    of all runs, which it may not; `wire` is this run's directory with the sockets.
    """

    system: System
    shown: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    home_source: str
    home: str
    home_files: tuple[tuple[str, str], ...]
    work: str
    git_dir: str | None
    agent_dir: str
    private: str
    wire: str
    own_network: bool
    new_session: bool


def read_system() -> System:
    """Look at this machine."""
    top = [
        (path, os.readlink(path) if os.path.islink(path) else "")
        for path in _TOP
        if os.path.isdir(path)
    ]
    etc = tuple(f"/etc/{name}" for name in _ETC)
    return System(tuple(top), etc, tuple(path for path in _ETC_PRIVATE if os.path.isdir(path)))


def options(mounts: Mounts, status_fd: int, filter_fd: int | None) -> tuple[str, ...]:
    """Return the options; their order matters: a later mount covers an earlier one.

    bubblewrap writes its JSON to `status_fd` and reads the system-call filter from `filter_fd`.
    """
    return (
        *_namespaces(mounts, status_fd),
        *(("--seccomp", str(filter_fd)) if filter_fd is not None else ()),
        *_system(mounts.system),
        *(item for path in mounts.shown for item in ("--ro-bind", path, path)),
        *(item for path, target in mounts.links for item in ("--symlink", target, path)),
        *("--bind", mounts.home_source, mounts.home),
        *(item for source, path in mounts.home_files for item in ("--ro-bind", source, path)),
        *("--ro-bind", mounts.work, mounts.work),
        *(("--ro-bind", mounts.git_dir, mounts.git_dir) if mounts.git_dir else ()),
        *("--ro-bind", mounts.agent_dir, mounts.agent_dir),
        *("--perms", "0000", "--tmpfs", mounts.private, "--remount-ro", mounts.private),
        *("--ro-bind", mounts.wire, WIRE, "--chdir", mounts.work),
        *("--remount-ro", "/run", "--remount-ro", "/"),
    )


def covers(paths: Iterable[str], secret: str) -> str | None:
    """Return the path that would show `secret` or part of it, if there is one.

    Compared after links: bubblewrap follows them.
    """
    hidden = os.path.realpath(secret) + "/"
    for path in paths:
        real = os.path.realpath(path).rstrip("/") + "/"
        if hidden.startswith(real) or real.startswith(hidden):
            return path
    return None


def _namespaces(mounts: Mounts, status_fd: int) -> tuple[str, ...]:
    return (
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        "--unshare-cgroup-try",
        *(("--unshare-net",) if mounts.own_network else ()),
        *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent"),
        *(("--new-session",) if mounts.new_session else ()),
        *("--hostname", "spike", "--json-status-fd", str(status_fd)),
    )


def _system(system: System) -> tuple[str, ...]:
    parts = ["--ro-bind", "/usr", "/usr"]
    for path, target in system.top:
        parts += ("--symlink", target, path) if target else ("--ro-bind", path, path)
    for path in system.etc:
        parts += ("--ro-bind-try", path, path)
    for path in system.etc_private:
        parts += ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
    # As real root the files below /proc/sys open for writing without its second mount: sysctl
    # asks for the global uid, not for capabilities. The others are writable by their modes.
    parts += ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    for name in _PROC_ALSO:
        parts += ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    parts += ("--dev", "/dev", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm")  # noqa: S108
    parts += ("--remount-ro", "/dev")
    parts += ("--perms", "1777", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp")  # noqa: S108
    parts += ("--size", str(_RUN_BYTES), "--tmpfs", "/run")
    parts += ("--dir", "/var", "--symlink", "../tmp", "/var/tmp")  # noqa: S108
    return tuple(parts)
