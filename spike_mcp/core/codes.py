"""Every wire string in one file: refusals, reasons, decisions, exit codes.

Codes are added, never renamed or removed: scripts and ledgers rely on them (spec 6, 12, 13).
"""

from enum import IntEnum, StrEnum


class Refusal(StrEnum):
    """Why a request was answered "no". One per line of the specification's list (spec 6)."""

    BUDGET_SPENT = "budget_spent"
    SPIKE_CLOSED = "spike_closed"
    NOT_STARTED = "not_started"
    ALREADY_STARTED = "already_started"
    LEDGER_DAMAGED = "ledger_damaged"
    CALL_LIMIT_SPENT = "call_limit_spent"
    SEAL_BROKEN = "seal_broken"
    WORKTREE_TAMPERED = "worktree_tampered"
    OUT_OF_BAND_CHANGE = "out_of_band_change"
    RUN_IN_PROGRESS = "run_in_progress"
    WRITES_CLOSED = "writes_closed"
    CHECKPOINT_OVER = "checkpoint_over"
    CHECKPOINT_CLOSED = "checkpoint_closed"
    REVIEW_BACKLOG = "review_backlog"
    TEST_RUNS_SPENT = "test_runs_spent"
    MALFORMED_REQUEST = "malformed_request"
    UNKNOWN_TOOL = "unknown_tool"
    PATH_NOT_ALLOWED = "path_not_allowed"
    PATH_PROTECTED = "path_protected"
    PATH_INVALID = "path_invalid"
    SYMLINK_IN_PATH = "symlink_in_path"
    HARD_LINKED = "hard_linked"
    NOT_A_FILE = "not_a_file"
    FILE_EXISTS = "file_exists"
    FILE_MISSING = "file_missing"
    STALE_FILE = "stale_file"
    BINARY_CONTENT = "binary_content"
    ENCODING_UNSUPPORTED = "encoding_unsupported"
    TOO_LARGE = "too_large"
    PATCH_MALFORMED = "patch_malformed"
    PATCH_DIALECT = "patch_dialect"
    CONTENT_DECEPTIVE = "content_deceptive"
    NO_CHANGES = "no_changes"
    NO_MATCH = "no_match"
    AMBIGUOUS_MATCH = "ambiguous_match"
    UNSUPPORTED_CHANGE_KIND = "unsupported_change_kind"
    RESUBMITTED = "resubmitted"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    WRONG_TREE_IMPORTED = "wrong_tree_imported"
    STORAGE_FULL = "storage_full"
    BUSY = "busy"
    SETUP_FAILED = "setup_failed"
    NOT_RED = "not_red"
    ALREADY_GREEN = "already_green"
    FLAKY_BASELINE = "flaky_baseline"
    HUNK_CHANGED = "hunk_changed"
    HUNK_UNKNOWN = "hunk_unknown"
    HUNKS_DIFFER = "hunks_differ"
    TAG_MISSING = "tag_missing"
    TAG_UNRELATED = "tag_unrelated"
    TAG_BARE = "tag_bare"
    FLAG_UNACKNOWLEDGED = "flag_unacknowledged"
    NOT_AUTHORISED = "not_authorised"
    INTERNAL_ERROR = "internal_error"


class Usage(StrEnum):
    """Error codes of the CLI that are no refusal of the gate (spec 13: exit 64, 69, 70)."""

    USAGE = "usage"
    INVALID_CONTRACT = "invalid_contract"
    SPIKE_NOT_FOUND = "spike_not_found"
    NOT_A_REPOSITORY = "not_a_repository"
    UNSUPPORTED_REPOSITORY = "unsupported_repository"
    ORACLE_NOT_COMMITTED = "oracle_not_committed"
    SPIKE_EXISTS = "spike_exists"
    GIT_FAILED = "git_failed"


class Decision(StrEnum):
    """The three verdicts of the published method."""

    SHIP = "SHIP"
    PARK = "PARK"
    KILL = "KILL"


class Reason(StrEnum):
    """Why the verdict is what it is; precedence is the order of `core.verdict.ROWS` (spec 12)."""

    HYPOTHESIS_TAMPERED = "hypothesis_tampered"
    MEASUREMENT_COMMAND_CHANGED = "measurement_command_changed"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    ORACLE_HASH_CHANGED = "oracle_hash_changed"
    CONTRACT_CHANGED = "contract_changed"
    LEDGER_DAMAGED = "ledger_damaged"
    WORKTREE_TAMPERED = "worktree_tampered"
    TEST_CONFIGURATION_CHANGED = "test_configuration_changed"
    MEASUREMENT_INPUT_CHANGED = "measurement_input_changed"
    APPROVAL_FORGED = "approval_forged"
    CLOSED_BY_HUMAN = "closed_by_human"
    ALREADY_GREEN = "already_green"
    FLAKY_BASELINE = "flaky_baseline"
    CHECKPOINTS_OVER_BUDGET = "checkpoints_over_budget"
    HYPOTHESIS_NOT_EXERCISED = "hypothesis_not_exercised"
    UNEXPLAINED_DIFF = "unexplained_diff"
    TEST_FAILED = "test_failed"
    TESTS_NOT_RUN = "tests_not_run"
    EVIDENCE_MISMATCH = "evidence_mismatch"
    JUDGE_FOOLED = "judge_fooled"
    TWIN_FAILED = "twin_failed"
    NEGATIVE_CONTROL_INCONCLUSIVE = "negative_control_inconclusive"
    WRONG_TREE_IMPORTED = "wrong_tree_imported"
    NOT_SCORED = "not_scored"
    ISOLATION_INSUFFICIENT = "isolation_insufficient"
    CHECKPOINT_OVER_BUDGET = "checkpoint_over_budget"
    PATCH_TOO_LARGE = "patch_too_large"
    CHECKPOINT_NOT_MET = "checkpoint_not_met"
    HYPOTHESIS_BUDGET_EXCEEDED = "hypothesis_budget_exceeded"
    ORACLE_UNCHANGED_AND_TEST_PASSED = "oracle_unchanged_and_test_passed"
    UNCLASSIFIED = "unclassified"


class Exit(IntEnum):
    """Exit codes of `spike` (spec 13)."""

    OK = 0
    UNEXPLAINED = 1
    NO_DIFF = 2
    OVER = 3
    TEST_FAILED = 4
    TAMPERED = 5
    PARK = 6
    CLOSED = 7
    NOT_FINAL = 10
    USAGE = 64
    NOT_FOUND = 69
    INTERNAL = 70
    AGENT_NEVER_RAN = 71
    BUSY = 75
    NOT_AUTHORISED = 77
    REFUSED = 78


class Actor(StrEnum):
    """Who caused a ledger row (spec 10)."""

    AGENT = "agent"
    HUMAN = "human"
    SCOREKEEPER = "scorekeeper"
    HOST = "host"


class Checkpoint(StrEnum):
    """The four checkpoints in their order (spec 5)."""

    SETUP = "setup"
    REPRODUCE = "reproduce"
    ATTEMPT = "attempt"
    VERIFY = "verify"


class Isolation(StrEnum):
    """Level of the sandbox; `NONE` can never SHIP (spec 11)."""

    NAMESPACES = "namespaces"
    NONE = "none"


class ChangeKind(StrEnum):
    """How a file differs from the baseline; from the snapshot, never from a differ (spec 9)."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"


class Problem(Exception):  # noqa: N818  (a refusal is an answer, not a fault)
    """A refusal raised where a value is made; the caller turns it into an answer.

    `code` is the wire string, `message` one sentence, `hint` what to do about it.
    """

    def __init__(self, code: Refusal | Usage, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
