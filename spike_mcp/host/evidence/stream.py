"""Reads the numbered events of our Python and node recorders into Evidence."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from spike_mcp.host.evidence.model import Evidence, Failure

MAX_IDS = 200_000
MAX_FILES = 100_000
"""Most modules, and most opened files, that are kept of a run."""
MAX_FEW = 1_000
"""Most errors, notes, packages: what a run has few of unless it wants to fill the memory."""
_LONGEST_ID = 400
_T = TypeVar("_T")
_LATER = "an event came after the end"


def short_id(text: str) -> str:
    """A test id as it is kept: a long one by its beginning and a digest, so that it stays unique.

    Ids come from the code under test, which may print a million of them a megabyte long each.
    """
    if len(text) <= _LONGEST_ID:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_LONGEST_ID]}...{digest}"


class EventReader:
    """Reader of the event channel. What does not fit becomes a flaw, never an exception."""

    def __init__(self, kind: str, detail: str) -> None:
        self._kind = kind
        self._detail = detail
        self._next = 0
        self._status: int | None = None
        self._collected: dict[str, None] = {}
        self._deselected: list[str] = []
        self._errors: list[str] = []
        self._outcomes: dict[str, str] = {}
        self._in_call: dict[str, None] = {}
        self._failures: dict[str, Failure] = {}
        self._flaws: dict[str, None] = {}
        self._notes: list[str] = []
        self._modules: list[tuple[str, str]] = []
        self._opened: list[str] = []
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "start": self._start,
            "note": lambda row: _add(self._notes, [str(row["text"])[:200]], MAX_FEW),
            "collected": lambda row: self._collected.update(dict.fromkeys(_ids(row["ids"]))),
            "deselected": lambda row: _add(self._deselected, _ids(row["ids"]), MAX_IDS),
            "collect_error": self._collect_error,
            "report": self._report,
            "modules": lambda row: _add(
                self._modules, [(str(name), str(path)) for name, path in row["modules"]], MAX_FILES
            ),
            "opened": lambda row: _add(self._opened, _strings(row["opened"]), MAX_FILES),
            "finish": self._finish,
        }

    @property
    def modules(self) -> Sequence[tuple[str, str]]:
        """(module name, absolute file) as loaded inside."""
        return self._modules

    @property
    def opened(self) -> Sequence[str]:
        """Files below the working directory that were opened, relative to it."""
        return self._opened

    def text(self, line: bytes) -> bytes:
        """Standard output means nothing to this adapter."""
        return line

    def event(self, line: bytes) -> None:
        """One event: a JSON object with `kind` and the next `seq`."""
        try:
            row = json.loads(line)
            number, kind = row["seq"], row["kind"]
            if number != self._next:
                self._flaw(f"event {number} where {self._next} was due")
            self._next += 1
            if self._status is not None:
                self._flaw(_LATER)
            elif len(self._collected) > MAX_IDS or len(self._outcomes) > MAX_IDS:
                self._flaw("more tests than can be recorded")
            else:
                self._handlers[kind](row)
        except (ValueError, KeyError, TypeError, RecursionError):
            self._flaw("an event that no recorder of ours sends")

    def evidence(self) -> Evidence:
        """The sum of what was sent."""
        return Evidence(
            kind=self._kind,
            collected=tuple(self._collected),
            outcomes=dict(self._outcomes),
            failed_in_call=tuple(key for key in self._in_call if self._outcomes[key] == "failed"),
            failures=dict(self._failures),
            collection_errors=tuple(self._errors[:100]),
            deselected=tuple(self._deselected[:10_000]),
            finished=self._status is not None,
            status=self._status,
            flaws=tuple(self._flaws),
            notes=tuple(self._notes[:20]),
            detail=self._detail,
        )

    def _flaw(self, text: str) -> None:
        if len(self._flaws) < 20:
            self._flaws[text] = None

    def _start(self, row: Mapping[str, Any]) -> None:
        if row["seq"] > 1:
            self._flaw("the session started twice")

    def _collect_error(self, row: Mapping[str, Any]) -> None:
        _add(self._errors, [f"{row['id']}: {row['text']}"[:600]], MAX_FEW)

    def _finish(self, row: Mapping[str, Any]) -> None:
        self._status = int(row["status"])

    def _report(self, row: Mapping[str, Any]) -> None:
        key, when, outcome = short_id(str(row["id"])), str(row["when"]), str(row["outcome"])
        self._outcomes[key] = _worse(self._outcomes.get(key), _named(when, outcome, row))
        if outcome == "failed" and when == "call":
            self._in_call[key] = None
        where = row.get("failure")
        if isinstance(where, dict):
            self._failures[key] = Failure(
                exception=str(where["exception"])[:200],
                path=str(where["path"])[:4096],
                line=int(where["line"]),
                function=str(where["function"])[:200],
                direct=where["direct"] is True,
            )


def _add(found: list[_T], more: Sequence[_T], most: int) -> None:
    """Keep what there is room for: a story that is too long is no reason to run out of memory."""
    found.extend(more[: max(0, most - len(found))])


def _ids(value: object) -> list[str]:
    return [short_id(text) for text in _strings(value)]


def _strings(value: object) -> list[str]:
    if not isinstance(value, list):
        raise TypeError("a list was due")
    return [str(item) for item in value]


_ORDER = ("passed", "skipped", "xfailed", "xpassed", "rerun", "failed", "error")


def _named(when: str, outcome: str, row: Mapping[str, Any]) -> str:
    """The one word for a phase report. Set-up and tear-down that pass decide nothing."""
    if row.get("xfail"):
        return "xpassed" if outcome == "passed" else "xfailed"
    if outcome == "failed":
        return "failed" if when == "call" else "error"
    if outcome == "passed":
        return "passed" if when == "call" else ""
    return outcome if outcome in _ORDER else "error"


def _worse(old: str | None, new: str) -> str:
    """The worst of what was reported; '' until something decisive came."""
    if not new or not old:
        return new or old or ""
    return max(old, new, key=_ORDER.index)
