"""What the human decides: approve, reject, undo, comment, restore (spec 9).

A decision is made on content that was seen: an id, and from the screens the digest of the view.
Under the lock the map is made again and everything is checked by the same gate as the agent's
calls. Each function raises `Problem` for "no" and returns what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from spike_mcp.core import events as ev
from spike_mcp.core import mapping, tags
from spike_mcp.core.codes import Actor, Problem, Refusal
from spike_mcp.core.decide import Refused
from spike_mcp.core.hunks import Region
from spike_mcp.core.requests import Approve, Decide, Request
from spike_mcp.host.signing import Signer
from spike_mcp.session import observe, runs
from spike_mcp.session.projection import show_new_files, write_projection
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction, transaction
from spike_mcp.session.view import HunkMap, MapHunk, Withdrawn, hunk_map


@dataclass(frozen=True, slots=True)
class Approved:
    """Hunks that are approved now, and what the reviewer should be warned about."""

    hunks: tuple[str, ...]
    warnings: tuple[str, ...]


def gate(
    tx: Transaction,
    request: Request,
    name: str,
    prepare: Callable[[], None] | None = None,
    *,
    swept: bool = False,
) -> None:
    """Ask the gate for a human's request; a refusal is ledgered and raised as `Problem`.

    `prepare` makes what is to be decided and raises the `Problem` that speaks against it.
    """
    problem: Problem | None = None
    if prepare is not None and not tx.spike.damage and tx.state.started:
        try:
            prepare()
        except Problem as found:
            problem = found
    seen = observe.observation(tx, human=True, sweep_tree=swept)
    answer = tx.decide(request, replace(seen, problem=problem))
    if isinstance(answer, Refused):
        refuse(tx, name, answer)


@contextmanager
def ledgered(tx: Transaction, name: str) -> Iterator[None]:
    """What the body refuses gets its row (where one can be written) before it passes on."""
    try:
        yield
    except Problem as problem:
        if isinstance(problem.code, Refusal):
            refuse(tx, name, Refused(problem.code, problem.message, problem.hint))
        raise


def note_refused(spike: Spike, name: str, problem: Problem) -> None:
    """Ledger a refusal that was found before any lock was held, such as a wrong passphrase.

    A row that can't be written must not hide the refusal itself.
    """
    with suppress(Problem), transaction(spike, human=True) as tx, ledgered(tx, name):
        raise problem


def refuse(tx: Transaction, name: str, answer: Refused, about: Sequence[str] = ()) -> None:
    """Ledger a human's refusal (where a row can be written) and raise it.

    `about`: resubmission keys that this refusal was the one warning for.
    """
    if answer.code not in (Refusal.LEDGER_DAMAGED, Refusal.STORAGE_FULL, Refusal.BUSY):
        row = ev.CallRefused(name, answer.code.value, answer.message[:500], tuple(about))
        tx.append(Actor.HUMAN, row)
    raise Problem(answer.code, answer.message, answer.hint)


def finish(tx: Transaction) -> None:
    """What follows every decision: the end of a backlog, and the projection for people."""
    with suppress(Problem):  # the decision stands; the next transaction writes the row too
        tx.end_backlog()
    write_projection(tx.spike)
    show_new_files(tx.spike)


# --- approve ------------------------------------------------------------------------------------


def approve(
    spike: Spike,
    names: Sequence[str],
    tag: str,
    *,
    sha: str = "",
    acks: Iterable[str] = (),
    seconds: float = 0.0,
    signer: Signer | None = None,
) -> Approved:
    """Tie hunks to the hypothesis. `sha` pins the view that was shown; `acks` = flags seen."""
    chosen: list[MapHunk] = []
    said: list[tags.TagAccepted] = []
    acknowledged = frozenset(acks)
    with transaction(spike, human=True) as tx:

        def prepare() -> None:
            chosen.extend(chosen_hunks(spike, hunk_map(spike), names))
            said.append(_check_approval(spike, chosen, tag, sha, acknowledged))

        gate(tx, Approve(), "approve", prepare, swept=True)
        tx.check_signer(signer)
        for each in chosen:
            row = _approval_row(tx, each, said[0].text, acknowledged, seconds)
            tx.append_signed(row, signer)
        finish(tx)
    return Approved(tuple(each.short for each in chosen), said[0].warnings)


def chosen_hunks(spike: Spike, current: HunkMap, names: Sequence[str]) -> list[MapHunk]:
    """The current hunks that names mean; `Problem` HUNK_CHANGED for one that is gone."""
    found: dict[str, MapHunk] = {}
    for name in names:
        try:
            each = current.find(name)
        except Problem as problem:
            raise _gone(spike, name) or problem from None
        require_one_meaning(spike, name, each.id)
        found[each.id] = each
    return list(found.values())


def require_one_meaning(spike: Spike, name: str, found: str) -> None:
    """`Problem(HUNK_CHANGED)` for a short id that meant another hunk before.

    A few digits can be met on purpose: whoever writes the hunks tries contents until the id of one
    begins like the id of another that was shown. So a name must be unique among all that ever were.
    """
    wanted = name.removeprefix("h").lower()
    if any(known != found and known.startswith(wanted) for known in spike.state.hunk_ids):
        raise Problem(
            Refusal.HUNK_CHANGED,
            f"{name} fits another hunk too that was in the map before",
            "look at it again and give all digits that are shown: `spike map`, `spike show`",
        )


def withdrawn_entry(spike: Spike, current: HunkMap, name: str) -> Withdrawn:
    """The withdrawn entry that a name means; `Problem` as for `chosen_hunks`."""
    entry = current.find_withdrawn(name)
    require_one_meaning(spike, name, entry.id)
    return entry


def _gone(spike: Spike, name: str) -> Problem | None:
    """`hunk_changed` for an id that the map had once: what was seen is not what is there now."""
    wanted = name.removeprefix("h").lower()
    if not wanted or not any(known.startswith(wanted) for known in spike.state.hunk_ids):
        return None
    return Problem(
        Refusal.HUNK_CHANGED,
        f"{name} is not in the diff any more: it changed or went away since it was shown",
        "look at it again: `spike map`, `spike show`",
    )


def _check_approval(
    spike: Spike, chosen: Sequence[MapHunk], tag: str, sha: str, acks: frozenset[str]
) -> tags.TagAccepted:
    for each in chosen:
        if sha and not each.view.startswith(sha.lower()):
            raise Problem(
                Refusal.HUNK_CHANGED,
                f"{each.short} looks different now from what was shown",
                "look at it again, then decide",
            )
    if len({each.changed_lines for each in chosen}) > 1:
        raise Problem(
            Refusal.HUNKS_DIFFER,
            "these hunks differ: one tag for several hunks needs identical changed lines",
            "approve them one by one, each with its own tag",
        )
    rationale = chosen[0].rationale if chosen else ""
    checked = tags.check_tag(tag, spike.contract.hypothesis.tokens, rationale)
    if isinstance(checked, Problem):
        raise checked
    _check_flags(chosen, acks)
    return checked


def _check_flags(chosen: Sequence[MapHunk], acks: frozenset[str]) -> None:
    if "all" in acks:
        return
    for each in chosen:
        missing = sorted({flag.name for flag in each.flags} - acks)
        if missing:
            lines = ", ".join(f"{f.name} at line {f.line}" for f in each.flags[:5])
            raise Problem(
                Refusal.FLAG_UNACKNOWLEDGED,
                f"{each.short} is flagged: {lines}",
                f"read those lines, then add --ack {' --ack '.join(missing)}",
            )


def _approval_row(
    tx: Transaction, each: MapHunk, tag: str, acks: frozenset[str], seconds: float
) -> ev.HunkApproved:
    flagged = tuple(dict.fromkeys(flag.name for flag in each.flags))
    return ev.HunkApproved(
        decision=next_decision(tx),
        hunk=each.id,
        regions=tuple(saved_region(tx.spike, region) for region in each.regions),
        tag=tag,
        flags=flagged,
        acknowledged=flagged if "all" in acks else tuple(a for a in acks if a in flagged),
        view_sha256=each.view,
        like_rationale=bool(each.rationale) and tag.strip() == each.rationale.strip(),
        seconds=round(seconds, 1),
    )


def next_decision(tx: Transaction) -> str:
    """The id of the next decision, D1, D2, ..."""
    return f"D{tx.state.issued_decisions + 1}"


def saved_region(spike: Spike, region: Region) -> ev.RegionRow:
    """The ledger's form of a region, its bytes kept in blobs."""
    removed, added = spike.blobs.put_all((region.removed, region.added))
    return mapping.region_row(region, removed, added)


def accept_withdrawal(spike: Spike, name: str, *, signer: Signer | None = None) -> str:
    """Accept that an approved region is gone. Returns the entry's short name."""
    with transaction(spike, human=True) as tx:
        found: list[Withdrawn] = []
        gate(
            tx,
            Approve(),
            "approve --withdrawn",
            lambda: found.append(withdrawn_entry(spike, hunk_map(spike), name)),
            swept=True,
        )
        tx.check_signer(signer)
        entry = found[0]
        keys = tuple(a.key for a in entry.approvals)
        tx.append_signed(ev.WithdrawalAccepted(next_decision(tx), entry.id, keys), signer)
        finish(tx)
        return entry.short


# --- words --------------------------------------------------------------------------------------


def comment(spike: Spike, name: str, text: str) -> str:
    """A remark on a hunk; the agent hears it at its next call. Returns the hunk's short name."""
    with transaction(spike, human=True) as tx:
        found: list[MapHunk] = []

        def prepare() -> None:
            found.extend(chosen_hunks(spike, hunk_map(spike), [name]))
            if not text.strip():
                raise Problem(
                    Refusal.MALFORMED_REQUEST,
                    "the comment is empty",
                    "say what the agent shall hear",
                )

        gate(tx, Decide(), "comment", prepare)
        each = found[0]
        row = ev.Commented(next_decision(tx), each.id, each.path, text[:4000])
        tx.append(Actor.HUMAN, row)
        return each.short


def note_unknown(spike: Spike, text: str) -> int:
    """Note (and thereby confirm) a new unknown. Returns its number."""
    with transaction(spike, human=True) as tx:
        gate(tx, Decide(), "unknown", lambda: _filled(text))
        number = len(tx.state.unknowns) + 1
        tx.append(Actor.HUMAN, ev.UnknownNoted(number, text[:4000]), ev.UnknownConfirmed(number))
        return number


def _filled(text: str) -> None:
    if not text.strip():
        raise Problem(
            Refusal.MALFORMED_REQUEST, "the unknown is empty", "say in a sentence what is unknown"
        )


def confirm_unknown(spike: Spike, number: int) -> None:
    """Confirm an unknown that the agent reported: it counts in the verdict."""
    with transaction(spike, human=True) as tx:
        gate(tx, Decide(), "unknown", lambda: _known_unknown(spike, number))
        tx.append(Actor.HUMAN, ev.UnknownConfirmed(number))


def _known_unknown(spike: Spike, number: int) -> None:
    known: Mapping[int, str] = {u.number: u.text for u in spike.state.unknowns}
    if number not in known:
        listed = ", ".join(map(str, known)) or "none"
        raise Problem(
            Refusal.MALFORMED_REQUEST, f"there is no unknown {number}", f"noted: {listed}"
        )


def restore(spike: Spike, paths: Sequence[str] = (), *, everything: bool = False) -> ev.Restored:
    """Put recorded bytes back over out-of-band changes; what was found is kept in blobs.

    The row comes first. A crash after it leaves files that every look at the tree still names, and
    restoring once more puts right; a crash before it would leave kept bytes that no row names.
    """
    runs.cancel_agent_run(spike)
    with transaction(spike, human=True) as tx:
        found: list[str] = []

        def prepare() -> None:
            # Its own .git is judged as tampering, whoever moved it: no bytes put that right.
            odd = [f.path for f in observe.sweep(tx).findings if f.path != ".git"]
            wanted = odd if everything else list(dict.fromkeys(paths))
            unknown = [path for path in wanted if path not in odd]
            if unknown:
                raise Problem(
                    Refusal.NO_CHANGES,
                    f"not changed outside the tools: {', '.join(unknown[:5])}",
                    f"changed: {', '.join(odd[:5]) or 'nothing'}",
                )
            found.extend(wanted)

        gate(tx, Decide(), "restore", prepare)
        runs.drop_agent_run(tx)
        row = ev.Restored(tuple(found), observe.keep_found(spike, found))
        if found:
            tx.append(Actor.HUMAN, row)
            observe.put_expected(spike, found)
        finish(tx)
        return row
