"""What is hidden from the agent stays hidden: before, while and after it is used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from acting import approve_all, ask, refused, rows, verdict
from support import INVOICE_FIX, PLAIN, open_invoice, open_plain

from spike_mcp.core import layout

pytestmark = pytest.mark.security

SECRET = "hidden-7301"


@pytest.mark.parametrize("kind", ["hidden", "negative_controls"])
def test_a_hidden_part_that_is_part_of_the_commit_is_refused(tmp_path: Path, kind: str) -> None:
    """The agent's tools read every file of the worktree."""
    secret = tmp_path / "secret.py"
    secret.write_text("assert 41 + 1\n")
    files = {**PLAIN, "notes/old.py": secret.read_text()}
    options = {kind: {"tests/test_oracle.py": secret}}
    assert refused(lambda: open_plain(tmp_path, files=files, **options)) == "invalid_contract"
    assert not (tmp_path / "root").exists()


def test_a_hidden_run_leaves_nothing_behind_that_tells_what_it_was(tmp_path: Path) -> None:
    """Not in a reply, not in an output that is kept, not in the ledger; only in the verdict."""
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "from decimal import Decimal\n\nfrom invoke_me_not import x\n\n\n"
        f"def test_rounding():\n    assert x == Decimal('{SECRET}')\n"
    )
    o = open_invoice(tmp_path, hidden={"tests/test_invoice.py": hidden})
    assert o.edit("invoice.py", *INVOICE_FIX).outcome == "accepted"
    approve_all(o, "banker's rounding for the test")
    assert verdict(ask(o, final=True))[:2] == ("KILL", "twin_failed")
    digest = hashlib.sha256(hidden.read_bytes()).hexdigest()
    told = [
        json.dumps([reply.lines, dict(reply.data)], default=str)
        for reply in (
            o.call("spike_status"),
            o.call("spike_run_test"),
            o.call("spike_list_files"),
            o.call("spike_read_file", path="tests/test_invoice.py"),
            o.call("spike_search_files", pattern=SECRET),
        )
    ]
    kept = [
        path.read_text(errors="replace")
        for path in (o.spike.judge / layout.BLOBS).iterdir()
        if path.name != digest
    ]
    assert not [text for text in (*told, *kept) if SECRET in text]
    assert not [row for row in rows(o) if SECRET in json.dumps(row)]
    assert digest not in "".join(told)
    assert not list(o.spike.root.glob(".scoring-*"))
