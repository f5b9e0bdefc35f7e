"""The HTML report in a real browser: it renders, and nothing is loaded or run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import open_plain

from spike_mcp.edge.report import make_report, to_html
from spike_mcp.session import decisions
from spike_mcp.session.view import hunk_map

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui"))
from hostile import CORPUS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def browse(tmp_path: Path, page: Path, *more: str) -> str:
    profile = tmp_path / "profile"
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", *more, page.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
    return done.stdout.decode("utf-8", "replace")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    opened = open_plain(tmp_path)
    attack = CORPUS["html"] + CORPUS["entity"]
    opened.edit("src/a.py", "two\n", f"two for callers {attack}\n", why=attack)
    hunk = hunk_map(opened.spike).hunks[0]
    decisions.approve(opened.spike, [hunk.id], f"callers see {attack}", acks=["all"])
    path = tmp_path / "report.html"
    path.write_text(to_html(make_report(opened.spike)), "utf-8")
    return path


def test_it_renders_as_a_picture(tmp_path: Path, page: Path) -> None:
    picture = tmp_path / "report.png"
    browse(tmp_path, page, "--window-size=1000,1400", f"--screenshot={picture}")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 20_000


def test_hostile_text_is_text_in_the_page(tmp_path: Path, page: Path) -> None:
    tree = browse(tmp_path, page, "--dump-dom")
    assert "<script>alert" not in tree
    assert "&lt;script&gt;alert(1)" in tree
    assert '<svg class="timeline"' in tree
    assert "callers see" in tree
