"""Which adapter reads which runner."""

from spike_mcp.host.evidence.cargo import CargoAdapter
from spike_mcp.host.evidence.go import GoAdapter
from spike_mcp.host.evidence.model import Adapter
from spike_mcp.host.evidence.node import NodeAdapter
from spike_mcp.host.evidence.plain import PlainAdapter
from spike_mcp.host.evidence.python import PytestAdapter, UnittestAdapter

_ADAPTERS: dict[str, Adapter] = {
    "pytest": PytestAdapter(),
    "unittest": UnittestAdapter(),
    "go": GoAdapter(),
    "cargo": CargoAdapter(),
    "node": NodeAdapter(),
}


def adapter_for(runner: str) -> Adapter:
    """The adapter of a runner's name (`core.runners.detect`); every unknown command is plain."""
    return _ADAPTERS.get(runner, PlainAdapter())
