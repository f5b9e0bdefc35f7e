"""Inside the sandbox, when it shares the machine's network: close what Landlock can close.

`python3 -I -S landlock.py PORT,PORT... -- AGENT...`; standard library only, copied into the run's
directory. Closed: abstract unix sockets of other processes, signals to them, TCP connections to
any port but those listed. Still open: UDP, MPTCP, and the listed ports on every host.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
CONNECT_TCP = 2
SCOPES = 1 | 2  # abstract unix sockets, signals
RULE_NET_PORT = 2
NO_NEW_PRIVS = 38
NEEDED = 6
RESET = ("SIGINT", "SIGQUIT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGPIPE", "SIGHUP", "SIGTERM")

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> int:
    """Make a system call; OSError when it fails."""
    result = int(_LIBC.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def version() -> int:
    """Return the kernel's Landlock version, 0 without one."""
    try:
        return call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_FLAG))
    except OSError:
        return 0


def restrict(ports: list[int]) -> None:
    """Restrict this process and all that come from it, for ever."""
    attributes = struct.pack("=QQQ", 0, CONNECT_TCP, SCOPES)
    ruleset = call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    for port in ports:
        rule = struct.pack("=QQ", CONNECT_TCP, port)
        call(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(RULE_NET_PORT), rule, ctypes.c_uint32(0))
    _LIBC.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def become(argv: list[str]) -> int:
    """Turn into the agent; returns a shell's status when that fails."""
    for name in RESET:  # some were ignored on the way here, so that keys don't end bubblewrap
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606  (no shell is the point)
    except OSError as error:
        sys.stderr.write(f"spike run: {argv[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def main(argv: list[str]) -> int:
    """Restrict, then become the agent."""
    ports, _, *command = argv
    found = version()
    if found < NEEDED:
        sys.stderr.write(f"Landlock {NEEDED} is needed for --network host, here is {found}\n")
        return 1
    restrict([int(port) for port in ports.split(",")])
    return become(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
