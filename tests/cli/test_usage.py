"""Command lines that do not fit, help pages, and that nothing ever ends in a traceback."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_desk import INIT, spike, valid
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spike_mcp.edge.cli.completion import script
from spike_mcp.edge.cli.verbs import GROUPS, VERBS, command

ALL_VERBS = re.findall(
    r"\S+",
    """init list start checkpoint status watch review diff map show approve reject comment undo
    restore apply unknown check test verdict ship kill rm log verify report client-config run
    doctor demo schema completion""",
)


def test_the_verbs_are_those_of_the_specification() -> None:
    assert set(ALL_VERBS) | {"help"} == set(VERBS)
    assert {group for group, _module, _summary in VERBS.values()} == set(GROUPS)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "frobnicate",
        "--frob status",
        "status --frob",
        "status extra",
        "--color purple status",
        "status --color",
        "--spike",
        "init",
        "init a b",
        "init a --minutes none --hypothesis x",
        "init a --minutes -5 --hypothesis x",
        "init a --isolation chroot",
        "init a --hypothesis x --hidden nothing",
        "init a --hypothesis x --budget lines",
        "init a --hypothesis x --from /nowhere/spike.toml",
        "checkpoint",
        "checkpoint start",
        "checkpoint start nap",
        "checkpoint pause attempt",
        "checkpoint start attempt --met no",
        "show",
        "approve",
        "approve h1 --withdrawn --tag x",
        "reject",
        "reject h1 --pending",
        "restore",
        "restore a --all",
        "comment h1",
        "apply",
        "apply /nowhere/x.patch",
        "unknown",
        "unknown text --confirm 1",
        "unknown --confirm one",
        "log -n x",
        "run",
        "completion tcsh",
        "schema frob",
        "help frob",
        "approve h1 --passphrase-fd -1",
    ],
)
def test_a_command_line_that_does_not_fit_exits_64(line: str) -> None:
    words = shlex.split(line)
    told = spike(*words)
    assert (told.code, told.error) == (64, "usage"), told
    assert told.out == "" and told.err.startswith("error usage: ") and "\nhint: " in told.err
    as_json = spike("--json", *words)
    assert as_json.code == 64 and as_json.err == ""
    error = valid("error", as_json)["error"]
    assert error["code"] == "usage" and error["message"] and error["hint"]


@pytest.mark.parametrize("verb", [*ALL_VERBS, "help"])
def test_every_verb_has_a_page_with_examples_that_parse(verb: str) -> None:
    told = spike(verb, "--help")
    assert told.code == 0 and told.err == ""
    assert spike("help", verb) == told
    if verb == "help":
        return
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES"):
        assert f"\n{title}\n" in f"\n{told.out}"
    what = command(verb)
    assert 1 <= len(what.examples) <= 3
    for line, purpose in what.examples:
        assert purpose and line in told.out
        assert shlex.split(line)[:2] == ["spike", verb]
    assert max(map(len, told.out.split("EXAMPLES")[0].splitlines())) <= 80
    assert spike(verb, "--help", "--json").json["help"].strip() == told.out.strip()


def test_help_lists_every_verb_by_the_daily_flow() -> None:
    told = spike("--help")
    assert told.code == 0 and told == spike("help") == spike("-h")
    places = [told.out.index(title) for title in GROUPS.values()]
    assert places == sorted(places)
    assert all(f"\n  {verb} " in told.out for verb in ALL_VERBS)
    assert max(map(len, told.out.splitlines())) <= 90


def test_global_options_stand_before_or_after_the_verb(opened: Path) -> None:
    spellings = [
        ["--json", "--spike", "plain", "status"],
        ["status", "--json", "--spike", "plain"],
        ["--spike=plain", "status", "--json"],
        ["--spike", "wrong", "--color=never", "status", "--spike", str(opened), "--json"],
    ]
    roots = {valid("status", spike(*words))["root"] for words in spellings}
    assert roots == {str(opened)}


@pytest.mark.parametrize("verb", ["review", "watch", "run", "demo"])
def test_conversations_are_for_people(verb: str) -> None:
    told = spike(verb, "--json")
    assert (told.code, told.error) == (64, "usage")


def test_version_is_said() -> None:
    assert spike("--version").out.startswith("spike ")
    assert spike("--version", "--json").code == 0


def test_a_misspelt_verb_is_guessed() -> None:
    assert "did you mean `spike status`" in spike("stauts").err


@pytest.mark.parametrize("verb", [v for v in ALL_VERBS if v not in ("init", "run", "demo")])
def test_without_a_spike_a_verb_says_so_with_69(verb: str) -> None:
    if verb in ("list", "doctor", "schema", "completion"):
        return
    arguments = {
        "checkpoint": ["start", "setup"],
        "show": ["h1"],
        "approve": ["h1", "--tag", "x"],
        "reject": ["h1"],
        "comment": ["h1", "x"],
        "restore": ["--all"],
        "unknown": ["x"],
        "client-config": ["claude"],
        "apply": ["/dev/null"],
    }
    told = spike(verb, *arguments.get(verb, []))
    if verb == "review":
        assert told.code in (64, 69)
        return
    assert (told.code, told.error) == (69, "spike_not_found")
    if verb != "watch":
        assert spike(verb, *arguments.get(verb, []), "--json").error == "spike_not_found"


def test_nothing_of_an_init_that_is_refused_stays(repo: Path, place: Path) -> None:
    for extra, code in (
        (["--minutes", "10", "--write-cutoff", "20"], 64),
        (["--budget", "attempt=500"], 64),
        (["--oracle", "tests/none.py"], 64),
        (["--allow", "../outside"], 78),
        (["--allow", "src/\x1b[31m"], 78),
    ):
        told = spike("init", "plain", *extra, "--json", *INIT)
        assert told.code == code, told.out
        valid("init", told)
        assert not (place / "spikes" / "repo").exists()
        assert spike("list", "--json").json["spikes"] == []


def test_flags_win_over_the_file_of_from(repo: Path) -> None:
    (repo / "spike.toml").write_text(
        'name = "filed"\nhypothesis = "the seven lines of the file are green"\n'
        'allowed = ["src/a.py"]\noracle = ["tests/test_oracle.py"]\n'
        'measurement = ["sh", "check.sh"]\nallow_control = true\n'
        "[budgets]\ntotal = 30\nmax_lines = 7\n"
    )
    told = spike("init", "--from", "spike.toml", "--allow", "src/", "--minutes", "45", "--json")
    assert told.code == 0, told.out
    status = spike("status", "--json").json
    assert (status["spike"], status["allowed_paths"]) == ("filed", ["src/"])
    assert status["remaining_seconds"] == 45 * 60
    assert spike("map", "--json").json["max_lines"] == 7
    bad = repo / "bad.toml"
    bad.write_text("nonsense = 1\n")
    assert spike("init", "x", "--from", str(bad), *INIT).error == "invalid_contract"


def test_init_ignores_the_variable_and_says_where_commands_go(
    repo: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPIKE", "/somewhere/else")
    told = spike("init", "plain", "--json", *INIT)
    assert told.code == 0 and "$SPIKE is set to /somewhere/else" in told.err
    rooted = spike("init", "two", "--root", str(place / "here"), "--json", *INIT)
    assert rooted.json["root"] == str(place / "here") and "$SPIKE" not in rooted.err


_WORD = st.one_of(
    st.sampled_from(
        [*VERBS, "--json", "--spike", "--color", "always", "--", "-h", "--tag", "--all", "P1"]
    ),
    st.sampled_from(["h1", "-", "--final", "--sha", "--ack", "-n", "9" * 30, "--=", "-\x1b", ""]),
    st.text(max_size=12),
    st.text(alphabet="\ud800\udc80\x00\x1b\u202e-=h1", max_size=6),
)
_SIDE_EFFECTS = {"demo", "run", "doctor", "review"}


@given(st.lists(_WORD, max_size=6))
@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_command_line_ends_in_a_traceback(words: list[str]) -> None:
    if _SIDE_EFFECTS & set(words):
        return
    told = spike(*words)
    assert told.code in (0, 2, 10, 64, 69, 75, 77, 78)
    for text in (told.out, told.err):
        assert not any(char < " " and char not in "\n\t" for char in text)
        text.encode("utf-8")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_verb(shell: str) -> None:
    told = spike("completion", shell)
    assert told.code == 0 and told.out.rstrip("\n") == script(shell).rstrip("\n")
    assert all(verb in told.out for verb in VERBS)
    for option in ("withdrawn", "to-baseline", "passphrase-fd"):
        assert option in told.out
    interpreter = shutil.which(shell)
    if interpreter is not None:  # bash is everywhere; the others where somebody uses them
        done = subprocess.run([interpreter, "-n", "/dev/stdin"], input=told.out, text=True)
        assert done.returncode == 0


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ver", "verdict verify"),
        ("report --format ", "md html json"),
        ("--spike here run --network ", "proxy host"),
        ("verdict --f", "--final"),
        ("client-config op", "opencode openai-agents openhands-sdk"),
        ("demo inv", "invoice-rounding"),
        ("checkpoint st", "start stop"),
    ],
)
def test_bash_completes_what_is_known(line: str, offered: str) -> None:
    words = " ".join(shlex.quote(word) for word in ["spike", *line.split(" ")])
    asked = f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _spike"
    done = subprocess.run(
        ["bash", "-c", f"{script('bash')}\n{asked}\necho ${{COMPREPLY[@]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(done.stdout.split()) == sorted(offered.split()), done.stderr


def test_every_schema_is_a_schema_and_is_printed() -> None:
    from jsonschema import Draft202012Validator

    names = spike("schema").out.split()
    assert {"init", "status", "map", "check", "verdict", "log", "error", "contract"} <= {*names}
    for name in names:
        told = spike("schema", name)
        assert told.code == 0 and told.json == spike("schema", name, "--json").json
        Draft202012Validator.check_schema(told.json)


@pytest.mark.parametrize(("fmt", "start"), [("md", "# Spike plain"), ("html", "<!doctype html>")])
def test_the_report_is_printed(opened: Path, fmt: str, start: str) -> None:
    told = spike("report", "--format", fmt)
    assert told.code == 0 and told.out.lower().startswith(start.lower())
    assert valid("report", spike("report", "--format", fmt, "--json"))["format"] == fmt
    assert valid("report", spike("report", "--format", "json", "--json"))["name"] == "plain"


def test_a_clients_configuration_is_printed(opened: Path) -> None:
    told = valid("client-config", spike("client-config", "claude", "--json"))
    assert told["client"] == "claude" and told["written"] is False and told["files"]
    assert spike("client-config", "nobody").code == 64
