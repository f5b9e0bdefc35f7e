"""A sentence and a hint for every code, and what the method asks for after a verdict.

These are defaults: a rule that knows more (which path, which line, how many minutes) says it
itself. Sentences stand in lower case without a full stop, so that `refused: ...` can precede them;
hints say what to do. Agents read refusals too: no path of the judge, no digest (spec 6).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spike_mcp.core.codes import Reason, Refusal, Usage


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence and what to do about it; the hint of a verdict's reason may be empty."""

    sentence: str
    hint: str = ""


REFUSALS: dict[Refusal, Message] = {
    Refusal.BUDGET_SPENT: Message(
        "the spike's time is spent; nothing more is accepted",
        "the verdict is being written from the state at the deadline: spike verdict",
    ),
    Refusal.SPIKE_CLOSED: Message(
        "the spike is closed; its verdict is written", "a new spike is the only appeal: spike init"
    ),
    Refusal.NOT_STARTED: Message(
        "the spike has not started yet", "the human starts the clock with: spike start"
    ),
    Refusal.ALREADY_STARTED: Message("the spike runs already", "look at it with: spike status"),
    Refusal.LEDGER_DAMAGED: Message(
        "the ledger does not read as it was written", "the human finds out where: spike verify"
    ),
    Refusal.CALL_LIMIT_SPENT: Message(
        "too many refused calls or too many stored bytes; only spike_status answers now",
        "the human decides from here: spike review, then spike verdict",
    ),
    Refusal.SEAL_BROKEN: Message(
        "something sealed before the spike started has changed",
        "nothing goes on from here; the human asks for the verdict: spike verdict",
    ),
    Refusal.WORKTREE_TAMPERED: Message(
        "the worktree's link to its repository or its branch was moved",
        "the human looks at it: spike check",
    ),
    Refusal.OUT_OF_BAND_CHANGE: Message(
        "files were changed without going through this server",
        "the human puts them back: spike restore --all (or names them: spike check)",
    ),
    Refusal.RUN_IN_PROGRESS: Message(
        "the test is running; writing would change the tree under it",
        "wait for its result: spike_run_test joins the running one",
    ),
    Refusal.WRITES_CLOSED: Message(
        "the time for writes is over",
        "run the test, report what was found (spike_report); the human decides the pending hunks",
    ),
    Refusal.CHECKPOINT_OVER: Message(
        "the attempt has used its minutes",
        "report what was found (spike_report); the human may extend it: "
        "spike checkpoint extend attempt",
    ),
    Refusal.CHECKPOINT_CLOSED: Message(
        "the checkpoint that this needs is not open",
        "the human may resume it while minutes are left: spike checkpoint start attempt",
    ),
    Refusal.REVIEW_BACKLOG: Message(
        "too many hunks wait for the human",
        "wait for decisions or revert a patch (spike_revert_patch); your clock stands meanwhile",
    ),
    Refusal.TEST_RUNS_SPENT: Message(
        "all test runs of this spike are used",
        "an unchanged tree still returns its stored result; the human's runs are free: spike test",
    ),
    Refusal.MALFORMED_REQUEST: Message(
        "the request is not in the form that this tool takes",
        "compare the arguments with the tool's schema",
    ),
    Refusal.UNKNOWN_TOOL: Message(
        "there is no tool of this name", "the tools are listed by tools/list, all named spike_..."
    ),
    Refusal.PATH_NOT_ALLOWED: Message(
        "the path is outside the allowed paths",
        "allowed paths are frozen for this spike; spike_status lists them",
    ),
    Refusal.PATH_PROTECTED: Message(
        "the path is protected", "leave it; if the hypothesis needs it, report it (spike_report)"
    ),
    Refusal.PATH_INVALID: Message(
        "the path is not a plain path of this repository",
        "give it relative to the repository's top, such as src/a.py",
    ),
    Refusal.SYMLINK_IN_PATH: Message(
        "the path goes through a symbolic link", "name the real file instead"
    ),
    Refusal.HARD_LINKED: Message(
        "the file has a second name elsewhere (hard link)", "only files with one name are written"
    ),
    Refusal.NOT_A_FILE: Message(
        "the path is no regular file", "name a file, not a directory or a device"
    ),
    Refusal.FILE_EXISTS: Message(
        "the file exists already", "change it with spike_edit_file or a patch against its content"
    ),
    Refusal.FILE_MISSING: Message(
        "there is no such file", "spike_list_files shows what is there; create it with a patch"
    ),
    Refusal.STALE_FILE: Message(
        "the file is not as you last read it", "read it again and write with its present sha256"
    ),
    Refusal.BINARY_CONTENT: Message(
        "the content is not text", "only text can be reviewed; binary files can't be written"
    ),
    Refusal.ENCODING_UNSUPPORTED: Message(
        "the file's encoding can't be changed safely", "only UTF-8 text is written"
    ),
    Refusal.TOO_LARGE: Message(
        "the change is larger than the contract allows", "make a smaller one; spikes are narrow"
    ),
    Refusal.PATCH_MALFORMED: Message(
        "the patch can't be read",
        "send a unified diff with ---, +++ and @@ lines, or use spike_edit_file",
    ),
    Refusal.PATCH_DIALECT: Message(
        "the text is in no patch format that is taken here",
        "send a unified diff or a *** Begin Patch envelope, or use spike_edit_file",
    ),
    Refusal.CONTENT_DECEPTIVE: Message(
        "an added line shows something else than it holds",
        "write it without control, invisible or direction-changing characters",
    ),
    Refusal.NO_CHANGES: Message(
        "nothing would change", "the file holds this already; look at it with spike_read_file"
    ),
    Refusal.NO_MATCH: Message(
        "the old lines are not in the file", "read the file and send its lines exactly as they are"
    ),
    Refusal.AMBIGUOUS_MATCH: Message(
        "the old lines stand in the file more than once",
        "send more lines around them, so that one place is meant",
    ),
    Refusal.UNSUPPORTED_CHANGE_KIND: Message(
        "this kind of change is not taken",
        "create, change or delete text files; a rename is a delete and a create",
    ),
    Refusal.RESUBMITTED: Message(
        "the human rejected this very change",
        "read the reason and change something; sent once more it goes to the review, marked",
    ),
    Refusal.SANDBOX_UNAVAILABLE: Message(
        "the test's sandbox can't be set up here", "the human asks what is missing: spike doctor"
    ),
    Refusal.WRONG_TREE_IMPORTED: Message(
        "the test imported modules from another copy of the project",
        "the human makes the test import from the tree it runs in, in a new spike",
    ),
    Refusal.STORAGE_FULL: Message(
        "the disk is full or read-only; nothing was written", "the human makes room, then try again"
    ),
    Refusal.BUSY: Message("another command works on this spike", "try again in a moment"),
    Refusal.SETUP_FAILED: Message(
        "setup did not succeed", "read its output, mend it, and start again: spike start"
    ),
    Refusal.NOT_RED: Message(
        "the test does not fail as a test on the untouched baseline",
        "it must be collected, run and fail; mend it, or give --accept-collection-error at init",
    ),
    Refusal.ALREADY_GREEN: Message(
        "the test passes on the untouched baseline; there is nothing to show",
        "start again if that was chance, else close it: spike kill",
    ),
    Refusal.FLAKY_BASELINE: Message(
        "two runs on the untouched baseline did not fail alike",
        "make the test steady; start again, or close the spike: spike kill",
    ),
    Refusal.HUNK_CHANGED: Message(
        "the hunk is not what it was when you looked", "look again: spike review"
    ),
    Refusal.HUNK_UNKNOWN: Message(
        "no single hunk of this spike has that id", "spike map lists them"
    ),
    Refusal.HUNKS_DIFFER: Message(
        "marked hunks differ: one tag for several hunks needs identical changed lines",
        "approve them one by one (* marks the identical ones)",
    ),
    Refusal.TAG_MISSING: Message(
        "the tag is empty", "say in a sentence how this hunk serves the hypothesis"
    ),
    Refusal.TAG_UNRELATED: Message(
        "the tag names no word of the hypothesis",
        "if none fits, the hunk is out of scope: reject it (r)",
    ),
    Refusal.TAG_BARE: Message(
        "the tag is too short (three words or more)", "say what this hunk does"
    ),
    Refusal.FLAG_UNACKNOWLEDGED: Message(
        "the hunk is flagged and the flags are not acknowledged",
        "read them, then approve with --ack FLAG (or --ack all)",
    ),
    Refusal.NOT_AUTHORISED: Message(
        "this decision needs the spike's passphrase", "give it when asked, or by --passphrase-fd"
    ),
    Refusal.INTERNAL_ERROR: Message(
        "something went wrong inside; nothing was changed",
        "try once more, then tell the human, who finds the log's path on standard error",
    ),
}

USAGES: dict[Usage, Message] = {
    Usage.USAGE: Message("the command line does not fit", "see spike --help"),
    Usage.INVALID_CONTRACT: Message(
        "the contract can't be made from this", "spike schema contract shows its form"
    ),
    Usage.SPIKE_NOT_FOUND: Message(
        "there is no such spike", "spike list shows all; name one with --spike"
    ),
    Usage.NOT_A_REPOSITORY: Message(
        "this is no git repository", "run it inside a repository with at least one commit"
    ),
    Usage.UNSUPPORTED_REPOSITORY: Message(
        "this repository has something a spike can't freeze", "the message above names it"
    ),
    Usage.ORACLE_NOT_COMMITTED: Message(
        "the oracle is not in the baseline commit",
        "commit it, or let init take it in with --include PATH",
    ),
    Usage.SPIKE_EXISTS: Message(
        "there is a spike of this name already", "choose another name, or spike rm the old one"
    ),
    Usage.GIT_FAILED: Message("git did not do what was asked", "its own words stand above"),
}

REASONS: dict[Reason, Message] = {
    Reason.HYPOTHESIS_TAMPERED: Message("the hypothesis is not the one that was sealed"),
    Reason.MEASUREMENT_COMMAND_CHANGED: Message(
        "the measurement command is not the one that was sealed"
    ),
    Reason.DEADLINE_EXCEEDED: Message(
        "the time ran out with a hunk undecided or no green run of the approved tree",
        "decide hunks while they come: spike watch rings",
    ),
    Reason.ORACLE_HASH_CHANGED: Message("the oracle in the worktree is not the sealed one"),
    Reason.CONTRACT_CHANGED: Message("the contract is not the one that was sealed"),
    Reason.LEDGER_DAMAGED: Message("the ledger does not read as it was written"),
    Reason.WORKTREE_TAMPERED: Message(
        "the worktree's link to its repository or its branch was moved"
    ),
    Reason.TEST_CONFIGURATION_CHANGED: Message(
        "a protected file appeared, changed or went", "spike restore puts it back in time"
    ),
    Reason.MEASUREMENT_INPUT_CHANGED: Message(
        "something else that the measurement reads (program, packages, environment) changed"
    ),
    Reason.APPROVAL_FORGED: Message("an approval does not carry a valid signature"),
    Reason.CLOSED_BY_HUMAN: Message("the human closed the spike"),
    Reason.ALREADY_GREEN: Message("the test passed before anything was changed"),
    Reason.FLAKY_BASELINE: Message("the test did not fail steadily before anything was changed"),
    Reason.CHECKPOINTS_OVER_BUDGET: Message("two or more checkpoints ran over their minutes"),
    Reason.HYPOTHESIS_NOT_EXERCISED: Message(
        "nothing differs from the baseline: the hypothesis was not tried"
    ),
    Reason.UNEXPLAINED_DIFF: Message(
        "something in the diff has no tag that ties it to the hypothesis",
        "approve or reject what spike check names",
    ),
    Reason.TEST_FAILED: Message("the sealed test fails on the approved changes"),
    Reason.TESTS_NOT_RUN: Message("the sealed tests did not all run"),
    Reason.EVIDENCE_MISMATCH: Message("the run's evidence does not fit its exit code"),
    Reason.JUDGE_FOOLED: Message("a test that had to fail was green: the code fools its judge"),
    Reason.TWIN_FAILED: Message("hidden tests of the same behaviour fail"),
    Reason.NEGATIVE_CONTROL_INCONCLUSIVE: Message(
        "a test that had to fail did so, but for another reason"
    ),
    Reason.WRONG_TREE_IMPORTED: Message("the run imported modules from another copy"),
    Reason.NOT_SCORED: Message("the clean run could not be made here", "spike doctor says why"),
    Reason.ISOLATION_INSUFFICIENT: Message(
        "the test ran without a sandbox; such a run can't ship", "spike doctor says what is missing"
    ),
    Reason.CHECKPOINT_OVER_BUDGET: Message("met, but one checkpoint ran over its minutes"),
    Reason.PATCH_TOO_LARGE: Message("met, but more lines changed than a spike may change"),
    Reason.CHECKPOINT_NOT_MET: Message("met by the evidence, but the human says it was not"),
    Reason.HYPOTHESIS_BUDGET_EXCEEDED: Message("met, but later than the hypothesis promised"),
    Reason.ORACLE_UNCHANGED_AND_TEST_PASSED: Message(
        "everything sealed is unchanged, every hunk is explained, the clean run passed"
    ),
    Reason.UNCLASSIFIED: Message("no rule fits this end; it does not count as shown"),
}

FOR_PEOPLE: dict[Refusal, str] = {
    Refusal.BUDGET_SPENT: "`spike verdict` prints how it ended",
    Refusal.NOT_STARTED: "`spike start` comes first",
    Refusal.LEDGER_DAMAGED: "`spike verify` shows where; nothing can ship from this spike",
    Refusal.SEAL_BROKEN: "nothing can ship from a spike whose judge was changed; `spike check` "
    "names it, `spike verdict --final` writes the verdict",
    Refusal.WORKTREE_TAMPERED: "work/'s .git file and its branch must stay as they were made; "
    "`spike check` names what moved",
    Refusal.OUT_OF_BAND_CHANGE: "`spike restore --all` puts the recorded bytes back, or "
    "`spike restore PATH`",
    Refusal.RUN_IN_PROGRESS: "wait for it, `spike watch` shows its end",
    Refusal.WRITES_CLOSED: "decide what is there: `spike review`, then `spike verdict`",
    Refusal.CHECKPOINT_OVER: "`spike verdict` judges what is there; `spike checkpoint extend "
    "attempt` lets it run on, on the record (PARK is the best that can follow)",
    Refusal.CHECKPOINT_CLOSED: "`spike checkpoint start attempt` resumes it",
    Refusal.REVIEW_BACKLOG: "decide some of them first: `spike review`",
    Refusal.PATH_NOT_ALLOWED: "allowed paths are frozen for this spike; `spike status` lists them",
    Refusal.PATH_PROTECTED: "what decides stays as it is; --unprotect at init is the exception",
    Refusal.FILE_EXISTS: "send a patch against its content: `spike diff` shows what was changed",
    Refusal.FILE_MISSING: "a patch against /dev/null creates a file",
    Refusal.PATCH_MALFORMED: "send a unified diff with ---, +++ and @@ lines",
    Refusal.PATCH_DIALECT: "send a unified diff or a *** Begin Patch envelope",
    Refusal.NO_CHANGES: "`spike map` shows what there is",
    Refusal.SANDBOX_UNAVAILABLE: "`spike doctor` says what is missing",
    Refusal.WRONG_TREE_IMPORTED: "let the test import from the tree it runs in, in a new spike",
    Refusal.STORAGE_FULL: "make room, then try again",
    Refusal.TAG_UNRELATED: "if none fits, the hunk is out of scope: `spike reject HUNK`",
    Refusal.TAG_MISSING: 'say in a sentence how this hunk serves the hypothesis: --tag "..."',
    Refusal.RESUBMITTED: "read the reason again; applied once more it goes to the review, marked",
}
"""What the command line says instead of a hint that speaks to the agent about its human."""

MESSAGES: Mapping[type[StrEnum], Mapping[Any, Message]] = {
    Refusal: REFUSALS,
    Usage: USAGES,
    Reason: REASONS,
}
"""By enum, since equal words mean other things as refusal and as reason (`ledger_damaged`)."""


def hint_for_people(code: StrEnum, hint: str) -> str:
    """`hint`, unless it speaks to an agent: then what a person does, "" where that is nothing."""
    speaks_to_agent = any(word in hint for word in ("the human", "spike_", "(r)", "stop here"))
    if isinstance(code, Refusal) and (not hint or speaks_to_agent or code is Refusal.TAG_MISSING):
        return FOR_PEOPLE.get(code, "" if speaks_to_agent else hint)
    return hint


def message_of(code: Refusal | Usage | Reason) -> Message:
    """Default sentence and hint of `code`; total over the three enums."""
    found: Message = MESSAGES[type(code)][code]
    return found
