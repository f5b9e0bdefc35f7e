"""Budgets of a spike (spec 4 and 5): minutes as floats, counts and bytes as integers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from spike_mcp.core.codes import Checkpoint, Problem, Usage

_LARGEST = float(1 << 53)  # beyond it a float no longer counts by ones
_MINUTE_FIELDS = ("total", "write_cutoff", "setup", "reproduce", "attempt", "verify")


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits of one spike, all of them contract fields.

    `total` to `verify` in minutes, `run_wall_seconds` in seconds, `max_*_bytes` in bytes.
    SHIP needs fewer than `max_lines` changed lines (added + removed); `max_runs` are the agent's.
    """

    total: float = 90.0
    write_cutoff: float = 70.0
    setup: float = 15.0
    reproduce: float = 25.0
    attempt: float = 30.0
    verify: float = 15.0
    max_lines: int = 40
    max_runs: int = 60
    run_wall_seconds: float = 600.0
    max_file_bytes: int = 1 << 20
    max_patch_bytes: int = 1 << 20
    max_regions: int = 2000
    max_pending: int = 20
    max_refusals: int = 2000
    max_blob_bytes: int = 64 << 20

    @classmethod
    def of(cls, given: Mapping[str, float]) -> "Budgets":
        """Budgets from explicitly given values; other minutes scale with `total` (spec 13).

        `Problem(INVALID_CONTRACT)` for an unknown name, a value that is no positive number, a
        fraction where a count is meant, or minutes above the total.
        """
        for name, value in given.items():
            _check_value(name, value)
        total = float(given.get("total", _DEFAULT.total))
        scaled = {
            name: round(getattr(_DEFAULT, name) * total / _DEFAULT.total, 3)
            for name in _MINUTE_FIELDS
        }
        chosen = {name: _typed(name, value) for name, value in given.items()}
        budgets = replace(_DEFAULT, **{**scaled, **chosen, "total": total})
        budgets._check_minutes()
        return budgets

    def _check_minutes(self) -> None:
        for name in _MINUTE_FIELDS[1:]:
            value = getattr(self, name)
            if value <= 0:  # a share of the total that rounds to nothing
                message = f"a total of {self.total:g} minutes leaves none for {name}"
                raise Problem(Usage.INVALID_CONTRACT, message, "give the spike more with --minutes")
            if value > self.total:
                message = f"budget {name} = {value:g} minutes is above the total of {self.total:g}"
                raise Problem(Usage.INVALID_CONTRACT, message, "raise --minutes or lower it")

    def allowance(self, checkpoint: Checkpoint) -> float:
        """Minutes of one checkpoint."""
        return float(getattr(self, checkpoint.value))


_DEFAULT = Budgets()
_COUNTS = frozenset(f.name for f in fields(Budgets) if f.type is int)
FIELD_NAMES = tuple(f.name for f in fields(Budgets))


def is_count(name: str) -> bool:
    """Whether the budget `name` is a whole number (bytes, lines, rows) and no time."""
    return name in _COUNTS


def _typed(name: str, value: float) -> float | int:
    return int(value) if name in _COUNTS else float(value)


def _check_value(name: str, value: object) -> None:
    if name not in FIELD_NAMES:
        hint = f"budgets are: {', '.join(FIELD_NAMES)}"
        raise Problem(Usage.INVALID_CONTRACT, f"unknown budget {name!r}", hint)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
        raise Problem(Usage.INVALID_CONTRACT, f"budget {name} must be a number above 0", "")
    if name in _COUNTS and value != int(value):
        raise Problem(Usage.INVALID_CONTRACT, f"budget {name} must be a whole number", "")
