"""A claim on a run names its process beyond doubt (spec 7)."""

import json
import os
import subprocess
import sys

from spike_mcp.host import process


def test_this_process_is_alive_and_survives_the_ledger() -> None:
    mine = process.me()
    assert mine.pid == os.getpid() and mine.start > 0
    assert process.alive(mine)
    boot, pid, start = json.loads(json.dumps(mine))
    assert process.alive((boot, pid, start))


def test_another_boot_another_start_or_nobody_is_dead() -> None:
    mine = process.me()
    assert not process.alive(mine._replace(boot="elsewhere"))
    assert not process.alive(mine._replace(start=mine.start + 1))
    assert not process.alive(mine._replace(start=0))
    assert not process.alive(mine._replace(pid=0))
    assert not process.alive(mine._replace(pid=-1))
    assert process.of(2**22 + 1).start == 0


def test_a_killed_process_is_dead_before_and_after_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    identity = process.of(child.pid)
    assert process.alive(identity)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive(identity)
    child.wait()
    assert not process.alive(identity)


def test_a_name_with_parentheses_does_not_confuse() -> None:
    name = ") Z 1 (x"
    code = f"open('/proc/self/comm','w').write({name!r}); print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdin is not None
    child.stdout.readline()
    identity = process.of(child.pid)
    assert identity.start >= process.me().start
    assert process.alive(identity)
    child.stdin.close()
    child.wait()
    child.stdout.close()
