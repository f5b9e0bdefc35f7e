"""Builders of the bubblewrap command lines: values in, arguments out (spec 11).

A run is two bubblewraps, one inside the other:

* the **stage** sees the machine as it is and has power over nothing but its own mount namespace:
  it mounts a size-limited tmpfs and on it ONE overlay of the tree (or a copy where the kernel
  refuses), so that everything a run writes vanishes with the last process, whatever happens to us;
* the **box** is the sandbox: an allow-list of mounts, no network, no capabilities, and that one
  tree at every path where the project expects itself.

The options of the box name sealed files, and `/proc/1/cmdline` is readable inside, so they travel
through `--args FD` instead of the command line.
"""

import os
from collections.abc import Iterable, Sequence

from spike_mcp.host.sandbox.model import HOME, INSIDE, Box, Host

_SHM_BYTES = 64 << 20
_RUN_BYTES = 1 << 20

# Directories that exist on every Linux, are normally empty, and belong to nobody: the stage mounts
# over the first one that no path of the run passes through. Only its own namespace sees that.
_STAGES = ("/srv", "/mnt", "/media", "/boot", "/opt")

# $1 stage, $2 size, $3 mount, $4 cp, $5 file that takes the word "copy", $6 "overlay" or "copy",
# $7 tree, $8 tar program and $9 archive of what covers the tree (empty: nothing does).
# `lowerdir=.` keeps commas and colons of the tree's path out of the option string.
_STAGE_SCRIPT = """\
stage=$1 mount=$3 cp=$4 word=$5
cd -- "$7" || exit 98
"$mount" -t tmpfs -o "size=$2,mode=0755" spike "$stage" || exit 97
mkdir "$stage/up" "$stage/wk" "$stage/tree" || exit 97
if [ "$6" != overlay ] || ! "$mount" -t overlay -o \
"lowerdir=.,upperdir=$stage/up,workdir=$stage/wk,userxattr" spike "$stage/tree" 2>/dev/null; then
  echo '{"tree":"copy"}' > "$word"
  "$cp" -a -- . "$stage/tree/" || exit 96
fi
if [ -n "$9" ]; then
  mkdir "$stage/o" && "$8" -xf "$9" -C "$stage/o" || exit 95
  "$mount" -a -T "$stage/o/fstab" || exit 95
fi
cd / && shift 9 && exec "$@"
"""

# The payload waits for one line: it comes after the limits are on, and never if the server died.
GATE_SCRIPT = 'read -r go || exit 125; exec "$@" </dev/null'


def stage_at(paths: Iterable[str]) -> str:
    """Directory for the stage's tmpfs: the first candidate on the way to none of `paths`."""
    needed = tuple(paths)
    for stage in _STAGES:
        if not any(under(path, stage) for path in needed):
            return stage
    return _STAGES[0]


def under(path: str, directory: str) -> bool:
    """Is `path` the directory itself or below it? Both absolute and normalised."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def command(
    host: Host, box: Box, args_fd: int, word: str, payload: Sequence[str], archive: str = ""
) -> tuple[str, ...]:
    """The whole command: stage, box, gate, payload.

    `word`: path where the stage reports. `archive`: path of what covers the tree (`covering`).
    """
    stage = stage_at(_sources(box))
    return (
        *(host.bwrap, "--die-with-parent", "--unshare-user", "--uid", "0", "--gid", "0"),
        *("--cap-add", "ALL", "--dev-bind", "/", "/", "--", "/bin/sh", "-c", _STAGE_SCRIPT, "sh"),
        *(stage, str(box.limits.tree_bytes), host.mount, host.copy, word),
        *("overlay" if box.overlay else "copy", box.tree, host.tar, archive),
        *(host.bwrap, "--args", str(args_fd), "--", "/bin/sh", "-c", GATE_SCRIPT, "sh"),
        *payload,
    )


def options(
    host: Host,
    box: Box,
    status_fd: int,
    block_fd: int,
    seccomp_fd: int,
    covers: Sequence[tuple[int, int, str]] = (),
) -> tuple[str, ...]:
    """The options of the box, for `--args`. `covers`: (descriptor, mode, absolute path inside)."""
    tree = f"{stage_at(_sources(box))}/tree"
    around, beneath, within = _split_places(box)
    masked = _masked(box, around)
    return (
        *_namespaces(host, status_fd, block_fd, seccomp_fd),
        *_system(host, box),
        *_private(box),
        *_bind_all(around),
        *(item for path in masked for item in _mask(box, path)),
        *_bind_all(beneath),
        *(item for at in box.mount_at for item in ("--bind", tree, at)),
        *(item for at in box.mount_at for item in (*_pinned(box, tree, at), *_over_tree(box, at))),
        *(item for cover in covers for item in _cover(*cover)),
        *_bind_all(within),
        *(("--ro-bind", box.inside, INSIDE) if box.inside else ()),
        *(item for path in masked for item in ("--remount-ro", path)),
        *("--chdir", box.mount_at[0], "--remount-ro", "/run", "--remount-ro", "/"),
    )


def covering(box: Box) -> bytes:
    """A file for `mount -a`: everything of the box that lies over its tree, in mounting order.

    bubblewrap takes 9,000 arguments and a process about a thousand descriptors; an oracle may have
    more files. The n-th cover is `f/n` beside this file.
    """
    stage = stage_at(_sources(box))
    paths = [path for _, path in box.covers]
    above = [f"{stage}/tree/{path}" for path in _above(paths)]
    rows = [(path, path, "none", "bind") for path in above]
    rows += [
        ("spike", f"{stage}/tree/{path}", "tmpfs", "size=4k,mode=0755,ro") for path in box.bytecode
    ]
    rows += [("/dev/null", f"{stage}/tree/{path}", "none", "bind,ro") for path in box.sockets]
    rows += [
        (f"{stage}/o/f/{index}", f"{stage}/tree/{path}", "none", "bind,ro")
        for index, path in enumerate(paths)
    ]
    lines = [" ".join(_word(word) for word in row) + " 0 0\n" for row in rows]
    return os.fsencode("".join(lines))


def _word(text: str) -> str:
    """One field of the file: blanks and backslashes as octal numbers."""
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\r\\#" else char for char in text)


def _above(paths: Iterable[str]) -> list[str]:
    """The directories above some repository paths, outer ones first."""
    return sorted({path[:end] for path in paths for end, char in enumerate(path) if char == "/"})


def _sources(box: Box) -> tuple[str, ...]:
    return (box.tree, *box.read_only, *((box.inside,) if box.inside else ()))


def _namespaces(host: Host, status_fd: int, block_fd: int, seccomp_fd: int) -> tuple[str, ...]:
    return (
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--unshare-net", "--disable-userns"),
        *("--uid", str(host.uid), "--gid", str(host.gid), "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--hostname", "spike"),
        *("--json-status-fd", str(status_fd), "--block-fd", str(block_fd)),
        *("--seccomp", str(seccomp_fd)),
    )


def _system(host: Host, box: Box) -> tuple[str, ...]:
    parts: list[str] = []
    for path, target in host.system:
        parts += ("--symlink", target, path) if target else ("--ro-bind", path, path)
    for path in host.etc:
        parts += ("--ro-bind", path, path)
    if box.proc:
        # As real root /proc/sys stays writable without the second line (measured, facts.md).
        parts += ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    parts += ("--dev", "/dev", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm")  # noqa: S108
    parts += ("--remount-ro", "/dev")
    return tuple(parts)


def _private(box: Box) -> tuple[str, ...]:
    size = str(box.limits.tmp_bytes)
    return (
        *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),  # noqa: S108
        *("--size", str(_RUN_BYTES), "--tmpfs", "/run"),
        *("--dir", "/var", "--symlink", "../tmp", "/var/tmp"),  # noqa: S108
        *("--perms", "0700", "--size", size, "--tmpfs", HOME),
    )


def _split_places(box: Box) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Places in the order of mounting: before the masks, after them, and inside the tree.

    A place inside a mounted tree is a virtual environment there: it comes last.
    """
    places = sorted(set(box.read_only), key=lambda path: (path.count("/"), path))
    within = [p for p in places if any(under(p, at) and p != at for at in box.mount_at)]
    outside = [p for p in places if p not in within]
    beneath = [p for p in outside if any(under(p, hidden) for hidden in box.hide)]
    around = [p for p in outside if p not in beneath]
    return tuple(around), tuple(beneath), tuple(within)


def _bind_all(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(item for path in paths for item in ("--ro-bind", path, path))


def _pinned(box: Box, tree: str, at: str) -> tuple[str, ...]:
    """Directories above sealed files become mount points: those can't be renamed away."""
    above = _above(path for _, path in box.covers)
    return tuple(
        item for path in above for item in ("--bind-try", f"{tree}/{path}", f"{at}/{path}")
    )


def _over_tree(box: Box, at: str) -> tuple[str, ...]:
    """What covers parts of the tree at one of its mount points."""
    parts: list[str] = []
    for path in box.environment:
        parts += ("--ro-bind", f"{box.tree}/{path}", f"{at}/{path}")
    for path in box.bytecode:
        parts += ("--perms", "0755", "--size", "4096", "--tmpfs", f"{at}/{path}")
        parts += ("--remount-ro", f"{at}/{path}")
    for path in box.sockets:
        # A socket in the tree would still lead out of the sandbox: connect() needs no write.
        parts += ("--ro-bind", "/dev/null", f"{at}/{path}")
    return tuple(parts)


def _cover(fd: int, mode: int, path: str) -> tuple[str, ...]:
    return ("--perms", f"{mode:04o}", "--ro-bind-data", str(fd), path)


def _masked(box: Box, shown: Sequence[str]) -> tuple[str, ...]:
    """Hidden directories that a bound place would show; all others are simply absent."""
    return tuple(path for path in sorted(box.hide) if any(under(path, place) for place in shown))


def _mask(box: Box, path: str) -> tuple[str, ...]:
    """An empty directory over `path`; one that the tree lies below can be passed, not listed."""
    passed = any(under(inner, path) for inner in (*box.mount_at, *box.read_only))
    return ("--perms", "0711" if passed else "0000", "--size", "4096", "--tmpfs", path)
