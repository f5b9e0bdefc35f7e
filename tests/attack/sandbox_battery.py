"""A program: what the sandbox must hold, run as whoever starts it; prints one JSON object.

Started by test_sandbox.py as the current user and, if that is root, as an ordinary uid. Standard
library only besides the package, since that uid can't read this project's environment.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from spike_mcp.host.measure import Run, RunResult, RunSpec
from spike_mcp.host.sandbox import Limits, Places, self_test

FORKS = r"""
import os, sys, time
made = 0
try:
    while made < 2000:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError as error:
    print("FORKS", made, type(error).__name__)
"""
FILLS = r"""
import os
for place in (".", "/tmp", os.environ["HOME"], "/dev/shm"):
    size = 0
    try:
        with open(place + "/fill", "wb", 0) as file:
            while size < 400 << 20:
                size += file.write(b"x" * (1 << 20))
    except OSError as error:
        print("FILL", place, size >> 20, error.errno)
for place in ("/", "/run", "/dev", "/usr", "/etc", "/home", "/run/spike/inside"):
    try:
        open(place + "/fill", "wb").close()
        print("OPEN", place)
    except OSError:
        pass
"""
DAEMONS = r"""
import os, subprocess, sys, time
for _ in range(50):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", ["/bin/sleep", "MARK"])
        os._exit(0)
time.sleep(0.3)
print("started")
"""


def python(tree: Path, code: str, **limits: float) -> RunResult:
    """Run a piece of Python under the system's interpreter."""
    argv = ("/usr/bin/python3", "-c", code)
    places = Places(program=argv[0], argv=argv)
    told = Limits(**{"wall_seconds": 30.0, **limits})  # type: ignore[arg-type]
    made = RunSpec(tree=tree, mount_at=(str(tree),), places=places, runner="plain", limits=told)
    return Run.start(made).wait()


def alive(marker: str) -> int:
    """How many processes have this word in their command line."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                count += marker.encode() in Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
    return count


def main() -> None:
    tree = Path(tempfile.mkdtemp(prefix="spike-battery-")).resolve()
    (tree / "kept.txt").write_text("kept")
    report = self_test()
    forks = python(tree, FORKS, processes=64)
    fills = python(tree, FILLS, tree_bytes=20 << 20, tmp_bytes=10 << 20)
    hog = python(tree, "x = bytearray(600 << 20); print('HOG', len(x))", memory_bytes=200 << 20)
    marker = f"77{os.getpid()}"
    daemons = python(tree, DAEMONS.replace("MARK", marker))
    left = alive(marker)
    began = time.monotonic()
    slow = python(tree, DAEMONS.replace("MARK", marker) + "time.sleep(60)", wall_seconds=1.5)
    found = {
        "uid": os.getuid(),
        "probes": len(report.probes),
        "processes": report.processes,
        "forks": forks.head.decode(),
        "fills": fills.head.decode(),
        "hog": [hog.outcome.value, hog.head.decode()[-400:]],
        "daemons": [daemons.outcome.value, daemons.head.decode(), left],
        "slow": [slow.outcome.value, time.monotonic() - began, alive(marker)],
        "tree": sorted(os.listdir(tree)),
    }
    for name in os.listdir(tree):
        (tree / name).unlink()
    tree.rmdir()
    print(json.dumps(found))


main()
