"""Which clients a test run takes, and the spike they play in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from client_programs import NotInstalledError, node_bin, program
from support import Open, open_plain


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clients: drives a real agent client from a registry")
    config.addinivalue_line("markers", "heavy: such a client that takes longer; only -m clients")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The heavy clients are driven when clients are asked for (`make test-clients`)."""
    if "clients" in config.option.markexpr:
        return
    heavy = [item for item in items if item.get_closest_marker("heavy")]
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item not in heavy]


@pytest.fixture
def installed(player) -> Iterator[Path]:
    """The player's program, in PATH as a human would have it."""
    try:
        found = program(player.name)
    except NotInstalledError as error:
        pytest.skip(f"{player.name} can't be installed: {error}")
    places = (str(found.parent), str(node_bin()), os.environ["PATH"])
    variables = dict.fromkeys(player.env, "")
    with patch.dict(os.environ, {**variables, "PATH": os.pathsep.join(places)}):
        yield found


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """A started spike."""
    return open_plain(tmp_path)
