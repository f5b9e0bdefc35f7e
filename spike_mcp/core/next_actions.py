"""What the method asks for after each verdict (spec 12), in one sentence."""

from spike_mcp.core.codes import Decision, Reason

_NEXT_BY_REASON: dict[Reason, str] = {
    Reason.ALREADY_GREEN: (
        "Nothing was wrong here: write down what made you expect red, and pick a new hypothesis."
    ),
    Reason.CLOSED_BY_HUMAN: (
        "Write three sentences on what the assistant missed into the ticket, beside the report, "
        "and leave the code behind."
    ),
    Reason.FLAKY_BASELINE: "Make the test steady first, then open a new spike with it.",
    Reason.NOT_SCORED: (
        "Mend what kept the clean run from being made (spike doctor), then open the same spike "
        "again, narrower if you can."
    ),
    Reason.ISOLATION_INSUFFICIENT: (
        "Install the sandbox (spike doctor says how) and re-scope into a new spike that uses it."
    ),
    Reason.WRONG_TREE_IMPORTED: (
        "Make the test import from the tree it runs in, then re-scope into a new spike."
    ),
    Reason.NEGATIVE_CONTROL_INCONCLUSIVE: (
        "Read the control's output, write one by hand (--negative-control), and re-scope into a "
        "new spike."
    ),
}
_NEXT: dict[Decision, str] = {
    Decision.SHIP: (
        "Ship it (spike ship), open a ticket and attach the ledger (spike report makes the page)."
    ),
    Decision.PARK: (
        "Re-scope into a narrower spike: keep what was learned in the report and open a new one "
        "with a smaller hypothesis."
    ),
    Decision.KILL: (
        "Write three sentences on what the assistant missed (spike kill --note keeps them), and "
        "leave the code behind."
    ),
}


def next_action(decision: Decision, reason: Reason) -> str:
    """What the method asks for after a verdict, in one sentence (spec 12)."""
    return _NEXT_BY_REASON.get(reason, _NEXT[decision])
