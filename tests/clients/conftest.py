"""Which clients a test run takes, and the spike they play in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from client_programs import NotInstalledError, node_bin, program
from support import Open, open_plain


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
