"""The system-call filter, run by a small interpreter of classic BPF (spec 11)."""

import errno
import struct

import pytest

from spike_mcp.host.sandbox import seccomp

X86, ARM = 0xC000003E, 0xC00000B7
ALLOW = 0x7FFF0000


def answer(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """0 if the call is allowed, else the errno it gets."""
    code = seccomp.program(machine)
    assert code is not None
    row = [arguments[index] if index < len(arguments) else 0 for index in range(6)]
    default = X86 if machine == "x86_64" else ARM
    data = struct.pack("<IIQ6Q", number, default if arch is None else arch, 0, *row)
    register, at = 0, 0
    while True:
        op, when_true, when_false, value = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        if op == 0x20:
            register = struct.unpack_from("<I", data, value)[0]
        elif op == 0x06:
            return 0 if value == ALLOW else value & 0xFFFF
        else:
            test = {0x15: register == value, 0x35: register >= value, 0x45: register & value}[op]
            at += when_true if test else when_false


@pytest.mark.parametrize(
    ("number", "arguments", "want"),
    [
        (0, (), 0),  # read
        (59, (), 0),  # execve
        (101, (), errno.EPERM),  # ptrace
        (165, (), errno.EPERM),  # mount
        (321, (), errno.EPERM),  # bpf
        (442, (), errno.EPERM),  # mount_setattr
        (425, (), errno.ENOSYS),  # io_uring_setup
        (435, (), errno.ENOSYS),  # clone3
        (41, (1,), 0),  # socket(AF_UNIX)
        (41, (2,), 0),
        (41, (10,), 0),
        (41, (16,), 0),
        (41, (40,), errno.EAFNOSUPPORT),  # AF_VSOCK
        (41, (17,), errno.EAFNOSUPPORT),  # AF_PACKET
        (41, (38,), errno.EAFNOSUPPORT),  # AF_ALG
        (16, (0, 0x5401), 0),  # TCGETS
        (16, (0, 0x5412), errno.EPERM),  # TIOCSTI
        (16, (0, 0xFFFFFFFF00005412), errno.EPERM),  # the kernel ignores the high half
        (16, (0, 0x541C), errno.EPERM),
        (56, (0x11,), 0),  # fork
        (56, (0x3D0F00,), 0),  # a thread
        (56, (0x10000011,), errno.EPERM),  # CLONE_NEWUSER
        (272, (0x400,), 0),  # unshare(CLONE_FILES)
        (272, (0x20000,), errno.EPERM),
        (0x40000000 + 101, (), errno.ENOSYS),  # the x32 door to ptrace
    ],
)
def test_what_x86_64_calls_get(number: int, arguments: tuple[int, ...], want: int) -> None:
    assert answer("x86_64", number, *arguments) == want


def test_a_foreign_architecture_gets_nothing() -> None:
    assert answer("x86_64", 11, arch=0x40000003) == errno.ENOSYS  # execve of i386


@pytest.mark.parametrize(
    ("number", "arguments", "want"),
    [
        (63, (), 0),
        (117, (), errno.EPERM),
        (40, (), errno.EPERM),
        (198, (40,), errno.EAFNOSUPPORT),
        (198, (1,), 0),
        (29, (0, 0x5412), errno.EPERM),
        (220, (0x11,), 0),
        (220, (0x40000011,), errno.EPERM),
    ],
)
def test_what_arm64_calls_get(number: int, arguments: tuple[int, ...], want: int) -> None:
    assert answer("aarch64", number, *arguments) == want


def test_an_unknown_processor_has_no_filter() -> None:
    assert seccomp.program("riscv64") is None
