"""Agent, human, crash and clock against a small model of the map (spec 9; hunk map, I1 to I7).

Every rule leaves worktree, map and ledger as the model says, on a real spike with its real files.
What an example ends with: the total runs out, everything is refused, and the verdict is the one
that the state at that moment deserves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from acting import TAG, ask
from frozen import Frozen, quick_directory
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from map_model import Hunk, MapModel, Region, lines_of, put_together, touch
from published import map_complaints
from support import Open

from spike_mcp.core.codes import Problem
from spike_mcp.core.model import Approval, State
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.transaction import Prepared
from spike_mcp.session import decisions, judging, rejecting, view

PATH = "src/a.py"
BASE = (
    "import json\n\n\ndef local(value):\n    if value:\n        return True\n    return False\n"
    "\n\ndef admin(value):\n    if value:\n        return False\n    return False\n"
    "\n\nclass Thing:\n    one = 1\n    two = 2\n\n    def get(self):\n        return self.one\n"
    "\n    def put(self, one):\n        self.one = one\n\n\nEND = True\n"
)
FILES = {PATH: BASE, "src/b.py": "b\n", "tests/test_oracle.py": "assert 1\n", "check.sh": "false\n"}
TEXTS = [
    "",
    "    return False",
    "        return True",
    "x = 1",
    "    two = 2",
    "}",
    "é",
    "@@ -1 +1 @@",
]
BUDGETS = {"total": 6000, "write_cutoff": 5000, "attempt": 4000, "max_pending": 12, "max_runs": 9}
MEDDLING = [
    *("somebody_writes_past_the_server", "crash_in_a_write", "restart", "tick", "check"),
    "write_elsewhere",
]
ELSEWHERE = ["tests/test_oracle.py", "check.sh", ".git", "../x", "src/../y"]
HOLD = [
    *("no_changes", "resubmitted", "review_backlog", "ambiguous_match", "no_match"),
    *("patch_malformed", "content_deceptive", "hunk_changed"),
]


class Died(BaseException):
    """The process is gone: nothing after this happened."""


class World:
    """What the examples share: one spike, opened once."""

    frozen: Frozen
    place: Path
    steps = 0


@pytest.fixture(scope="module", autouse=True)
def world() -> Iterator[None]:
    with quick_directory() as place:
        World.place = place
        World.frozen = Frozen(place, files=FILES, budgets=BUDGETS)
        yield


class SessionMachine(RuleBasedStateMachine):
    """The real spike and its model, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.o: Open = World.frozen.thaw(self.clock)
        base = (self.o.spike.work / PATH).read_bytes()
        self.model = MapModel(World.place, base, base)
        self.undoable: list[MapModel | None] = []
        self.seen: list[str] = []

    # --- looking ------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.o.spike.state

    @property
    def disk(self) -> bytes:
        return (self.o.spike.work / PATH).read_bytes()

    def regions(self, keys: Any) -> set[Region]:
        """Approvals of the spike, as the model knows regions."""
        return {self.region(approval) for approval in keys}

    def region(self, approval: Approval) -> Region:
        _key, path, _kind, start, _count, removed, added = approval.region
        assert path == PATH
        return start, self.o.spike.blobs.get(removed), self.o.spike.blobs.get(added)

    def shown(self) -> view.HunkMap:
        return view.hunk_map(self.o.spike)

    def name_of(self, hunk: Hunk) -> str:
        """The id under which the map shows this hunk of the model."""
        for each in self.shown().hunks:
            if tuple((r.old_start, r.removed, r.added) for r in each.regions) == hunk:
                return each.id
        raise AssertionError(f"the map does not show {hunk}")

    def snapshot(self) -> MapModel:
        m = self.model
        return MapModel(m.place, m.base, m.work, m.approved.copy(), m.withdrawn.copy(), [*m.lapsed])

    # --- the agent ----------------------------------------------------------------------------

    def deliver(self, lines: list[bytes], how: int) -> None:
        """Send the agent's new content; what is accepted is exactly that, and nothing else is."""
        wanted, before = b"".join(lines), self.model.work
        if wanted == before or not wanted:
            return
        reply = self.send(wanted, before, how)
        if reply.outcome != "accepted":
            assert reply.code in HOLD, reply
            assert self.disk == before
            return
        # New lines take the ending of their neighbours, except in a whole file (spec 8).
        assert self.disk == wanted or (how < 2 and same_but_endings(self.disk, wanted))
        self.model.agent_writes(self.disk)
        self.undoable = [None] * len(self.undoable)

    def send(self, wanted: bytes, before: bytes, how: int) -> Any:
        text = wanted.decode()
        hunks = MapModel(World.place, before, wanted).hunks
        if how == 0 and len(hunks) == len(hunks[0]) == 1:
            (_at, removed, added), sole = hunks[0][0], before
            if removed and sole.count(removed) == 1:
                return self.o.edit(PATH, removed.decode(), added.decode())
        if how == 1:
            return self.o.call("spike_apply_patch", patch=patch_text(hunks), rationale="because")
        sha = hashlib.sha256(before).hexdigest()
        return self.o.call(
            "spike_write_file", path=PATH, content=text, rationale="why", expected_sha256=sha
        )

    def lines(self) -> list[bytes]:
        return lines_of(self.model.work)

    @rule(data=st.data(), how=st.integers(0, 2))
    def edit(self, data: st.DataObject, how: int) -> None:
        self.edit_a_few_lines(data, how)

    def edit_a_few_lines(self, data: st.DataObject, how: int) -> None:
        lines = self.lines()
        at = data.draw(st.integers(0, len(lines)))
        count = data.draw(st.integers(0, 2))
        texts = data.draw(st.lists(st.sampled_from(TEXTS), max_size=2))
        lines[at : at + count] = [text.encode() + b"\n" for text in texts]
        self.deliver(lines, how)

    @rule(data=st.data(), how=st.integers(0, 2))
    def edit_in_several_places(self, data: st.DataObject, how: int) -> None:
        for _ in range(data.draw(st.integers(1, 3))):
            self.edit_a_few_lines(data, how)

    @rule(data=st.data())
    def swap_two_lines(self, data: st.DataObject) -> None:
        lines = self.lines()
        one, other = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        lines[one], lines[other] = lines[other], lines[one]
        self.deliver(lines, 2)

    @precondition(lambda self: self.model.regions)
    @rule(data=st.data())
    def move_region(self, data: st.DataObject) -> None:
        """The same text, taken away here and written there: never approved by its looks."""
        self.place_again(data, keep=False)

    @precondition(lambda self: self.model.regions)
    @rule(data=st.data())
    def copy_region(self, data: st.DataObject) -> None:
        self.place_again(data, keep=True)

    def place_again(self, data: st.DataObject, *, keep: bool) -> None:
        region = data.draw(st.sampled_from(self.model.regions))
        others = [r for r in self.model.regions if keep or r != region]
        base = lines_of(self.model.base)
        at = data.draw(st.integers(0, len(base)))
        moved = put_together(self.model.base, [*others, (at, b"", region[2])])
        self.deliver(lines_of(moved or b""), 2)

    @precondition(lambda self: self.model.regions)
    @rule(data=st.data(), how=st.integers(0, 2))
    def cut_around(self, data: st.DataObject, how: int) -> None:
        """Write beside a region, so that it is cut anew or grows together with its neighbour."""
        _start, _removed, added = data.draw(st.sampled_from(self.model.regions))
        above = self.model.work.count(b"\n")
        lines = self.lines()
        at = next((n for n in range(len(lines)) if b"".join(lines[n:]).startswith(added)), above)
        at += data.draw(st.sampled_from([-1, 0, len(lines_of(added))]))
        at = min(max(at, 0), len(lines) - 1)
        lines[at] = data.draw(st.sampled_from(TEXTS)).encode() + b"\n"
        self.deliver(lines, how)

    @precondition(lambda self: self.model.regions)
    @rule(data=st.data())
    def other_eol(self, data: st.DataObject) -> None:
        lines = self.lines()
        at = data.draw(st.integers(0, len(lines) - 1))
        bare = lines[at].rstrip(b"\r\n")
        lines[at] = bare + (b"\n" if lines[at].endswith(b"\r\n") else b"\r\n")
        self.deliver(lines, 2)

    @rule()
    def drop_the_last_newline(self) -> None:
        lines = self.lines()
        last = lines[-1].rstrip(b"\n")
        lines[-1] = last if lines[-1].endswith(b"\n") else last + b"\n"
        self.deliver(lines, 2)

    @precondition(lambda self: self.state.patches)
    @rule(data=st.data())
    def agent_reverts(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.state.patches)))
        before, approved = self.model.work, self.model.approved.copy()
        reply = self.o.call("spike_revert_patch", patch_id=name, rationale="it was wrong")
        if reply.outcome == "accepted":
            self.model.agent_writes(self.disk)
            assert approved <= self.model.approved, "a revert takes nothing that a human approved"
            self.undoable = [None] * len(self.undoable)
        else:
            assert reply.code in HOLD
            assert self.disk == before

    def write_elsewhere(self, data: st.DataObject) -> None:
        """An accepted patch touches allowed paths only: these never are."""
        path = data.draw(st.sampled_from(ELSEWHERE))
        for reply in (
            self.o.call("spike_write_file", path=path, content="x\n", rationale="y"),
            self.o.edit(path, "assert", "pass"),
        ):
            assert reply.outcome == "refused"
            assert reply.code.startswith("path_")

    # --- the human ----------------------------------------------------------------------------

    def decided(self, before: MapModel) -> None:
        self.undoable.append(before)

    @precondition(lambda self: self.model.pending)
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        hunk = data.draw(st.sampled_from(self.model.pending))
        name = self.name_of(hunk)
        self.seen.append(name)
        before = self.snapshot()
        decisions.approve(self.o.spike, [name], TAG, acks=["all"])
        self.model.approve(hunk)
        self.decided(before)

    @precondition(lambda self: self.model.pending)
    @rule()
    def approve_all(self) -> None:
        for hunk in self.model.pending:
            before = self.snapshot()
            decisions.approve(self.o.spike, [self.name_of(hunk)], TAG, acks=["all"])
            self.model.approve(hunk)
            self.decided(before)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def approve_what_was_seen_once(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.seen))
        assume(all(each.id != name for each in self.shown().hunks))
        with pytest.raises(Problem) as found:
            decisions.approve(self.o.spike, [name], TAG, acks=["all"])
        assert found.value.code == "hunk_changed"

    @precondition(lambda self: self.model.hunks)
    @rule(data=st.data(), to_baseline=st.booleans())
    def reject(self, data: st.DataObject, to_baseline: bool) -> None:
        hunk = data.draw(st.sampled_from(self.model.hunks))
        self.rejects([hunk], [self.name_of(hunk)], to_baseline=to_baseline)

    @precondition(lambda self: self.model.pending)
    @rule()
    def reject_pending(self) -> None:
        self.rejects(self.model.pending, [], pending=True)

    def rejects(self, hunks: list[Hunk], names: list[str], **how: bool) -> None:
        before, targets = self.snapshot(), [region for hunk in hunks for region in hunk]
        after, back = self.model.without(targets)
        forgotten = targets
        if how.get("to_baseline"):
            kept = [region for region in self.model.regions if region not in targets]
            after, back = put_together(self.model.base, kept) or b"", []
            over = [r for r in self.model.lapsed if any(touch(r, t) for t in targets)]
            forgotten = [*targets, *over]
        rejecting.reject(self.o.spike, names, "not like this", **how)
        assert self.disk == after
        self.model.human_writes(after, back, forgotten)
        self.decided(before)

    @precondition(lambda self: self.state.patches)
    @rule(data=st.data())
    def reject_patch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.state.patches)))
        before, work = self.snapshot(), self.model.work
        try:
            rejecting.reject(self.o.spike, [name], "all of it")
        except Problem as problem:
            assert problem.code in ("hunk_changed", "no_changes")
            assert self.disk == work
            return
        now = MapModel(World.place, self.model.base, self.disk).regions
        gone = [region for region in before.regions if region not in now]
        known = {*before.lapsed, *before.withdrawn}
        back = [r for r in now if r in known and r not in before.regions]
        self.model.human_writes(self.disk, back, gone)
        self.decided(before)

    @precondition(lambda self: self.model.withdrawn)
    @rule(data=st.data(), accept=st.booleans())
    def settle_withdrawn(self, data: st.DataObject, accept: bool) -> None:
        entry = data.draw(st.sampled_from(list(self.shown().withdrawn)))
        before, mine = self.snapshot(), self.regions(entry.approvals)
        if accept:
            decisions.accept_withdrawal(self.o.spike, entry.id)
            self.model.withdrawn -= mine
        else:
            after = put_together(self.model.base, [*self.model.regions, *mine])
            rejecting.reject(self.o.spike, [entry.id])
            assert self.disk == after
            self.model.human_writes(after, mine, ())
        self.decided(before)

    @precondition(lambda self: self.undoable)
    @rule()
    def undo(self) -> None:
        """At once: all is as before. After writes of the agent: only what the row names returns."""
        before, known = self.undoable.pop(), self.regions(self.state.approvals.values())
        try:
            rejecting.undo(self.o.spike)
        except Problem as problem:
            assert problem.code == "hunk_changed"
            assert before is None
            self.undoable.append(before)
            return
        if before is None:
            before = self.snapshot()
            before.work = self.disk
            ever = {*known, *before.lapsed, *before.withdrawn, *self.ever_approved()}
            before.approved = self.regions(self.state.approvals.values())
            assert before.approved <= ever
            before.withdrawn = self.regions(self.state.withdrawn.values())
        lapses = sorted(self.state.lapsed.values(), key=lambda lapse: lapse.seq)
        before.lapsed = [self.region(lapse.approval) for lapse in lapses]
        self.model = before

    def ever_approved(self) -> set[Region]:
        found: set[Region] = set()
        for decided in self.state.decisions:
            found |= self.regions(decided.before.values())
        return found

    # --- everybody else -----------------------------------------------------------------------

    @rule(data=st.data(), what=st.sampled_from(MEDDLING))
    def meddle(self, data: st.DataObject, what: str) -> None:
        """One rule for all that is no revision, so that most steps are revisions."""
        getattr(self, what)(data)

    def somebody_writes_past_the_server(self, data: st.DataObject) -> None:
        """Named, never approvable, in nobody's way once restored, and no approval is the worse."""
        before, file = self.disk, self.o.spike.work / PATH
        file.write_bytes(before + b"# from outside\n")
        reply = self.o.edit(PATH, "import json\n", "import os\n")
        assert reply.code in ("out_of_band_change", "ambiguous_match")
        assert self.o.call("spike_run_test").code == "out_of_band_change"
        if self.model.pending:
            name = self.name_of(self.model.pending[0])
            with pytest.raises(Problem) as found:
                decisions.approve(self.o.spike, [name], TAG, acks=["all"])
            assert found.value.code == "out_of_band_change"
        assert judging.check(self.o.spike).decision == "unexplained"
        if data.draw(st.booleans()):
            decisions.restore(self.o.spike, everything=True)
        else:
            file.write_bytes(before)
        assert self.disk == before

    def crash_in_a_write(self, data: st.DataObject) -> None:
        """Before or after the rename: the next look puts the old bytes back and says so."""
        after = data.draw(st.booleans())
        real = Prepared.commit

        def dies(prepared: Prepared) -> Any:
            if after:
                real(prepared)
            raise Died

        wanted = self.model.work + b"# half done\n"
        with pytest.MonkeyPatch.context() as patched, pytest.raises(Died):
            patched.setattr(Prepared, "commit", dies)
            self.send(wanted, self.model.work, 2)
            raise Died  # the request was refused before any write
        if data.draw(st.booleans()):
            self.restart(data)
        self.o.call("spike_status")
        assert self.disk == self.model.work
        assert self.state.intent is None

    def restart(self, _data: st.DataObject) -> None:
        """Another process reads the same ledger: the same state, to the last field."""
        known = self.state
        self.o = World.frozen.reopen(self.clock)
        assert self.state == known

    def tick(self, data: st.DataObject) -> None:
        self.clock.tick(data.draw(st.integers(1, 180)))

    def check(self, _data: st.DataObject) -> None:
        """Explained means: baseline + approved is the tree, and a published checker agrees."""
        found = judging.check(self.o.spike)
        if self.model.pending or self.model.withdrawn:
            assert found.decision == "unexplained"
        else:
            assert found.decision == ("explained" if self.model.hunks else "no_diff")
            assert put_together(self.model.base, self.model.approved) == self.disk
            assert map_complaints(self.o.spike.root) == []

    # --- always -------------------------------------------------------------------------------

    @invariant()
    def worktree_map_and_ledger_agree_with_the_model(self) -> None:
        World.steps += 1
        model, state = self.model, self.state
        assert self.disk == model.work
        assert self.regions(state.approvals.values()) == model.approved
        assert self.regions(state.withdrawn.values()) == model.withdrawn
        lapses = self.regions(lapse.approval for lapse in state.lapsed.values())
        assert lapses == set(model.lapsed)
        spans = [row[1:] for entry in state.spans.values() for row in entry[2]]
        ours = [(r[0], len(lines_of(r[1])), len(lines_of(r[2]))) for h in model.hunks for r in h]
        assert spans == ours
        assert model.approved <= set(model.regions)

    @invariant()
    def regions_stand_apart_and_make_the_file(self) -> None:
        regions = self.model.regions
        assert put_together(self.model.base, regions) == self.model.work
        keys = [row[0] for entry in self.state.spans.values() for row in entry[2]]
        assert len(set(keys)) == len(keys)

    @invariant()
    def the_written_map_shows_what_is_approved(self) -> None:
        written = self.o.spike.judge / "hunk-map.yml"
        if not written.exists():
            assert not self.model.approved
            return
        told = yaml.safe_load(written.read_text())
        done = [h for h in self.model.hunks if self.model.approved.issuperset(h)]
        assert len(told["hunks"]) == len(done)
        assert all(entry["file"] == PATH for entry in told["hunks"])

    def teardown(self) -> None:
        """The total runs out: nothing is accepted any more, and the state then is what counts."""
        undecided = bool(self.model.pending or self.model.withdrawn)
        before = self.disk
        self.clock.tick(6000 * 60)
        for tool, more in (
            ("spike_status", {}),
            ("spike_run_test", {}),
            ("spike_revert_patch", {"patch_id": "P1", "rationale": "x"}),
            ("spike_nothing", {}),
        ):
            assert self.o.call(tool, **more).code == "budget_spent"
        for late in (
            lambda: rejecting.undo(self.o.spike),
            lambda: rejecting.reject(self.o.spike, [], pending=True),
            lambda: decisions.restore(self.o.spike, everything=True),
        ):
            with pytest.raises(Problem) as found:
                late()
            assert found.value.code == "budget_spent"
        assert self.disk == before
        answer = ask(self.o)
        assert answer.written
        assert (answer.result["decision"], answer.result["reason"]) == ("KILL", "deadline_exceeded")
        assert answer.result["elapsed_sec"] == 6000 * 60
        assert undecided == bool(answer.result["details"])


def same_but_endings(one: bytes, other: bytes) -> bool:
    return one.replace(b"\r\n", b"\n") == other.replace(b"\r\n", b"\n")


def patch_text(hunks: tuple[Hunk, ...]) -> str:
    """A patch with wrong counts' worth of context left out: places and changed lines only."""
    out = [f"--- a/{PATH}\n", f"+++ b/{PATH}\n"]
    shift = 0
    for start, removed, added in (region for hunk in hunks for region in hunk):
        old, new = lines_of(removed), lines_of(added)
        first, other = start + bool(old), start + shift + bool(new)
        out.append(f"@@ -{first},{len(old)} +{other},{len(new)} @@\n")
        for sign, lines in (("-", old), ("+", new)):
            for line in lines:
                out.append(sign + line.decode())
                if not line.endswith(b"\n"):
                    out.append("\n\\ No newline at end of file\n")
        shift += len(new) - len(old)
    return "".join(out)


class TestSessionMachine(SessionMachine.TestCase):  # type: ignore[misc, name-defined]
    """Enough steps, or the search has quietly become a small one."""

    settings = settings(
        max_examples=80,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate,),  # to shrink what fails takes longer than a test may
        suppress_health_check=list(HealthCheck),
    )

    def runTest(self) -> None:  # noqa: N802 - the name is unittest's
        super().runTest()
        assert World.steps >= 2_000, World.steps
