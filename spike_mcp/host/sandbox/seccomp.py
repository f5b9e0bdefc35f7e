"""The system-call filter of the sandbox: a classic BPF program, built here (spec 11).

Namespaces and dropped capabilities already close most doors; the filter closes what they leave
open: kernel surface that a test never needs, sockets of families that no network namespace holds
back (vsock), typing into a terminal (TIOCSTI), new namespaces.
"""

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24  # offsets in struct seccomp_data (low halves)

_NAMESPACES = 0x7E020080  # CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class _Machine:
    arch: int
    denied: tuple[int, ...]
    absent: tuple[int, ...]  # answered "no such call" so that libraries fall back
    socket: int
    ioctl: int
    clone: int
    unshare: int


# New calls have one number on every architecture.
_NEW_DENIED = (428, 429, 430, 431, 432, 433, 438, 442, 443, 467)
_NEW_ABSENT = (425, 426, 427, 435)  # io_uring_*, clone3 (its flags lie behind a pointer)

_X86_64 = _Machine(
    arch=0xC000003E,
    denied=(
        *(101, 103, 153, 155, 159, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173),
        *(175, 176, 179, 212, 227, 246, 248, 249, 250, 298, 300, 303, 304, 305, 308, 310, 311),
        *(312, 313, 320, 321, 323),
        *_NEW_DENIED,
    ),
    absent=_NEW_ABSENT,
    socket=41,
    ioctl=16,
    clone=56,
    unshare=272,
)
_AARCH64 = _Machine(
    arch=0xC00000B7,
    denied=(
        *(18, 39, 40, 41, 51, 58, 60, 89, 104, 105, 106, 112, 116, 117, 142, 161, 162, 170, 171),
        *(217, 218, 219, 224, 225, 241, 262, 264, 265, 266, 268, 270, 271, 272, 273, 280, 282),
        *(294,),
        *_NEW_DENIED,
    ),
    absent=_NEW_ABSENT,
    socket=198,
    ioctl=29,
    clone=220,
    unshare=97,
)
_MACHINES = {"x86_64": _X86_64, "amd64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}


def program(machine: str = "") -> bytes | None:
    """The filter for `machine` (default: this one) as bubblewrap reads it; None if unknown here."""
    known = _MACHINES.get((machine or platform.machine()).lower())
    return None if known is None else _assemble(known)


def _assemble(machine: _Machine) -> bytes:
    denied, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code = [
        _op(_LOAD, _ARCH),
        _op(_EQUAL, machine.arch, 1, 0),
        _op(_RETURN, absent),
        _op(_LOAD, _NUMBER),
    ]
    if machine is _X86_64:
        code += [_op(_AT_LEAST, _X32, 0, 1), _op(_RETURN, absent)]
    for number in machine.denied:
        code += [_op(_EQUAL, number, 0, 1), _op(_RETURN, denied)]
    for number in machine.absent:
        code += [_op(_EQUAL, number, 0, 1), _op(_RETURN, absent)]
    code += _families(machine.socket)
    code += _argument(machine.ioctl, _ARG1, [(_EQUAL, value) for value in _TERMINAL], denied)
    for number in (machine.clone, machine.unshare):
        code += _argument(number, _ARG0, [(_ANY_BIT, _NAMESPACES)], denied)
    code.append(_op(_RETURN, _ALLOW))
    return b"".join(code)


def _families(number: int) -> list[bytes]:
    """`socket` with any other family than those listed: "not supported"."""
    body = [_op(_LOAD, _ARG0)]
    body += [
        _op(_EQUAL, family, len(_FAMILIES) - index, 0) for index, family in enumerate(_FAMILIES)
    ]
    body += [_op(_RETURN, _ERRNO | errno.EAFNOSUPPORT), _op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, 0, len(body)), *body]


def _argument(number: int, offset: int, tests: list[tuple[int, int]], answer: int) -> list[bytes]:
    """Refuse one call when its argument passes any of the tests; allow it otherwise."""
    body = [_op(_LOAD, offset)]
    for test, value in tests:
        body += [_op(test, value, 0, 1), _op(_RETURN, answer)]
    body.append(_op(_RETURN, _ALLOW))
    return [_op(_EQUAL, number, 0, len(body)), *body]


def _op(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)
