"""What README.md and docs/ say is true: commands run, links lead somewhere, tables are complete."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from alone import CHECKOUT, Alone, alone
from pages import PAGES, anchors, commands, links, name_of, shell_blocks

from spike_mcp.core.codes import Exit
from spike_mcp.edge.cli.parser import Parser, add_globals
from spike_mcp.edge.cli.verbs import VERBS, command
from spike_mcp.edge.clients import PROGRAMS, SDKS

README = CHECKOUT / "README.md"
INDEX = CHECKOUT / "docs" / "README.md"
EXAMPLE = CHECKOUT / "examples" / "retry-after"

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


# --- whole spikes -------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    home = tmp_path / "home"
    found = alone(tmp_path_factory, home)
    (home / ".gitconfig").write_text("[user]\n\tname = Reader\n\temail = reader@example.test\n")
    return found


def bash(here: Alone, script: str, cwd: Path) -> str:
    """What a script writes; it must end well."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=here.env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n\n{done.stdout}"
    return done.stdout


@pytest.mark.e2e
@pytest.mark.slow
def test_the_daily_flow_of_the_readme_ends_in_ship(here: Alone, tmp_path: Path) -> None:
    text = (
        README.read_text(encoding="utf-8").partition("## The daily flow")[2].partition("\n## ")[0]
    )
    flow = re.findall(r"^    \$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    verbs = [line.split()[1] for line in flow]
    assert verbs == ["init", "start", "run", "review", "status", "verdict", "ship", "report"]
    # An agent and a terminal are what a test does not have: a patch and answers stand for them.
    instead = {
        "run": f'spike apply "{EXAMPLE}/agent/fix.patch" --rationale "read the header"',
        "review": "printf '%s\\n' a 'callers see the 429 retry-after' q | spike review --plain",
    }
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE / "project", project, ignore=shutil.ignore_patterns("__pycache__"))
    bash(here, "git init -q -b main; git add -A; git commit -q -m start", project)
    script = "\n".join(instead.get(verb, line) for verb, line in zip(verbs, flow, strict=True))
    told = bash(here, script, project)
    assert "SHIP oracle_unchanged_and_test_passed" in told
    assert "retry-after" in bash(here, "git log -1 --format=%B spike/retry-after", project)
    assert (project / "spike.md").read_text().startswith("# Spike retry-after: SHIP")


@pytest.mark.e2e
@pytest.mark.slow
def test_the_quick_start_runs_as_it_stands(here: Alone) -> None:
    install, *blocks = shell_blocks(CHECKOUT / "docs" / "quickstart.md")
    assert "pip install" in install and "spike doctor" in install
    lines = []
    for line in "".join(blocks).splitlines():
        typed, _, code = line.partition("    # exit ")
        lines.append(f"{{ {typed} && false; }} || test $? = {code}" if code else typed)
    told = bash(here, "\n".join(lines), CHECKOUT)
    assert "would be KILL unexplained_diff" in told
    assert "SHIP oracle_unchanged_and_test_passed" in told
    home = Path(here.env["HOME"])
    assert (home / "spike.md").exists()
    merged = bash(here, "git log --format=%s", home / "shop").splitlines()
    assert merged[0] == "Merge the spike" and len(merged) == 3
    assert list((home / ".spikes").rglob("retry-after.tar.gz"))


# --- commands, options, tables ------------------------------------------------------------------


@every_page
def test_every_spike_command_has_its_verb_and_options(page: Path) -> None:
    for words in commands(page, "spike"):
        own = words[1 : words.index("--")] if "--" in words else words[1:]
        found = [word for word in own if not word.startswith("-")]
        if not found:  # `spike --help` and the like
            continue
        verb = found[0] if own[0] != "--spike" else found[1]
        if not re.fullmatch(r"[a-z-]+", verb):  # `spike VERB --help`
            continue
        assert verb in VERBS, words
        parser = Parser(verb)
        what = command(verb)
        if what.options is not None:
            what.options(parser)
        add_globals(parser)
        known = {flag for action in parser.listed for flag in action.option_strings}
        given = {word.partition("=")[0] for word in own if word.startswith("--")}
        assert given <= known, f"{words}: {given - known}"


@every_page
def test_every_make_target_is_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    for words in commands(page, "make"):
        named = [word for word in words[1:] if "=" not in word]
        assert set(named) <= targets, words


def test_the_exit_code_table_is_complete() -> None:
    table = README.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    codes = [
        int(code)
        for cell in re.findall(r"^\| ([\d /]+) \|", table, re.MULTILINE)
        for code in cell.split(" / ")
    ]
    assert codes == sorted(int(code) for code in Exit)


def test_the_readme_names_every_client() -> None:
    text = " ".join(README.read_text(encoding="utf-8").split())
    listed = re.search(r"tools away: (.*?), and (\w+) SDKs", text)
    assert listed is not None
    assert tuple(listed[1].split(", ")) == PROGRAMS
    assert listed[2] == {3: "three", 4: "four", 5: "five", 6: "six"}[len(SDKS)]


# --- links --------------------------------------------------------------------------------------


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} is dead"
        assert there.is_relative_to(CHECKOUT), f"{target} leaves the project"
        if anchor:
            assert anchor in anchors(there), f"{target}: no such heading"


def test_the_index_names_every_page() -> None:
    named = {(INDEX.parent / target.partition("#")[0]).resolve() for target in links(INDEX)}
    pages = {page for page in (CHECKOUT / "docs").glob("*.md") if page != INDEX}
    assert pages <= named, f"docs/README.md does not name {sorted(p.name for p in pages - named)}"
    decisions = CHECKOUT / "docs" / "decisions"
    listed = {(decisions / target).resolve() for target in links(decisions / "README.md")}
    records = set(decisions.glob("0*.md"))
    assert not listed or records <= listed, sorted(p.name for p in records - listed)


@every_page
def test_pages_name_no_place_of_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for place in ("/root/", "/work/", "/tmp/human", str(CHECKOUT)):
        assert place not in text
