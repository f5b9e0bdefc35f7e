"""What `spike run` asks of a spike: the server, the clock, the ledger, the verdict (spec 14)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from spike_mcp.core import events as ev
from spike_mcp.core.clock import elapsed as elapsed_at
from spike_mcp.core.codes import Actor, Problem
from spike_mcp.session import judging
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import transaction

if TYPE_CHECKING:
    import anyio

    from spike_mcp.host.agent.model import Peer

TIER = "enforced"
MAX_TEXT = 300


class SpikeReferee:
    """The `Referee` of `host.agent` for one spike. `after_verdict` is called once it stands.

    It looks at the spike through an object of its own: its methods come from several threads.
    """

    def __init__(
        self,
        spike: Spike,
        *,
        say: Callable[[str], None],
        after_verdict: Callable[[Spike], object] = lambda _spike: None,
    ) -> None:
        self._root = spike.root
        self._spike = Spike(spike.root, spike.clock)
        self._turn = threading.Lock()
        self._say = say
        self._after_verdict = after_verdict

    def preload(self) -> None:
        """Import the server's half a second while the agent's client is still starting."""
        threading.Thread(target=_import_server, daemon=True).start()

    async def serve(self, peer: Peer, fd: int, stop: anyio.Event) -> None:  # noqa: ARG002
        """Serve MCP on a connected socket; a session of tier `enforced`."""
        from spike_mcp.edge.connection import make_server
        from spike_mcp.edge.service import AgentService
        from spike_mcp.edge.stdio import serve

        service = AgentService(lambda: self._root, tier=TIER)
        await serve(
            make_server(service),
            fd,
            fd,
            stop=stop,
            on_bad_frame=lambda frame: service.note_unreadable(frame.message),
        )

    def remaining_seconds(self) -> float:
        """Seconds of the total that are left; 0 once the spike is closed."""
        with self._turn:
            state = self._spike.refresh()
            if state.verdict is not None or state.killed is not None or state.clock is None:
                return 0.0
            total = self._spike.contract.budgets.total * 60
            return total - elapsed_at(state.clock, self._spike.clock.read())

    def on_event(self, event: str, fields: Mapping[str, Any]) -> None:
        """One ledger row; left out where the ledger takes none."""
        row = ev.AgentNote(event, {name: _short(value) for name, value in fields.items()})
        with self._turn, suppress(Problem), transaction(self._spike, human=True) as tx:
            if not self._spike.damage:
                tx.append(Actor.HOST, row)

    def at_deadline(self) -> None:
        """Have the verdict written if the total is spent and nobody wrote it yet."""
        with self._turn:
            self._say("the time is spent: the state at the deadline is being scored")
            if judging.at_deadline(self._spike, self._say) is not None:
                self._after_verdict(self._spike)


def _import_server() -> None:
    from spike_mcp.edge import connection, opened, replies, service, stdio

    _ = (connection, opened, replies, service, stdio)
    import mcp.server.lowlevel

    _ = mcp.server.lowlevel


def _short(value: Any) -> Any:
    """Keep a row small, whatever the agent's processes are called."""
    return value[:MAX_TEXT] if isinstance(value, str) else value
