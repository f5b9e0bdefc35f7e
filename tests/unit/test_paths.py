"""RepoPath and PathPolicy: canonical spellings, patterns, protection (spec 4)."""

import json
from pathlib import Path
from typing import Any

import pytest

from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.core.paths import (
    PathClass,
    PathPolicy,
    RepoPath,
    allow_pattern,
    check_pattern,
    makefile_includes,
    overridden,
    protected_for,
)
from spike_mcp.core.runners import detect

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/write_gate.json").read_text())
PYTEST = ("python", "-m", "pytest", "tests/test_oracle.py", "-q")
BASELINE = {"src/a.py", "tests/test_oracle.py", "src/pkg/__init__.py", "src/mod.py"}


def policy(
    allowed: tuple[str, ...] = ("src/",),
    argv: tuple[str, ...] = PYTEST,
    baseline: set[str] = BASELINE,
    unprotected: tuple[str, ...] = (),
    oracle: tuple[str, ...] = ("tests/test_oracle.py",),
) -> PathPolicy:
    return PathPolicy.of(
        allowed=allowed,
        oracle=oracle,
        unprotected=unprotected,
        runner=detect(argv),
        argv=argv,
        exists=baseline.__contains__,
    )


def classify(text: str, **given: object) -> PathClass:
    return policy(**given).classify(RepoPath.parse(text))


NOT_A_PATH = [
    "", ".", "..", "src/../tests/new.py", "src/./../../judge/x", "//src/a.py", "/abs/src/a.py",
    "src/a.py/", "src//a.py", "src/ a.py", "src/a.py ", " src/a.py", "./src/a.py", "C:/x", "c:x",
    "src\\a.py", "src/a\0.py", "src/a\n.py", "src/\x1b[2K\x1b[1Gok.py", "src/\x7f.py",
    "src/a\u202e.py", "src/a\u200b.py", "src/a\ufeff.py", "a\ufe0f.py", "a\u00a0b.py", "a\u2800.py",
    "src/e\u0301.py", "src/\uff4f\uff53.py", "src/\udcff.py", "src/\ud800.py", "\ue000.py",
    "\u0441onftest.py", "con.py", "src/AUX", "src/Nul.txt", "lpt1.log", "a" * 300 + ".py",
    "\u00e9" * 200, "/".join("d" * 41), "x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("raw", NOT_A_PATH, ids=range(len(NOT_A_PATH)))
def test_every_other_spelling_is_refused_with_the_part_escaped_and_short(raw: str) -> None:
    with pytest.raises(Problem) as refused:
        RepoPath.parse(raw)
    assert refused.value.code is Refusal.PATH_INVALID
    assert refused.value.hint
    assert len(refused.value.message) < 220
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    "raw",
    ["a", "src/a.py", "src/é.py", "日本/あ.py", "Δt.py", "a b/c d.txt", "app/[id]/p.tsx", "-x"],
)
def test_a_plain_path_is_kept_as_it_is(raw: str) -> None:
    path = RepoPath.parse(raw)
    assert path.text == str(path) == raw
    assert "/".join(path.parts) == raw
    assert path.name == raw.split("/")[-1]


def test_parents_end_at_the_top() -> None:
    path = RepoPath.parse("a/b/c")
    assert path.parent == RepoPath("a/b")
    assert path.parent.parent == RepoPath("a")
    assert RepoPath("a").parent is None


def test_git_listings_may_hold_any_bytes() -> None:
    assert RepoPath.trusted(b"a\xff/b\n").text == "a\udcff/b\n"


@pytest.mark.parametrize("other", ["src_evil/x.py", "srcx.py", "src", "SRC/a.py", "xsrc/a.py"])
def test_a_prefix_ends_at_a_component(other: str) -> None:
    assert classify(other) is PathClass.NOT_ALLOWED


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("src/", ["src/a", "src/b/c"], ["src", "srcs/a", "x/src/a"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "srcs/a"]),
        ("src/**/*.py", ["src/a.py", "src/b/c/d.py"], ["a.py", "src/a.pyx", "src/a.py/b"]),
        ("**", ["a", "a/b"], []),
        ("**/x.py", ["x.py", "a/x.py", "a/b/x.py"], ["ax.py", "x.py/a"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c"], ["a/b", "a/c", "a/bc"]),
        ("*.go", ["calc.go"], ["x/calc.go", "calc.goo"]),
        ("*", ["a", ".x"], ["a/b"]),
        ("a?c", ["abc"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[]^-]x", ["]x", "^x", "-x"], ["ax"]),
        ("a*b*c", ["abc", "aXbYbZc"], ["abcd", "acb"]),
        ("app/[id]/page.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"], ["app/x/page.tsx"]),
        ("x[", ["x["], ["x"]),
        ("[z-a]", ["[z-a]"], ["z", "a"]),
    ],
)
def test_patterns_match_whole_components(
    pattern: str, inside: list[str], outside: list[str]
) -> None:
    chosen = policy(allowed=(pattern,), argv=("true",), oracle=())
    for text in inside:
        assert chosen.classify(RepoPath(text)) is PathClass.ALLOWED, text
    for text in outside:
        assert chosen.classify(RepoPath(text)) is PathClass.NOT_ALLOWED, text


def test_a_hostile_pattern_does_not_hang() -> None:
    stars = policy(allowed=("*a" * 60 + "b", "**/a/" * 30 + "b"), argv=("true",), oracle=())
    assert stars.classify(RepoPath("a" * 4000)) is PathClass.NOT_ALLOWED
    assert stars.classify(RepoPath("a/" * 2000 + "c")) is PathClass.NOT_ALLOWED


@pytest.mark.security
@pytest.mark.parametrize(
    "text",
    [
        "tests/test_oracle.py", "tests/Test_Oracle.PY", "conftest.py", "src/conftest.py",
        "src/CONFTEST.py", "src/Conftest.PY", "src/conftest.py.", "pytest.ini", ".pytest.ini",
        "src/pyproject.toml", "setup.cfg", "tox.ini", "src/sitecustomize.py", "src/x.pth",
        "src/__pycache__/a.cpython-311.pyc", "src/a.pyc", "src/x.dist-info/entry_points.txt",
        "src/x.egg-info/PKG-INFO", ".git", ".git/config", "src/.git/HEAD", ".GIT/hooks/x", "git~1",
        "src/.gitignore", ".gitattributes", ".gitmodules", ".mcp.json", "src/.claude/settings.json",
        "AGENTS.md", "src/CLAUDE.md", ".vscode/tasks.json", ".github/copilot-instructions.md",
        "opencode.json", ".python-version", "pytest.py", "_pytest/__init__.py", "pluggy.py",
        "decimal.py", "decimal/__init__.py", "src/decimal.py", "Decimal.py", "tests/json.py",
        "pytest_evil.py", "src/mod/__init__.py", "tests/__init__.py",
    ],
)  # fmt: skip
def test_protection_wins_over_every_allowed_pattern(text: str) -> None:
    given = policy(allowed=("**", text))
    assert given.classify(RepoPath.parse(text)) is PathClass.PROTECTED
    refused = given.refusal(RepoPath.parse(text))
    assert refused is not None
    assert refused.code is Refusal.PATH_PROTECTED


@pytest.mark.parametrize(
    "text",
    [
        "src/a.py", "src/pkg/types.py", "src/new.py", "src/new/__init__.py", "src/json/data.txt",
        "src/mygit/x", "src/pytestish.txt", "docs/decimal.md", "other/deep/types.py",
        "src/pkg/decimal/__init__.py", "src/setup.py", "src/tasks.py", "src/test_new.py",
    ],
)  # fmt: skip
def test_ordinary_files_are_not_protected(text: str) -> None:
    assert classify(text, allowed=("**",)) is PathClass.ALLOWED


def test_a_module_that_the_baseline_has_is_the_projects_own() -> None:
    baseline = BASELINE | {"decimal.py", "json/__init__.py"}
    for text in ("decimal.py", "json/__init__.py", "json/tool.py", "json.py"):
        assert classify(text, allowed=("**",), baseline=baseline) is PathClass.ALLOWED


def test_unprotect_is_an_exception_that_the_oracle_never_gets() -> None:
    chosen = policy(allowed=("**",), unprotected=("pyproject.toml", "tests/"))
    assert chosen.classify(RepoPath("pyproject.toml")) is PathClass.ALLOWED
    assert chosen.classify(RepoPath("tests/conftest.py")) is PathClass.ALLOWED
    assert chosen.classify(RepoPath("src/pyproject.toml")) is PathClass.PROTECTED
    assert chosen.classify(RepoPath("tests/test_oracle.py")) is PathClass.PROTECTED


def test_support_files_sealed_later_are_oracle_too() -> None:
    sealed = policy(allowed=("**",)).sealing(["tests/helper.py"])
    assert sealed.classify(RepoPath("tests/helper.py")) is PathClass.PROTECTED
    assert sealed.oracle == ("tests/test_oracle.py", "tests/helper.py")


@pytest.mark.parametrize(
    ("argv", "texts"),
    [
        ("make -s check", ["Makefile", "app/rules.mk", "conftest.py", "package.json", "x.cmake"]),
        ("npm test --silent", ["package.json", "lib/package.json", ".npmrc", "package-lock.json"]),
        ("node --test", ["package.json", "jest.config.js", "node_modules/x/index.js"]),
        ("cargo test --offline", ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "x/build.rs"]),
        ("go test ./...", ["go.mod", "go.sum", "go.work", "evil_test.go", "vendor/modules.txt"]),
        ("sh tests/check.sh", ["tests/check.sh"]),
        ("python tools/run.py --config=ci/x.toml", ["tools/run.py", "ci/x.toml", "tools/json.py"]),
        (
            "python -m tools.check",
            ["tools/check.py", "tools/__init__.py", "tools/check/__main__.py"],
        ),
        ("pytest -p myplugin -c ci/p.ini", ["myplugin.py", "ci/p.ini"]),
        ("nox -s tests", ["noxfile.py", "pyproject.toml"]),
    ],
)
def test_what_the_measurement_reads_is_protected(argv: str, texts: list[str]) -> None:
    for text in texts:
        found = classify(text, allowed=("**",), argv=tuple(argv.split()), oracle=("tests/o.x",))
        assert found is PathClass.PROTECTED, text


def test_other_runners_leave_python_names_alone() -> None:
    for runner in ("go", "cargo"):
        assert "**/conftest.py" not in {p.pattern for p in protected_for(runner, (runner, "test"))}
    names = [p.pattern for p in protected_for("pytest", PYTEST)]
    assert len(names) == len(set(names))


def test_included_makefiles_are_found_through_variables_and_continuations() -> None:
    text = (
        b"PY ?= python\n-include app/rules.mk\n"
        b"include ./a.inc \\\n  $(DIR)/b.inc # c\ninclude $(ALL)\n"
    )
    assert [p.pattern for p in makefile_includes(text)] == ["app/rules.mk", "a.inc", "*/b.inc"]


def test_init_can_name_what_protection_overrides() -> None:
    files = ["src/a.py", "src/conftest.py", "pyproject.toml", "tests/test_oracle.py"]
    chosen = policy(allowed=("src/", "pyproject.toml", "setup.cfg", "tests/*.py"))
    found = {(item.pattern, item.path) for item in overridden(chosen, files)}
    assert found == {
        ("src/", "src/conftest.py"),
        ("pyproject.toml", "pyproject.toml"),
        ("setup.cfg", "setup.cfg"),
        ("tests/*.py", "tests/test_oracle.py"),
    }


def test_patterns_from_the_human_are_checked_and_directories_completed() -> None:
    assert check_pattern("./src/a.py") == "src/a.py"
    assert allow_pattern("src", {"src"}.__contains__) == "src/"
    assert allow_pattern("src/a.py", {"src"}.__contains__) == "src/a.py"
    for bad in ("", "../x", "/etc", "src//", "a\\b", "src/../x", "src/\u202e"):
        with pytest.raises(Problem) as refused:
            check_pattern(bad)
        assert refused.value.code in (Refusal.PATH_INVALID, Usage.INVALID_CONTRACT)


def test_why_gives_one_sentence_for_each_class() -> None:
    chosen = policy()
    assert "allowed by src/" in chosen.why(RepoPath("src/a.py"))
    assert "the oracle" in chosen.why(RepoPath("tests/test_oracle.py"))
    assert "outside the allowed paths (src/)" in chosen.why(RepoPath("docs/x"))
    refused = chosen.refusal(RepoPath("docs/x"))
    assert refused is not None
    assert refused.code is Refusal.PATH_NOT_ALLOWED
    assert chosen.refusal(RepoPath("src/a.py")) is None


@pytest.mark.security
@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_gate_refuses_the_corpus_paths_and_no_control(vector: dict[str, Any]) -> None:
    chosen = policy(
        allowed=tuple(vector["allowed"]),
        argv=tuple(vector["argv"]),
        baseline=set(vector["baseline"]),
        oracle=tuple(vector["oracle"]),
    )
    refused = []
    for write in vector["writes"]:
        try:
            problem = chosen.refusal(RepoPath.parse(write["path"]))
        except Problem as raised:
            problem = raised
        refused += [problem] if problem else []
    if vector["kind"] == "control":
        assert refused == []
    elif vector["write_refused"]:
        assert refused
