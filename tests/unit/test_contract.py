"""Hypothesis, budgets, runner and contract (spec 4, 12, 13)."""

import json
from pathlib import Path

import pytest

from spike_mcp.core.budgets import Budgets
from spike_mcp.core.codes import Checkpoint, Problem, Usage
from spike_mcp.core.contract import (
    Contract,
    Hypothesis,
    Measurement,
    check_name,
    contract_schema,
    parse_defaults,
)
from spike_mcp.core.paths import PathClass, RepoPath
from spike_mcp.core.runners import Runner, detect

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/write_gate.json").read_text())
FULL = "reading the header makes Retry-After visible within 25 minutes, measured by "


def refused(raw: str, total: float = 90, argv: tuple[str, ...] = ()) -> str:
    with pytest.raises(Problem) as problem:
        Hypothesis.parse(raw, total, argv)
    assert problem.value.code is Usage.INVALID_CONTRACT
    assert problem.value.hint
    return problem.value.message


def test_the_full_form_gives_every_part() -> None:
    found = Hypothesis.parse(
        "reading the header\n  makes Retry-After of a 429 true within 25 minutes of wall clock,\n"
        "measured by python -m pytest 'tests/a b.py' -q.\n",
        90,
    )
    assert found.text == (
        "reading the header makes Retry-After of a 429 true within 25 minutes of wall clock, "
        "measured by python -m pytest 'tests/a b.py' -q."
    )
    assert found.subject == "reading the header makes Retry-After of a 429 true"
    assert found.observable == "Retry-After of a 429"
    assert found.minutes == 25
    assert found.full_form
    assert found.argv == ("python", "-m", "pytest", "tests/a b.py", "-q")
    assert found.tokens == ("reading", "header", "retry-after", "429")
    assert found.warnings == ()


@pytest.mark.parametrize(
    "limit", ["5 minutes", "5 min", "5 m", "5m", "5 MIN of wall clock", "5.0 minutes", "5 minute"]
)
def test_the_time_may_be_spelt_in_ways(limit: str) -> None:
    found = Hypothesis.parse(f"Header reading WITHIN {limit}, measured By make check", 90)
    assert (found.minutes, found.argv, found.subject) == (5, ("make", "check"), "Header reading")


@pytest.mark.parametrize(
    ("tail", "argv"),
    [
        ("pytest -q", ("pytest", "-q")),
        ("pytest -q.", ("pytest", "-q")),
        ("go test ./...", ("go", "test", "./...")),
        ("pytest tests/.", ("pytest", "tests/.")),
        ("check ..", ("check", "..")),
        ("ruff check .", ("ruff", "check", ".")),
        ("sh -c 'a  b'", ("sh", "-c", "a  b")),
    ],
)
def test_a_final_stop_is_dropped_only_where_it_ends_the_sentence(
    tail: str, argv: tuple[str, ...]
) -> None:
    assert Hypothesis.parse(FULL + tail, 90).argv == argv
    assert Hypothesis.parse(FULL + tail, 90, argv).argv == argv


@pytest.mark.parametrize(
    ("tail", "argv"), [("go test ./....", "go test ./..."), ("t -q.", "t -q."), ("t .", "t")]
)
def test_either_reading_may_agree_with_the_given_command(tail: str, argv: str) -> None:
    assert Hypothesis.parse(FULL + tail, 90, tuple(argv.split())).argv == tuple(argv.split())


def test_a_plain_sentence_takes_budget_and_command_from_elsewhere() -> None:
    found = Hypothesis.parse("The client surfaces 429 headers.", 45, ("make", "check"))
    assert (found.minutes, found.full_form, found.command) == (45, False, None)
    assert found.argv == ("make", "check")
    assert found.tokens == ("client", "surfaces", "429", "headers")
    timed = Hypothesis.parse("The client surfaces headers within 20 minutes.", 45)
    assert "minutes" not in timed.tokens


def test_few_tokens_are_warned_about() -> None:
    (warning,) = Hypothesis.parse("headers appear", 90).warnings
    assert "headers, appear" in warning


@pytest.mark.parametrize(
    "raw",
    [
        "", " \n ", "reading headers\n\nmakes them true", "it is so to be",
        "headers are measured by x", "headers within soon, measured by pytest",
        "headers within 5 minutes measured by pytest", "headers within 0 minutes, measured by x",
        "headers within 91 minutes, measured by pytest", FULL + "'open", FULL + ".", FULL,
        "head\u200bers appear here", "headers \x1b[2K here", "x" * 5000,
    ],
)  # fmt: skip
def test_a_hypothesis_is_refused(raw: str) -> None:
    assert refused(raw).isprintable()


def test_a_command_that_disagrees_is_refused() -> None:
    assert "not by pytest -x" in refused(FULL + "pytest -q", 90, ("pytest", "-x"))


@pytest.mark.parametrize("text", sorted({vector["hypothesis"] for vector in VECTORS}))
def test_every_hypothesis_of_the_corpus_parses(text: str) -> None:
    argv = next(tuple(v["argv"]) for v in VECTORS if v["hypothesis"] == text)
    assert Hypothesis.parse(text, 90) == Hypothesis.parse(text, 90, argv)
    assert Hypothesis.parse(text, 90).argv == argv


def test_budgets_scale_with_the_total_and_explicit_ones_stay() -> None:
    half = Budgets.of({"total": 45, "attempt": 20})
    assert (half.write_cutoff, half.setup, half.reproduce, half.verify) == (35, 7.5, 12.5, 7.5)
    assert half.attempt == 20
    assert half.max_lines == Budgets().max_lines == 40
    assert half.allowance(Checkpoint.SETUP) == 7.5
    assert Budgets.of({}) == Budgets()
    assert Budgets.of({"total": 120}).write_cutoff == pytest.approx(93.333)


@pytest.mark.parametrize(
    "given",
    [
        {"total": 10, "attempt": 20}, {"write_cutoff": 91}, {"nonsense": 1}, {"total": 0},
        {"total": -1}, {"max_lines": 1.5}, {"total": float("nan")}, {"total": float("inf")},
        {"total": 10**400}, {"setup": True}, {"max_runs": "9"},
    ],
)  # fmt: skip
def test_budgets_that_make_no_sense_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(Problem) as problem:
        Budgets.of(given)
    assert problem.value.code is Usage.INVALID_CONTRACT


@pytest.mark.parametrize(
    ("argv", "runner"),
    [
        ("python -m pytest x", "pytest"), ("python3.11 -B -X dev -m pytest", "pytest"),
        (".venv/bin/python -m unittest t", "unittest"), ("pytest", "pytest"),
        ("uv run pytest -q", "plain"), ("python -c -m pytest", "plain"),
        ("python x.py -m pytest", "plain"), ("coverage run -m pytest", "plain"),
        ("go test ./...", "go"), ("go vet", "plain"), ("cargo +nightly test", "cargo"),
        ("node --test lib", "node"), ("npm test", "plain"), ("make -s check", "plain"),
        ("python -W error", "plain"), ("", "plain"),
    ],
)  # fmt: skip
def test_the_runner_is_told_from_the_argv(argv: str, runner: str) -> None:
    assert detect(argv.split()) == runner


def plain(**changed: object) -> dict[str, object]:
    argv = ["python", "-m", "pytest", "tests/t.py", "-q"]
    data: dict[str, object] = {
        "spike_id": "s1",
        "name": "retry-after",
        "hypothesis": FULL + "python -m pytest tests/t.py -q",
        "allowed": ["src/", "lib/**/*.py"],
        "oracle": ["tests/t.py"],
        "unprotected": ["pyproject.toml"],
        "included": ["tests/t.py"],
        "measurement": {"argv": argv, "runner": "pytest"},
        "budgets": {"total": 60, "max_lines": 20},
        "baseline": "a" * 40,
        "repository": "/r",
        "git_dir": "/r/.git",
        "isolation": "namespaces",
        "setup": ["uv", "sync", "sync"],
        "environment": [".venv/"],
        "vectors": "",
        "hidden": {"tests/t.py": "b" * 64},
        "negative_controls": {},
        "accept_collection_error": False,
        "allow_control": False,
        "approval_key": "",
        "created_at": "2026-11-30T12:00:00Z",
    }
    return {**data, **changed}


def test_a_contract_survives_its_file() -> None:
    contract = Contract.from_dict(plain())
    assert Contract.from_toml(contract.to_toml()) == contract
    assert contract.to_toml() == Contract.from_toml(contract.to_toml()).to_toml()
    assert contract.measurement == Measurement.of(contract.hypothesis.argv)
    assert contract.measurement.runner is Runner.PYTEST
    assert contract.setup == ("uv", "sync", "sync")
    assert contract.environment == (".venv",)
    assert contract.budgets.write_cutoff == pytest.approx(46.667)
    chosen = contract.policy({"tests/t.py"}.__contains__)
    assert chosen.classify(RepoPath("src/a.py")) is PathClass.ALLOWED
    assert chosen.classify(RepoPath("tests/t.py")) is PathClass.PROTECTED


@pytest.mark.parametrize(
    "changed",
    [
        {"extra": 1}, {"name": "../x"}, {"name": "a b"}, {"name": "x.lock"}, {"name": "a..b"},
        {"allowed": []}, {"allowed": "src/"}, {"allowed": ["../x"]}, {"allowed": [1]},
        {"oracle": []}, {"oracle": ["/etc/passwd"]}, {"baseline": "HEAD"}, {"isolation": "some"},
        {"isolation": ["none"]}, {"vectors": "x"}, {"hidden": {"a": "x"}}, {"hidden": []},
        {"hidden": {"../a": "b" * 64}}, {"allow_control": 1}, {"created_at": ""},
        {"repository": "/r\x1b[2K"}, {"approval_key": "zz"}, {"measurement": {"argv": []}},
        {"measurement": {"argv": ["x"], "runner": "magic"}}, {"measurement": {"cmd": ["x"]}},
        {"measurement": {"argv": ["make", "other"], "runner": "plain"}}, {"setup": ["", "x"]},
        {"budgets": {"total": 10}}, {"budgets": []}, {"budgets": {"x": 1}}, {"hypothesis": 5},
    ],
)  # fmt: skip
def test_a_contract_with_a_wrong_key_or_value_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(Problem):
        Contract.from_dict(plain(**changed))


def test_a_missing_key_is_named() -> None:
    data = plain()
    del data["oracle"], data["budgets"]
    with pytest.raises(Problem, match="lacks budgets, oracle"):
        Contract.from_dict(data)


@pytest.mark.parametrize("data", [b"\xff", b"a = ", b"a = 1\na = 2"])
def test_what_is_no_toml_is_refused(data: bytes) -> None:
    with pytest.raises(Problem) as problem:
        Contract.from_toml(data)
    assert problem.value.code is Usage.INVALID_CONTRACT


def test_a_file_of_defaults_may_hold_any_of_the_humans_keys() -> None:
    found = parse_defaults(
        b'hypothesis = "headers\\n  appear"\nallowed = ["src/"]\nmeasurement = "make check"\n'
        b"[budgets]\ntotal = 30\n"
    )
    assert found == {
        "hypothesis": "headers\n  appear",
        "allowed": ("src/",),
        "measurement": ("make", "check"),
        "budgets": {"total": 30},
    }
    for bad in (b'baseline = "aa"', b"nonsense = 1", b"allowed = 1", b"[budgets]\ntotal = 0"):
        with pytest.raises(Problem):
            parse_defaults(bad)


def test_the_schema_names_every_key_of_the_file() -> None:
    schema = contract_schema()
    assert json.loads(json.dumps(schema)) == schema
    keys = set(Contract.from_dict(plain()).to_dict())
    properties, required = schema["properties"], schema["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    assert set(properties) == keys == set(required)


@pytest.mark.parametrize("name", ["a", "retry-after", "X.1_b", "0" * 64])
def test_names_of_spikes(name: str) -> None:
    assert check_name(name) == name
