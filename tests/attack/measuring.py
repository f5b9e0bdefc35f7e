"""Helpers of the tests that really run something in the sandbox."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spike_mcp.core.runners import detect
from spike_mcp.host.measure import Run, RunResult, RunSpec
from spike_mcp.host.resolve import resolve
from spike_mcp.host.sandbox.model import Limits

# pytest without the slow plugins of this project's own environment.
QUIET = tuple(
    word
    for name in ("hypothesispytest", "anyio", "xdist", "timeout", "cacheprovider")
    for word in ("-p", f"no:{name}")
)
PYTEST = (sys.executable, "-m", "pytest", "-q", *QUIET)


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Lay out a tree."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def spec(tree: Path, argv: Sequence[str], **changes: Any) -> RunSpec:
    """A run of `argv` in `tree`, shown at its own path unless `mount_at` says otherwise."""
    at = changes.pop("mount_at", (str(tree),))
    environ = changes.pop("environ", dict(os.environ))
    wall = changes.pop("wall", 60.0)
    limits = changes.pop("limits", Limits(wall_seconds=wall))
    places = resolve(argv, tree, environ, at)
    return RunSpec(
        tree=tree, mount_at=at, places=places, runner=detect(argv), limits=limits, **changes
    )


def measure(tree: Path, argv: Sequence[str], **changes: Any) -> RunResult:
    """Run it and wait."""
    return Run.start(spec(tree, argv, **changes)).wait()


def shell(tree: Path, script: str, **changes: Any) -> RunResult:
    """Run a shell script in the sandbox."""
    return measure(tree, ("sh", "-c", script), **changes)


def output(result: RunResult) -> str:
    """All that was kept of what it printed."""
    return (result.head + result.tail).decode("utf-8", "replace")


def alive(marker: str) -> list[str]:
    """Process ids whose command line holds `marker`, this process aside."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            line = Path("/proc", name, "cmdline").read_bytes()
            state = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in line and state != "Z":
            found.append(name)
    return found
