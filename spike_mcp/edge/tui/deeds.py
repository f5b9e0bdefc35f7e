"""Keys that decide: each opens a box, and what the box says is done through the desk.

Every decision is made on the hunks as they were pinned when its box opened. What has changed since
is refused by the session (`hunk_changed`), not by this screen.
"""

from __future__ import annotations

from collections.abc import Iterable

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge.desk import Done, TestRun
from spike_mcp.edge.present import counted
from spike_mcp.edge.shown import flag_names
from spike_mcp.edge.tui.base import Base
from spike_mcp.edge.tui.boxes import (
    Box,
    CommentBox,
    ConfirmBox,
    FilterBox,
    FlagBox,
    RejectBox,
    TagBox,
    reject_notes,
)
from spike_mcp.session.view import MapHunk


class Deeds(Base):
    """Approve, reject, comment, undo, restore, filter, test."""

    # --- boxes ----------------------------------------------------------------------------------

    def _leave(self, box: Box) -> None:
        if isinstance(box, TagBox):
            # A hunk that changed meanwhile has another id; its file still knows what was typed.
            keep = [each.path if box.changed else each.id for each in box.hunks]
            self._drafts.update(dict.fromkeys(keep, box.edit.text))
        if isinstance(box, FilterBox):
            self._view.review.set_filter("")
        self._close()

    def _close(self) -> None:
        self._view.box, self._view.pinned = None, ()
        self._view.reveal()

    def _open(self, box: Box, pinned: Iterable[MapHunk] = ()) -> None:
        self._view.pinned = tuple(pinned)
        self._view.box = box
        if not self._view.pinned or len(self._view.pinned) == 1:
            self._view.reveal()

    async def _submit(self, box: Box, answer: str) -> None:
        match box:
            case FlagBox():
                self._ask_tag(box.hunks, box.names)
            case TagBox():
                await self._approve_now(box)
            case RejectBox():
                await self._reject_now(box, answer)
            case CommentBox():
                await self._comment_now(box)
            case ConfirmBox():
                await self._confirm_now(box)
            case _:
                self._close()

    # --- approve --------------------------------------------------------------------------------

    def _approve(self) -> None:
        chosen = self._view.review.chosen
        if not chosen:
            self.say("there is nothing to approve")
            return
        first = chosen[0]
        if first.withdrawn is not None:
            note = f'accept that {first.short} ("{first.title}") left the diff?'
            self._open(ConfirmBox("Withdrawn", entries=(first,), what="accept", notes=(note,)))
            return
        hunks = tuple(entry.hunk for entry in chosen if entry.hunk is not None)
        if not hunks:
            self.say("a change from outside can't be approved; r puts the recorded bytes back")
            return
        if len({each.changed_lines for each in hunks}) > 1:
            text = "marked hunks differ: one tag for several hunks needs identical changed lines"
            self.refused(Problem(Refusal.HUNKS_DIFFER, text, "* marks them"))
            return
        names = flag_names(hunks)
        if names:
            title = f"Flagged: {', '.join(each.short for each in hunks)}"
            self._open(FlagBox(title, hunks=hunks, names=names), hunks)
        else:
            self._ask_tag(hunks, ())

    def _ask_tag(self, hunks: tuple[MapHunk, ...], acks: tuple[str, ...]) -> None:
        what = hunks[0].short if len(hunks) == 1 else counted(len(hunks), "identical hunk")
        box = TagBox(
            f"Why does this exist?  {what}",
            hunks=hunks,
            tokens=self._view.sealed.tokens,
            acks=acks,
        )
        self._offer(box, hunks)
        self._open(box, hunks)

    def _offer(self, box: TagBox, hunks: tuple[MapHunk, ...]) -> None:
        """Put a draft of this review, the tag, or the old tag of a lapse into the box."""
        first = hunks[0]
        draft = self._drafts.get(first.id, "") or self._drafts.pop(first.path, "")
        old = first.tag or "; ".join(first.old_tags[:1])
        offered = draft or old
        if offered:
            box.edit.insert(offered)
            if not draft:
                box.given.append(offered)

    async def _approve_now(self, box: TagBox) -> None:
        unseen = self._view.review.unseen(box.hunks)
        if unseen and not box.end_asked:
            box.end_asked = True
            names = ", ".join(each.short for each in unseen[:4])
            rows = counted(self._view.rows_below, "row")
            box.message = (
                f"the end of {names} was not on the screen ({rows} below): PgDn shows it, "
                "Enter approves without"
            )
            return
        done, count = Done(""), 0
        for each in box.hunks:
            done = await self._approve_one(each, box)
            count += 1
        self._drafts.pop(box.hunks[0].id, None)
        self._view.review.marks.clear()
        self._close()
        text = done.text if count == 1 else f"approved {count} hunks with one tag"
        self._advance("; ".join((text, *done.warnings)))

    async def _approve_one(self, each: MapHunk, box: TagBox) -> Done:
        seconds = self._view.review.spent.get(each.id, 0.0)
        tag, acks = box.edit.text, box.acks
        return await self._decided(lambda: self._desk.approve(each, tag, acks, seconds))

    def _advance(self, text: str) -> None:
        review = self._view.review
        current = review.current
        if current is None or not current.undecided:
            review.step_pending(1)
        left = sum(entry.undecided for entry in review.entries)
        self._view.reveal()
        self.say(
            f"{text}. {left} left" if left else f"{text}. Everything is decided: q, spike verdict"
        )

    # --- reject ---------------------------------------------------------------------------------

    async def _reject(self) -> None:
        chosen = self._view.review.chosen
        if not chosen:
            self.say("there is nothing to reject")
            return
        outside = [entry.path for entry in chosen if entry.state == "out of band"]
        if outside:
            note = f"put the recorded bytes of {', '.join(outside[:3])} back?"
            entries = tuple(entry for entry in chosen if entry.path in outside)
            self._open(ConfirmBox("Out of band", entries=entries, what="restore", notes=(note,)))
            return
        what = chosen[0].short if len(chosen) == 1 else counted(len(chosen), "hunk")
        box = RejectBox(f"Reject {what}: reason?", entries=tuple(chosen))
        await self._preview(box)
        self._open(box, [entry.hunk for entry in chosen if entry.hunk is not None])

    async def _preview(self, box: RejectBox) -> None:
        names = [entry.key for entry in box.entries]
        back = box.to_baseline
        found = await self._host.on_desk(lambda: self._desk.preview_reject(names, to_baseline=back))
        box.has_older = found.has_older
        box.notes = reject_notes(
            found.recut, found.revived, has_older=found.has_older, to_baseline=back
        )

    async def _reject_now(self, box: RejectBox, answer: str) -> None:
        if answer == "preview":
            await self._preview(box)
            return
        names = [entry.key for entry in box.entries]
        reason, back = box.edit.text.strip(), box.to_baseline
        done = await self._decided(lambda: self._desk.reject(names, reason, to_baseline=back))
        self._view.review.marks.clear()
        self._close()
        self._advance("; ".join((done.text, *done.warnings)))

    async def _confirm_now(self, box: ConfirmBox) -> None:
        entry = box.entries[0]
        if box.what == "restore":
            paths = [each.path for each in box.entries]
            done = await self._decided(lambda: self._desk.restore(paths))
        else:
            assert entry.withdrawn is not None
            gone = entry.withdrawn
            done = await self._decided(lambda: self._desk.accept_withdrawal(gone))
        self._close()
        self._advance(done.text)

    # --- comment, undo, filter, test --------------------------------------------------------------

    def _comment(self) -> None:
        current = self._view.review.current
        if current is None or current.hunk is None:
            self.say("there is no hunk to comment on")
            return
        box = CommentBox(f"Comment on {current.short}", hunk=current.hunk)
        self._open(box, (current.hunk,))

    async def _comment_now(self, box: CommentBox) -> None:
        each, text = box.hunk, box.edit.text
        assert each is not None
        if not text.strip():
            self._close()
            return
        done = await self._decided(lambda: self._desk.comment(each, text))
        self._close()
        self.say(done.text)

    async def _undo(self) -> None:
        done = await self._decided(self._desk.undo)
        self._view.reveal()
        self.say(done.text)

    def _filter(self) -> None:
        box = FilterBox("Show only what holds", found=len(self._view.review.shown))
        box.edit.insert(self._view.review.filter)
        self._open(box)

    def _narrow(self, box: FilterBox) -> None:
        self._view.review.set_filter(box.edit.text)
        box.found = len(self._view.review.shown)
        self._view.reveal()

    def _test(self) -> None:
        if self._is_testing:
            self.say("the test is running already")
            return
        tree = bool(self._view.snapshot.map.pending)
        self._is_testing = True
        self._view.running = "on work/ as it is" if tree else "on what is approved"
        self._host.run_aside(
            lambda: self._desk.run_test(tree=tree, on_progress=self._progress), self._tested
        )

    def _progress(self, text: str) -> None:
        self._view.running = text or self._view.running

    def _tested(self, outcome: TestRun | Problem) -> None:
        self._is_testing, self._view.running = False, ""
        if isinstance(outcome, Problem):
            self.refused(outcome)
            return
        self._last_run = outcome
        word = "green" if outcome.green else outcome.outcome
        text = f"test {word}: {outcome.run}, {outcome.seconds:.1f} s (o shows its output)"
        self.say(text, "message" if outcome.green else "message alarm")
