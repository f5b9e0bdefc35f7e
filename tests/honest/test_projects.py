"""Honest projects go from red to SHIP with nothing of theirs changed.

Plugins, `asyncio_mode`, `pythonpath`, coverage, warnings as errors, subtests, table tests,
doctests, nested suites: the runner's evidence must take them as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judge_cases import Case
from judge_player import Played, Player
from projects import PROJECTS, SRC_PROJECT
from slim import shared_directory, slim_environment

pytestmark = [pytest.mark.security, pytest.mark.slow]

PathOf = Callable[[str], str]


@pytest.fixture(scope="session")
def plugin_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the plugins these projects use, shared by all workers."""
    where = shared_directory(tmp_path_factory) / "plugins"
    return slim_environment(
        where,
        ("pytest", "hypothesis", "pytest-xdist", "pytest-timeout"),
        fetched=("pytest-asyncio>=1", "pytest-cov>=6"),
    )


def marked(raw: dict[str, Any]) -> object:
    """Projects that need a compiler carry a mark of their own."""
    marks = [pytest.mark.toolchain] if raw["lang"] in ("go", "rust") else []
    return pytest.param(raw, marks=marks, id=raw["id"])


@pytest.mark.parametrize("raw", [marked(raw) for raw in PROJECTS])
def test_red_to_ship(
    raw: dict[str, Any], tmp_path: Path, human_path: PathOf, plugin_bin: Path
) -> None:
    case = Case(raw, given=False)
    path = human_path(case.tool)
    if "plugins" in raw:
        path = os.pathsep.join([str(plugin_bin), path])
    check(Player(case, tmp_path, path).play(), raw["evidence"])


def check(played: Played, evidence: str) -> None:
    """SHIP, with the evidence that the runner gives, and no step refused."""
    story = json.dumps(played.row(), indent=1)
    assert played.ships, story
    assert not played.refused + played.failed + played.broken, story
    assert played.final["evidence"] == evidence, story
    assert played.runs == ["passed"], story


@pytest.mark.parametrize("style", ["path", "finder"])
def test_an_editable_install_of_the_main_checkout(
    style: str, tmp_path: Path, human_path: PathOf
) -> None:
    """B37: the tests import the tree under test, not the checkout that is installed."""
    case = Case(SRC_PROJECT, given=False)
    bin_ = slim_environment(tmp_path / "env")
    (packages,) = (bin_.parent / "lib").glob("python3*/site-packages")
    install(packages, tmp_path / "repo", style)
    path = os.pathsep.join([str(bin_), human_path("")])
    check(Player(case, tmp_path, path).play(), "pytest")


FINDER = """\
import importlib.util
import sys

MAPPING = {{"acme": "{package}"}}


class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in MAPPING:
            return None
        places = [MAPPING[name]]
        init = MAPPING[name] + "/__init__.py"
        return importlib.util.spec_from_file_location(
            name, init, submodule_search_locations=places
        )


def install():
    sys.meta_path.append(Finder)
"""


def install(packages: Path, repo: Path, style: str) -> None:
    """What an editable install leaves behind, in either of the two forms in use."""
    if style == "path":
        (packages / "__editable__.acme-1.0.pth").write_text(f"{repo}/src\n")
    else:
        module = "__editable___acme_1_0_finder"
        (packages / f"{module}.py").write_text(FINDER.format(package=f"{repo}/src/acme"))
        (packages / "__editable__.acme-1.0.pth").write_text(f"import {module}; {module}.install()")
    info = packages / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    url = {"dir_info": {"editable": True}, "url": repo.as_uri()}
    (info / "direct_url.json").write_text(json.dumps(url))
