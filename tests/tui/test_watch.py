"""`spike watch`: lines, bells, marks of the clock, the verdict at the deadline."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path

import pytest
from hostile import ALL, bad_characters
from late_clock import LateClock
from support import Open, open_plain

from spike_mcp.core.codes import Exit, Problem
from spike_mcp.edge import watch
from spike_mcp.edge.watch import Bell, Watcher
from spike_mcp.session import decisions, ending, rejecting
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import hunk_map


class Rings(list):
    """Records what rang."""

    def __call__(self, event: str, message: str) -> None:
        self.append((event, message))


@pytest.fixture
def clock() -> LateClock:
    return LateClock()


@pytest.fixture
def opened(tmp_path: Path, clock: LateClock) -> Open:
    return open_plain(tmp_path, clock=clock)


def watcher_of(opened: Open, clock: LateClock) -> tuple[Watcher, io.StringIO, Rings]:
    out, rings = io.StringIO(), Rings()
    watcher = Watcher(Spike(opened.spike.root, clock), out, rings)
    assert watcher.begin()
    return watcher, out, rings


def test_it_rings_when_a_hunk_becomes_pending_and_tells_each_event(
    opened: Open, clock: LateClock
) -> None:
    watcher, out, rings = watcher_of(opened, clock)
    assert watcher.step()
    assert rings == []
    opened.edit("src/a.py", "two\n", "two for callers GREEN\n")
    watcher.step()
    (ring,) = rings
    assert ring[0] == "pending"
    short = hunk_map(opened.spike).hunks[0].short
    assert f"1 hunk pending ({short} src/a.py). Review: spike review   writes stop in" in ring[1]
    opened.call("spike_run_test")
    decisions.approve(opened.spike, [short], "callers see this line")
    opened.call("spike_report", kind="done", text="it is green")
    watcher.step()
    text = out.getvalue()
    assert "agent: P1 src/a.py" in text
    assert "R3 green after" in text
    assert f'human: approved {short} src/a.py "callers see this line"' in text
    assert 'agent: the agent says it is done: "it is green"' in text
    assert [event for event, _message in rings] == ["pending", "reported"]


def test_a_hunk_that_is_pending_again_rings_again(opened: Open, clock: LateClock) -> None:
    opened.edit("src/a.py", "two\n", "two for callers\n")
    watcher, out, rings = watcher_of(opened, clock)
    assert [event for event, _m in rings] == ["pending"]
    decisions.approve(opened.spike, [hunk_map(opened.spike).hunks[0].id], "callers see this line")
    watcher.step()
    opened.edit("src/a.py", "two for callers\n", "two for all callers\n")
    watcher.step()
    assert [event for event, _m in rings] == ["pending", "pending"]
    assert "1 approval lapsed" in out.getvalue()


def test_it_rings_ten_five_and_one_minutes_before_the_cut_off_and_the_end(
    opened: Open, clock: LateClock
) -> None:
    watcher, out, rings = watcher_of(opened, clock)
    opened.edit("src/a.py", "two\n", "two for callers\n")
    watcher.step()
    rings.clear()
    seen = {}
    for minute in range(1, 90):
        clock.late = minute * 60.0
        watcher.step()
        for event, message in rings:
            seen.setdefault(event, []).append((minute, message))
        rings.clear()
    # The attempt's allowance is 30 minutes and began at about minute 0: writes stop there.
    assert [minute for minute, _m in seen["writes"]] == [20, 25, 29, 30]
    assert "writes stop in 9:5" in seen["writes"][0][1]
    assert "agent writes are closed. 1 hunk pending: decide before 90:00" in seen["writes"][3][1]
    assert [minute for minute, _m in seen["end"]] == [80, 85, 89]
    assert "the spike ends in 9:5" in seen["end"][0][1]
    assert out.getvalue().count("the spike ends in") == 3


def test_marks_that_are_past_when_it_starts_do_not_ring(opened: Open, clock: LateClock) -> None:
    clock.late = 86 * 60.0
    watcher, _out, rings = watcher_of(opened, clock)
    watcher.step()
    assert rings == []


def test_at_the_deadline_it_has_the_verdict_written(opened: Open, clock: LateClock) -> None:
    opened.edit("src/a.py", "two\n", "two for callers\n")
    watcher, out, rings = watcher_of(opened, clock)
    told = []
    watcher.after_verdict = lambda spike: told.append(spike.state.verdict.decision)
    clock.late = 90 * 60.0 + 1
    steps = 0
    while watcher.step():
        steps += 1
        assert steps < 20
    result = json.loads((opened.spike.verdict_dir / "result.json").read_text())
    assert result["reason"] == "deadline_exceeded"
    assert rings[-1] == ("verdict", "KILL deadline_exceeded")
    assert "the time is spent" in out.getvalue()
    assert told == ["KILL"]
    again = io.StringIO()
    assert watch.main(Spike(opened.spike.root, clock), None, True, again) == Exit.OK
    assert "is closed: KILL deadline_exceeded" in again.getvalue()


def test_it_ends_when_the_human_closes_the_spike(opened: Open, clock: LateClock) -> None:
    watcher, out, rings = watcher_of(opened, clock)
    ending.kill(opened.spike, "it asked for the wrong header")
    assert not watcher.step()
    assert rings[-1][0] == "verdict"
    assert 'closed by the human: "it asked for the wrong header"' in out.getvalue()


def test_a_damaged_ledger_ends_it_with_the_code_for_tampering(
    opened: Open, clock: LateClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.0)
    spike = Spike(opened.spike.root, clock)
    path = opened.spike.judge / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"R1"', b'"R9"', 1))
    out = io.StringIO()
    assert watch.main(spike, None, False, out) == Exit.TAMPERED
    assert "the ledger is damaged" in out.getvalue()


def test_the_command_gets_the_event_in_its_environment(tmp_path: Path) -> None:
    target = tmp_path / "rang"
    code = (
        "import os, pathlib; names = ('SPIKE_NAME', 'SPIKE_ROOT', 'SPIKE_EVENT', 'SPIKE_MESSAGE');"
        "pathlib.Path(os.environ['OUT']).write_text('|'.join(os.environ[n] for n in names))"
    )
    os.environ["OUT"] = str(target)
    try:
        bell = Bell(io.StringIO(), "plain", "/spikes/plain", True, (sys.executable, "-c", code))
        bell("pending", "1 hunk pending; $(touch evil) `x`")
    finally:
        del os.environ["OUT"]
    end = time.monotonic() + 20
    while not (target.exists() and target.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    assert target.read_text() == "plain|/spikes/plain|pending|1 hunk pending; $(touch evil) `x`"


def test_a_command_that_is_not_there_is_said_and_one_that_cannot_be_split_is_refused(
    opened: Open, clock: LateClock
) -> None:
    out = io.StringIO()
    Bell(out, "plain", "/spikes/plain", True, ("/no/such/program",))("pending", "x")
    assert "could not run /no/such/program" in out.getvalue()
    with pytest.raises(Problem, match="--exec"):
        watch.main(Spike(opened.spike.root, clock), "say 'unclosed", True, out)


def test_the_bell_rings_on_a_terminal_only() -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    tty, pipe = Tty(), io.StringIO()
    Bell(tty, "n", "r")("pending", "x")
    Bell(tty, "n", "r", bell=False)("pending", "x")
    Bell(pipe, "n", "r")("pending", "x")
    assert tty.getvalue() == "\a"
    assert pipe.getvalue() == ""


@pytest.mark.security
def test_lines_are_safe_whatever_the_agent_says(opened: Open, clock: LateClock) -> None:
    watcher, out, rings = watcher_of(opened, clock)
    text = ALL.replace("\x00", "").replace("\udc9b", "").replace("\udcff", "")[:2000]
    opened.call("spike_report", kind="unknown", text=text)
    opened.call("spike_edit_file", path="src/\x1b[31m", old_text="", new_text="", rationale=text)
    opened.call("no_such\x1b[2Jtool")
    reply = opened.edit("src/a.py", "two\n", "two for callers\n", why=text)
    assert reply.outcome == "accepted", reply
    decisions.comment(opened.spike, hunk_map(opened.spike).hunks[0].id, text)
    rejecting.reject(opened.spike, [hunk_map(opened.spike).hunks[0].id], text)
    watcher.step()
    assert bad_characters(out.getvalue()) == []
    assert bad_characters("".join(message for _event, message in rings)) == []
    assert "<001b>" in out.getvalue()
