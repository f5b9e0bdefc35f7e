"""Patches, edits and whole files: prepared in memory, checked whole, renamed into place (spec 8).

`plan` finds out what a write would do and every reason against it, without changing anything;
`perform` does it between an intent row and an outcome row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from spike_mcp.core import content, mapping, patches
from spike_mcp.core import events as ev
from spike_mcp.core.codes import Actor, Problem, Refusal
from spike_mcp.core.hunks import Region, TooManyRegions, diff, resubmission_key, short_ids
from spike_mcp.core.patches import Change, Placed
from spike_mcp.core.paths import RepoPath
from spike_mcp.core.regions import RegionsConflict
from spike_mcp.core.requests import Apply, ApplyPatch, EditFile, RevertPatch, WriteFile
from spike_mcp.host.transaction import Write
from spike_mcp.session import observe
from spike_mcp.session.spike import Spike
from spike_mcp.session.transaction import Transaction

WriteRequest = ApplyPatch | EditFile | WriteFile | RevertPatch | Apply

_MAX_NAMED = 5
_LONG_PATCH = 1 << 14
_BLOCK = 4096
_REGION_BYTES = 128
"""What a region adds to an outcome row."""


@dataclass(frozen=True, slots=True)
class Revised:
    """A file as a revision would leave it: bytes before and after, regions against the baseline."""

    path: str
    before: bytes | None
    after: bytes | None
    regions: tuple[Region, ...]
    written: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a write would do. `problem` = why it can't be done; then the rest may be empty."""

    files: tuple[Revised, ...] = ()
    notes: tuple[str, ...] = ()
    resubmits: tuple[str, ...] = ()
    problem: Problem | None = None
    out_of_band: tuple[str, ...] = ()
    pending_after: int = 0
    adds_hunk: bool = False
    is_revert: bool = False

    @property
    def rows(self) -> tuple[ev.FileSpans, ...]:
        """The ledger's form of every touched file's regions."""
        return tuple(mapping.spans_row(f.path, f.regions) for f in self.files)


Ahead = patches.PatchSet | Problem | None
"""A patch that was read before the lock was taken, or why it is none; None = not yet."""


def read_ahead(spike: Spike, request: object) -> Ahead:
    """Read a long patch without the lock: a megabyte takes seconds, and nobody shall wait for it.

    It hangs on nothing but its text. A short one is quicker read where it is needed.
    """
    if not isinstance(request, ApplyPatch) or len(request.patch) < _LONG_PATCH:
        return None
    try:
        return _parsed(spike, request)
    except Problem as problem:
        return problem


def plan(spike: Spike, request: WriteRequest, ahead: Ahead = None) -> Plan:
    """Everything that `decide` must know about a write; never raises `Problem`."""
    is_revert = isinstance(request, RevertPatch)
    try:
        if isinstance(ahead, Problem):
            raise ahead
        parsed = ahead or _parsed(spike, request)
        # Before any content is compared: a foreign change is not the writer's mistake.
        odd = observe.touched(spike, _named(spike, request, parsed))
        if odd:
            return Plan(out_of_band=odd, is_revert=is_revert)
        placed = _placed(spike, request, parsed)
        files = tuple(revised(spike, p.change) for p in placed)
        resubmits = _check_content(spike, files, revert=is_revert)
    except Problem as problem:
        return Plan(problem=problem, is_revert=is_revert)
    rows = [mapping.spans_row(f.path, f.regions) for f in files]
    after = mapping.pending_after(spike.state, rows)
    adds = after > mapping.pending_count(spike.state)
    if is_revert:
        # Taking the middle out of a hunk can leave two: that adds nothing to be read. Taking back
        # what took something back does, however few hunks there are: after the cut-off such
        # patches would be a way to go on choosing between versions.
        adds = _writes_regions(spike, files)
    notes = tuple(note for p in placed for note in p.notes)
    return Plan(files, notes, resubmits, None, (), after, adds, is_revert)


def _parsed(spike: Spike, request: WriteRequest) -> patches.PatchSet | None:
    """The patch of a request that holds one. Raises `Problem`."""
    if not isinstance(request, ApplyPatch | Apply):
        return None
    limit = spike.contract.budgets.max_patch_bytes
    size = len(request.patch.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise too_large("the patch", size, limit)
    return patches.parse(request.patch, limit)


def _named(spike: Spike, request: WriteRequest, parsed: patches.PatchSet | None) -> list[str]:
    """The files that a request would write; `Problem` for a name that no file can have."""
    paths: list[RepoPath] = []
    if parsed is not None:
        paths = [part.path for part in parsed.files]
    elif isinstance(request, EditFile | WriteFile):
        paths = [RepoPath.parse(request.path)]
    elif isinstance(request, RevertPatch) and request.patch_id in spike.state.patches:
        rows = spike.state.patches[request.patch_id].files
        paths = [RepoPath.trusted(row[0]) for row in rows]
    return [path.text for path in paths if spike.policy.refusal(path) is None]


def _writes_regions(spike: Spike, files: Iterable[Revised]) -> bool:
    """Whether any region would be in the diff that is not in it now."""
    for file in files:
        known = {region.key for region in spike.regions(file.path)}
        if any(region.key not in known for region in file.regions):
            return True
    return False


def _placed(
    spike: Spike, request: WriteRequest, parsed: patches.PatchSet | None
) -> tuple[Placed, ...]:
    limit = spike.contract.budgets.max_file_bytes
    match request:
        case ApplyPatch() | Apply():
            assert parsed is not None
            return _placed_patch(spike, parsed)
        case EditFile():
            path, before = target(spike, request.path)
            return (patches.edit(path, before, request.old_text, request.new_text, limit),)
        case WriteFile():
            path, before = target(spike, request.path)
            sha256 = request.expected_sha256
            return (patches.write(path, before, request.content, sha256, limit),)
        case RevertPatch():
            return _placed_revert(spike, request.patch_id)


def _placed_patch(spike: Spike, found: patches.PatchSet) -> tuple[Placed, ...]:
    # Every path is looked at before any content: a path refusal never depends on file order.
    targets = [target(spike, part.path.text) for part in found.files]
    placed = [
        patches.place(part, before, spike.contract.budgets.max_file_bytes)
        for part, (_path, before) in zip(found.files, targets, strict=True)
    ]
    first = placed[0]
    notes = (f"dialect: {found.dialect}", *found.corrections, *first.notes)
    return (Placed(first.change, notes), *placed[1:])


def target(spike: Spike, raw: str) -> tuple[RepoPath, bytes | None]:
    """A path that may be written, and its bytes now (None = absent). Raises `Problem`."""
    path = RepoPath.parse(raw)
    refusal = spike.policy.refusal(path)
    if refusal is not None:
        raise refusal
    facts = spike.worktree.facts(path)
    problem = facts.write_problem(path.text)
    if problem is not None:
        raise problem
    entry = spike.manifest.get(path.text)
    if entry is not None and (entry.converted or entry.is_absent):
        what = "is stored in another form (eol, ident, filter or LFS)"
        raise Problem(
            Refusal.UNSUPPORTED_CHANGE_KIND,
            f"{path} {what if entry.converted else 'is not part of this sparse checkout'}",
            "this file can't be shipped byte for byte; leave it, or report it as unknown",
        )
    if not facts.exists:
        return path, None
    return path, spike.worktree.read(path, 64 << 20)


def too_large(what: str, size: int, limit: int) -> Problem:
    """The refusal of something longer than its limit (bytes)."""
    return Problem(
        Refusal.TOO_LARGE,
        f"{what} has {size} bytes, the limit is {limit}",
        "split the change into smaller ones",
    )


def _placed_revert(spike: Spike, patch_id: str) -> tuple[Placed, ...]:
    patch = spike.state.patches.get(patch_id)
    if patch is None or patch.actor is not Actor.AGENT:
        known = ", ".join(p.id for p in spike.state.patches.values() if p.actor is Actor.AGENT)
        raise Problem(
            Refusal.MALFORMED_REQUEST,
            f"you have no patch {patch_id}",
            f"your patches: {known or 'none'}",
        )
    found = []
    for name, before_sha, after_sha, _mode in patch.files:
        path, current = target(spike, name)
        before = spike.blobs.get(before_sha) if before_sha else None
        after = spike.blobs.get(after_sha) if after_sha else None
        try:
            back = mapping.reverse(name, before, after, current)
        except RegionsConflict as conflict:
            raise _built_upon(spike, patch_id, name) from conflict
        found.append(Placed(Change(path, current, back)))
    _check_pending(spike, patch_id, found)
    return tuple(p for p in found if p.change.before != p.change.after) or _nothing(patch_id)


def _nothing(patch_id: str) -> tuple[Placed, ...]:
    raise Problem(
        Refusal.NO_CHANGES,
        f"nothing of {patch_id} is left in the worktree",
        "spike_status shows which hunks there are",
    )


def later_patches(spike: Spike, patch_id: str, path: str) -> list[str]:
    """Patches after this one that touched the same file."""
    order = list(spike.state.patches)
    later = order[order.index(patch_id) + 1 :]
    return [p for p in later if any(f[0] == path for f in spike.state.patches[p].files)]


def _built_upon(spike: Spike, patch_id: str, path: str) -> Problem:
    later = ", ".join(later_patches(spike, patch_id, path)) or "a later change"
    return Problem(
        Refusal.NO_MATCH,
        f"{later} changed the same lines of {path} as {patch_id}",
        f"revert {later} first, or send a new patch",
    )


def _check_pending(spike: Spike, patch_id: str, found: Sequence[Placed]) -> None:
    """A revert must leave what a human approved as it is."""
    for placed in found:
        path = placed.change.path.text
        kept = {r.key for r in diff(path, spike.base_bytes(path), placed.change.after)}
        lost = [a for a in spike.state.approvals.values() if a.path == path and a.key not in kept]
        if lost:
            name = short_ids([lost[0].hunk], spike.state.hunk_ids)[lost[0].hunk]
            raise Problem(
                Refusal.HUNK_CHANGED,
                f"the human approved {name} of {patch_id}; a revert would take it away",
                "send a patch that changes only what is still pending",
            )


def revised(spike: Spike, change: Change) -> Revised:
    """The file's regions once the change is made. `Problem(TOO_LARGE)` beyond the region limit."""
    path, limits = change.path.text, spike.contract.budgets
    size = len(change.after or b"")
    # A file that is too long already may shrink, but not grow.
    if size > max(limits.max_file_bytes, len(change.before or b"")):
        raise too_large(path, size, limits.max_file_bytes)
    try:
        base = spike.base_bytes(path)
        regions = diff(path, base, change.after, limits.max_regions)
        first = change.before == base  # one diff will do: the worst takes seconds
        written = regions if first else diff(path, change.before, change.after, limits.max_regions)
    except TooManyRegions as many:
        raise Problem(
            Refusal.TOO_LARGE, str(many), "split the change; a person has to read each region"
        ) from many
    return Revised(path, change.before, change.after, regions, written)


def _check_content(spike: Spike, files: Iterable[Revised], *, revert: bool) -> tuple[str, ...]:
    """Content rules for added lines, and rejected changes that come back. Their keys."""
    rejected = spike.state.rejected
    now = spike.state.spans if rejected else ()
    there = {resubmission_key(region) for path in now for region in spike.regions(path)}
    again: list[str] = []
    for file in files:
        problem = content.deceptive(
            file.before, file.after, file.written, spike.contract.allow_control
        )
        if problem is not None:
            raise problem
        keys = [resubmission_key(region) for region in file.regions] if rejected else []
        again += [k for k in keys if k in rejected and k not in there and not revert]
    fresh = [key for key in again if key not in spike.state.resubmission_refused]
    if fresh:
        raise Resubmitted(fresh, rejected[fresh[0]])
    return tuple(dict.fromkeys(again))


class Resubmitted(Problem):
    """A change that the human rejected comes back; `keys` go into the refusal's row."""

    def __init__(self, keys: Sequence[str], reason: str) -> None:
        super().__init__(
            Refusal.RESUBMITTED,
            f"the human rejected this very change: {reason or 'no reason given'}",
            "change it to meet the reason; sent once more unchanged it goes to review, flagged",
        )
        self.keys = tuple(dict.fromkeys(keys))


# --- doing it -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """An accepted write: its patch id and the current hunks it made (full ids).

    `resumed`: whether it opened the attempt again (a human's patch may).
    """

    patch: str
    hunks: tuple[mapping.SpanHunk, ...]
    pending: int
    lapsed: tuple[tuple[str, str], ...]
    resumed: bool = False


def perform(tx: Transaction, request: WriteRequest, done: Plan, actor: Actor) -> Outcome:
    """Make the planned change: blobs, intent row, files, outcome row.

    `Problem(STORAGE_FULL)`, `Problem(STALE_FILE)`: nothing has changed.
    """
    spike, state = tx.spike, tx.state
    patch_id = f"P{state.issued_patches + 1}"
    rows = save_blobs(spike, done.files)
    stored = _stored(done)
    reverts = request.patch_id if isinstance(request, RevertPatch) else ""
    intent = ev.PatchStarted(
        patch_id, request.tool, request.rationale, rows, reverts=reverts, stored=stored
    )
    tx.append(actor, intent)
    effects = consequences(spike, done.files, patch_id)
    lapsed, withdrawn = effects.lapsed, effects.withdrawn
    if actor is Actor.HUMAN:  # what a human takes out asks for no decision (spec 9)
        lapsed, withdrawn = (*lapsed, *_taken_out(spike, withdrawn, patch_id)), ()
    outcome = ev.PatchApplied(
        files=rows,
        spans=done.rows,
        lapsed=lapsed,
        withdrawn=withdrawn,
        patch=patch_id,
        tool=request.tool,
        rationale=request.rationale,
        notes=done.notes,
        resubmits=done.resubmits,
        reverts=reverts,
    )
    went_on = _went_on(tx, done) if actor is Actor.AGENT else ()
    commit(tx, done.files, lambda: tx.append(actor, outcome, *went_on), patch_id)
    with suppress(Problem):  # the patch stands; the next transaction writes the row too
        tx.end_backlog()
    hunks = tuple(
        h for h in mapping.span_hunks(tx.state) if any(h.path == f.path for f in done.files)
    )
    return Outcome(patch_id, hunks, mapping.pending_count(tx.state), lapsed)


def _went_on(tx: Transaction, done: Plan) -> tuple[ev.BacklogEnded, ...]:
    """The end of a backlog by the agent's own doing. Who writes on has not waited for the human,
    so the attempt's clock did not stand; for who makes room by a revert it did, once."""
    if tx.state.backlog_since is None:
        return ()
    if not done.is_revert or done.adds_hunk:
        return (ev.BacklogEnded(done.pending_after, counted=True),)
    if done.pending_after >= tx.spike.contract.budgets.max_pending:
        return ()
    return (ev.BacklogEnded(done.pending_after, counted=tx.state.relieved_itself),)


def _stored(done: Plan) -> int:
    """Bytes that a write takes for ever: its new contents and its two rows, in whole blocks.

    A file of one byte written over and over fills a disk as well as a long one.
    """
    regions = sum(len(f.regions) for f in done.files)
    sizes = [regions * _REGION_BYTES, *(len(f.after or b"") for f in done.files)]
    return sum(max(_BLOCK, size) for size in sizes)


def _taken_out(spike: Spike, keys: Iterable[str], patch_id: str) -> list[tuple[str, str]]:
    return [(k, f"taken out by {patch_id}") for k in keys if k in spike.state.approvals]


def save_blobs(spike: Spike, files: Sequence[Revised]) -> tuple[ev.FileRow, ...]:
    """Keep old and new bytes before anything changes; the ledger's form of the change."""
    contents = [data for f in files for data in (f.before, f.after) if data is not None]
    spike.blobs.put_all(contents)
    return tuple(
        (f.path, sha(f.before), sha(f.after), spike.file_mode(f.path) if f.after is not None else 0)
        for f in files
    )


def sha(data: bytes | None) -> str:
    """SHA-256 in hex; "" for an absent file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def consequences(spike: Spike, files: Sequence[Revised], cause: str) -> mapping.Consequences:
    """What the revision does to approvals."""
    now = {f.path: f.regions for f in files}
    written = {f.path: f.written for f in files}
    return mapping.consequences(spike.state, now, written, cause)


def commit(
    tx: Transaction, files: Sequence[Revised], append_outcome: Callable[[], None], what: str
) -> None:
    """Rename the files into place and write the outcome row; on failure everything is undone.

    The intent row stands already. Where even undoing fails (disk full), the intent stays open and
    the next transaction's recovery finishes it.
    """
    writes = [
        Write(
            RepoPath.trusted(f.path),
            f.after,
            before=sha(f.before),
            mode=(tx.spike.file_mode(f.path) & 0o777) if f.after is not None else None,
        )
        for f in files
        if f.before != f.after
    ]
    intent = tx.state.intent
    assert intent is not None
    try:
        with tx.spike.worktree.prepare(writes) as prepared:
            prepared.commit()
        append_outcome()
    except Problem:
        tx.put_back(intent[1].files)
        tx.append(Actor.HOST, ev.WriteRolledBack(intent[0], what))
        raise


def named(hunks: Iterable[str], ids: Mapping[str, str]) -> str:
    """A short list of hunk ids for a sentence."""
    names = [ids[h] for h in hunks]
    shown = ", ".join(names[:_MAX_NAMED])
    return shown if len(names) <= _MAX_NAMED else f"{shown} and {len(names) - _MAX_NAMED} more"
