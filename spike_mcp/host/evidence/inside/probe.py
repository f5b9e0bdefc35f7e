"""Tries what a sandbox must refuse and prints one JSON object: probe -> "" or what was possible.

argv: a JSON object that names the targets (see `sandbox.probe`). Runs inside, standard library
only. It opens for writing but writes nothing outside its own tree.
"""
# mypy: ignore-errors
# (untyped: read as a file, never imported)

import ctypes
import json
import os
import signal
import socket
import sys

_X86 = {"mount": 165, "ptrace": 101, "bpf": 321, "keyctl": 250, "unshare": 272, "setns": 308}
_ARM = {"mount": 40, "ptrace": 117, "bpf": 280, "keyctl": 219, "unshare": 97, "setns": 268}
_NEW_USER = 0x10000000


def refused(action, *arguments):
    """'' if the action fails with OSError, else what it gave."""
    try:
        return f"possible: {action(*arguments)!r}"
    except OSError:
        return ""


def call(number, *arguments):
    """A raw system call; OSError if it is refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return number


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as client:
        client.settimeout(1)
        client.connect(address)
        client.send(b"x")
    return address


def network(targets):
    yield "loopback", refused(connect, socket.AF_INET, ("127.0.0.1", targets["port"]))
    outside = ("192.0.2.1", 9)  # a documentation address, only the missing route is tested
    yield "udp", refused(connect, socket.AF_INET, outside, socket.SOCK_DGRAM)
    yield "abstract_socket", refused(connect, socket.AF_UNIX, "\0" + targets["abstract"])
    yield "path_socket", refused(connect, socket.AF_UNIX, targets["socket"])
    yield "tree_socket", refused(connect, socket.AF_UNIX, "probe.sock")
    if hasattr(socket, "AF_VSOCK"):
        yield "vsock", refused(socket.socket, socket.AF_VSOCK, socket.SOCK_STREAM)


def files(targets):
    oracle = targets["oracle"]
    yield "oracle_write", refused(os.open, oracle, os.O_WRONLY)
    yield "oracle_unlink", refused(os.unlink, oracle)
    yield "oracle_rename", refused(os.rename, oracle, oracle + ".moved")
    yield "oracle_replace", refused(os.rename, targets["spare"], oracle)
    yield "oracle_chmod", refused(os.chmod, oracle, 0o777)
    yield "oracle_times", refused(os.utime, oracle, (1, 1))
    for name in ("hidden", "beside", "private"):
        yield name + "_read", refused(os.stat, targets[name])
    yield "root_write", refused(os.mkdir, "/new")
    yield "system_write", refused(os.open, "/usr/spike", os.O_WRONLY | os.O_CREAT)
    yield "core_pattern", refused(os.open, "/proc/sys/kernel/core_pattern", os.O_WRONLY)


def powers(targets):
    numbers = _ARM if os.uname().machine in ("aarch64", "arm64") else _X86
    place = ctypes.c_char_p(b"/tmp")
    yield "mount", refused(call, numbers["mount"], b"none", place, b"tmpfs", 0, None)
    yield "ptrace", refused(call, numbers["ptrace"], 16, 1, 0, 0)
    yield "bpf", refused(call, numbers["bpf"], 0, 0, 0)
    yield "keyctl", refused(call, numbers["keyctl"], 0, -1, 0)
    yield "unshare", refused(call, numbers["unshare"], _NEW_USER)
    yield "io_uring", refused(call, 425, 1, 0)
    yield "clone3", refused(call, 435, 0, 0)
    yield "kill_outside", refused(os.kill, targets["pid"], signal.SIGCONT)
    yield "environment", "possible: leaked" if targets["variable"] in os.environ else ""
    yield "status", status()


def status():
    """No capability, no new privileges, the filter on."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            rows = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return ""  # no /proc in a nested container
    for name, want in (("CapEff", 0), ("CapPrm", 0), ("CapBnd", 0), ("NoNewPrivs", 1)):
        if int(rows[name], 16) != want:
            return f"{name} is {rows[name].strip()}"
    return "" if rows["Seccomp"].strip() == "2" else "no filter"


def main():
    targets = json.loads(sys.argv[1])
    found = {}
    for group in (network, files, powers):
        found.update(group(targets))
    try:
        with open("written-by-the-probe", "w", encoding="ascii") as file:
            file.write("x")
        found["tree_writable"] = ""
    except OSError as error:
        found["tree_writable"] = str(error)
    sys.stdout.write("SPIKE" + json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
