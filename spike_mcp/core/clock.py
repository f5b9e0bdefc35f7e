"""Elapsed time of a spike from the readings in its ledger: pure arithmetic (spec 5).

Boot time counts, so a suspended laptop spends its budget. Wall time is the second witness: where
the two differ by more than `TOLERANCE` the longer one counts, and that is said. Nothing that is
done to either clock makes elapsed time go back or stand still.
"""

from dataclasses import dataclass, replace

TOLERANCE = 2.0
"""Seconds by which wall time and boot time may differ before the longer one wins (spec 5)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the clocks.

    `epoch` is wall time in seconds, `boot_ms` the time since boot in milliseconds with suspension
    counted, `boot_id` names the boot. `mono_ms` is the same without suspension where it is known.
    """

    epoch: float
    boot_ms: int
    boot_id: str
    mono_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Wall time and boot time that differ by more than `TOLERANCE`, in seconds.

    Both count from the spike's first reading in this boot; after a reboot (`rebooted`) from the
    last reading before it, where `boot_seconds` is how long the machine has been up since.
    """

    boot_seconds: float
    wall_seconds: float
    rebooted: bool = False

    @property
    def gap(self) -> float:
        """By how many seconds the two differ."""
        return abs(self.wall_seconds - self.boot_seconds)

    @property
    def text(self) -> str:
        """One sentence for the ledger and the report."""
        wall = duration_text(self.wall_seconds)
        boot = duration_text(self.boot_seconds)
        if self.rebooted:
            return f"after a reboot the wall clock moved by {wall}, the machine has been up {boot}"
        return f"the wall clock moved by {wall}, the boot clock by {boot}; the longer counts"


@dataclass(frozen=True, slots=True)
class ClockState:
    """The clock of a started spike, folded over the readings of its rows.

    `elapsed` and `suspended` are seconds since `start` as of `last`. `anchor` is the first reading
    of the current boot, `anchor_elapsed` and `anchor_suspended` what had passed until then.
    `disagreement` is the worst one seen.
    """

    start: Reading
    last: Reading
    elapsed: float
    disagreement: Disagreement | None
    anchor: Reading
    anchor_elapsed: float = 0.0
    suspended: float = 0.0
    anchor_suspended: float = 0.0
    reboots: int = 0

    @classmethod
    def begin(cls, reading: Reading) -> "ClockState":
        """The clock at the moment of `spike start`."""
        return cls(start=reading, last=reading, elapsed=0.0, disagreement=None, anchor=reading)

    def advance(self, reading: Reading) -> "ClockState":
        """The clock at a later reading; elapsed time never gets less."""
        if reading.boot_id != self.last.boot_id:
            return self._after_reboot(reading)
        return self._same_boot(reading)

    def _same_boot(self, now: Reading) -> "ClockState":
        boot = max(0, now.boot_ms - self.anchor.boot_ms) / 1000
        wall = now.epoch - self.anchor.epoch
        longer = max(boot, wall) if abs(wall - boot) > TOLERANCE else boot
        # Counting on from the last value keeps the clock running after the wall clock was put
        # forward and back again: a clock that stood still meanwhile would be a gift.
        counted_on = self.elapsed + max(0, now.boot_ms - self.last.boot_ms) / 1000
        return ClockState(  # not `replace`, which costs six times as much, at every row and call
            self.start,
            now,
            round(max(counted_on, self.anchor_elapsed + longer), 3),
            self._worse(Disagreement(boot, round(wall, 3))),
            self.anchor,
            self.anchor_elapsed,
            self._suspended(now, boot),
            self.anchor_suspended,
            self.reboots,
        )

    def _after_reboot(self, now: Reading) -> "ClockState":
        wall = now.epoch - self.last.epoch
        uptime = now.boot_ms / 1000
        # The machine came up after the last reading, so uptime has passed whatever the wall says.
        elapsed = round(self.elapsed + max(0.0, wall, uptime), 3)
        found = Disagreement(uptime, round(wall, 3), rebooted=True)
        # The machine was off for a while, so more wall time than uptime is as it should be.
        backwards = wall < uptime - TOLERANCE
        return replace(
            self,
            last=now,
            elapsed=elapsed,
            anchor=now,
            anchor_elapsed=elapsed,
            anchor_suspended=self.suspended,
            disagreement=self._worse(found) if backwards else self.disagreement,
            reboots=self.reboots + 1,
        )

    def _suspended(self, now: Reading, boot: float) -> float:
        if now.mono_ms is None or self.anchor.mono_ms is None:
            return self.suspended
        awake = (now.mono_ms - self.anchor.mono_ms) / 1000
        return max(self.suspended, round(self.anchor_suspended + boot - awake, 3))

    def _worse(self, found: Disagreement) -> Disagreement | None:
        # Compared with a margin: a drifting clock must not make a new finding of every reading.
        known = self.disagreement.gap if self.disagreement else 0.0
        return found if found.gap > known + TOLERANCE else self.disagreement

    @property
    def note(self) -> str:
        """What a reader should know about this time, `suspended 4h00m` for one; "" if nothing."""
        said = []
        if self.suspended > TOLERANCE:
            said.append(f"suspended {duration_text(self.suspended)}")
        if self.reboots:
            said.append(f"rebooted {self.reboots} x")
        if self.disagreement:
            said.append(self.disagreement.text)
        return "; ".join(said)


def elapsed(state: ClockState, now: Reading) -> float:
    """Seconds since the start at `now`."""
    return state.advance(now).elapsed


def duration_text(seconds: float) -> str:
    """Seconds for people: `4h00m`, `5m30s`, `12.3s`; a minus sign in front of negative ones."""
    sign = "-" if seconds < 0 else ""
    size = abs(seconds)
    if size < 60:
        return f"{sign}{size:.1f}s"
    whole = round(size)
    if whole < 3600:
        return f"{sign}{whole // 60}m{whole % 60:02d}s"
    minutes = round(size / 60)
    return f"{sign}{minutes // 60}h{minutes % 60:02d}m"
