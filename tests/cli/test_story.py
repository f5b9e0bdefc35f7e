"""A whole spike by the command line alone, every `--json` answer checked against its schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_desk import INIT, spike, valid
from support import git

FIX = """\
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@
 one
-two
+GREEN
 three
"""
SECOND = """\
--- a/src/a.py
+++ b/src/a.py
@@ -6,3 +6,3 @@
 six
-seven
+SEVEN
 eight
"""


def patch(where: Path, text: str) -> str:
    """A patch file; its path."""
    file = where / "some.patch"
    file.write_text(text)
    return str(file)


def test_a_spike_goes_from_init_to_ship(repo: Path, place: Path) -> None:
    made = valid("init", spike("init", "plain", "--json", *INIT))
    assert made["work"] == str(Path(made["root"]) / "work")
    assert made["tag_tokens"][0] == "rewriting" and len(made["fingerprint"].split()) == 6
    assert any("exit_code" in warning for warning in made["warnings"])

    assert valid("status", spike("--json", "status"))["phase"] == "created"
    refused = spike("verdict", "--json")
    assert (refused.code, valid("verdict", refused)["error"]["code"]) == (78, "not_started")

    started = valid("start", spike("start", "--json"))
    assert started["weak"] == "exit_code"
    assert spike("start").code == 78
    assert spike("check").code == 2
    assert valid("check", spike("check", "--json"))["decision"] == "no_diff"

    first = valid("apply", spike("apply", patch(place, FIX), "--rationale", "why", "--json"))
    second = valid("apply", spike("apply", patch(place, SECOND), "--json"))
    assert first["patch"] == "P1" and second["patch"] == "P2"
    status = valid("status", spike("status", "--json", "--exit-code"))
    assert spike("status", "--exit-code").code == 10
    # Two edits within six lines are one hunk: the id changed with the second.
    assert status["hunks"] == {"pending": 1, "approved": 0, "withdrawn": 0, "out_of_band": 0}

    (hunk,) = valid("map", spike("map", "--json"))["hunks"]
    assert hunk["patches"] == ["P1", "P2"] and hunk["state"] == "pending"
    assert spike("map", "--ids").out == f"{hunk['id']}\n"
    gone = spike("approve", first["hunks"][0], "--tag", "rewriting the seven lines", "--json")
    assert (gone.code, valid("approve", gone)["error"]["code"]) == (78, "hunk_changed")
    for tag, code in (
        ("", "tag_missing"),
        ("seven", "tag_bare"),
        ("a nice thing to do", "tag_unrelated"),
    ):
        assert spike("approve", hunk["id"], "--tag", tag).error == code

    assert spike("comment", hunk["id"], "why?", "--json").json["commented"] == hunk["id"]
    back = valid("reject", spike("reject", "P2", "--reason", "out of scope", "--json"))
    assert back["rejected"] == "P2" and back["pending"] == 1
    (hunk,) = valid("map", spike("map", "--json"))["hunks"]
    told = spike("verdict", "--json")
    assert told.code == 10
    answer = valid("verdict", told)
    assert (answer["written"], answer["reason"]) == (False, "unexplained_diff")
    assert hunk["id"] in answer["todo"][0]
    assert spike("check").code == 1

    wrong = spike("approve", hunk["id"], "--tag", "rewriting the lines", "--sha", "0" * 64)
    assert (wrong.code, wrong.error) == (78, "hunk_changed")
    done = spike(
        "approve",
        hunk["id"],
        "--tag",
        "rewriting one of the seven lines",
        "--sha",
        hunk["view_sha256"],
        "--ack",
        "all",
        "--json",
    )
    assert valid("approve", done)["approved"] == [hunk["id"]]
    undone = valid("undo", spike("undo", "--json"))
    assert undone["undone"].startswith("D")
    assert spike("approve", hunk["id"], "--tag", "rewriting the seven lines").code == 0
    assert valid("check", spike("check", "--json"))["decision"] == "explained"
    run = spike("test", "--json")
    assert (run.code, valid("test", run)["green"]) == (0, True)
    assert valid("test", spike("test", "--tree", "--json"))["tree"] == "worktree"

    told = spike("verdict", "--json")
    assert told.code == 0, told.out
    verdict = valid("verdict", told)
    assert (verdict["decision"], verdict["written"]) == ("SHIP", True)
    again = spike("verdict", "--final")
    assert again.code == 0 and again.out.startswith("SHIP oracle_unchanged_and_test_passed")
    shipped = valid("ship", spike("ship", "--json"))
    assert git(repo, "rev-parse", "spike/plain").strip() == shipped["commit"]
    assert Path(shipped["patch"]).read_text().count("+GREEN") == 1
    assert spike("start").code == 78

    rows = valid("log", spike("log", "--json"))["rows"]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    events = [row["event"] for row in rows]
    assert events[0] == "created" and events[-2:] == ["shipped", "call_refused"]
    assert len(spike("log", "-n", "3").out.splitlines()) == 3
    assert valid("verify", spike("verify", made["root"], "--json"))["ok"] is True
    (listed,) = valid("list", spike("list", "--json"))["spikes"]
    assert listed["phase"] == "closed"
    assert spike("list", "--open", "--json").json["spikes"] == []

    unmerged = spike("rm", "plain")
    assert unmerged.code != 0 and Path(made["root"]).exists()
    # What is refused closes nothing either, and its way out is one that git takes.
    closing = spike("kill", "--note", "no more", "--spike", "plain")
    assert closing.code == 77 and "git update-ref -d refs/heads/spike/plain" in closing.err
    assert "killed" not in [row["event"] for row in spike("log", "--json").json["rows"]]
    git(repo, "merge", "-q", "spike/plain")
    removed = valid("rm", spike("rm", "plain", "--json"))
    assert Path(removed["archive"]).is_file() and not Path(made["root"]).exists()
    assert git(repo, "status", "--porcelain") == ""


def test_a_damaged_ledger_is_tampering_and_exits_5(opened: Path) -> None:
    spike("start")
    ledger = opened / "judge" / "ledger.jsonl"
    ledger.write_bytes(
        ledger.read_bytes().replace(b'"checkpoint":"setup"', b'"checkpoint":"SETUP"')
    )
    log = spike("log", "--json")
    assert log.code == 5 and valid("log", log)["damage"]
    assert valid("verify", spike("verify", "--json"))["ok"] is False
    assert spike("verify").code == 5
    for verb in ("check", "verdict"):
        told = spike(verb, "--json")
        assert told.code in (5, 78), told.out
        valid(verb, told)
    for verb in ("status", "map", "list", "kill"):
        spike(verb)


def test_kill_closes_and_exits_0_and_the_verdict_then_exits_7(opened: Path) -> None:
    spike("start")
    told = spike("kill", "--note", "It never read the header.", "--json")
    assert (told.code, valid("kill", told)["reason"]) == (0, "closed_by_human")
    assert not (opened / "work").exists()
    verdict = spike("verdict", "--json")
    assert (verdict.code, valid("verdict", verdict)["decision"]) == (7, "KILL")
    assert spike("status").out.startswith("plain  KILL closed_by_human")
    assert spike("map").code in (0, 78)


def test_out_of_band_changes_are_named_and_restored(opened: Path) -> None:
    spike("start")
    (opened / "work" / "src" / "b.py").write_text("planted\n")
    (opened / "work" / "src" / "a.py").write_text("changed\n")
    status = valid("status", spike("status", "--json"))
    assert status["hunks"]["out_of_band"] == 2
    answer = valid("map", spike("map", "--json"))
    assert {(h["path"], h["state"]) for h in answer["hunks"]} == {
        ("src/a.py", "out_of_band"),
        ("src/b.py", "out_of_band"),
    }
    assert "spike restore --all" in spike("status").out
    assert spike("check").code == 1
    assert spike("restore", "src/nothing.py").code == 78
    assert valid("restore", spike("restore", "src/b.py", "--json"))["restored"] == ["src/b.py"]
    assert spike("restore", "--all").out == "restored src/a.py\n"
    assert spike("restore", "--all").code == 0
    assert spike("check").code == 2


def test_an_approved_hunk_that_the_agent_took_out_is_withdrawn(started, place: Path) -> None:
    assert started.edit("src/a.py", "two\n", "GREEN\n").outcome == "accepted"
    (hunk,) = spike("map", "--json").json["hunks"]
    assert spike("approve", hunk["id"], "--tag", "rewriting one of the lines").code == 0
    assert started.edit("src/a.py", "GREEN\n", "two\n").outcome == "accepted"
    (gone,) = valid("map", spike("map", "--json"))["hunks"]
    assert (gone["state"], gone["added"], gone["tag"]) == (
        "withdrawn",
        1,
        "rewriting one of the lines",
    )
    shown = spike("show", gone["id"])
    assert "+ GREEN" in shown.out and f"spike approve --withdrawn {gone['id']}" in shown.out
    valid("show", spike("show", gone["id"], "--json"))
    assert spike("check").code == 1
    told = spike("approve", "--withdrawn", gone["id"], "--json")
    assert valid("approve", told)["withdrawn"] == [gone["id"]]
    assert spike("check").code == 2


def test_unknowns_are_noted_and_confirmed(started) -> None:
    started.call("spike_report", kind="unknown", text="the proxy strips it")
    assert "spike unknown --confirm 1" in spike("status").out
    assert valid("unknown", spike("unknown", "--confirm", "1", "--json"))["unknown"] == 1
    assert valid("unknown", spike("unknown", "another thing", "--json"))["unknown"] == 2
    assert spike("unknown", "--confirm", "9").code == 78
    confirmed = spike("status", "--json").json["unknowns"]
    assert [each["confirmed"] for each in confirmed] == [True, True]


def test_checkpoints_by_hand(opened: Path) -> None:
    assert valid("start", spike("start", "--manual", "--json"))["manual"] is True
    early = spike("checkpoint", "start", "attempt", "--json")
    assert (early.code, valid("checkpoint", early)["error"]["code"]) == (78, "checkpoint_closed")
    for name in ("setup", "reproduce"):
        assert spike("checkpoint", "start", name).code == 0
        stopped = spike("checkpoint", "stop", name, "--json")
        assert (stopped.code, valid("checkpoint", stopped)["met"]) == (0, True)
    assert spike("checkpoint", "start", "attempt").code == 0
    raised = spike("checkpoint", "stop", "attempt", "--met", "yes", "--json")
    assert (raised.code, valid("checkpoint", raised)["overruled"]) == (78, True)
    assert spike("checkpoint", "start", "attempt").code == 0
    assert spike("checkpoint", "extend", "attempt").code == 78
    lowered = spike("checkpoint", "stop", "attempt", "--met", "no", "--json")
    assert (lowered.code, lowered.json["met"]) == (0, False)


@pytest.mark.parametrize("final", [False, True])
def test_a_spike_without_a_diff_is_killed_only_when_final(opened: Path, final: bool) -> None:
    spike("start")
    told = spike("verdict", *(["--final"] if final else []), "--json")
    assert told.code == (2 if final else 10)
    assert valid("verdict", told)["reason"] == "hypothesis_not_exercised"
    assert (opened / "verdict" / "result.json").exists() is final
