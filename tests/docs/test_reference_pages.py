"""The pages that are made from the code are the ones in the checkout."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "docs/make_reference.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
