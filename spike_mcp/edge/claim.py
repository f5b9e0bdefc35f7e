"""Take the protocol's two descriptors away from everybody else (spec 7, "Transport").

Standard library only and cheap, so that an entry point can call it before its heavy imports:
whatever prints or reads afterwards, in this process or in a child, can't touch the protocol.
"""

import fcntl
import os


def claim_stdio() -> tuple[int, int]:
    """Return private copies of descriptors 0 and 1; 0 becomes `/dev/null` and 1 a copy of 2.

    The copies are close-on-exec and above 2. A descriptor that was closed reads as end of file,
    or swallows what is written. Call it once, first thing in the process.
    """
    read_fd = _private_copy(0, os.O_RDONLY)
    write_fd = _private_copy(1, os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(null, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # no stderr either
            os.dup2(null, 1)
            os.dup2(null, 2)
    finally:
        if null > 2:
            os.close(null)
    return read_fd, write_fd


def _private_copy(fd: int, flags: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        null = os.open(os.devnull, flags)
        try:
            return fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, 3)
        finally:
            if null > 2:
                os.close(null)
