"""Projects as people have them, each with a failing test and the honest fix of it.

Their own configuration, plugins and habits stand in their own files; the fix touches only what the
hypothesis is about.
"""

from __future__ import annotations

from typing import Any

PYTEST = {
    "pyproject.toml": """\
[project]
name = "shop"
version = "1.0"

[tool.pytest.ini_options]
minversion = "8"
addopts = "-ra --strict-markers --strict-config --cov=shop --cov-report=term-missing"
asyncio_mode = "auto"
asyncio_default_fixture_loop_scope = "function"
pythonpath = ["lib"]
filterwarnings = ["error"]
xfail_strict = true
markers = ["prices: everything about prices"]

[tool.coverage.run]
branch = true
source = ["shop"]

[tool.coverage.report]
fail_under = 50
""",
    "conftest.py": """\
import pytest


def pytest_addoption(parser):
    parser.addoption("--currency", default="EUR")


@pytest.fixture(scope="session")
def currency(request):
    return request.config.getoption("--currency")


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    monkeypatch.setenv("SHOP_MODE", "test")
""",
    "lib/shop/__init__.py": '"""A shop."""\n',
    "lib/shop/prices.py": """\
import asyncio
import json
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


def total(items):
    return sum(price for price, _count in items)


async def total_later(items):
    await asyncio.sleep(0)
    return total(items)


def save(path: Path, items):
    path.write_text(json.dumps({"total": total(items), "mode": os.environ["SHOP_MODE"]}))
    log.info("saved %s", path.name)
""",
    "tests/conftest.py": """\
import pytest_asyncio


@pytest_asyncio.fixture
async def basket():
    yield [(100, 2), (50, 1)]
""",
    "tests/helpers.py": "def pairs(*numbers):\n    return list(zip(numbers[::2], numbers[1::2]))\n",
    "tests/test_prices.py": """\
import json
import sys

import pytest
from helpers import pairs

from shop import prices

pytestmark = pytest.mark.prices


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param(pairs(100, 2), 200, id="two of one"),
        pytest.param(pairs(100, 2, 50, 1), 250, id="mixed: ü/[x]"),
    ],
)
def test_total(items, expected):
    assert prices.total(items) == expected


async def test_total_later(basket):
    assert await prices.total_later(basket) == 250


def test_save(tmp_path, monkeypatch, caplog, currency):
    caplog.set_level("INFO")
    monkeypatch.chdir(tmp_path)
    prices.save(tmp_path / "out.json", [(10, 3)])
    assert json.loads((tmp_path / "out.json").read_text()) == {"total": 30, "mode": "test"}
    assert "saved out.json" in caplog.text
    assert currency == "EUR"


class TestMore:
    @pytest.fixture
    def one(self):
        return [(7, 1)]

    def test_one(self, one, capsys):
        print(prices.total(one))
        assert capsys.readouterr().out == "7\\n"

    @pytest.mark.skipif(sys.platform == "linux", reason="elsewhere only")
    def test_elsewhere(self):
        raise AssertionError

    @pytest.mark.xfail(reason="not yet", raises=ZeroDivisionError)
    def test_not_yet(self):
        1 / 0
""",
}
PYTEST_FIX = PYTEST["lib/shop/prices.py"].replace(
    "sum(price for price, _count in items)", "sum(price * count for price, count in items)"
)

MORE_PLUGINS = {
    "setup.cfg": """\
[tool:pytest]
addopts = -n 2 --dist loadscope --timeout=120 --junitxml=report.xml --durations=3
usefixtures = quiet
""",
    "tests/conftest.py": """\
import pytest

pytest_plugins = ["tests.plugin"]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.name, reverse=True)


@pytest.fixture
def quiet(capsys):
    yield
    capsys.readouterr()
""",
    "tests/__init__.py": "",
    "tests/plugin.py": """\
import pytest


@pytest.fixture
def factory():
    return list


def pytest_assertrepr_compare(op, left, right):
    return [f"{left!r} is not {right!r}"] if op == "==" else None
""",
    "calc.py": "def double(x):\n    return x + x if x >= 0 else x\n",
    "tests/test_calc.py": """\
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from calc import double


@settings(max_examples=20, deadline=None)
@given(st.integers(-100, 100))
def test_halves(x):
    assert double(x) // 2 == x
    assert double(21) == 42


def test_factory(factory):
    assert [double(x) for x in factory((1, -2))] == [2, -4]


class TestOld(unittest.TestCase):
    def setUp(self):
        self.values = {}

    def test_old(self):
        for x in (0, -1):
            with self.subTest(x=x):
                self.values[x] = double(x)
        self.assertEqual(self.values, {0: 0, -1: -2})
""",
}

SRC_LAYOUT = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "acme"
version = "1.0"

[tool.pytest.ini_options]
addopts = "--import-mode=importlib"
testpaths = ["tests"]
""",
    "src/acme/__init__.py": "from acme.core import shout\n\n__all__ = ['shout']\n",
    "src/acme/core.py": "def shout(text):\n    return text\n",
    "tests/unit/test_core.py": """\
import acme


def test_shout():
    assert acme.shout("ship it") == "SHIP IT!"
""",
}

UNITTEST = {
    "bank/__init__.py": "",
    "bank/account.py": """\
class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def withdraw(self, amount):
        self.balance -= amount
        return self.balance
""",
    "tests/__init__.py": "",
    "tests/base.py": """\
import unittest


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.opening = 100
""",
    "tests/test_account.py": """\
import asyncio
import unittest
from unittest import mock

from bank.account import Account
from tests.base import Base


class TestWithdraw(Base):
    def setUp(self):
        self.account = Account(self.opening)
        self.addCleanup(mock.patch.stopall)

    def test_amounts(self):
        for amount in (1, 50, 100):
            with self.subTest(amount=amount):
                self.assertEqual(Account(100).withdraw(amount), 100 - amount)

    def test_not_below_nothing(self):
        with self.assertRaisesRegex(ValueError, "not enough"):
            self.account.withdraw(101)
        self.assertEqual(self.account.balance, 100)

    @unittest.skip("needs the bank's network")
    def test_network(self):
        self.fail()

    @unittest.expectedFailure
    def test_known_gap(self):
        self.assertEqual(self.account.balance, -1)


class TestLater(unittest.IsolatedAsyncioTestCase):
    async def test_many(self):
        account = Account(3)
        await asyncio.gather(*(asyncio.to_thread(account.withdraw, 1) for _ in range(3)))
        self.assertEqual(account.balance, 0)
""",
}
UNITTEST_FIX = UNITTEST["bank/account.py"].replace(
    "        self.balance -=",
    '        if amount > self.balance:\n            raise ValueError("not enough money")\n'
    "        self.balance -=",
)

GO = {
    "go.mod": "module example.test/shop\n\ngo 1.19\n",
    "cmd/shop/main.go": """\
package main

import (
	"fmt"

	"example.test/shop/internal/price"
)

func main() { fmt.Println(price.Total(nil)) }
""",
    "internal/price/price.go": """\
// Package price adds things up.
package price

// Item is a price in cents and a count.
type Item struct{ Cents, Count int }

// Total is what all items cost.
func Total(items []Item) int {
	sum := 0
	for _, item := range items {
		sum += item.Cents
	}
	return sum
}
""",
    "internal/price/testdata/basket.json": (
        '[{"Cents": 100, "Count": 2}, {"Cents": 50, "Count": 1}]\n'
    ),
    "internal/price/price_test.go": """\
package price

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestTotal(t *testing.T) {
	for name, test := range map[string]struct {
		items []Item
		want  int
	}{
		"nothing":    {nil, 0},
		"two of one": {[]Item{{100, 2}}, 200},
	} {
		name, test := name, test // before Go 1.22 all rounds share the loop's variables
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Total(test.items); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestBasket(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "basket.json"))
	if err != nil {
		t.Fatal(err)
	}
	var items []Item
	if err := json.Unmarshal(data, &items); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), "out"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Total(items); got != 250 {
		t.Errorf("got %d", got)
	}
}

func TestElsewhere(t *testing.T) { t.Skip("needs a network") }

func BenchmarkTotal(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Total(nil)
	}
}

func ExampleTotal() {
	fmt.Println(Total([]Item{{1, 3}}))
	// Output: 3
}
""",
}
GO_FIX = GO["internal/price/price.go"].replace("item.Cents\n", "item.Cents * item.Count\n")

CARGO = {
    "Cargo.toml": """\
[package]
name = "shop"
version = "0.1.0"
edition = "2021"

[features]
default = ["loud"]
loud = []

[profile.test]
opt-level = 0
""",
    "Cargo.lock": """\
# This file is automatically @generated by Cargo.
# It is not intended for manual editing.
version = 3

[[package]]
name = "shop"
version = "0.1.0"
""",
    "build.rs": 'fn main() { println!("cargo:rerun-if-changed=build.rs"); }\n',
    "src/lib.rs": """\
//! Adds things up.
pub mod price;

/// A greeting.
///
/// ```
/// assert_eq!(shop::hello(), "hello");
/// ```
pub fn hello() -> &'static str {
    "hello"
}
""",
    "src/price.rs": """\
/// What all items, pairs of cents and count, cost.
pub fn total(items: &[(i64, i64)]) -> i64 {
    items.iter().map(|(cents, _count)| cents).sum()
}

/// As text.
///
/// ```
/// assert_eq!(shop::price::shown(250), "2.50");
/// ```
pub fn shown(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_costs_nothing() {
        assert_eq!(super::total(&[]), 0);
    }
}
""",
    "src/main.rs": 'fn main() { println!("{}", shop::hello()); }\n',
    "tests/common/mod.rs": "pub fn basket() -> Vec<(i64, i64)> { vec![(100, 2), (50, 1)] }\n",
    "tests/total.rs": """\
mod common;

#[test]
fn basket() {
    assert_eq!(shop::price::total(&common::basket()), 250);
}

#[test]
#[should_panic(expected = "attempt to")]
fn overflow() {
    shop::price::total(&[(i64::MAX, 2)]);
}

#[test]
#[ignore = "slow"]
fn slow() {
    panic!();
}

#[test]
fn result() -> Result<(), std::num::ParseIntError> {
    assert_eq!(shop::price::total(&[("3".parse()?, 1)]), 3);
    Ok(())
}
""",
}
CARGO_FIX = CARGO["src/price.rs"].replace(
    "    items.iter().map(|(cents, _count)| cents).sum()",
    "    // Each item counts as often as it was taken.\n"
    "    items.iter().map(|(cents, count)| cents * count).sum()",
)

NODE = {
    "package.json": """\
{
  "name": "shop",
  "version": "1.0.0",
  "private": true,
  "type": "module",
  "scripts": {"pretest": "node scripts/check.mjs", "test": "node --test test/"}
}
""",
    "scripts/check.mjs": "if (!process.version) process.exit(1);\n",
    "lib/price.js": """\
export function total(items) {
  return items.reduce((sum, item) => sum + item.cents, 0);
}

export async function later(items) {
  await new Promise((resolve) => setTimeout(resolve, 1));
  return total(items);
}
""",
    "test/fixtures/basket.json": '[{"cents": 100, "count": 2}, {"cents": 50, "count": 1}]\n',
    "test/price.test.js": """\
import assert from 'node:assert/strict';
import { readFile, writeFile, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, before, after, mock } from 'node:test';
import { later, total } from '../lib/price.js';

describe('prices', () => {
  let basket;
  before(async () => {
    const url = new URL('./fixtures/basket.json', import.meta.url);
    basket = JSON.parse(await readFile(url, 'utf8'));
  });
  after(() => mock.reset());

  it('costs nothing', () => assert.equal(total([]), 0));
  it('adds up', () => assert.equal(total(basket), 250));
  it('adds up later', async () => assert.equal(await later(basket), 250));
  it('writes', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'shop-'));
    await writeFile(join(dir, 'out'), String(total([{ cents: 3, count: 1 }])));
    assert.equal(await readFile(join(dir, 'out'), 'utf8'), '3');
  });
  it('is for later', { todo: true }, () => {});
  it('needs a network', { skip: 'no network' }, () => assert.fail());
});
""",
}
NODE_FIX = NODE["lib/price.js"].replace("item.cents,", "item.cents * item.count,")


def project(
    name: str,
    lang: str,
    files: dict[str, str],
    fix: dict[str, str],
    oracle: str,
    measure: str,
    **more: Any,
) -> dict[str, Any]:
    """A case of the shape that the corpus has, with one honest fix."""
    return {
        "id": name,
        "title": name,
        "kind": "control",
        "cls": "project",
        "lang": lang,
        "allowed": list(fix),
        "oracle": [oracle],
        "measure": measure.split(),
        "hypothesis": "counting each item makes the tested sum true within 60 minutes, "
        f"measured by {measure}",
        "baseline": files,
        "writes": [{"path": path, "content": text} for path, text in fix.items()],
        "expected": "SHIP",
        **more,
    }


PROJECTS = [
    project(
        *("pytest-module", "python", PYTEST, {"lib/shop/prices.py": PYTEST_FIX}),
        *("tests/test_prices.py", "python -m pytest tests/test_prices.py -q"),
        plugins=("pytest", "pytest-asyncio", "pytest-cov"),
        evidence="pytest",
    ),
    project(
        *("pytest-script", "python", PYTEST, {"lib/shop/prices.py": PYTEST_FIX}),
        *("tests/test_prices.py", "pytest -q -W error"),
        plugins=("pytest", "pytest-asyncio", "pytest-cov"),
        evidence="pytest",
    ),
    project(
        *("pytest-plugins", "python", MORE_PLUGINS),
        {"calc.py": "def double(x):\n    return x + x\n"},
        *("tests/test_calc.py", "python -m pytest tests"),
        plugins=("pytest", "hypothesis", "pytest-xdist", "pytest-timeout"),
        evidence="pytest",
    ),
    project(
        *("unittest-discover", "python", UNITTEST, {"bank/account.py": UNITTEST_FIX}),
        *("tests/test_account.py", "python -m unittest discover -s tests -t ."),
        evidence="unittest",
    ),
    project(
        *("unittest-name", "python", UNITTEST, {"bank/account.py": UNITTEST_FIX}),
        *("tests/test_account.py", "python -W error -m unittest -v tests.test_account"),
        evidence="unittest",
    ),
    project(
        *("go-module", "go", GO, {"internal/price/price.go": GO_FIX}),
        *("internal/price/price_test.go", "go test ./..."),
        evidence="go",
    ),
    project(
        *("cargo-crate", "rust", CARGO, {"src/price.rs": CARGO_FIX}),
        *("tests/total.rs", "cargo test --offline --no-fail-fast -q"),
        evidence="cargo",
    ),
    project(
        *("node-project", "node", NODE, {"lib/price.js": NODE_FIX}),
        *("test/price.test.js", "node --test test/"),
        evidence="node",
    ),
    project(
        *("npm-project", "node", NODE, {"lib/price.js": NODE_FIX}),
        *("test/price.test.js", "npm test --silent"),
        evidence="exit_code",
    ),
]
SRC_PROJECT = project(
    *("src-layout", "python", SRC_LAYOUT),
    {"src/acme/core.py": 'def shout(text):\n    return f"{text.upper()}!"\n'},
    *("tests/unit/test_core.py", "python -m pytest -q"),
    evidence="pytest",
)
