"""The examples on the help pages, run as they stand; only the hunk's id is put in."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from cli_desk import spike
from support import Open, make_repo, open_plain

from spike_mcp.edge.cli.verbs import VERBS, command

FILES = {
    "src/http_client.py": "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    "tests/test_retry_after.py": "def test_a_429():\n    assert 0\n",
    "check.sh": "grep -q GREEN src/http_client.py\n",
}
HYPOTHESIS = "reading the header of a 429 makes retry-after visible to callers"
FIX = """\
--- a/src/http_client.py
+++ b/src/http_client.py
@@ -6,2 +6,2 @@
 six
-seven
+SEVEN
"""
NEEDS_MORE = {
    "run": "an agent client",
    "client-config": "its own tests",
    "watch": "goes on until the spike ends",
    "review": "a terminal",
    "demo": "half a minute; it has its own test",
    "doctor": "looks at this machine, see test_doctor",
    "init": "below, in a repository without a spike",
    "start": "below, on a spike that is not started",
}
GOOD = {"verdict": {1, 10}, "check": {0, 1}, "status": {0, 10}, "test": {0, 4}}


def examples(verb: str) -> list[str]:
    return [line for line, _purpose in command(verb).examples]


@pytest.fixture
def running(place: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """The spike of the examples: pending hunk, agent's patch P1, an unknown, a patch file."""
    made = open_plain(
        place / "spikes" / "shop-1",
        files=FILES,
        name="retry-after",
        hypothesis=HYPOTHESIS,
        oracle=("tests/test_retry_after.py",),
    )
    made.edit("src/http_client.py", "two\n", "GREEN\n")
    made.call("spike_report", kind="unknown", text="what the proxy does")
    monkeypatch.chdir(made.spike.root)
    (made.spike.root / "fix.patch").write_text(FIX)
    return made


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in NEEDS_MORE])
def test_the_examples_of_a_verb_run(running: Open, verb: str) -> None:
    if verb == "rm":
        spike("kill")
        os.chdir(running.repo)
    if verb == "ship":
        name = spike("map", "--ids").out.strip()
        assert spike("approve", name, "--tag", "read the retry-after header").code == 0
        assert spike("verdict").code == 0
    if verb == "undo":
        spike("reject", "--pending")
    for line in examples(verb):
        ids = spike("map", "--ids").out.split() if "h1a2b3c4d" in line else [""]
        told = spike(*shlex.split(line.replace("h1a2b3c4d", ids[0]))[1:])
        assert told.code in GOOD.get(verb, {0}), (line, told)
        if verb == "reject":
            spike("undo")


def test_the_examples_of_init_and_start_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.chdir(make_repo(place / "shop", FILES))
    for line in examples("init"):
        told = spike(*shlex.split(line)[1:])
        assert told.code == 0, (line, told)
    for name in ("retry-after", "retry-plain"):
        assert spike("--spike", name, "status", "--json").json["phase"] == "created"
    assert spike("status").error == "spike_not_found"
    assert "several spikes are open" in spike("status").err
    manual = examples("start")[1]
    assert spike("--spike", "retry-plain", *shlex.split(manual)[1:]).code == 0


def test_every_verb_that_is_not_run_here_says_why() -> None:
    assert set(NEEDS_MORE) <= set(VERBS)
