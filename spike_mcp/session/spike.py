"""A spike as one process sees it: its places, its contract, and the fold of its ledger.

Reading needs no lock; everything that changes a spike goes through `transaction.py`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spike_mcp.core import events as ev
from spike_mcp.core import layout
from spike_mcp.core.codes import ChangeKind, Problem, Refusal, Usage
from spike_mcp.core.contract import Contract
from spike_mcp.core.hunks import Region, compose, diff, digest
from spike_mcp.core.model import Approval, Entry, State
from spike_mcp.core.paths import PathPolicy, RepoPath, makefile_includes
from spike_mcp.core.rows import Row
from spike_mcp.core.state import evolve
from spike_mcp.host.clock import Clock, SystemClock
from spike_mcp.host.files import Blobs
from spike_mcp.host.ledger import Ledger
from spike_mcp.host.locks import SpikeLock
from spike_mcp.host.manifest import Manifest

if TYPE_CHECKING:
    from spike_mcp.host.worktree import Worktree

REGULAR = 0o100000
NEW_MODE = REGULAR | 0o644


class Spike:
    """An opened spike. Not for use by two threads at a time.

    Raises `Problem(SPIKE_NOT_FOUND)` where there is none, `Problem(SEAL_BROKEN)` where not even
    the sealed contract can be read.
    """

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root = root
        self.work = root / layout.WORK
        self.judge = root / layout.JUDGE
        self.verdict_dir = root / layout.VERDICT
        self.agent_dir = root / layout.AGENT
        if not (self.judge / layout.LEDGER).is_file():
            raise Problem(
                Usage.SPIKE_NOT_FOUND,
                f"there is no spike at {root}",
                "`spike list` shows the spikes there are",
            )
        self.clock: Clock = clock or SystemClock()
        self.blobs = Blobs(self.judge / layout.BLOBS)
        self.ledger = Ledger(self.judge, self.blobs)
        self.lock = SpikeLock(self.judge)
        self.state = State()
        self.damage = ""
        self.forged: list[str] = []
        self.memo: dict[str, Any] = {}
        self._regions: dict[str, tuple[tuple[str, str], tuple[Region, ...]]] = {}
        self._policy: tuple[frozenset[str], PathPolicy] | None = None
        self.refresh()

    # --- the ledger -----------------------------------------------------------------------------

    def refresh(self, *, locked: bool = False) -> State:
        """Fold the rows that are new since the last look; `locked` also moves a torn tail aside.

        Damage is kept in `damage`, never raised: a damaged spike still gets its KILL.
        """
        try:
            rows = self.ledger.refresh(self.clock.read()) if locked else self.ledger.read()
            for row in rows:
                self.take(row)
        except Problem as problem:
            if problem.code is not Refusal.LEDGER_DAMAGED:
                raise
            self.damage = problem.message
        return self.state

    def take(self, row: Row) -> ev.Event | None:
        """Fold one verified row. An unsigned decision of a signed spike counts for nothing."""
        try:
            event = ev.decode(row.event, row.fields)
            if isinstance(event, ev.DECISIONS) and not self._authentic(event, row):
                self.forged.append(f"row {row.seq} ({row.event})")
                return None
            self.state = evolve(self.state, Entry(row.seq, row.reading, row.actor, event))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self.damage = f"row {row.seq} is no row of this program: {type(error).__name__}"
            return None
        return event

    def _authentic(self, event: ev.Event, row: Row) -> bool:
        created = self.state.created
        if created is None or not created.approval_key:
            return True
        from spike_mcp.host import signing

        payload = signing.decision_payload(
            created.spike_id, row.seq, row.prev, row.event, decided_keys(event), tag_of(event)
        )
        return signing.verify(created.approval_key, payload, str(getattr(event, "signature", "")))

    # --- what was sealed ------------------------------------------------------------------------

    @property
    def created(self) -> ev.Created:
        """The first row."""
        if self.state.created is None:
            raise Problem(
                Refusal.LEDGER_DAMAGED,
                self.damage or "the ledger does not begin with the sealed contract",
                "the spike can't be judged without it: close it and open a new one",
            )
        return self.state.created

    @cached_property
    def contract(self) -> Contract:
        """The contract as it was sealed: the bytes that the first row names, not today's file."""
        digest = self.created.contract  # a ledger that gives none is damaged, no broken seal
        try:
            return Contract.from_toml(self._contract_bytes(digest))
        except Problem as problem:
            raise Problem(
                Refusal.SEAL_BROKEN,
                f"the sealed contract can't be read: {problem.message}",
                "the spike can't be judged without it: close it and open a new one",
            ) from problem

    @cached_property
    def fingerprint(self) -> str:
        """Six words over contract and approval key."""
        from spike_mcp.core.fingerprint import fingerprint

        created = self.created
        return fingerprint(self._contract_bytes(created.contract), created.approval_key)

    def _contract_bytes(self, digest: str) -> bytes:
        """The sealed bytes, from blobs or, where they were removed there, from contract.toml."""
        try:
            return self.blobs.get(digest)
        except Problem:
            with suppress(OSError):
                data = (self.judge / layout.CONTRACT).read_bytes()
                if hashlib.sha256(data).hexdigest() == digest:
                    return data
            raise

    @cached_property
    def manifest(self) -> Manifest:
        """The baseline as it was checked out."""
        return Manifest(self.judge / layout.MANIFEST)

    @cached_property
    def worktree(self) -> Worktree:
        """Confined access to work/; loaded late, since `spike status` needs none (spec 15)."""
        from spike_mcp.host.worktree import Worktree

        return Worktree(self.work, self.manifest)

    @property
    def policy(self) -> PathPolicy:
        """Who may write where; files sealed by the red runs count as oracle."""
        sealed = self.sealed_paths()
        if self._policy is None or self._policy[0] != sealed:
            extra = makefile_includes(self._makefiles()) if self._makefiles() else ()
            base = self.contract.policy(lambda path: self.manifest.get(path) is not None, extra)
            self._policy = (sealed, base.sealing(sorted(sealed)))
        return self._policy[1]

    def sealed_paths(self) -> frozenset[str]:
        """Repository paths of oracle and support files."""
        row = self.state.sealed.get("reproduce")
        more = [path for path, _sha in (*row.oracle, *row.support)] if row else []
        return frozenset((*self.contract.oracle, *more))

    def _makefiles(self) -> bytes:
        found = []
        for name in ("Makefile", "GNUmakefile", "makefile"):
            if self.manifest.get(name) is not None:
                try:
                    found.append(self.base_bytes(name) or b"")
                except Problem:
                    continue
        return b"\n".join(found)

    # --- bytes ----------------------------------------------------------------------------------

    def expected(self, path: str) -> tuple[str, int]:
        """(sha256, st_mode) that the file must have now; ("", 0) = absent."""
        known = self.state.files.get(path)
        if known is not None:
            return (known.sha256, known.mode) if known.sha256 else ("", 0)
        entry = self.manifest.get(path)
        if entry is None or entry.is_absent:
            return "", 0
        return entry.sha256, entry.mode

    def base_sha(self, path: str) -> str:
        """Digest of the baseline's bytes; "" = not in the baseline."""
        entry = self.manifest.get(path)
        return "" if entry is None or entry.is_absent else entry.sha256

    def base_bytes(self, path: str) -> bytes | None:
        """The baseline's bytes: from blobs once the file was changed, else from work/, checked."""
        sha = self.base_sha(path)
        if not sha:
            return None
        if self.blobs.has(sha):
            return self.blobs.get(sha)
        data: bytes | None = None
        try:
            data = self.worktree.read(RepoPath.trusted(path), 1 << 40)
        except Problem as problem:
            if problem.code is not Refusal.FILE_MISSING:
                raise
        if data is None or hashlib.sha256(data).hexdigest() != sha:
            raise Problem(
                Refusal.OUT_OF_BAND_CHANGE,
                f"changed outside the tools: {path}",
                "`spike restore PATH` puts the recorded bytes back",
            )
        return data

    def work_bytes(self, path: str) -> bytes | None:
        """The bytes that accepted writes gave a file; None = absent."""
        known = self.state.files.get(path)
        if known is None:
            return self.base_bytes(path)
        return self.blobs.get(known.sha256) if known.sha256 else None

    def regions(self, path: str) -> tuple[Region, ...]:
        """The file's regions against the baseline, in order."""
        contents = (self.base_sha(path), self.expected(path)[0])
        known = self._regions.get(path)
        if known is None or known[0] != contents:
            limit = max(self.contract.budgets.max_regions, 1)
            found = diff(path, self.base_bytes(path), self.work_bytes(path), limit)
            known = self._regions[path] = (contents, found)
        return known[1]

    def approval_region(self, approval: Approval) -> Region:
        """The region that was approved, its bytes from blobs."""
        _key, path, kind, start, count, removed, added = approval.region
        return Region(
            path,
            ChangeKind(kind),
            start,
            count,
            start,
            self.blobs.get(removed),
            self.blobs.get(added),
        )

    def approved_bytes(self, path: str) -> bytes | None:
        """Baseline plus the approved regions that are in the diff: what may ship of this file."""
        approved = [r for r in self.regions(path) if r.key in self.state.approvals]
        return compose(self.base_bytes(path), approved)

    def changed_paths(self) -> list[str]:
        """Files that differ from the baseline, sorted."""
        return sorted(self.state.spans)

    def file_mode(self, path: str) -> int:
        """st_mode that a file of the worktree has or would have."""
        known = self.state.files.get(path)
        if known is not None and known.mode:
            return known.mode
        entry = self.manifest.get(path)
        return entry.mode if entry is not None and entry.is_file else NEW_MODE

    # --- digests of trees -----------------------------------------------------------------------

    def tree_digest(self) -> str:
        """Digest of the worktree as accepted writes made it."""
        return self.digest_of({p: self.expected(p)[0] for p in self.state.spans})

    def approved_digest(self) -> str:
        """Digest of baseline plus approved regions, the tree that would be scored."""
        found: dict[str, str] = {}
        for path in self.state.spans:
            content = self.approved_bytes(path)
            sha = "" if content is None else hashlib.sha256(content).hexdigest()
            if sha != self.base_sha(path):
                found[path] = sha
        return self.digest_of(found)

    def digest_of(self, changed: Mapping[str, str]) -> str:
        """Digest over the baseline and the files that differ from it (path -> sha256 or "")."""
        parts: list[str | int] = ["spike-tree-1", self.created.baseline]
        for path in sorted(changed):
            parts += [path, changed[path], self.file_mode(path) if changed[path] else 0]
        return digest(*parts)

    # --- places ---------------------------------------------------------------------------------

    def check_owner(self) -> None:
        """work/ must belong to the uid that runs this process (spec 3)."""
        try:
            owner = os.stat(self.work, follow_symlinks=False).st_uid
        except FileNotFoundError:
            return
        if owner != os.geteuid():
            raise Problem(
                Refusal.NOT_AUTHORISED,
                f"work/ belongs to uid {owner}, this process runs as uid {os.geteuid()}",
                "run the server as the user that ran `spike init`",
            )


def decided_keys(event: ev.Event) -> list[str]:
    """The region keys that a decision row is about, in the row's order (signed).

    What a reject or undo revives is an approval too, so its keys are signed like one (spec 9).
    """
    match event:
        case ev.HunkApproved():
            return [region[0] for region in event.regions]
        case ev.HunkRejected():
            return [*(region[0] for region in event.regions), "revived", *event.revived]
        case ev.WithdrawalAccepted():
            return list(event.keys)
        case ev.Undone():
            return [*event.revived, "lapsed", *(key for key, _why in event.lapsed)]
        case _:
            return []


def tag_of(event: ev.Event) -> str:
    """The human's words in a decision row (signed)."""
    match event:
        case ev.HunkApproved():
            return event.tag
        case ev.HunkRejected():
            return event.reason
        case ev.Undone():
            return event.undoes
        case _:
            return ""
