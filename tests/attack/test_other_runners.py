"""go, cargo, node and plain commands in the sandbox: offline, writable tree, honest ids (spec 11).

These need the toolchains; CI, which has them, fails where one is skipped.
"""

import os
from pathlib import Path

import pytest
from measuring import measure, output, write
from toolchains import needs

from spike_mcp.core.codes import Isolation
from spike_mcp.host.evidence import RunOutcome, pins_of, red_ids

pytestmark = pytest.mark.security

GO = {
    "go.mod": "module example.test/calc\n\ngo 1.19\n",
    "calc.go": "package calc\n\nfunc Half(x int) int { return x / 2 }\n",
    "calc_test.go": 'package calc\n\nimport "testing"\n\n'
    'func TestGood(t *testing.T) {\n\tif Half(4) != 2 {\n\t\tt.Fatal("x")\n\t}\n}\n\n'
    "func TestSkip(t *testing.T) { t.Skip() }\n",
    ".git": "gitdir: /nowhere/worktrees/x\n",
}
RUST = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "pub fn half(x: i64) -> i64 { x / 2 }\n",
    "tests/half.rs": "#[test]\nfn good() { assert_eq!(calc::half(4), 2); }\n",
}
NODE = {
    "lib/calc.js": "module.exports = { half: (x) => x / 2 };\n",
    "test/calc.test.js": "const test = require('node:test');\n"
    "const assert = require('node:assert');\nconst { half } = require('../lib/calc.js');\n"
    "test('good', () => assert.strictEqual(half(4), 2));\n"
    "test('group', async (t) => { await t.test('inner', () => assert.ok(half(2))); });\n"
    "test('waits', { skip: true }, () => {});\n",
}
COMMANDS = {
    "go": (GO, ("go", "test", "./..."), "calc.go", "x / 2", "x / 3"),
    "cargo": (RUST, ("cargo", "test", "--offline", "-q"), "src/lib.rs", "x / 2", "x / 3"),
    "node": (NODE, ("node", "--test", "test/"), "lib/calc.js", "x / 2", "x / 3"),
}
IDS = {
    "go": {"example.test/calc::TestGood": "passed", "example.test/calc::TestSkip": "skipped"},
    "cargo": {"good": "passed"},
    "node": {
        "test/calc.test.js::good": "passed",
        "test/calc.test.js::group": "passed",
        "test/calc.test.js::group::inner": "passed",
        "test/calc.test.js::waits": "skipped",
    },
}
BREAK = {
    "go": ("calc.go", "package calc\n\nfunc Half(x int) int { return \n"),
    "cargo": ("src/lib.rs", "pub fn half(x: i64) -> i64 { \n"),
    "node": ("test/calc.test.js", "const = ;\n"),
}
EXIT = {
    "go": (
        "calc.go",
        'package calc\n\nimport "os"\n\nfunc init() { os.Exit(0) }\n\n'
        "func Half(x int) int { return x }\n",
    ),
    "cargo": ("src/lib.rs", "pub fn half(_: i64) -> i64 { std::process::exit(0) }\n"),
    "node": ("lib/calc.js", "process.exit(0);\n"),
}


@pytest.fixture(params=sorted(COMMANDS))
def runner(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    needs(name)
    return name


@pytest.fixture
def tree(runner: str, tmp_path: Path) -> Path:
    return write(tmp_path / "work", COMMANDS[runner][0])


def test_a_pass_has_its_ids(runner: str, tree: Path) -> None:
    before = sorted(str(path) for path in tree.rglob("*"))
    result = measure(tree, COMMANDS[runner][1], wall=120.0)
    assert result.outcome is RunOutcome.PASSED, output(result)
    assert dict(result.evidence.outcomes) == IDS[runner]
    assert result.evidence.kind == runner
    assert result.evidence.detail
    pins = pins_of(result.evidence)
    assert set(pins) == {key for key, outcome in IDS[runner].items() if outcome == "passed"}
    again = measure(tree, COMMANDS[runner][1], wall=120.0, pins=pins)
    assert again.outcome is RunOutcome.PASSED
    assert sorted(str(path) for path in tree.rglob("*")) == before


def test_a_failure_is_red(runner: str, tree: Path) -> None:
    _, argv, path, old, new = COMMANDS[runner]
    write(tree, {path: (tree / path).read_text().replace(old, new)})
    result = measure(tree, argv, wall=120.0)
    assert result.outcome is RunOutcome.FAILED, output(result)
    assert red_ids(result.evidence)


def test_code_that_does_not_compile_is_not_red(runner: str, tree: Path) -> None:
    write(tree, dict([BREAK[runner]]))
    result = measure(tree, COMMANDS[runner][1], wall=120.0)
    assert result.outcome is RunOutcome.COLLECTION_ERROR, output(result)
    assert red_ids(result.evidence) == ()


def test_an_early_exit_is_no_pass(runner: str, tree: Path) -> None:
    pins = tuple(key for key, outcome in IDS[runner].items() if outcome == "passed")
    write(tree, dict([EXIT[runner]]))
    result = measure(tree, COMMANDS[runner][1], wall=120.0, pins=pins)
    assert result.outcome in (RunOutcome.NO_TESTS, RunOutcome.MISMATCH), output(result)


def test_a_dry_run_finds_the_tests_or_does_nothing(runner: str, tree: Path) -> None:
    result = measure(tree, COMMANDS[runner][1], wall=120.0, dry=True)
    assert result.outcome is RunOutcome.PASSED, output(result)
    if runner != "node":
        assert result.evidence.collected


def test_without_isolation_the_evidence_is_the_same(runner: str, tree: Path) -> None:
    result = measure(tree, COMMANDS[runner][1], wall=120.0, isolation=Isolation.NONE)
    assert dict(result.evidence.outcomes) == IDS[runner], output(result)


# -- plain commands


@pytest.mark.parametrize("argv", [("make", "check"), ("sh", "check.sh"), ("npm", "test")])
def test_a_plain_command_says_only_how_it_ended(argv: tuple[str, ...], tmp_path: Path) -> None:
    needs(argv[0])
    tree = write(
        tmp_path / "work",
        {
            "Makefile": "check:\n\tpython3 -c 'import sys; sys.exit(0)'\n",
            "check.sh": "python3 -c 'import sys; sys.exit(0)'\n",
            "package.json": '{"scripts": {"test": "node -e 0"}}\n',
        },
    )
    result = measure(tree, argv)
    assert result.outcome is RunOutcome.PASSED, output(result)
    assert result.evidence.kind == "exit_code"


def test_a_plain_command_finds_the_python_of_the_path(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"check.sh": "python -c 'import sys; print(sys.version)'\n"})
    import sys

    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = measure(tree, ("sh", "check.sh"), environ={**os.environ, "PATH": path})
    assert output(result).split()[0] == sys.version.split()[0]
