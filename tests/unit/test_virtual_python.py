"""A plain command finds the python of the human's virtual environment, wherever its links end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spike_mcp.host.resolve import resolve


@pytest.mark.parametrize("base", [sys.executable, "/usr/bin/python3"])
def test_the_environments_directory_comes_first(base: str, tmp_path: Path) -> None:
    if not os.path.exists(base):
        pytest.skip(f"there is no {base}")
    home = tmp_path / "venv"
    made = subprocess.run([base, "-m", "venv", "--without-pip", str(home)], check=False)
    if made.returncode:
        pytest.skip("this python has no venv module")
    environ = {**os.environ, "PATH": f"{home}/bin:/usr/bin:/bin"}
    places = resolve(("make", "check"), tmp_path, environ)
    assert dict(places.env)["PATH"].split(":")[0] == f"{home}/bin"
    assert any(f"{home}/bin".startswith(place) for place in places.read_only)
