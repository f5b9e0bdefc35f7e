"""Evidence that tests ran: one adapter per runner, and what their words mean (spec 11)."""

from spike_mcp.host.evidence.control import (
    ControlOutcome,
    judge_control,
    judge_written_control,
    passed_functions,
)
from spike_mcp.host.evidence.judging import (
    RunOutcome,
    decide,
    pins_of,
    red_codes,
    red_ids,
)
from spike_mcp.host.evidence.model import Adapter, Evidence, Failure, Launch, Reader
from spike_mcp.host.evidence.registry import adapter_for

__all__ = [
    "Adapter",
    "ControlOutcome",
    "Evidence",
    "Failure",
    "Launch",
    "Reader",
    "RunOutcome",
    "adapter_for",
    "decide",
    "judge_control",
    "judge_written_control",
    "passed_functions",
    "pins_of",
    "red_codes",
    "red_ids",
]
