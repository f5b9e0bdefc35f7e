"""docs/walkthrough.md is what playing the story gives today."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from alone import CHECKOUT, alone


@pytest.mark.e2e
@pytest.mark.slow
def test_playing_the_walkthrough_again_gives_the_same_page(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = alone(tmp_path_factory, tmp_path / "home")
    done = subprocess.run(
        [here.python, str(CHECKOUT / "docs" / "make_walkthrough.py"), "--check"],
        env=here.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, f"make walkthrough writes it anew:\n{done.stdout}{done.stderr}"


def test_the_page_names_no_place_of_the_machine_that_made_it() -> None:
    page = (CHECKOUT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    for place in ("/tmp/", "/home/", "/root/", "/usr/", str(CHECKOUT)):
        assert place not in page
