"""The review on real spikes: pins, two reviewers, a killed screen, signed decisions, the end."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import pytest
from drive import Screen, on_screen
from late_clock import LateClock
from support import Open, open_plain

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.edge import plain
from spike_mcp.edge.desk import SpikeDesk, Unlock, unlock_with
from spike_mcp.edge.watch import Watcher
from spike_mcp.session import decisions
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import hunk_map

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """A started spike with two pending hunks, a line apart far enough."""
    found = open_plain(tmp_path, files=FILES)
    assert found.edit("src/a.py", "two\n", "two for callers\n").outcome == "accepted"
    assert found.edit("src/b.py", "beta\n", "beta GREEN\n").outcome == "accepted"
    return found


FILES = {
    "src/a.py": "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    "src/b.py": "alpha\nbeta\ngamma\n",
    "tests/test_oracle.py": "assert 1\n",
    "check.sh": "grep -q GREEN src/b.py\n",
}


def desk_of(opened: Open) -> SpikeDesk:
    return SpikeDesk(Spike(opened.spike.root))


def rows(opened: Open, event: str) -> list[dict[str, object]]:
    lines = (opened.spike.judge / "ledger.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["event"] == event]


def test_a_whole_review_by_keys(opened: Open) -> None:
    async def story(screen: Screen) -> None:
        assert "2 pending" in screen.text()
        await screen.press("a")
        await screen.type("callers see this line")
        await screen.press("enter")
        assert "1 pending  1 approved" in screen.text()
        await screen.press("r")
        await screen.type("not needed")
        await screen.press("enter")
        assert "0 pending  1 approved" in screen.text()
        assert "Everything is decided" in screen.text()
        await screen.press("u")
        assert "1 pending  1 approved" in screen.text()
        assert (opened.spike.work / "src/b.py").read_text() == "alpha\nbeta GREEN\ngamma\n"

    on_screen(story, desk_of(opened))
    (row,) = rows(opened, "hunk_approved")
    assert row["tag"] == "callers see this line"
    assert row["view_sha256"]
    assert row["seconds"] > 0


def test_the_test_runs_beside_the_review(opened: Open) -> None:
    async def story(screen: Screen) -> None:
        await screen.press("T")
        await screen.app.aside_done()
        assert "test green" in screen.text()

    on_screen(story, desk_of(opened))
    assert rows(opened, "run_finished")[-1]["green"] is True


def test_a_patch_that_arrives_while_the_tag_box_is_open_is_refused_by_the_pin(opened: Open) -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see this line")
        opened.edit("src/a.py", "two for callers\n", "two for callers; evil()\n")
        await screen.press("enter")
        assert "refused: " in screen.text()
        assert "is not in the diff any more" in screen.text()
        await screen.press("escape")
        assert "two for callers; evil()" in screen.text()

    on_screen(story, desk_of(opened))
    assert rows(opened, "hunk_approved") == []


def test_a_view_whose_context_changed_is_refused_although_its_id_is_the_same(opened: Open) -> None:
    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see this line")
        opened.edit("src/a.py", "five\n", "five\nfive and a half\n")
        await screen.press("enter")
        assert "refused: " in screen.text()

    on_screen(story, desk_of(opened))
    assert rows(opened, "hunk_approved") == []


def test_two_reviewers_see_each_others_decisions_and_no_decision_is_lost(opened: Open) -> None:
    other = desk_of(opened)
    theirs = other.look().map.hunks

    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see this line")
        other.reject([theirs[0].id], "not like this", to_baseline=False)
        await screen.press("enter")
        assert "refused: " in screen.text()
        await screen.press("escape")
        assert "1 pending  0 approved  3/40 lines  1 rejected" in screen.text() or (
            "1 rejected" in screen.text()
        )
        await screen.press("a")
        await screen.type("file is green now")
        await screen.press("enter")
        assert "1 approved" in screen.text()

    on_screen(story, desk_of(opened))
    last = other.look()
    assert [each.state for each in last.map.hunks] == ["approved"]
    assert len(rows(opened, "hunk_approved")) == 1
    assert len(rows(opened, "hunk_rejected")) == 1


def test_a_change_from_outside_shows_up_and_is_restored(opened: Open) -> None:
    (opened.spike.work / "src/a.py").write_text("evil\n")

    async def story(screen: Screen) -> None:
        screen.app.actions.take(await screen.app.on_desk(screen.app._desk.look_outside))
        screen.app.paint()
        assert "1 out of band" in screen.text()
        await screen.press("home", "k", "k", "a")
        assert "can't be approved" in screen.text()
        await screen.press("r", "enter")
        assert "out of band" not in screen.text()

    on_screen(story, desk_of(opened))
    assert (opened.spike.work / "src/a.py").read_text().startswith("one\ntwo for callers\n")


def test_a_withdrawn_hunk_is_shown_and_put_back(opened: Open) -> None:
    first = hunk_map(opened.spike).hunks[0]
    decisions.approve(opened.spike, [first.id], "callers see this line")
    opened.edit("src/a.py", "two for callers\n", "two\n")

    async def story(screen: Screen) -> None:
        assert "withdrawn" in screen.text()
        await screen.press("k", "k")
        assert "The agent took it out" in " ".join(screen.text().split())
        await screen.press("r", "enter")
        assert "put back in work/" in screen.text()

    on_screen(story, desk_of(opened))
    assert "two for callers\n" in (opened.spike.work / "src/a.py").read_text()


def test_signed_decisions_ask_for_the_passphrase_once(tmp_path: Path) -> None:
    opened = open_plain(tmp_path, passphrase="correct horse")
    opened.edit("src/a.py", "two\n", "two for callers GREEN\n")
    with pytest.raises(Problem) as wrong:
        unlock_with(opened.spike, "wrong")
    assert wrong.value.code is Refusal.NOT_AUTHORISED
    asked = []

    def factory():
        asked.append(1)
        return unlock_with(opened.spike, "correct horse")

    unlock = Unlock(opened.spike, factory)
    desk = SpikeDesk(Spike(opened.spike.root), unlock())
    unlock()

    async def story(screen: Screen) -> None:
        await screen.press("a")
        await screen.type("callers see this line")
        await screen.press("enter", "u", "r", "enter")

    on_screen(story, desk)
    assert asked == [1]
    assert all(row["signature"] for row in rows(opened, "hunk_approved"))
    fresh = Spike(opened.spike.root)
    assert fresh.forged == []
    assert [d.undone for d in fresh.state.decisions] == [True, False]


# --- real terminals -------------------------------------------------------------------------------

PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from spike_mcp.session.spike import Spike
spike = Spike(Path({root!r}))
if {plain!r}:
    from spike_mcp.edge import plain
    sys.exit(plain.main(spike, None, sys.stdin, sys.stdout))
from spike_mcp.edge import tui
sys.exit(tui.main(spike, None))
"""


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, opened: Open, *, plain: bool, term: str) -> None:
        code = PROGRAM.format(tests=str(TESTS), root=str(opened.spike.root), plain=plain)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM=term, COLUMNS="100", LINES="36")
            os.execv(sys.executable, [sys.executable, "-c", code])
        import fcntl
        import struct
        import termios

        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 100, 0, 0))
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{text!r} did not come; seen: {self.seen[-2000:]!r}")
            try:
                self.seen += os.read(self.fd, 1 << 16).decode("utf-8", "replace")
            except OSError:
                raise AssertionError(f"ended; seen: {self.seen[-2000:]!r}") from None

    def send(self, text: str) -> None:
        self.seen = ""
        os.write(self.fd, text.encode())

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def end(self) -> int:
        _pid, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_plain_on_a_pty(opened: Open) -> None:
    terminal = Terminal(opened, plain=True, term="dumb")
    terminal.wait_for("h for help > ")
    assert "\x1b" not in terminal.seen
    terminal.send("a\n")
    terminal.wait_for("tag: ")
    terminal.send("callers see this line\n")
    terminal.wait_for("approved h")
    terminal.wait_for("h for help > ")
    terminal.send("r\n")
    terminal.wait_for("leaves): ")
    terminal.send("not needed\n")
    terminal.wait_for("nothing waits for a decision")
    terminal.send("u\n")
    terminal.wait_for("took back")
    terminal.wait_for("h for help > ")
    terminal.send("q\n")
    terminal.wait_for("1 pending, 1 approved, 0 rejected")
    assert "\x1b" not in terminal.seen
    assert terminal.end() == 0


def test_sigkill_in_the_middle_of_a_review_loses_nothing(opened: Open) -> None:
    terminal = Terminal(opened, plain=False, term="xterm-256color")
    terminal.wait_for("2 pending")
    terminal.send("a")
    terminal.wait_for("Why does this exist?")
    terminal.send("callers see this line\r")
    terminal.wait_for("1 approved")
    terminal.send("a")
    terminal.wait_for("Why does this exist?")
    terminal.send("half a ta")
    terminal.kill()
    fresh = Spike(opened.spike.root)
    assert [each.state for each in hunk_map(fresh).hunks] == ["approved", "pending"]
    assert not fresh.damage
    terminal = Terminal(opened, plain=False, term="xterm-256color")
    terminal.wait_for("1 pending")
    terminal.send("q")
    assert terminal.end() == 0


def test_the_passed_deadline_writes_the_verdict_and_the_screen_says_so(opened: Open) -> None:
    clock = LateClock(opened.spike.clock)
    desk = SpikeDesk(Spike(opened.spike.root, clock))
    out = io.StringIO()
    watcher = Watcher(Spike(opened.spike.root, clock), out, lambda event, text: None)
    assert watcher.begin()

    async def story(screen: Screen) -> None:
        clock.late = 91 * 60
        await screen.poll()
        assert "closed: KILL deadline_exceeded" in screen.text()
        await screen.press("a")
        await screen.type("callers see this line")
        await screen.press("enter")
        assert "refused: " in screen.text()

    on_screen(story, desk)
    while watcher.step():
        pass
    assert "KILL deadline_exceeded" in out.getvalue()


def test_plain_goes_through_withdrawn_and_lapsed(opened: Open) -> None:
    first, second = hunk_map(opened.spike).hunks
    decisions.approve(opened.spike, [first.id], "callers see this line")
    decisions.approve(opened.spike, [second.id], "file is green now")
    opened.edit("src/a.py", "two for callers\n", "two\n")
    opened.edit("src/b.py", "beta GREEN\n", "beta GREENER\n")
    out = io.StringIO()
    plain.review(desk_of(opened), io.StringIO("a\n\nr\n-\na\nq\n"), out)
    text = out.getvalue()
    assert 'Enter alone takes your old tag again: "file is green now"' in text
    assert "withdrawn by the agent" in text
    assert "accepted that" in text
    assert "nothing waits for a decision" in text
