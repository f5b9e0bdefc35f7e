"""This checkout's `spike` under a small Python that holds pytest alone.

A demo, a walkthrough and the README's commands are whole spikes: what their measurement loads is
sealed, and must not be the environment that the developer changes meanwhile.
"""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest
from slim import shared_directory, slim_environment

CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Alone:
    """`bin` holds the python (a `spike` script too) that `env` makes find this checkout."""

    bin: Path
    env: dict[str, str]

    @property
    def python(self) -> str:
        """The interpreter's path."""
        return str(self.bin / "python")


def alone(factory: pytest.TempPathFactory, home: Path) -> Alone:
    """The environment, made once a session; `home` = an empty HOME of the caller's."""
    place = slim_environment(shared_directory(factory) / "alone")
    script = place / "spike"
    if not script.exists():
        part = place / f"spike-{os.getpid()}"
        part.write_text(
            f"#!{place}/python\nimport sys\nfrom spike_mcp.edge.cli import main\nsys.exit(main())\n"
        )
        part.chmod(0o755)
        part.rename(script)
    home.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPIKE", "GIT_", "PYTEST"))}
    env = {
        **kept,
        "HOME": str(home),
        "PATH": f"{place}{os.pathsep}{os.environ['PATH']}",
        # Not through a .pth file: the measurement's own environment must not see these.
        "PYTHONPATH": os.pathsep.join((str(CHECKOUT), sysconfig.get_paths()["purelib"])),
        "NO_COLOR": "1",
    }
    env.pop("COLUMNS", None)
    return Alone(place, env)
