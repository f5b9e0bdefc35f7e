"""The built wheel and sdist, in empty environments of every Python there is, far from the checkout.

Each installs, says its version, finds the data that belongs to the package, and plays `spike demo`
to its end. Without the extra, `spike review` says what to install instead of a traceback.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from toolchains import interpreter

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
DATA = (
    "py.typed",
    "edge/report/report.css",
    "host/evidence/inside/node_reporter.mjs",
    "examples/retry-after/spike.toml",
    "examples/retry-after/project/tests/test_retry_after.py",
    "examples/retry-after/agent/fix.patch",
    "examples/invoice-rounding/spike.toml",
)
"""Files that are no modules and must be in every distribution, below spike_mcp/."""

pytestmark = [pytest.mark.install, pytest.mark.slow, pytest.mark.timeout(900)]


def run(*words: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A program with nothing of this checkout in its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPIKE", "VIRTUAL"))}
    env = {**kept, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **more}
    argv = [str(word) for word in words]
    return subprocess.run(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def fine(*words: object, cwd: Path, **more: str) -> str:
    """Its output; fails unless it exits with 0."""
    done = run(*words, cwd=cwd, **more)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A directory with a wheel and an sdist, built from a copy of what git knows."""
    place = tmp_path_factory.mktemp("built")
    source = place / "source"
    source.mkdir()
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    fine(sys.executable, "-m", "venv", "builder", cwd=place)
    builder = place / "builder/bin/python"
    fine(builder, "-m", "pip", "install", "-q", "build", cwd=place)
    fine(builder, "-m", "build", "--outdir", place / "dist", source, cwd=place)
    return place / "dist"


def test_wheel_and_sdist_hold_what_belongs_to_the_package(built):
    (wheel,) = built.glob("*.whl")
    (sdist,) = built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        inside = set(packed.namelist())
    with tarfile.open(sdist) as packed:
        outside = {name.partition("/")[2] for name in packed.getnames()}
    for name in DATA:
        assert f"spike_mcp/{name}" in inside
        assert f"spike_mcp/{name}" in outside
    assert not [name for name in inside if name.startswith(("tests/", "benchmarks/", "docs/"))]
    assert not [name for name in inside if "__pycache__" in name]


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("extras", ["", "[review,sandbox]"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_installed_spike_plays_its_demo(built, tmp_path, version, extras, kind):
    python = interpreter(version)
    if not python:
        pytest.skip(f"there is no Python {version} here")
    if kind == "sdist" and (extras or version != VERSIONS[0]):
        pytest.skip("an sdist becomes the same wheel: once is enough")
    (package,) = built.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    fine(python, "-m", "venv", "env", cwd=tmp_path)
    bin_ = tmp_path / "env/bin"
    fine(bin_ / "python", "-m", "pip", "install", "-q", f"{package}{extras}", cwd=tmp_path)
    fine(bin_ / "python", "-m", "pip", "install", "-q", "pytest", cwd=tmp_path)
    fine(bin_ / "python", "-m", "pip", "check", cwd=tmp_path)

    home = {"HOME": str(tmp_path / "home"), "SPIKE_HOME": str(tmp_path / "spikes")}
    (tmp_path / "home").mkdir()
    for program in ("spike", "spike-mcp", "spike-referee"):
        assert fine(bin_ / program, "--version", cwd=tmp_path, **home).strip()
    told = fine(bin_ / "spike", "demo", cwd=tmp_path, **home)
    assert "SHIP" in told, told[-3000:]
    where = fine(bin_ / "python", "-c", "import spike_mcp; print(spike_mcp.__file__)", cwd=tmp_path)
    assert where.startswith(str(tmp_path)), "the checkout was used"

    if not extras:
        spike = re.search(r"spike --spike (\S+) log", told)
        assert spike is not None, told[-3000:]
        shown = on_terminal([bin_ / "spike", "--spike", spike[1], "review"], b"q\n", home)
        assert "[review]" in re.sub(r"\s+", "", shown), shown
        assert "Traceback" not in shown


def on_terminal(argv: list[object], keys: bytes, more: dict[str, str]) -> str:
    """What a program shows on a terminal of its own when these keys are typed."""
    theirs, ours = pty.openpty()
    env = {"PATH": "/usr/bin:/bin", "TERM": "xterm", "COLUMNS": "200", **more}
    process = subprocess.Popen(
        [str(word) for word in argv], stdin=ours, stdout=ours, stderr=ours, env=env, close_fds=True
    )
    os.close(ours)
    os.write(theirs, keys)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other side is gone
        while chunk := os.read(theirs, 1 << 16):
            shown += chunk
    os.close(theirs)
    assert process.wait(60) == 0
    return shown.decode("utf-8", "replace")
