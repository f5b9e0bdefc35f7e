"""The sandbox of a measurement: bubblewrap twice, a system-call filter, limits (spec 11).

This does not hold when the kernel itself is attacked, when the same user's other processes write
into judge/ (only `spike run` keeps the agent from that), or at isolation `none`.
"""

from spike_mcp.host.sandbox.machine import find_bwrap, fixed_environment
from spike_mcp.host.sandbox.model import HOME, Bwrap, Limits, Places
from spike_mcp.host.sandbox.probe import SandboxReport, self_test

__all__ = [
    "HOME",
    "Bwrap",
    "Limits",
    "Places",
    "SandboxReport",
    "find_bwrap",
    "fixed_environment",
    "self_test",
]
