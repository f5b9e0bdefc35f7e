"""Hidden vectors in the sandbox: code that can't know the answer can't give it (spec 4)."""

from pathlib import Path

import pytest
from measuring import PYTEST, spec, write

from spike_mcp.core.codes import Problem
from spike_mcp.core.vectors import parse
from spike_mcp.host.vectors import VectorReport, VectorRun

pytestmark = pytest.mark.security

HONEST = """\
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from enum import Enum

def cents(value):
    return value.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)

@dataclass
class Point:
    x: int
    y: tuple

class Bag:
    def __init__(self, *items):
        self._items = list(items)
    def add(self, item):
        self._items.append(item)
        return self
    def items(self):
        return sorted(self._items)

class Colour(Enum):
    RED = 1

class TooBig(ValueError):
    pass

def make(x):
    if x > 9:
        raise TooBig(f"{x} is too big")
    return Point(x, (1.5, None, {"a": b"x"}, {1, 2}))
"""
VECTORS = """\
path = ["src"]
[[vector]]
call = "money:cents"
args = [{ decimal = "2.675" }]
expect = { decimal = "2.68" }
[[vector]]
call = "money:make"
args = [3]
expect.object = "Point"
expect.fields.x = 3
expect.fields.y.tuple = [1.5, { none = true }, { a = { bytes = "78" } }, { set = [2, 1] }]
[[vector]]
let = [{ name = "bag", call = "money:Bag", args = [2] }]
call = "money:Bag.items"
args = [{ call = "$bag.add", args = [1] }]
expect = [1, 2]
[[vector]]
let = [{ name = "bag", call = "money:Bag", args = [5] }]
call = "$bag.items"
expect = [5]
[[vector]]
call = "money:make"
kwargs = { x = 10 }
raises = "ValueError"
message = "too big"
"""


def check(code: str, tmp_path: Path, vectors: str = VECTORS) -> VectorReport:
    tree = write(tmp_path / "work", {"src/money.py": code})
    return VectorRun.start(spec(tree, PYTEST), parse(vectors)).wait()


def test_honest_code_holds_every_vector(tmp_path: Path) -> None:
    report = check(HONEST, tmp_path)
    assert report.passed, report.failures
    assert report.total == 5


@pytest.mark.parametrize(
    "code",
    [
        HONEST.replace("ROUND_HALF_EVEN)", "'ROUND_DOWN')"),
        HONEST.replace("sorted(self._items)", "self._items"),
        HONEST.replace("class TooBig(ValueError)", "class TooBig(KeyError)"),
        HONEST.replace("return Point(x,", "return Point(float(x),"),
        "import os\nos._exit(0)\n",
        "raise SystemExit(0)\n",
        HONEST + "class Equal(Decimal):\n    def __eq__(self, other): return True\n"
        "def cents(value): return Equal(value)\n",
        HONEST + "class Any:\n    def __eq__(self, other): return True\n"
        "    def __getattr__(self, name): return self\ndef cents(value): return Any()\n",
        HONEST + "import sys\nif 'pytest' not in sys.modules:\n    cents = None\n",
        HONEST + "import gc\nfor x in gc.get_objects():\n"
        "    if type(x).__name__ == 'Channel':\n        x.fd = -1\n",
        HONEST + "import gc, os\nfor x in gc.get_objects():\n"
        "    if type(x).__name__ == 'Channel':\n"
        "        x.send('result', index=0, value=['D', '2.675'])\n",
        HONEST + "l = []\nl.append(l)\ndef cents(value): return l\n",
    ],
)
def test_dishonest_code_does_not(code: str, tmp_path: Path) -> None:
    report = check(code, tmp_path)
    assert not report.passed
    assert report.failures
    assert "2.68" not in " ".join(report.failures)


def test_expected_values_never_enter_the_sandbox(tmp_path: Path) -> None:
    code = "import gc, os\ndef cents(value):\n    return str(gc.get_objects()).count('7' * 9)\n"
    vectors = '[[vector]]\ncall = "src.money:cents"\nargs = [1]\nexpect = "' + "7" * 9 + '"\n'
    report = check(code, tmp_path, vectors)
    assert not report.passed


def test_vectors_need_a_python_measurement(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"a.sh": "true"})
    with pytest.raises(Problem, match="Python"):
        VectorRun.start(spec(tree, ("sh", "a.sh")), parse(VECTORS))
