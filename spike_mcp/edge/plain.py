"""`spike review --plain`: the review line by line, with the standard library only.

For screen readers, `TERM=dumb`, and places without Textual. Nothing is drawn, nothing moves: each
hunk is printed whole, then a question, then the answer. All decisions go through the same desk as
the screen's and are pinned to what was printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

from spike_mcp.core import tags
from spike_mcp.core.codes import Exit, Problem
from spike_mcp.edge.desk import Desk, SignerFactory, Snapshot, SpikeDesk, TestRun, Unlock
from spike_mcp.edge.present import (
    KIND_WORDS,
    clock,
    counted,
    in_one_line,
    lines_text,
    patch_of,
    reason_of,
)
from spike_mcp.edge.shown import ShownHunk, flag_names, flag_words, notes_of, tail_words
from spike_mcp.edge.text import safe, safe_line
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import MapHunk, Withdrawn

Entry = MapHunk | Withdrawn

OWN_WORDS = 2
"""Words of a tag from which the agent's own reason may be told after it."""

_SIGNS = {"+": "add", "-": "cut", " ": "   "}

HELP = """a  approve this hunk: asks for a tag
r  reject it: asks for a reason, which may stay empty
c  comment: the agent hears it at its next call
s  skip to the next undecided hunk (Enter does the same)
b  back to the one before
g ID  go to a hunk by its id, or to a file by a part of its path
l  list all hunks
u  undo the last decision
t  run the test
p  print this hunk again
h  this help
q  quit; everything is saved"""


class _Quit(Exception):  # noqa: N818  (an answer, not a fault)
    """The reviewer leaves, or the input ended."""


@dataclass
class _Session:
    desk: Desk
    stdin: TextIO
    stdout: TextIO
    snapshot: Snapshot
    at: str = ""
    shown_at: float = 0.0
    skipped: set[str] = field(default_factory=set)

    # --- talking --------------------------------------------------------------------------------

    def say(self, text: str = "", end: str = "\n") -> None:
        """Print lines, made safe; what the terminal's encoding lacks is shown in hex."""
        coding = self.stdout.encoding or "utf-8"
        shown = safe(text).encode(coding, "backslashreplace").decode(coding)
        self.stdout.write(shown + end)
        self.stdout.flush()

    def ask(self, prompt: str) -> str:
        """One line of input; `_Quit` at its end."""
        self.say(prompt, end="")
        line = self.stdin.readline()
        if not line:
            raise _Quit
        return safe_line(line.strip(), 2000)

    # --- where we are ---------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look again; say what is new."""
        known = {each.id for each in self.snapshot.map.hunks}
        self.snapshot = self.desk.look()
        fresh = [each for each in self.snapshot.map.pending if each.id not in known]
        if fresh and known:
            names = ", ".join(each.short for each in fresh[:5])
            self.say(f"new: {counted(len(fresh), 'hunk')} pending ({names})")

    def undecided(self) -> list[Entry]:
        """What waits for a decision, in map order."""
        return [*self.snapshot.map.pending, *self.snapshot.map.withdrawn]

    def entries(self) -> list[Entry]:
        """Everything that can be looked at, in map order."""
        return [*self.snapshot.map.hunks, *self.snapshot.map.withdrawn]

    def current(self) -> Entry | None:
        """The entry that the next answer is about."""
        return next((entry for entry in self.entries() if entry.id == self.at), None)

    def advance(self, by: int = 1) -> None:
        """Go to the next undecided entry that was not skipped, else to any undecided one."""
        waiting = self.undecided()
        fresh = [entry for entry in waiting if entry.id not in self.skipped] if by > 0 else waiting
        entries = fresh or waiting
        if not entries:
            self.at = ""
            return
        ids = [entry.id for entry in entries]
        if self.at in ids:
            self.at = ids[(ids.index(self.at) + by) % len(ids)]
        else:
            self.at = ids[0] if by > 0 else ids[-1]

    # --- printing -------------------------------------------------------------------------------

    def summary(self) -> None:
        """One line of counts and clock."""
        now, current = self.snapshot.status, self.snapshot.map
        parts = [
            f"{now.pending} pending, {now.approved} approved, {self.snapshot.rejected} rejected",
            lines_text(current.lines, self.desk.sealed.max_lines),
            f"{clock(now.remaining)} left",
        ]
        if now.withdrawn:
            parts.insert(1, f"{now.withdrawn} withdrawn")
        parts.append(
            f"writes stop in {clock(now.writes_close_in)}"
            if now.writes_close_in > 0
            else "writes closed"
        )
        self.say("; ".join(parts))
        for path in self.snapshot.outside:
            name = safe_line(path, 300)
            self.say(f"changed outside the tools, blocks approving: {name} (spike restore)")
        if self.snapshot.problem:
            self.say(f"the map can't be shown: {self.snapshot.problem}")

    def print_entry(self) -> None:
        """The current entry, whole."""
        self.shown_at = monotonic()
        entry = self.current()
        self.say()
        if entry is None:
            approved = any(each.state == "approved" for each in self.snapshot.map.hunks)
            more = "; q ends this, `spike verdict` comes next" if approved else ""
            self.say(f"nothing waits for a decision{more}")
        elif isinstance(entry, Withdrawn):
            self.say(f"{entry.short} {safe_line(entry.path, 400)}: withdrawn by the agent")
            self.say(f'you approved it as "{safe_line(entry.tag, 400)}"; it left the diff')
            self.say("a accepts that; r puts the approved bytes back")
        else:
            self.print_hunk(entry)

    def print_hunk(self, each: MapHunk) -> None:
        """A hunk: who and where, what to know, its lines with words for what can't be seen."""
        waiting = self.undecided()
        ids = [entry.id for entry in waiting]
        place = f" ({ids.index(each.id) + 1} of {len(ids)} undecided)" if each.id in ids else ""
        kind = KIND_WORDS[each.hunk.kind]
        head = f"{each.short} {safe_line(each.path, 400)}: {each.state}{place}"
        self.say(f"{head}, patch {patch_of(each) or '?'}{', ' + kind if kind else ''}")
        if each.tag:
            self.say(f"your tag: {safe_line(each.tag, 1000)}")
        for note in notes_of(each, self.snapshot.map):
            self.say(f"note: {note.line}")
        self.say(safe_line(each.hunk.header or "the whole file, empty"))
        shown = ShownHunk(each)
        for index, line in enumerate(shown.lines):
            if shown.starts_region(index) and shown.mixed and line.key is not None:
                number, count = shown.numbers[line.key], len(each.regions)
                self.say(f"region {number} of {count}: {shown.state(index)}")
            self.say(self.line_words(shown, index))

    def line_words(self, shown: ShownHunk, index: int) -> str:
        """`add  12: text [2 trailing spaces]`."""
        line, text = shown.lines[index], shown.text(index)
        number = line.new_no or line.old_no or 0
        said = tail_words(text, odd_ending=shown.odd_ending(index)) if line.key else ""
        body = safe(text.body)
        return f"{_SIGNS[line.sign]} {number:>4}: {body}{f'  [{said}]' if said else ''}"

    def print_list(self) -> None:
        """All entries, one a line."""
        for each in self.snapshot.map.hunks:
            tag = f' "{safe_line(each.tag, 120)}"' if each.tag else ""
            flagged = " flagged" if each.flags else ""
            path = safe_line(each.path, 200)
            self.say(
                f"{each.state} {each.short} {path} +{each.added} -{each.removed}{flagged}{tag}"
            )
        for gone in self.snapshot.map.withdrawn:
            self.say(f'withdrawn {gone.short} {safe_line(gone.path, 200)} "{safe_line(gone.tag)}"')

    # --- deciding -------------------------------------------------------------------------------

    def approve(self) -> None:
        """Acknowledge flags, ask for the tag, approve what was printed."""
        entry = self.current()
        if entry is None:
            self.say("nothing to approve")
            return
        if isinstance(entry, Withdrawn):
            self.say(self.desk.accept_withdrawal(entry).text)
            self.after()
            return
        acks = self.acknowledge(entry)
        if acks is None:
            return
        tokens = self.desk.sealed.tokens
        self.say(f"words of the hypothesis: {', '.join(tokens)}")
        old = entry.tag or "; ".join(entry.old_tags[:1])
        if old:
            self.say(f'Enter alone takes your old tag again: "{safe_line(old, 1000)}"')
        tag = self.ask("tag: ") or old
        if not tag:
            self.say("left undecided")
            return
        seconds = monotonic() - self.shown_at
        done = self.desk.approve(entry, tag, acks, seconds)
        self.say(done.text)
        for warning in done.warnings:
            self.say(f"note: {warning}")
        if entry.rationale and len(tags.words(tag)) >= OWN_WORDS:
            self.say(f"the agent's own reason was: {reason_of(entry)} (u takes it back)")
        self.after()

    def acknowledge(self, each: MapHunk) -> list[str] | None:
        """The flags the reviewer has read, None if one was not taken."""
        acks: list[str] = []
        for name in flag_names([each]):
            where = ", ".join(str(f.line) for f in each.flags if f.name == name)
            answer = self.ask(f"flag: {flag_words(name)}, line {where}. Read it? y or n: ")
            if answer.lower() not in ("y", "yes"):
                self.say("left undecided")
                return None
            acks.append(name)
        return acks

    def reject(self) -> None:
        """Say what a reject would take along, ask for the reason, reject."""
        entry = self.current()
        if entry is None:
            self.say("nothing to reject")
            return
        found = self.desk.preview_reject([entry.id], to_baseline=False)
        if found.recut:
            self.say(f"this cuts anew, to be approved again: {', '.join(found.recut)}")
        if found.revived:
            self.say("the bytes go back to your approved version")
        reason = self.ask("reason, may stay empty (a single - leaves): ")
        if reason == "-":
            self.say("left undecided")
            return
        self.say(self.desk.reject([entry.id], reason, to_baseline=False).text)
        self.after()

    def comment(self) -> None:
        """Ask for a remark."""
        entry = self.current()
        if not isinstance(entry, MapHunk):
            self.say("there is no hunk to comment on")
            return
        text = self.ask("comment: ")
        if text:
            self.say(self.desk.comment(entry, text).text)
            self.snapshot = self.desk.look()

    def undo(self) -> None:
        """Take the last decision back."""
        self.say(self.desk.undo().text)
        self.snapshot = self.desk.look()
        self.print_entry()

    def test(self) -> None:
        """Run the test and print how it ended."""
        tree = bool(self.snapshot.map.pending)
        self.say(f"running the test {'on work/ as it is' if tree else 'on what is approved'}")
        self.print_run(self.desk.run_test(tree=tree, on_progress=lambda _text: None))

    def print_run(self, run: TestRun) -> None:
        """A run's outcome, and its output where it is not green."""
        self.say(f"{run.run}: {'green' if run.green else run.outcome}, {run.seconds:.1f} s")
        if not run.green:
            self.say("\n".join(safe(run.output).rstrip("\n").split("\n")[-40:]))

    def after(self) -> None:
        """After a decision: look again and go on to what is next."""
        self.snapshot = self.desk.look()
        self.advance()
        self.print_entry()

    # --- moving ---------------------------------------------------------------------------------

    def skip(self) -> None:
        """Leave this one for later."""
        self.skipped.add(self.at)
        self.advance()
        self.print_entry()

    def back(self) -> None:
        """The undecided entry before this one."""
        self.advance(-1)
        self.print_entry()

    def go(self, wanted: str) -> None:
        """A hunk by id, or the first whose path holds the text."""
        for entry in self.entries():
            if wanted and (entry.short.startswith(wanted) or wanted in safe_line(entry.path, 1000)):
                self.at = entry.id
                self.print_entry()
                return
        self.say(f"no hunk's id or path fits {wanted or 'nothing'}")

    def answer(self, line: str) -> None:
        """One answer to the question."""
        word, _space, rest = line.partition(" ")
        actions: dict[str, Callable[[], None]] = {
            "a": self.approve,
            "r": self.reject,
            "c": self.comment,
            "s": self.skip,
            "": self.skip,
            "b": self.back,
            "l": self.print_list,
            "u": self.undo,
            "t": self.test,
            "p": self.print_entry,
            "h": lambda: self.say(HELP),
            "?": lambda: self.say(HELP),
        }
        if word in ("q", "quit"):
            raise _Quit
        if word == "g":
            self.go(rest.strip())
        elif word in actions:
            actions[word]()
        else:
            self.say("a, r, c, s, b, g, l, u, t, p, q; h explains them")


def review(desk: Desk, stdin: TextIO, stdout: TextIO) -> int:
    """Review through `desk` until the reviewer quits or the input ends."""
    session = _Session(desk, stdin, stdout, desk.look_outside())
    session.say(f"hypothesis: {safe_line(desk.sealed.hypothesis, 4000)}")
    session.advance()
    session.summary()
    session.print_entry()
    while True:
        try:
            session.answer(session.ask("\na r c s u q, h for help > "))
            session.refresh()
        except Problem as problem:
            session.say(f"refused: {in_one_line(problem)}")
            session.snapshot = desk.look()
            if session.current() is None:
                session.advance()
                session.print_entry()
        except _Quit:
            session.say()
            session.summary()
            return int(Exit.OK)


def main(spike: Spike, signer_factory: SignerFactory | None, stdin: TextIO, stdout: TextIO) -> int:
    """`spike review --plain`; the exit code. Raises `Problem(NOT_AUTHORISED)`."""
    return review(SpikeDesk(spike, Unlock(spike, signer_factory)()), stdin, stdout)
