"""The ten tools as clients see them: names, descriptions, annotations, instructions (spec 7).

Plain data, and all of it stable: `tests/conformance/tools.json` is the committed copy. Only some
clients show the instructions, so each description stands alone and stays below 1,500 characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spike_mcp.core import requests

SERVER_NAME = "spike"

INSTRUCTIONS = """\
This is a spike: a time-boxed experiment that tests ONE hypothesis. These tools are your only way \
to change files and to run the test. The clock runs.
1. spike_status: the hypothesis, the paths you may write, the time left.
2. spike_read_file and spike_search_files: read the failing test, then the code it exercises.
3. spike_edit_file (or spike_apply_patch, spike_write_file): the smallest change that could make \
the test pass. Each one carries a rationale: what the change does for the hypothesis.
4. spike_run_test: run the one fixed test. If it says running, call it again. Repeat 3 and 4.
5. spike_report kind=done when the test is green, then stop. If the hypothesis needs something \
outside the allowed paths, spike_report kind=unknown says so.
A human reviews every hunk and must be able to tie it to the hypothesis: no clean-ups, no \
formatting, no extras; the fewer changed lines the better. What the human rejects or remarks comes \
with your next answer: act on it.
An answer that begins "refused: CODE" changed nothing; read its hint before you try again. \
budget_spent and spike_closed mean stop. Tests and configuration are protected; do not look for \
a way around it."""

_REVIEW = (
    "A human reviews every changed hunk and approves it only if it serves the hypothesis, so "
    "change nothing else."
)
_READ_ONLY = "Changes nothing; a human reviews every hunk that other tools change."
_REFUSED = (
    "An answer that begins with 'refused: CODE' means that nothing was changed; its hint says what "
    "to do instead."
)

_ABOUT: dict[str, tuple[str, str]] = {
    "spike_status": (
        "Spike status",
        "Call this first. Shows the hypothesis that this spike tests, the paths you may write, the "
        "fixed test command, the time left, until when writes are taken, how many hunks wait for "
        "the human's review, and the last test run. Changes nothing and always answers while the "
        "spike is open. A spike is a time-boxed experiment: you change as little as possible to "
        "make one failing test pass, and a human reviews every hunk. 'refused: budget_spent' or "
        "'refused: spike_closed' means the spike is over: stop.",
    ),
    "spike_list_files": (
        "List files",
        "Lists the files of the spike's worktree, page by page, and marks those that you may "
        "write. `path` is a folder ('.' for all). `pattern` is an optional glob over paths, such "
        "as 'src/**/*.py'; a pattern without '/' matches file names in any folder. Answers "
        f"'page N of M': ask for the next with page=N+1. {_READ_ONLY} 'refused: file_missing' "
        "means that there is nothing at that path.",
    ),
    "spike_read_file": (
        "Read file",
        "Reads a text file of the worktree, tests and other protected files included. Returns the "
        "exact text between '--- text ---' and '--- end ---', without line numbers, and above it "
        "the size, encoding, line endings and sha256. An answer holds about 6,500 bytes: if there "
        "is more, its first line says with which start_line to go on. Read before you edit, and "
        f"copy old text from here. {_READ_ONLY} 'refused: CODE' means that it can't be read: "
        "file_missing, not_a_file, symlink_in_path, binary_content, encoding_unsupported (UTF-16), "
        "path_protected (.git).",
    ),
    "spike_search_files": (
        "Search files",
        "Finds lines that hold `pattern`, below `path` ('.' for all, or a folder or file). The "
        "pattern is plain text, case-sensitive; with regex=true it is a Python regular "
        "expression, matched line by line. Answers 'path:line: text', the first 200 lines at "
        f"most, and stops after 3 seconds: give a narrower path if it says so. {_READ_ONLY} "
        "'refused: malformed_request' means that the regular expression is not valid.",
    ),
    "spike_apply_patch": (
        "Apply patch",
        "Changes one or more files by a patch, all or nothing. Takes a unified diff (git or plain; "
        "line numbers and counts may be off, context lines must be exact) or a '*** Begin Patch' "
        "envelope. Creates files with --- /dev/null, deletes with +++ /dev/null; renames, mode "
        "changes and binary patches are refused. Only the allowed paths of spike_status can be "
        "written. For a single place spike_edit_file is easier. `rationale`: one or two sentences "
        f"on what this change does for the hypothesis. {_REVIEW} {_REFUSED} Common codes: no_match "
        "(the file's real lines are shown), ambiguous_match, path_not_allowed, path_protected, "
        "no_changes, writes_closed, review_backlog (wait for the human), resubmitted (the human "
        "rejected exactly this before).",
    ),
    "spike_edit_file": (
        "Edit file",
        "Replaces one piece of text in a file. `old_text` must be exactly as in the file, blanks "
        "and line breaks included, and must occur once: copy it from spike_read_file, with enough "
        "lines around it. `new_text` takes its place; empty deletes it. Only the allowed paths of "
        "spike_status can be written. `rationale`: one or two sentences on what this change does "
        f"for the hypothesis. {_REVIEW} {_REFUSED} Common codes: no_match (the file's real lines "
        "are shown), ambiguous_match (give more lines), path_not_allowed, path_protected, "
        "run_in_progress (wait for the test), writes_closed, review_backlog (wait for the human), "
        "resubmitted (the human rejected exactly this before).",
    ),
    "spike_write_file": (
        "Write file",
        "Creates a text file, or replaces a whole one. To create: leave expected_sha256 empty; an "
        "existing file is refused with file_exists. To replace: give the sha256 that "
        "spike_read_file showed; if the file changed since, stale_file. Prefer spike_edit_file for "
        "small changes: fewer changed lines are easier to approve. Only the allowed paths of "
        "spike_status can be written; text only, at most 1 MiB. `rationale`: one or two sentences "
        f"on what this change does for the hypothesis. {_REVIEW} {_REFUSED}",
    ),
    "spike_revert_patch": (
        "Revert patch",
        "Takes back one of your own patches: `patch_id` is the P-number that a write answered, "
        "such as P2. Works where its hunks still wait for review; what the human approved stays. "
        "Use it when a change did not help, so that the human need not review it. `rationale`: one "
        f"sentence on why. {_REFUSED} no_match or ambiguous_match mean that later patches changed "
        "the same lines: revert those first, or edit the lines with spike_edit_file.",
    ),
    "spike_run_test": (
        "Run test",
        "Runs the spike's fixed test command in a sandbox without network, on the worktree as it "
        "is now, and answers green or not green with the end of the output. Nothing else can be "
        "run, and the command cannot be changed. If it takes longer than 45 seconds the answer is "
        "'running': call again to wait for the same run. Cancelling the call stops the test. An "
        "unchanged tree gets its stored result at once. The number of runs is limited "
        f"(spike_status). A green test is not the end: a human reviews every hunk. {_REFUSED} "
        "Codes: out_of_band_change (files were changed outside these tools; tell the human), "
        "test_runs_spent, sandbox_unavailable, wrong_tree_imported.",
    ),
    "spike_report": (
        "Report",
        "Tells the human how the attempt ended. kind='done': the change is complete and the test "
        "is green, or you can do no more; the attempt's clock stops, writes close, the human is "
        "called. Call it once, at the end. kind='unknown': the hypothesis needs something outside "
        "its scope (a path you may not write, a missing dependency, a wrong test); it asks for "
        "nothing and changes nothing, and the human decides whether it counts. `text`: one to "
        f"three sentences. A human reviews every hunk either way. {_REFUSED}",
    ),
}

_READS = frozenset({"spike_status", "spike_list_files", "spike_read_file", "spike_search_files"})
_REPEATABLE = _READS | {"spike_run_test"}


@dataclass(frozen=True, slots=True)
class Tool:
    """One row of `tools/list`. No `outputSchema`: clients would show the model JSON only."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool
    idempotent: bool

    def annotations(self) -> dict[str, Any]:
        """Hints in the protocol's spelling; one client refuses tools that have none."""
        hints: dict[str, Any] = {"title": self.title, "readOnlyHint": self.read_only}
        # Pending, reversible, in a disposable tree: nothing is destroyed (spec 7).
        hints["destructiveHint"] = False
        hints["idempotentHint"] = self.idempotent
        hints["openWorldHint"] = False
        return hints

    def to_wire(self) -> dict[str, Any]:
        """The row as `tools/list` sends it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations(),
        }


TOOLS: tuple[Tool, ...] = tuple(
    Tool(
        name,
        *_ABOUT[name],
        requests.input_schema(request),
        read_only=name in _READS,
        idempotent=name in _REPEATABLE,
    )
    for name, request in requests.TOOLS.items()
)
"""All tools, in the order in which they are listed."""
