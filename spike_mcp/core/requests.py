"""Every request as a value: one frozen type per tool and per human command (spec 7, 13).

The tool parameters stand in one table; the input schemas that clients see and the validation of
what they send are both made from it, so they cannot drift apart. `parse` never raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

MAX_RATIONALE = 2_000
MAX_TEXT = 4_000
MAX_SHOWN_LINES = 2_000


class Kind(StrEnum):
    """What a request does, as far as the gate's rules tell requests apart (spec 6)."""

    STATUS = "status"
    READ = "read"
    WRITE = "write"
    RUN = "run"
    REPORT = "report"
    APPROVE = "approve"
    DECIDE = "decide"
    END = "end"
    CHECKPOINT = "checkpoint"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Request:
    """Base of all requests; `tool` is the name that the ledger shows."""

    tool: ClassVar[str] = ""
    kind: ClassVar[Kind] = Kind.UNKNOWN


@dataclass(frozen=True, slots=True)
class Malformed:
    """A call of a known tool whose arguments are wrong, or of no tool of ours (`kind` UNKNOWN)."""

    tool: str
    kind: Kind
    message: str


@dataclass(frozen=True, slots=True)
class Status(Request):
    """Where the spike stands."""

    tool = "spike_status"
    kind = Kind.STATUS


@dataclass(frozen=True, slots=True)
class ListFiles(Request):
    """Files of the worktree below `path` whose path matches `pattern`."""

    tool = "spike_list_files"
    kind = Kind.READ
    path: str
    pattern: str
    page: int


@dataclass(frozen=True, slots=True)
class ReadFile(Request):
    """Lines of one file."""

    tool = "spike_read_file"
    kind = Kind.READ
    path: str
    start_line: int
    line_count: int


@dataclass(frozen=True, slots=True)
class SearchFiles(Request):
    """Lines that hold a text or match a regular expression."""

    tool = "spike_search_files"
    kind = Kind.READ
    pattern: str
    path: str
    regex: bool


@dataclass(frozen=True, slots=True)
class ApplyPatch(Request):
    """One or more files, all or nothing."""

    tool = "spike_apply_patch"
    kind = Kind.WRITE
    patch: str
    rationale: str


@dataclass(frozen=True, slots=True)
class EditFile(Request):
    """Replace a text that occurs exactly once."""

    tool = "spike_edit_file"
    kind = Kind.WRITE
    path: str
    old_text: str
    new_text: str
    rationale: str


@dataclass(frozen=True, slots=True)
class WriteFile(Request):
    """Create a file, or replace the one whose sha256 is given."""

    tool = "spike_write_file"
    kind = Kind.WRITE
    path: str
    content: str
    rationale: str
    expected_sha256: str


@dataclass(frozen=True, slots=True)
class RevertPatch(Request):
    """Take back one of the agent's own patches."""

    tool = "spike_revert_patch"
    kind = Kind.WRITE
    patch_id: str
    rationale: str


@dataclass(frozen=True, slots=True)
class RunTest(Request):
    """Run the pinned measurement."""

    tool = "spike_run_test"
    kind = Kind.RUN


@dataclass(frozen=True, slots=True)
class Report(Request):
    """Done, or an unknown outside the hypothesis."""

    tool = "spike_report"
    kind = Kind.REPORT
    report: str
    text: str


# --- what the human asks ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Approve(Request):
    """`spike approve`."""

    tool = "approve"
    kind = Kind.APPROVE


@dataclass(frozen=True, slots=True)
class Apply(Request):
    """`spike apply`: a patch by the human's door, under the same rules as the agent's."""

    tool = "apply"
    kind = Kind.WRITE
    patch: str
    rationale: str


@dataclass(frozen=True, slots=True)
class Decide(Request):
    """`spike reject`, `comment`, `undo`, `restore`, `unknown`, `approve --withdrawn`."""

    tool = "decide"
    kind = Kind.DECIDE


@dataclass(frozen=True, slots=True)
class HumanRun(Request):
    """`spike test`."""

    tool = "test"
    kind = Kind.DECIDE


@dataclass(frozen=True, slots=True)
class End(Request):
    """`spike verdict`, `spike kill`: not even a spent budget refuses them."""

    tool = "verdict"
    kind = Kind.END


@dataclass(frozen=True, slots=True)
class CheckpointCommand(Request):
    """`spike checkpoint start|stop|extend`."""

    tool = "checkpoint"
    kind = Kind.CHECKPOINT


# --- the table of tool parameters ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Param:
    """One argument of a tool. `default` None = required; `limit` = most characters, or largest."""

    name: str
    type: type
    about: str
    default: str | int | bool | None = None
    limit: int = MAX_TEXT
    choices: tuple[str, ...] = ()
    least: int = 1

    def schema(self) -> dict[str, Any]:
        """Flat JSON Schema of this argument; the limits stand in the text too (spec 7)."""
        names = {str: "string", int: "integer", bool: "boolean"}
        schema: dict[str, Any] = {"type": names[self.type], "description": self.about}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def complaint(self, value: object) -> str:
        """What is wrong with a value, or ""; strict: no coercion, true is no number."""
        if type(value) is not self.type:
            wanted = self.schema()["type"]
            return f"`{self.name}` must be of type {wanted}, not {_json_type(value)}"
        if isinstance(value, str):
            return self._text_complaint(value)
        if self.type is int and isinstance(value, int) and not self.least <= value <= self.limit:
            return f"`{self.name}` must be from {self.least} to {self.limit}"
        return ""

    def _text_complaint(self, value: str) -> str:
        if len(value) > self.limit:
            return f"`{self.name}` has {len(value)} characters, the limit is {self.limit}"
        if self.choices and value not in self.choices:
            return f"`{self.name}` must be one of: {', '.join(self.choices)}"
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            return f"`{self.name}` holds a lone surrogate at character {error.start}: not Unicode"
        if self.name == "rationale" and not value.strip():
            return "`rationale` is empty: say in a sentence why this change serves the hypothesis"
        return ""


def _json_type(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", int: "integer", bool: "boolean"}
    if value is None:
        return "null"
    return names.get(type(value), "number")


_BIG = 8 << 20
_PATH = Param("path", str, "Path relative to the repository root, with forward slashes.")
_WHY = Param(
    "rationale",
    str,
    "One or two sentences: what this change does for the hypothesis. A human reads it. "
    f"At most {MAX_RATIONALE} characters.",
    limit=MAX_RATIONALE,
)

PARAMS: Mapping[type[Request], tuple[Param, ...]] = {
    Status: (),
    ListFiles: (
        Param("path", str, "Folder to list; '.' is the repository root.", "."),
        Param("pattern", str, "Glob on the path, such as 'src/**/*.py'; empty lists all.", ""),
        Param("page", int, "Page number, from 1.", 1, limit=100_000),
    ),
    ReadFile: (
        _PATH,
        Param("start_line", int, "First line, from 1.", 1, limit=100_000_000),
        Param(
            "line_count",
            int,
            f"How many lines, at most {MAX_SHOWN_LINES}.",
            400,
            limit=MAX_SHOWN_LINES,
        ),
    ),
    SearchFiles: (
        Param("pattern", str, "Text to find, or a regular expression with regex=true."),
        Param("path", str, "Folder or file to search.", "."),
        Param("regex", bool, "Whether pattern is a regular expression.", False),
    ),
    ApplyPatch: (
        Param(
            "patch",
            str,
            "Unified diff (git or plain; line numbers may be off) or a '*** Begin Patch' "
            "envelope. At most 1 MiB.",
            limit=_BIG,
        ),
        _WHY,
    ),
    EditFile: (
        _PATH,
        Param("old_text", str, "Exact text to replace; must occur once in the file.", limit=_BIG),
        Param("new_text", str, "Text to put in its place.", limit=_BIG),
        _WHY,
    ),
    WriteFile: (
        _PATH,
        Param("content", str, "The whole new content. At most 1 MiB.", limit=_BIG),
        _WHY,
        Param(
            "expected_sha256",
            str,
            "To replace a file: the sha256 that spike_read_file gave. Empty to create one.",
            "",
            limit=64,
        ),
    ),
    RevertPatch: (Param("patch_id", str, "Patch to take back, such as P2.", limit=16), _WHY),
    RunTest: (),
    Report: (
        Param(
            "kind",
            str,
            "'done': the attempt is finished. 'unknown': the hypothesis needs something outside "
            "its scope.",
            choices=("done", "unknown"),
        ),
        Param("text", str, f"One to three sentences, at most {MAX_TEXT} characters."),
    ),
}

TOOLS: Mapping[str, type[Request]] = {kind.tool: kind for kind in PARAMS}


def input_schema(request: type[Request]) -> dict[str, Any]:
    """The tool's input schema: flat, no `$ref`, no `anyOf` (some clients break on them)."""
    params = PARAMS[request]
    return {
        "type": "object",
        "properties": {p.name: p.schema() for p in params},
        "required": [p.name for p in params if p.default is None],
    }


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request and the names of arguments that were sent but mean nothing here."""

    request: Request | Malformed
    ignored: tuple[str, ...] = ()


def parse(name: str, arguments: Mapping[str, Any] | None) -> Parsed:
    """A tools/call to a request; wrong types and missing arguments give `Malformed`."""
    request = TOOLS.get(name)
    if request is None:
        return Parsed(Malformed(name, Kind.UNKNOWN, "there is no tool of this name"))
    arguments = arguments or {}
    values: list[Any] = []
    for param in PARAMS[request]:
        value = arguments.get(param.name, param.default)
        complaint = (
            f"`{param.name}` is missing"
            if value is None and param.name not in arguments
            else param.complaint(value)
        )
        if complaint:
            return Parsed(Malformed(name, request.kind, complaint))
        values.append(value)
    known = {param.name for param in PARAMS[request]}
    ignored = tuple(sorted(str(key) for key in arguments if key not in known))
    order = [f.name for f in fields(request)]
    made = request(**dict(zip(order, values, strict=True)))
    if isinstance(made, Report) and made.report == "unknown" and not made.text.strip():
        return Parsed(Malformed(name, request.kind, "`text` is empty: say what is unknown"))
    return Parsed(made, ignored)
