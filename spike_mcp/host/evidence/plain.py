"""The adapter for every other command: its exit code is all there is."""

from collections.abc import Sequence

from spike_mcp.host.evidence.model import Evidence, Launch, Reader
from spike_mcp.host.sandbox.model import Places

_DETAIL = "only the exit code of the command is known, not which tests ran"


class PlainReader:
    """Nothing to read."""

    modules: Sequence[tuple[str, str]] = ()
    opened: Sequence[str] = ()

    def event(self, line: bytes) -> None:
        """There is no channel."""

    def text(self, line: bytes) -> bytes:
        """Output means nothing."""
        return line

    def evidence(self) -> Evidence:
        """`exit_code`."""
        return Evidence(kind="exit_code", detail=_DETAIL)


class PlainAdapter:
    """Any command."""

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """The command as it is; a dry run only asks for `true`, there is nothing to collect."""
        del inside
        return Launch(("/bin/sh", "-c", ":") if dry else places.argv)

    def reader(self, dry: bool) -> Reader:
        """Nothing to read."""
        del dry
        return PlainReader()
