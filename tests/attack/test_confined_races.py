"""Thousands of reads and writes while another process swaps the target: none gets out.

The number of writes a swap is `SPIKE_RACE_WRITES` divided by the swaps (5,000 in all by default).
"""

import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from checkout import Checkout, path, snapshot

from spike_mcp.core.codes import Problem, Refusal

SWAPS = {
    "directory for a link": """
os.rename(work + "/src", work + "/kept"); os.symlink(outside, work + "/src")
os.unlink(work + "/src"); os.rename(work + "/kept", work + "/src")
""",
    "directory for a link, exchanged in one step": """
os.symlink(outside, work + "/link"); os.rename(work + "/src", work + "/kept")
os.rename(work + "/link", work + "/src"); os.unlink(work + "/src")
os.rename(work + "/kept", work + "/src")
""",
    "file for a link": """
os.symlink(outside + "/a.py", work + "/tmp"); os.rename(work + "/tmp", work + "/src/a.py")
open(work + "/tmp", "wb").close(); os.rename(work + "/tmp", work + "/src/a.py")
""",
    "file for a hard link": """
os.link(outside + "/a.py", work + "/tmp"); os.rename(work + "/tmp", work + "/src/a.py")
open(work + "/tmp", "wb").close(); os.rename(work + "/tmp", work + "/src/a.py")
""",
    "file for a pipe": """
os.mkfifo(work + "/tmp"); os.rename(work + "/tmp", work + "/src/a.py")
open(work + "/tmp", "wb").close(); os.rename(work + "/tmp", work + "/src/a.py")
""",
}
WRITES = int(os.environ.get("SPIKE_RACE_WRITES", "5000")) // len(SWAPS)

ATTACKER = """
import os, sys
work, outside = sys.argv[1:]
print("ready", flush=True)
failures = 0
while True:
    try:
{body}
    except OSError:
        # The tool made a directory while ours was away: without this, ours never comes back.
        failures += 1
        try:
            os.rename(work + "/kept", work + "/kept%d" % failures)
        except OSError:
            pass
        for name in ("tmp", "link"):
            try:
                os.unlink(work + "/" + name)
            except OSError:
                pass
"""
CODES = {
    Refusal.SYMLINK_IN_PATH,
    Refusal.HARD_LINKED,
    Refusal.NOT_A_FILE,
    Refusal.STALE_FILE,
    Refusal.FILE_MISSING,
    Refusal.FILE_EXISTS,
}


@pytest.mark.security
@pytest.mark.parametrize("swap", SWAPS)
def test_no_write_or_read_leaves_the_worktree_while_its_target_is_swapped(
    checkout: Checkout, tmp_path: Path, swap: str
) -> None:
    checkout.commit({"src/a.py": "inside\n"})
    spike = checkout.spike()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_bytes(b"secret of the judge")
    before = snapshot(outside)
    body = "\n".join("        " + line for line in SWAPS[swap].strip().splitlines())
    attacker = subprocess.Popen(
        [sys.executable, "-c", ATTACKER.format(body=body), str(spike.work), str(outside)],
        stdout=subprocess.PIPE,
    )
    try:
        assert attacker.stdout is not None
        attacker.stdout.readline()
        outcomes: Counter[str] = Counter()
        # A busy machine may run one side for long: go on until both outcomes were seen.
        latest = time.monotonic() + 100
        for number in itertools.count():
            raced = outcomes["written"] and len(outcomes) > 1
            if number >= WRITES and (raced or time.monotonic() > latest):
                break
            name = "src/a.py" if number % 4 else f"src/new{number}.py"
            try:
                spike.tree.replace(path(name), b"written by the tool")
                outcomes["written"] += 1
            except Problem as problem:
                assert problem.code in CODES, problem
                outcomes[problem.code.value] += 1
            try:
                assert b"secret" not in spike.tree.read(path("src/a.py"), 1 << 20)
            except Problem as problem:
                assert problem.code in CODES, problem
        assert attacker.poll() is None, "the attacker stopped early: nothing was tested"
    finally:
        attacker.kill()
        attacker.wait()
        assert attacker.stdout is not None
        attacker.stdout.close()
    assert snapshot(outside) == before
    assert outcomes["written"] and len(outcomes) > 1, f"no race happened: {outcomes}"
