"""What the benchmark compares, installed into `build/peers/`: this project too, as users have it.

Every Python peer gets a virtual environment of its own, so that no peer's pins decide what another
one runs on. Versions are pinned: a table is only worth its date if it can be made again. A checkout
that is run in place has an import hook and no bytecode, which no user pays for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TOP = HERE / "build" / "peers"
OURS = TOP / "ours"
FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
PYTHON_PEERS = {
    "fastmcp": "fastmcp==4.2.3",
    "mcp-server-git": "mcp-server-git==2026.10.19",
    "coding-tools-mcp": "coding-tools-mcp==0.5.0",
    "plot": "matplotlib==3.10.8",
}


@dataclass(frozen=True)
class Peers:
    """Command lines of the peers; `missing` says why one is not there."""

    python: dict[str, str]
    node: str
    filesystem: str
    missing: dict[str, str]


def install_ours() -> str:
    """Install this checkout, as it is now, with what a run needs; the environment's Python."""
    program = OURS / "bin" / "python"
    if not program.is_file():
        _run([sys.executable, "-m", "venv", "--clear", str(OURS)])
    print("installing this checkout", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as place:
        # A copy: setuptools takes along whatever an older build has left in the tree.
        source = Path(place, "source")
        source.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(HERE / name, source / name)
        shutil.copytree(
            HERE / "spike_mcp", source / "spike_mcp", ignore=shutil.ignore_patterns("__pycache__")
        )
        pip = [str(program), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run([*pip, f"{source}[review,sandbox]", "pytest>=9"])
        _run([*pip, "--no-deps", "--force-reinstall", str(source)])
    return str(program)


def install() -> Peers:
    """Install what is not there yet; a peer that can't be had is left out and named."""
    TOP.mkdir(parents=True, exist_ok=True)
    python: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name, package in PYTHON_PEERS.items():
        try:
            python[name] = _python(name, package)
        except (subprocess.CalledProcessError, OSError) as error:
            missing[name] = f"{package} could not be installed ({error})"
    node = shutil.which("node") or ""
    filesystem = ""
    try:
        filesystem = _filesystem()
    except (subprocess.CalledProcessError, OSError) as error:
        missing["server-filesystem"] = f"{FILESYSTEM} could not be installed ({error})"
    return Peers(python, node, filesystem, missing)


def _python(name: str, package: str) -> str:
    where = TOP / name
    done, program = where / ".installed", where / "bin" / "python"
    if done.is_file() and done.read_text() == package:
        return str(program)
    print(f"installing {package}", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", "--clear", str(where)])
    _run([str(program), "-m", "pip", "install", "-q", "--disable-pip-version-check", package])
    done.write_text(package)
    return str(program)


def _filesystem() -> str:
    where = TOP / "npm"
    program = where / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    done = where / ".installed"
    if not (done.is_file() and done.read_text() == FILESYSTEM and program.is_file()):
        print(f"installing {FILESYSTEM}", file=sys.stderr, flush=True)
        where.mkdir(parents=True, exist_ok=True)
        _run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(where), FILESYSTEM])
        done.write_text(FILESYSTEM)
    return str(program)


def _run(argv: list[str]) -> None:
    """Run an installer; what it says is shown only if it fails."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True, errors="replace")
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()
