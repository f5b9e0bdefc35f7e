"""`spike init` on what does not fit: a clear error, the right exit code, and nothing half made."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from init_world import FULL_FORM, ORACLE, Place, can_mount, within, words
from refusal_cases import without_bubblewrap
from refusal_world import CLI, check_told
from support import INVOICE, INVOICE_HYPOTHESIS, git, make_repo, snapshot

PYTEST: dict[str, Any] = {
    "hypothesis": INVOICE_HYPOTHESIS,
    "allow": ("invoice.py",),
    "oracle": ("tests/test_invoice.py",),
    "argv": (),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One repository for all command lines that are refused: each must leave it as it was."""
    return Place(tmp_path_factory.mktemp("init"), {"src/big.txt": "forty kilobytes\n" * 2500})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository of one's own."""
    return Place(tmp_path / "place")


# --- the command line ---------------------------------------------------------------------------

LINES: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "no hypothesis": ("usage", words(hypothesis=None), "hypothesis"),
    "empty": ("usage", words(hypothesis=" \n "), "hypothesis"),
    "blank line": ("invalid_contract", words(hypothesis="one line\n\nof two"), "blank line"),
    "measured by": (
        "invalid_contract",
        words(hypothesis="the sample lines turn green, measured by hand"),
        "measured by",
    ),
    "more minutes": (
        "invalid_contract",
        words(hypothesis=FULL_FORM.format(200, "sh check.sh"), argv=()),
        "200 minutes",
    ),
    "no tag token": ("invalid_contract", words(hypothesis="it is so"), "tag"),
    "two commands": (
        "invalid_contract",
        words(hypothesis=FULL_FORM.format(20, "sh other.sh")),
        "sh other.sh",
    ),
    "no command": ("invalid_contract", words(argv=()), "command"),
    "control characters": (
        "invalid_contract",
        words(hypothesis="the sample \x1b[31m lines are green"),
        "<001b>",
    ),
    "no text": ("invalid_contract", words(hypothesis=b"the sample \xff lines"), "<dcff>"),
    "no oracle": ("invalid_contract", words(oracle=()), "--oracle"),
    "no path": ("invalid_contract", words(allow=()), "--allow"),
    "path above": ("path_invalid", words(allow=("../x",)), ".."),
    "absolute path": ("path_invalid", words(allow=("/etc/",)), "absolute"),
    "empty path": ("path_invalid", words(allow=("",)), "empty"),
    "oracle elsewhere": ("path_invalid", words(oracle=("/etc/passwd",)), ".."),
    "oracle missing": ("oracle_not_committed", words(oracle=("tests/none.py",)), "not exist"),
    "oracle a directory": ("oracle_not_committed", words(oracle=("tests",)), "no file"),
    "unprotected oracle": ("invalid_contract", words("--unprotect", ORACLE), "oracle"),
    "include missing": ("oracle_not_committed", words("--include", "none"), "none is no file"),
    "include a directory": ("oracle_not_committed", words("--include", "src"), "src is no file"),
    "environment above": ("path_invalid", words("--environment", "../x"), ".."),
    "environment of files": ("invalid_contract", words("--environment", "src/"), "--environment"),
    "setup": ("invalid_contract", words("--setup", "sh -c 'x"), "quotation"),
    "vectors missing": ("invalid_contract", words("--vectors", "none"), "none can't be read"),
    "vectors": ("invalid_contract", words("--vectors", "check.sh"), "TOML"),
    "hidden missing": ("invalid_contract", words("--hidden", "tests/x.py=none"), "none can't"),
    "hidden above": ("path_invalid", words("--hidden", "../x=check.sh"), ".."),
    "control missing": (
        "invalid_contract",
        words("--negative-control", "src/a.py=none"),
        "none can't",
    ),
    "budget above": ("invalid_contract", words("--budget", "attempt=500"), "above the total"),
    "cut-off above": ("invalid_contract", words("--write-cutoff", "100"), "above the total"),
    "unknown budget": ("invalid_contract", words("--budget", "naps=5"), "naps"),
    "no number": ("invalid_contract", words("--budget", "attempt=nan"), "number"),
    "no time": ("invalid_contract", words("--minutes", "0.001"), "minutes"),
    "program missing": (
        "invalid_contract",
        words(argv=("no-such-program", "x")),
        "no-such-program is not on PATH",
    ),
    "program no file": ("invalid_contract", words(argv=("./src",)), "not an executable"),
    "name": ("invalid_contract", words(name="a/b"), "a/b"),
    "name of a lock": ("invalid_contract", words(name="x.lock"), "x.lock"),
    "root in the repository": ("usage", words("--root", "sub/dir"), "inside the repository"),
    "root of something": ("spike_exists", words("--root", "/etc"), "/etc"),
    "root below a file": ("usage", words("--root", "/etc/passwd/x"), "/etc/passwd/x"),
    "root too long": ("usage", words("--root", "/tmp/" + "x" * 300), "too long"),
    "from missing": ("usage", words("--from", "none.toml"), "none.toml can't be read"),
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_that_does_not_fit_is_refused_and_leaves_no_trace(what: str, shared: Place) -> None:
    code, line, named = LINES[what]
    told = shared.refused(code, line)
    assert named.lower() in told.message.lower() + told.hint.lower(), told


FILES: dict[str, tuple[str, str]] = {
    "unknown key": ("nonsense = 1\n", "nonsense"),
    "ours alone": ('baseline = "abc"\n', "baseline"),
    "unknown budget": ("[budgets]\nnaps = 1\n", "naps"),
    "budget above": ("[budgets]\nattempt = 500\n", "above the total"),
    "wrong type": ('allowed = "src/"\n', "allowed"),
    "wrong level": ('isolation = "chroot"\n', "isolation"),
    "no TOML": ("x = [\n", "TOML"),
    "no command": ("[measurement]\nargv = []\n", "program"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_of_from_is_checked_key_by_key(what: str, shared: Place) -> None:
    text, named = FILES[what]
    file = shared.base / "spike.toml"
    file.write_text(text)
    told = shared.refused("invalid_contract", words("--from", str(file)))
    assert named in told.message + told.hint, told
    file.unlink()


def test_people_read_a_sentence_and_a_hint_on_stderr(shared: Place) -> None:
    line = words(oracle=("tests/none.py",))
    done = subprocess.run(
        [*CLI, *line], cwd=shared.repo, env=shared.environ, capture_output=True, text=True
    )
    assert done.returncode == 64 and done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first == "error oracle_not_committed: the oracle tests/none.py does not exist"
    assert second.startswith("hint: commit it")


# --- the repository -----------------------------------------------------------------------------


def test_where_no_checkout_is_there_is_no_spike(shared: Place) -> None:
    shared.refused("not_a_repository", words(), cwd=shared.home)
    shared.refused("unsupported_repository", words(), cwd=shared.repo / ".git")
    bare, unborn = shared.base / "bare.git", shared.base / "unborn"
    git(shared.base, "init", "-q", "--bare", str(bare))
    git(shared.base, "init", "-q", str(unborn))
    told = shared.refused("unsupported_repository", words(), cwd=bare)
    assert "bare" in told.message
    told = shared.refused("unsupported_repository", words(), cwd=unborn)
    assert "no commit" in told.message


def test_a_submodule_is_no_place_for_a_spike(shared: Place) -> None:
    above = shared.base / "above"
    make_repo(above, {"x": "x\n"})
    allow = ("-c", "protocol.file.allow=always")
    git(above, *allow, "submodule", "--quiet", "add", str(shared.repo), "lib")
    git(above, "commit", "-q", "-m", "a module")
    told = shared.refused("unsupported_repository", words(), cwd=above / "lib")
    assert "submodule" in told.message


@pytest.mark.parametrize("how", ["detached", "linked"])
def test_a_detached_head_and_a_linked_worktree_are_fine(how: str, place: Place) -> None:
    if how == "linked":
        place.git("worktree", "add", "-q", str(place.base / "linked"), "-b", "side")
    else:
        place.git("checkout", "-q", "--detach")
    cwd = place.base / "linked" if how == "linked" else place.repo
    told = place.opened(words(), cwd=cwd)
    assert place.spike(told["root"], "start")[0] == 0
    assert place.git("rev-parse", "spike/new") == place.git("rev-parse", "HEAD")
    assert place.spike(told["root"], "kill")[0] == 0
    assert place.git("branch", "--list", "spike/*") == ""


NAMES = {
    "spaces": "my own repo",
    "quotes": 'it\'s "quoted" $(x) `y`',
    "two lines": "two\nlines",
    "not ASCII": "größe-日本",
    "no UTF-8": b"caf\xe9".decode("utf-8", "surrogateescape"),
}


@pytest.mark.parametrize("what", NAMES)
def test_any_name_a_directory_can_have_works(what: str, tmp_path: Path) -> None:
    odd = NAMES[what]
    files = {f"src/{odd}.txt": "one\ntwo\n", f"tests/{odd}.sh": "grep -q GREEN src/*.txt\n"}
    place = Place(tmp_path / "place", files, name=odd)
    root = place.base / f"root of {odd}"
    if what == "no UTF-8":
        told = place.refused("unsupported_repository", words("--root", str(root)))
        assert "caf<dce9>" in told.message
        return
    if what == "two lines":
        # Paths in the contract are text without control characters: such a file is no oracle.
        told = place.init(*words(oracle=(f"tests/{odd}.sh",)))
        assert told.code in ("path_invalid", "invalid_contract"), told
        made = place.opened(words("--root", str(root)))
    else:
        line = words("--root", str(root), oracle=(f"tests/{odd}.sh",))
        made = place.opened((*line[: line.index("--")], "--", "sh", f"tests/{odd}.sh"))
    assert place.spike(made["root"], "start")[0] == 0, made
    patch = place.base / "fix.patch"
    patch.write_bytes(b"--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+GREEN\n")
    assert place.spike(made["root"], "apply", str(patch))[0] == 0
    _code, told = place.spike(made["root"], "map")
    assert [hunk["path"] for hunk in told["hunks"]] == ["src/a.py"]
    assert place.spike(made["root"], "kill")[0] == 0


# --- the oracle ---------------------------------------------------------------------------------


def test_a_dirty_or_uncommitted_oracle_needs_include(place: Place) -> None:
    (place.repo / ORACLE).write_text("assert 2\n")
    told = place.refused("oracle_not_committed", words())
    assert f"--include {ORACLE}" in told.hint
    (place.repo / "tests/new.py").write_text("assert 3\n")
    place.refused("oracle_not_committed", words(oracle=("tests/new.py",)))
    (place.repo / "check.sh").unlink()
    place.refused("oracle_not_committed", words(oracle=("check.sh",)))
    place.git("checkout", "-q", "check.sh")

    both = ("--include", ORACLE, "--include", "tests/new.py")
    made = place.opened(words(*both, oracle=(ORACLE, "tests/new.py")))
    work = Path(made["work"])
    assert (work / ORACLE).read_text() == "assert 2\n"
    assert (work / "tests/new.py").read_text() == "assert 3\n"
    head = place.git("rev-parse", "HEAD")
    assert place.git("rev-parse", "spike/new^") == head
    names = place.git("diff", "--name-only", head, "spike/new").split()
    assert names == ["tests/new.py", ORACLE]
    assert place.git("status", "--porcelain") == f"M {ORACLE}\n?? tests/new.py"


# --- names that are taken -----------------------------------------------------------------------


def test_a_second_spike_of_a_name_is_refused_and_the_first_stays(place: Place) -> None:
    made = place.opened(words())
    assert place.spike(made["root"], "start")[0] == 0
    told = place.refused("spike_exists", words())
    assert made["root"] in told.message
    told = place.refused("spike_exists", words("--root", str(place.base / "other")))
    assert "spike/new" in told.message
    code, status = place.spike(made["root"], "status")
    assert (code, status["phase"]) == (0, "waiting"), status
    place.opened(words(name="another"))


def test_a_branch_called_spike_is_in_the_way_and_named(place: Place) -> None:
    place.git("branch", "spike")
    told = place.refused("unsupported_repository", words())
    assert "branch called spike " in told.message and "git branch -m spike" in told.hint
    place.git("branch", "-m", "spike", "spike/new/deeper")
    told = place.refused("unsupported_repository", words())
    assert "spike/new/deeper" in told.message


def test_two_inits_at_once_make_one_spike(place: Place) -> None:
    """The later one must not take away what the first has made."""
    codes: list[str] = []

    def run() -> None:
        codes.append(place.init(*words()).code)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.count("") == 1, codes
    (root,) = place.spikes.glob("*/new")
    assert place.spike(str(root), "start")[0] == 0
    assert place.spike(str(root), "verify")[0] == 0


def test_a_directory_that_the_human_made_is_kept(place: Place) -> None:
    root = place.base / "mine"
    root.mkdir(mode=0o750)
    place.git("branch", "spike")
    place.refused("unsupported_repository", words("--root", str(root)))
    place.git("branch", "-D", "spike")
    made = place.opened(words("--root", str(root)))
    assert made["root"] == str(root)


# --- the machine --------------------------------------------------------------------------------


@pytest.mark.security
def test_without_bubblewrap_the_remedy_is_said(shared: Place) -> None:
    told = shared.refused("sandbox_unavailable", words(), **_blind(shared))
    assert "install bubblewrap" in told.hint and "spike-referee[sandbox]" in told.hint


def _blind(place: Place) -> dict[str, str]:
    return without_bubblewrap(place.base)


def test_without_git_it_is_said(shared: Place) -> None:
    empty = shared.base / "nothing"
    empty.mkdir()
    told = shared.refused("git_failed", words(), PATH=str(empty))
    assert "git is not installed" in told.message


@pytest.mark.skipif(not can_mount(), reason="no mount namespace for this user")
@pytest.mark.parametrize(
    "mount", ["ro", *(f"size={n}k" for n in (4, 60, 72)), *(f"nr_inodes={n}" for n in (4, 9, 20))]
)
def test_a_full_or_read_only_disk_leaves_nothing(mount: str, shared: Place) -> None:
    shared.spikes.mkdir(exist_ok=True)
    before = snapshot(shared.base)
    told, left = within(mount, *words(), place=shared)
    check_told(told, "storage_full")
    assert left == []
    assert snapshot(shared.base) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_home_of_somebody_else_is_said(place: Place) -> None:
    place.spikes.mkdir(mode=0o555)
    told = place.refused("storage_full", words())
    assert "Permission denied" in told.message


def test_a_signal_leaves_nothing_half_made(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.git("config", "gc.auto", "0")  # nothing of git's own in the background
    for n in range(5000):
        file = place.repo / f"src/d{n % 50}/f{n}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{n}\n")
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "many files")
    before = snapshot(place.base)
    with subprocess.Popen(
        [*CLI, *words()],
        cwd=place.repo,
        env=place.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        for text in iter(lambda: run.stderr.read(1), ""):
            if text == "d":  # "making the worktree" and what follows: git is at work
                break
        run.send_signal(signal.SIGTERM)
        rest = run.stderr.read()
        assert run.wait(60) == 143, rest
    assert "Traceback" not in rest
    left = snapshot(place.base)
    assert [k for k in {*before, *left} if before.get(k) != left.get(k)] == []


# --- the test -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def invoices(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A repository whose tests are run by pytest; one oracle can't be collected."""
    broken = "import nothing_of_that_name\n\n\ndef test_rounding():\n    assert 1 == 2\n"
    named = "import time\n\nimport pytest\n\n\n"
    named += '@pytest.mark.parametrize("at", [time.time_ns()])\n'
    named += "def test_moment(at):\n    assert at is None\n"
    where = tmp_path_factory.mktemp("invoices")
    more = {"tests/test_broken.py": broken, "tests/test_moment.py": named}
    place = Place(where, {**INVOICE, **more})
    place.environ["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return place


def _broken(*more: str) -> tuple[Any, ...]:
    hypothesis = INVOICE_HYPOTHESIS.replace("test_invoice.py::test_rounding", "test_broken.py")
    return words(*more, **{**PYTEST, "hypothesis": hypothesis, "oracle": ("tests/test_broken.py",)})


def test_a_collection_error_is_refused_before_anything_stays(invoices: Place) -> None:
    told = invoices.refused("not_red", _broken())
    assert "nothing_of_that_name" in told.message
    assert "--accept-collection-error" in told.hint
    told = invoices.refused("not_red", words(**{**PYTEST, "hypothesis": _no_tests()}))
    assert "no test" in told.message, told


def _no_tests() -> str:
    return INVOICE_HYPOTHESIS.replace("test_invoice.py::test_rounding", "test_invoice.py -k none")


@pytest.mark.parametrize(
    ("place", "warned"), [("tests/test_invoice.py", False), ("tests/test_more.py", True)]
)
def test_a_hidden_file_that_the_measurement_passes_by_is_warned_of(
    place: str, warned: bool, invoices: Place
) -> None:
    hidden = invoices.base / "hidden.py"
    hidden.write_text("def test_more():\n    assert True\n")
    made = invoices.opened(words("--hidden", f"{place}={hidden}", name="hidden", **PYTEST))
    assert any(f"hidden {place} is not among" in text for text in made["warnings"]) is warned
    assert invoices.spike(made["root"], "kill")[0] == 0
    assert invoices.spike(made["root"], "rm")[0] == 0


def test_a_baseline_whose_red_tests_change_is_told_which(invoices: Place) -> None:
    """Both runs fail with the same status; what fails has another name each time."""
    hypothesis = INVOICE_HYPOTHESIS.replace("test_invoice.py::test_rounding", "test_moment.py")
    oracle = {"hypothesis": hypothesis, "oracle": ("tests/test_moment.py",)}
    made = invoices.opened(words(name="moment", **{**PYTEST, **oracle}))
    code, told = invoices.spike(made["root"], "start")
    assert (code, told["error"]["code"]) == (78, "flaky_baseline")
    said = told["error"]["message"]
    assert "red in one of the two only" in said and said.count("test_moment.py::test_moment[") == 2
    assert invoices.spike(made["root"], "kill")[0] == 0


def test_a_collection_error_can_be_accepted_as_weaker(invoices: Place) -> None:
    made = invoices.opened(_broken("--accept-collection-error"))
    assert any("weaker red" in text for text in made["warnings"])
    code, told = invoices.spike(made["root"], "start")
    assert (code, told["weak"]) == (0, "collection_error")
    assert invoices.spike(made["root"], "kill")[0] == 0


STARTS: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "already green": ("already_green", "exit 0\n", (), "nothing to find out"),
    "flaky": ("flaky_baseline", "sleep 1\nexit $(( $(date +%s) % 100 + 1 ))\n", (), "differ"),
    "killed": ("setup_failed", "kill -9 $$\n", (), "did not run as a test"),
    "no program inside": ("setup_failed", "no-such-program-at-all\n", (), "exit code 127"),
    "setup fails": ("setup_failed", "exit 1\n", ("sh", "-c", "echo no compiler; exit 3"), "3"),
    "setup leaves paths": (
        "setup_failed",
        "exit 1\n",
        ("sh", "-c", "mkdir build && touch build/x src/new.txt"),
        "src/new.txt",
    ),
}


@pytest.mark.parametrize("what", STARTS)
def test_a_start_that_fails_says_why_and_may_be_repeated(what: str, tmp_path: Path) -> None:
    code, script, setup, named = STARTS[what]
    place = Place(tmp_path / "place", {"check.sh": script})
    more = ("--setup", " ".join(f"'{word}'" for word in setup)) if setup else ()
    made = place.opened(words(*more))
    before = place.users()
    for _ in (1, 2) if what != "flaky" else (1,):
        exit_code, told = place.spike(made["root"], "start")
        error = told["error"]
        assert (exit_code, error["code"]) == (78, code), told
        assert named in error["message"] + error["hint"] and error["hint"]
        if what == "setup leaves paths":
            shutil.rmtree(Path(made["work"]) / "build")
            (Path(made["work"]) / "src/new.txt").unlink()
    assert place.users() == before
    exit_code, told = place.spike(made["root"], "kill")
    assert exit_code == 0 and told["decision"] == "KILL"
    reason = code if code in ("already_green", "flaky_baseline") else "closed_by_human"
    assert told["reason"] == reason
    assert place.git("branch", "--list", "spike/*") == ""
    assert place.git("worktree", "list", "--porcelain").count("worktree ") == 1
