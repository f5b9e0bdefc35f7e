"""The machine's clocks: wall time, boot time (suspension counts), which boot it is (spec 5).

Nothing in the product moves a clock: no variable, no option. Tests hand a `ManualClock` to the
code that takes a `Clock`.
"""

import functools
import time
from typing import Protocol

from spike_mcp.core.clock import Reading

_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
_BOOT_ID_DIGITS = 12


class Clock(Protocol):
    """Whatever can be read for the time."""

    def read(self) -> Reading:
        """All clocks, now."""


class SystemClock:
    """The clocks of this machine."""

    def read(self) -> Reading:
        """All clocks, now; wall time in whole milliseconds so that a row repeats it exactly."""
        boot, awake = _boot_and_awake()
        return Reading(
            epoch=round(time.time(), 3),
            boot_ms=int(boot * 1000),
            boot_id=boot_id(),
            mono_ms=int(awake * 1000),
        )


def _boot_and_awake() -> tuple[float, float]:
    # macOS has no CLOCK_BOOTTIME: CLOCK_MONOTONIC counts sleep there, CLOCK_UPTIME_RAW does not.
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    awake = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)
    return time.clock_gettime(boot), time.clock_gettime(awake)


@functools.cache
def boot_id() -> str:
    """Twelve hex digits that name this boot; "unknown" where the system does not say."""
    try:
        with open(_BOOT_ID_FILE, encoding="ascii") as file:
            return _short(file.read())
    except OSError:
        return _short(_sysctl("kern.bootsessionuuid"))


def _short(text: str) -> str:
    return text.strip().replace("-", "").lower()[:_BOOT_ID_DIGITS] or "unknown"


def _sysctl(name: str) -> str:
    """A text value of macOS's sysctl, "" where there is none."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    if call is None:
        return ""
    buffer = ctypes.create_string_buffer(128)
    size = ctypes.c_size_t(len(buffer))
    failed = call(name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else buffer.value.decode("ascii", "replace")


class ManualClock:
    """A clock that moves only when told to: tests pass it in place of a `SystemClock`."""

    def __init__(self, epoch: float = 1_750_000_000.0, boot_ms: int = 1_000_000) -> None:
        self._now = Reading(epoch, boot_ms, "boot0", boot_ms)
        self._boots = 0

    def read(self) -> Reading:
        """The time it was told."""
        return self._now

    def tick(self, seconds: float) -> None:
        """Time passes, awake."""
        self._move(seconds, seconds, seconds)

    def suspend(self, seconds: float) -> None:
        """The lid is closed: wall and boot time pass, monotonic time does not."""
        self._move(seconds, seconds, 0.0)

    def set_wall(self, seconds: float) -> None:
        """Somebody moves the wall clock by so many seconds (negative: back)."""
        self._move(seconds, 0.0, 0.0)

    def reboot(self, seconds: float = 60.0) -> None:
        """The machine is off for so many seconds of wall time and comes up with a new boot id."""
        self._boots += 1
        self._now = Reading(self._now.epoch + seconds, 0, f"boot{self._boots}", 0)

    def _move(self, wall: float, boot: float, awake: float) -> None:
        now = self._now
        mono = now.mono_ms or 0
        self._now = Reading(
            epoch=round(now.epoch + wall, 3),
            boot_ms=now.boot_ms + round(boot * 1000),
            boot_id=now.boot_id,
            mono_ms=mono + round(awake * 1000),
        )
