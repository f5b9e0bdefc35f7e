"""Adapter for `node --test`: a reporter of ours in the runner's own process."""

from spike_mcp.host.evidence.model import Launch, Reader
from spike_mcp.host.evidence.plain import PlainReader
from spike_mcp.host.evidence.stream import EventReader
from spike_mcp.host.sandbox.model import Places

_DETAIL = (
    "node's runner makes its events from what each test file's process sends it, which the code"
    " under test shares; which files were read from the tree is not known"
)


class NodeAdapter:
    """`node --test ...` with a second reporter; what people see stays as it was."""

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """node has no listing: a dry run does nothing."""
        if dry:
            return Launch(("/bin/sh", "-c", ":"))
        argv = places.argv
        theirs = [word for word in argv if word.startswith("--test-reporter")]
        has_target = any(word.startswith("--test-reporter-destination") for word in theirs)
        if not theirs:
            shown: tuple[str, ...] = ("--test-reporter=spec", "--test-reporter-destination=stdout")
        else:
            shown = () if has_target else ("--test-reporter-destination=stdout",)
        ours = (f"--test-reporter={inside}/node_reporter.mjs", "--test-reporter-destination=stderr")
        return Launch((argv[0], *shown, *ours, *argv[1:]), channel=True)

    def reader(self, dry: bool) -> Reader:
        """Events of the reporter."""
        return PlainReader() if dry else EventReader("node", _DETAIL)
