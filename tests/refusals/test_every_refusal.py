"""Every refusal there is, through the real server or command line: told properly, ledgered once,
and nothing else changed (spec 6)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refusal_cases import CASES, ODD
from refusal_world import Scene, open_scene
from support import INVOICE, INVOICE_HYPOTHESIS, PLAIN
from wire import CLOCKED

from spike_mcp.core.codes import Refusal, Usage

pytestmark = pytest.mark.security

NOT_DRIVEN: dict[Refusal | Usage, str] = {}
"""Codes that no request can bring about from outside, and why."""

_FLAKY = "sleep 1\nexit $(( $(date +%s) % 100 + 1 ))\n"
_SKIPPED = "import pytest\n\n\ndef test_rounding():\n    pytest.skip('later')\n"
_ELSEWHERE = (
    "import pathlib, sys\n\n\ndef test_rounding():\n"
    "    pathlib.Path('/tmp/invoice.py').write_text('')\n"
    "    sys.path.insert(0, '/tmp')\n"
    "    import invoice\n"
    "    assert invoice.round_money(1) == 1\n"
)
_BY_PYTEST: dict[str, Any] = {
    "hypothesis": INVOICE_HYPOTHESIS,
    "allow": ("invoice.py",),
    "oracle": ("tests/test_invoice.py",),
    "argv": (),
}
_SPIKES: dict[str, tuple[dict[str, str | bytes], bool, dict[str, Any]]] = {
    "odd": (ODD, True, {}),
    "decided": (ODD, True, {}),
    "signed": (ODD, True, {"passphrase": "correct horse"}),
    "narrow": (
        {**ODD, "src/once.txt": "same\n"},
        True,
        {"budgets": {"max_pending": 1, "max_runs": 1, "max_refusals": 8}},
    ),
    "timed": (ODD, False, {}),
    "closing": (ODD, True, {}),
    "damaged": (ODD, True, {}),
    "setup": (PLAIN, False, {"setup": ("sh", "-c", "echo no compiler; exit 3")}),
    "green": ({**PLAIN, "check.sh": "exit 0\n"}, False, {}),
    "flaky": ({**PLAIN, "check.sh": _FLAKY}, False, {}),
    "skipped": ({**INVOICE, "tests/test_invoice.py": _SKIPPED}, False, _BY_PYTEST),
    "elsewhere": ({**INVOICE, "tests/test_invoice.py": _ELSEWHERE}, False, _BY_PYTEST),
}
"""Kind of spike -> (baseline, started?, options)."""


class Scenes:
    """The spikes of this file, opened when first needed."""

    def __init__(self, base: Path, patch: pytest.MonkeyPatch) -> None:
        self._base, self._patch, self._path = base, patch, os.environ["PATH"]
        self._open: dict[str, Scene] = {}

    def of(self, name: str) -> Scene:
        """The spike of this kind."""
        files, started, options = _SPIKES[name]
        # A plain command seals every toolchain on PATH that it might start: few are enough.
        path = self._path if options is _BY_PYTEST else "/usr/bin:/bin"
        self._patch.setenv("PATH", path)
        if name not in self._open:
            where = self._base / name
            where.mkdir()
            opened = open_scene(where, files, started=started, **options)
            timed = (CLOCKED, (str(where / "shift"),)) if name == "timed" else ()
            self._open[name] = Scene(opened, *timed)
            if started:
                # The session's own row is no part of a refusal.
                self._open[name].server.call("spike_status")
        return self._open[name]

    def close(self) -> None:
        """End all servers."""
        for scene in self._open.values():
            scene.close()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    with pytest.MonkeyPatch.context() as patch:
        found = Scenes(tmp_path_factory.mktemp("refusals"), patch)
        patch.delenv("SPIKE", raising=False)
        patch.setenv("SPIKE_HOME", str(tmp_path_factory.mktemp("spikes")))
        yield found
        found.close()


def test_every_code_has_a_case() -> None:
    codes = {*Refusal, *Usage}
    assert set(CASES) | set(NOT_DRIVEN) == codes, codes - set(CASES) - set(NOT_DRIVEN)
    assert not set(CASES) & set(NOT_DRIVEN)
    assert {spike for spike, _drive in CASES.values()} == set(_SPIKES)


@pytest.mark.parametrize("code", CASES, ids=str)
def test_a_refusal_is_told_ledgered_once_and_changes_nothing(
    code: Refusal | Usage, scenes: Scenes
) -> None:
    spike, drive = CASES[code]
    drive(scenes.of(spike))
