"""`spike review`: the screen on which a human decides about every hunk."""

from __future__ import annotations

import os

from spike_mcp.core.codes import Exit
from spike_mcp.edge.desk import SignerFactory, SpikeDesk, Unlock
from spike_mcp.session.spike import Spike

__all__ = ["main"]


def main(
    spike: Spike,
    signer_factory: SignerFactory | None,
    ascii: bool = False,  # noqa: A002  (the option's name)
    color: bool | None = None,
) -> int:
    """Run the review until the human quits; the exit code.

    `signer_factory` is called once, before the screen opens, if the spike's decisions are signed.
    `color` None: unless NO_COLOR is set. Raises `Problem(NOT_AUTHORISED)` for a wrong passphrase.
    """
    from spike_mcp.edge.tui.app import ReviewApp

    signer = Unlock(spike, signer_factory)()
    colored = not os.environ.get("NO_COLOR") if color is None else color
    result = ReviewApp(SpikeDesk(spike, signer), ascii_only=ascii, color=colored).run()
    return int(Exit.OK if result is None else result)
