"""`make bench`: every number of specification 15, peers in the same run, in one Markdown table.

    python benchmarks/run.py [--only ROW[,ROW]] [--quick] [--write]

`--write` puts the table into docs/performance.md and the plot beside it. Rows: start, calls, tree,
life, review, runs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import peers as peers_module
from harness import Results, table

ROWS = {"start": 12, "calls": 20, "tree": 9, "life": 9, "review": 7, "runs": 5}
"""Row modules and how many rounds each takes."""


def main() -> int:
    """Measure, print, and say with the exit status whether every target was reached."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="a third of the rounds")
    parser.add_argument("--write", action="store_true", help="update docs/performance.md")
    wanted = parser.parse_args()
    began = time.monotonic()
    if Path(sys.prefix) != peers_module.OURS:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        program = peers_module.install_ours()
        os.execv(program, [program, __file__, *sys.argv[1:]])
    peers = peers_module.install()
    results = Results()
    results.notes += [f"left out: {why}" for why in peers.missing.values()]
    top = Path(tempfile.mkdtemp(prefix="spike-bench-"))
    try:
        for row in wanted.only.split(","):
            print(f"{row} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
            rounds = max(3, ROWS[row] // 3) if wanted.quick else ROWS[row]
            importlib.import_module(f"row_{row}").measure(top, peers, results, rounds)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(table(results.lines))
    for note in results.notes:
        print(f"* {note}")
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    if wanted.write:
        import publish

        publish.publish(results, peers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
