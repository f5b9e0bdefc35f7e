"""Process and transport bugs that others had, each as a test named after its id (B44-B50)."""

import os
import time
from pathlib import Path

import pytest
from support import INVOICE, open_invoice
from wire import HANDSHAKES, MODERN, Wire, gone, open_script, processes, rows, wait_for_row

pytestmark = pytest.mark.security


def rss(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_b44_a_time_out_ends_the_grandchildren_too_and_the_next_call_works(tmp_path):
    opened = open_script(tmp_path, budgets={"run_wall_seconds": 2})
    with Wire(opened.spike.root) as wire:
        wire.script("echo partial; sleep 4441 & while :; do :; done\n")
        text = wire.call("spike_run_test")
        assert text.startswith("R3 not green (timed out)")
        assert "partial" in text
        assert gone("sleep\x004441")
        wire.edit("sleep 4441 & while :; do :; done", "exit 0")
        assert wire.call("spike_run_test").startswith("R4 green")


def test_b46_a_flood_keeps_memory_flat_and_the_assertion_in_sight(tmp_path):
    opened = open_script(tmp_path)
    with Wire(opened.spike.root) as wire:
        flood = "head -c 300000000 /dev/zero | tr '\\0' x; echo"
        wire.script(f"{flood}; echo 'E assert 1 == 2'; exit 1")
        before = rss(wire.process.pid)
        run = wire.begin("spike_run_test")
        peak = before
        while not [row for row in rows(opened) if row.get("run") == "R3" and "outcome" in row]:
            peak = max(peak, rss(wire.process.pid))
            time.sleep(0.01)
        text = wire.result(run)
        assert peak - before < 40 << 20
        assert len(text.encode()) < 8192
        assert "E assert 1 == 2" in text
        total = 300_000_000 + len("\nE assert 1 == 2\n")
        assert wire.meta["dropped"] == total - 2 * (64 << 10)
        assert f"{wire.meta['dropped']} of them not kept at all" in text
        left_out = int(text.partition("[... ")[2].partition(" bytes")[0])
        body = text[text.index("output:\n") + 8 : text.rindex("time left")]
        shown = body.replace(body[body.index("\n[... ") : body.index(" ...]\n") + 6], "")
        assert left_out + len(shown.rstrip("\n")) == total - 1

        wire.script("i=0; while [ $i -lt 50000 ]; do echo line $i; i=$((i+1)); done; exit 1\n")
        text = wire.call("spike_run_test")
        assert "line 49999" in text
        assert "line 0\n" in text
        assert max(len(line) for line in opened.spike.judge.joinpath("ledger.jsonl").open()) < 8192


def test_b47_a_childs_input_is_empty_and_no_request_is_eaten(tmp_path):
    opened = open_script(tmp_path)
    with Wire(opened.spike.root) as wire:
        wire.script("if read line; then echo ate: $line; exit 0; fi; cat; echo nothing; exit 1\n")
        run = wire.begin("spike_run_test")
        more = [
            wire.begin("spike_status"),
            wire.begin("spike_read_file", path="src/notes.txt"),
            wire.begin("spike_list_files"),
        ]
        assert "spike plain" in wire.result(more[0])
        assert "nothing yet" in wire.result(more[1])
        assert "4 files" in wire.result(more[2])
        text = wire.result(run)
        assert text.startswith("R3 not green (failed)")
        assert "ate" not in text
        assert "nothing" in text


@pytest.mark.parametrize("version", [MODERN, HANDSHAKES[-1]])
def test_b49_bytes_that_are_no_text_break_neither_session_nor_ledger(tmp_path, version):
    opened = open_script(tmp_path)
    with Wire(opened.spike.root, version) as wire:
        wire.write(b"\xff\xfe\n")
        wire.write(
            b'{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"spike_apply_patch",'
            b'"arguments":{"patch":"--- a/src/run.sh \\ud800","rationale":"x"}}}\n'
        )
        assert wire.answer("s")["error"]["code"] == -32700
        row = wait_for_row(opened, "call_refused", code="malformed_request")
        assert row["tool"] == "(unreadable line)"
        wire.script('printf "\\377\\376\\033[31m"; echo \'{"jsonrpc":"2.0","id":1}\'; exit 1\n')
        text = wire.call("spike_run_test")
        assert "\\xff\\xfe<001b>[31m" in text
        assert '{"jsonrpc":"2.0","id":1}' in text
        assert wire.call("spike_status").startswith("spike plain")
        assert wire.close() == 0
    assert not opened.spike.damage


def test_b50_a_client_that_gives_up_ends_the_run_and_loses_nothing(tmp_path):
    opened = open_script(tmp_path)
    with Wire(opened.spike.root, "2025-11-25") as wire:
        wire.script("sleep 4450\n")
        run = wire.begin("spike_run_test")
        while not processes("sleep\x004450"):
            time.sleep(0.02)
        wire.cancel(run)
        status = wire.begin("spike_status")
        edit = wire.begin(
            "spike_edit_file",
            path="src/run.sh",
            old_text="sleep 4450",
            new_text="sleep 1",
            rationale="quicker",
        )
        again = wire.begin("spike_run_test")
        assert wire.result(status).startswith("spike plain")
        assert wire.result(edit).startswith("applied P2")
        assert wire.result(again).startswith("R4 green")
        assert gone("sleep\x004450")
        assert run not in [message.get("id") for message in wire.others]
    story = [
        (row["event"], row["run"], row.get("outcome", ""))
        for row in rows(opened)
        if row["event"].startswith("run_") and row["run"] in ("R3", "R4")
    ]
    assert story == [
        ("run_started", "R3", ""),
        ("run_finished", "R3", "cancelled"),
        ("run_started", "R4", ""),
        ("run_finished", "R4", "passed"),
    ]


def test_a_print_at_import_stays_off_the_wire_and_pytest_is_told_as_it_ended(tmp_path):
    opened = open_invoice(tmp_path)
    with Wire(opened.spike.root) as wire:
        fix = INVOICE["invoice.py"].replace(
            '    raise NotImplementedError("spike target")\n', '    return value + Decimal("1")\n'
        )
        wire.call("spike_read_file", path="invoice.py")
        text = wire.call(
            "spike_write_file",
            path="invoice.py",
            content='print(\'{"jsonrpc": "2.0"}\')\n' + fix,
            expected_sha256=wire.meta["sha256"],
            rationale="rounds as a banker does",
        )
        assert text.startswith("applied P1")
        text = wire.call("spike_run_test")
        assert "not green (failed)" in text.splitlines()[0]
        assert "test_rounding" in text
        assert "Error" in text
        assert "assert" in text
        assert len(text.encode()) < 8192
        assert wire.close() == 0
