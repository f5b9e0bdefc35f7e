"""Adapter for `go test`: the tool's own `-json` stream on standard output."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spike_mcp.host.evidence.model import Evidence, Launch, Reader
from spike_mcp.host.evidence.stream import MAX_FEW, MAX_IDS, short_id
from spike_mcp.host.sandbox.model import Places

_DETAIL = (
    "go makes its test events from what the test binary prints, which the code under test shares;"
    " which files were read from the tree is not known"
)
MAX_PACKAGES = 20_000
_ENDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


class GoReader:
    """One JSON object a line; what is no event (a build message) is shown as it is."""

    modules: Sequence[tuple[str, str]] = ()
    opened: Sequence[str] = ()

    def __init__(self, dry: bool) -> None:
        self._dry = dry
        self._collected: dict[str, None] = {}
        self._outcomes: dict[str, str] = {}
        self._packages: dict[str, str] = {}
        self._ended: dict[str, str] = {}
        self._errors: list[str] = []
        self._flaws: dict[str, None] = {}

    def event(self, line: bytes) -> None:
        """There is no channel."""

    def text(self, line: bytes) -> bytes | None:
        """One line of the stream; returns the test's own output."""
        try:
            row = json.loads(line)
            action = row["Action"]
        except (ValueError, KeyError, TypeError, RecursionError):
            self._build_message(line.decode("utf-8", "replace"))
            return line
        if action in ("output", "build-output"):
            return self._output(row)
        self._take(str(action), row)
        return None

    def _output(self, row: Mapping[str, Any]) -> bytes:
        text = str(row.get("Output", "")).removesuffix("\n")
        if self._dry and text.isidentifier() and not row.get("Test"):
            self._collected[short_id(f"{row.get('Package')}::{text}")] = None
        self._build_message(text)
        return text.encode("utf-8", "surrogateescape" if text.isascii() else "replace")

    def _build_message(self, text: str) -> None:
        """`FAIL pkg [build failed]` stands outside the events up to Go 1.23."""
        failed = "[build failed]" in text or "[setup failed]" in text
        if failed and len(self._errors) < MAX_FEW:
            self._errors.append(text.replace("\t", " ").strip()[:300])

    def _take(self, action: str, row: Mapping[str, Any]) -> None:
        package, test = short_id(str(row.get("Package", ""))), row.get("Test")
        if package not in self._packages and len(self._packages) >= MAX_PACKAGES:
            self._flaw("more packages than can be recorded")
            return
        if test is None:
            self._packages[package] = ""
            if action in _ENDS:
                self._ended[package] = _ENDS[action]
            return
        key = short_id(f"{package}::{test}")
        self._packages.setdefault(package, "")
        if len(self._collected) > MAX_IDS or len(self._outcomes) > MAX_IDS:
            self._flaw("more tests than can be recorded")
        elif action == "run":
            if package in self._ended or key in self._collected:
                self._flaw(f"{key} started twice or after its package's end")
            self._collected[key] = None
        elif action in _ENDS:
            if key not in self._collected or key in self._outcomes:
                self._flaw(f"{key} ended without having started, or twice")
            self._outcomes[key] = _ENDS[action]

    def _flaw(self, text: str) -> None:
        if len(self._flaws) < MAX_FEW:
            self._flaws[text] = None

    def evidence(self) -> Evidence:
        """`finished`: every package that said something also ended."""
        finished = bool(self._ended) and set(self._packages) <= set(self._ended)
        bad = "failed" in self._ended.values()
        return Evidence(
            kind="go",
            collected=tuple(self._collected),
            outcomes=dict(self._outcomes),
            failed_in_call=tuple(
                key for key, outcome in self._outcomes.items() if outcome == "failed"
            ),
            collection_errors=tuple(self._errors[:100]),
            finished=finished,
            status=int(bad) if finished else None,
            flaws=tuple(self._flaws)[:20],
            detail=_DETAIL,
        )


class GoAdapter:
    """`go test ...` with `-json` put right after `test`."""

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """A dry run compiles and lists the tests."""
        del inside
        at = places.argv.index("test") + 1
        more = ("-json", "-list", ".") if dry else ("-json",)
        have = [word for word in places.argv[at:] if word not in ("-json", "--json")]
        return Launch((*places.argv[:at], *more, *have), text=True)

    def reader(self, dry: bool) -> Reader:
        """Reads the JSON stream."""
        return GoReader(dry)
