"""B27-B42, B51-B62: hidden changes, git's environment, test integrity, approvals, cleanup."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import INVOICE, Open, git, make_repo, open_invoice, plain_options, snapshot
from support_bugs import A, Bench, bench, cli, diff, said
from wire import Wire, rows

from spike_mcp.session.opening import init
from spike_mcp.session.starting import start

pytestmark = pytest.mark.security


def test_b27_new_files_and_a_moved_head_are_named(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        (b.work / "src/extra.py").write_text("x\n")
        (b.work / "src/sub/deep").mkdir(parents=True)
        (b.work / "src/sub/deep/e.py").write_text("x\n")
        (b.work / "empty").mkdir()
        code, told = cli(b.opened, "verdict")
        assert (code, told["decision"]) == (10, "KILL")
        named = json.dumps(told["details"])
        assert all(name in named for name in ("src/extra.py", "src/sub/deep/e.py", "empty"))
        git(b.work, "add", "-A")
        git(b.work, "commit", "-q", "-m", "moved")
        code, told = b.final()
        assert code == 5 and "worktree_tampered" in told["reasons"]


def test_b28_ignore_rules_hide_nothing(tmp_path: Path) -> None:
    with bench(tmp_path, files={".gitignore": "build/\n"}) as b:
        assert b.create("build/x.py") == "path_not_allowed"
        assert b.edit("build/", "", path=".gitignore") == "path_protected"
        (b.work / "build").mkdir()
        (b.work / "build/evil.py").write_text("x\n")
        exclude = b.opened.repo / ".git/info/exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text("src/evil2.py\n")
        (b.work / "src/evil2.py").write_text("x\n")
        _code, told = b.final()
        named = json.dumps(told["details"])
        assert told["decision"] == "KILL"
        assert "build/evil.py" in named and "src/evil2.py" in named


@pytest.mark.parametrize("how", ["attribute", "info", "filter", "external", "fsmonitor", "nul"])
def test_b29_no_attribute_or_driver_hides_a_change_or_runs(tmp_path: Path, how: str) -> None:
    marker = tmp_path / "marker"
    with bench(tmp_path) as b:
        repo = b.opened.repo
        a = b.work / "src/a.py"
        a.write_bytes(a.read_bytes() + (b"x\0y\n" if how == "nul" else b"extra\n"))
        if how == "attribute":
            (b.work / ".gitattributes").write_text("*.py -diff\n")
        if how == "info":
            (repo / ".git/info").mkdir(exist_ok=True)
            (repo / ".git/info/attributes").write_text("*.py -diff filter=e\n")
        if how == "filter":
            git(repo, "config", "filter.e.clean", f"touch {marker}; git show HEAD:src/a.py")
            (repo / ".git/info").mkdir(exist_ok=True)
            (repo / ".git/info/attributes").write_text("*.py filter=e\n")
        if how == "external":
            git(repo, "config", "diff.external", f"touch {marker}")
        if how == "fsmonitor":
            git(repo, "config", "core.fsmonitor", f"touch {marker}")
        code, told = cli(b.opened, "check")
        assert code in (1, 5)
        assert "src/a.py" in json.dumps(told["reasons"])
        b.final()
        cli(b.opened, "status")
        assert not marker.exists()
        if how == "attribute":
            assert ".gitattributes" in json.dumps(told["reasons"])


def test_b31_the_users_git_configuration_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[diff]\n\tnoprefix = true\n\tmnemonicPrefix = true\n\tcontext = 0\n"
        "\talgorithm = histogram\n\tindentHeuristic = false\n"
        "[color]\n\tui = always\n[core]\n\tquotePath = false\n\tautocrlf = true\n"
        "[commit]\n\tgpgsign = true\n"
    )
    ids = []
    for number, where in enumerate(("", str(home))):
        if where:
            monkeypatch.setenv("HOME", where)
        with bench(tmp_path / str(number)) as b:
            assert b.edit("two\n", "GREEN\n") == ""
            assert b.run()
            (hunk,) = b.pending()
            ids.append(hunk)
            assert b.approve(hunk)[0] == 0
            code, told = cli(b.opened, "verdict")
            assert (code, told["decision"]) == (0, "SHIP")
            assert cli(b.opened, "ship")[0] == 0
    assert ids[0] == ids[1]


def test_b33_a_rewritten_pointer_is_found_and_obeyed_by_nobody(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    evil = tmp_path / "evil"
    make_repo(evil, {"x": "x\n"})
    git(evil, "config", "core.fsmonitor", f"touch {marker}")
    with bench(tmp_path) as b:
        assert b.edit("two\n", "GREEN\n") == ""
        assert b.run()
        pointer = b.work / ".git"
        assert pointer.is_file()
        kept = pointer.read_text()
        pointer.write_text(f"gitdir: {evil}/.git\n")
        assert b.edit("three", "tree") == "worktree_tampered"
        code, told = cli(b.opened, "verdict")
        assert (code, told["reason"]) == (10, "worktree_tampered")
        pointer.unlink()
        pointer.mkdir()
        assert b.edit("three", "tree") == "worktree_tampered"
        pointer.rmdir()
        pointer.write_text(kept)
        assert b.edit("three", "tree") == ""
        admin = Path(kept.removeprefix("gitdir: ").strip())
        (admin / "commondir").write_text(f"{evil}/.git\n")
        code, told = b.final()
        assert (code, told["reason"]) == (5, "worktree_tampered")
        assert not marker.exists()


def test_b35_a_stale_index_lock_blocks_nothing_and_stays(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        admin = Path((b.work / ".git").read_text().removeprefix("gitdir: ").strip())
        lock = admin / "index.lock"
        lock.write_bytes(b"")
        assert b.edit("two\n", "GREEN\n") == ""
        assert b.run()
        assert b.approve(*b.pending())[0] == 0
        assert cli(b.opened, "verdict")[0] == 0
        assert lock.exists()


def test_b35_the_users_own_commits_never_fail_because_of_us(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for number in range(5):
            (b.opened.repo / "mine.txt").write_text(f"{number}\n")
            b.server.begin("spike_status")
            git(b.opened.repo, "add", "mine.txt")
            git(b.opened.repo, "commit", "-q", "-m", f"mine {number}")
        assert b.edit("two\n", "GREEN\n") == ""


def test_b38_a_result_always_belongs_to_the_source_on_disk(tmp_path: Path) -> None:
    opened = open_invoice(tmp_path)
    with Wire(opened.spike.root) as server:
        b = Bench(opened, server)
        right = 'value.quantize(Decimal("0.01"), rounding="ROUND_HALF_EVEN")\n'
        wrong = 'value.quantize(Decimal("0.01"), rounding="ROUND_HALF_DOWN")\n'
        stub = 'raise NotImplementedError("spike target")\n'
        assert b.edit(stub, "return " + right, path="invoice.py") == ""
        assert b.run()
        assert b.edit(right, wrong, path="invoice.py") == ""
        assert not b.run()
        assert b.edit(wrong, right, path="invoice.py") == ""
        assert b.run()
        planted = b.work / "invoice.pyc"
        planted.write_bytes(b"x")
        _code, told = cli(b.opened, "verdict")
        assert told["decision"] == "KILL"
        assert "invoice.pyc" in json.dumps(told)


_SPOOFS = {
    "exit at import": "import os\nos._exit(0)\n",
    "exit inside": "def round_money(value):\n    import os\n    os._exit(0)\n",
    "exit at the end": "import atexit, os\natexit.register(os._exit, 0)\n"
    "def round_money(value):\n    return 1\n",
    "skip": "def round_money(value):\n    import pytest\n    pytest.skip('later')\n",
    "xfail": "def round_money(value):\n    import pytest\n    pytest.xfail('later')\n",
}


@pytest.mark.parametrize("how", sorted(_SPOOFS))
def test_b39_exit_status_zero_is_no_proof(tmp_path: Path, how: str) -> None:
    opened = open_invoice(tmp_path)
    with Wire(opened.spike.root) as server:
        b = Bench(opened, server)
        old = INVOICE["invoice.py"]
        assert b.edit(old, _SPOOFS[how], path="invoice.py") == ""
        assert not b.run()
        for hunk in b.pending():
            assert b.approve(hunk, tag="rounding of money by the bankers")[0] == 0
        code, told = b.final()
        assert told["decision"] == "KILL"
        assert told["reason"] in ("test_failed", "tests_not_run", "evidence_mismatch")
        assert code == 4


@pytest.mark.parametrize("name", ["conftest.py", "src/conftest.py", "tests/conftest.py", "tox.ini"])
def test_b40_nothing_that_the_runner_loads_can_be_planted(tmp_path: Path, name: str) -> None:
    with bench(tmp_path) as b:
        assert b.create(name) == "path_protected"
        (b.work / name).write_text("x = 1\n")
        code, told = b.final()
        assert (code, told["decision"]) == (5, "KILL")


def test_b42_the_run_has_a_fixed_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"check.sh": "env; cat src/a.py; exit 1\n"}
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-value")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setenv("PYTHONSTARTUP", "/tmp/x")
    with bench(tmp_path, files=files) as b:
        assert b.edit("two\n", "2\n") == ""
        assert not b.run()
        for name in ("s3cr3t-value", "PYTEST_ADDOPTS", "PYTHONPATH", "PYTHONSTARTUP", "SPIKE"):
            assert name not in b.text, name
        everything = b"".join(p.read_bytes() for p in b.judge.rglob("*") if p.is_file())
        assert b"s3cr3t-value" not in everything


def test_b51_a_torn_tail_is_isolated_and_a_damaged_middle_kills(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert b.edit("two\n", "GREEN\n") == ""
        ledger = b.judge / "ledger.jsonl"
        with ledger.open("ab") as file:
            file.write(b'{"seq":99,"event":"hunk_appr')
        assert b.edit("three", "tree") == ""
        events = [row["event"] for row in rows(b.opened)]
        assert "tail_discarded" in events
        lines = ledger.read_bytes().split(b"\n")
        lines[3] = lines[3].replace(b"1", b"2", 1)
        ledger.write_bytes(b"\n".join(lines))
        assert b.edit("tree", "three") == "ledger_damaged"
        code, told = b.final()
        assert (code, told["reason"]) == (5, "ledger_damaged")


def test_b56_an_approval_is_bound_to_content(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(1, 31))
    with bench(tmp_path, files={"src/t.txt": text}) as b:
        assert b.edit("line 10\n", "ten\n", path="src/t.txt") == ""
        (shown,) = b.pending()
        assert b.edit("ten\n", "TEN\n", path="src/t.txt") == ""
        code, told = b.approve(shown)
        assert (code, told["error"]["code"]) == (78, "hunk_changed")
        (now,) = b.pending()
        assert b.approve(now)[0] == 0
        assert b.edit("TEN\n", "TEn\n", path="src/t.txt") == ""
        assert len(b.pending()) == 1
        assert b.edit("TEn\n", "TEN\n", path="src/t.txt") == ""
        assert len(b.pending()) == 1, "an approval never comes back by itself"
        assert b.approve(*b.pending())[0] == 0
        assert b.edit("line 14\n", "fourteen\n", path="src/t.txt") == ""
        assert b.edit("line 2\n", "two\ntwo and a half\n", path="src/t.txt") == ""
        regions = [(r["state"]) for hunk in b.map() for r in hunk["regions"]]
        assert regions.count("approved") == 1 and regions.count("pending") == 2
        code, told = b.final()
        assert (code, told["reason"]) == (1, "unexplained_diff")


def test_b58_reject_takes_back_exactly_its_own_bytes(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert b.apply(diff("src/a.py", " one", "-two", "+TWO", " three")) == ""
        assert b.apply(diff("src/a.py", " TWO", "-three", "+THREE", head="@@ -2,2 +2,2 @@")) == ""
        assert b.apply(diff("src/a.py", "-TWO", "+Two", " THREE", head="@@ -2,2 +2,2 @@")) == ""
        code, told = cli(b.opened, "reject", "P1")
        assert code == 78 and "P3" in told["error"]["message"] + told["error"]["hint"]
        assert cli(b.opened, "reject", "P3", "--reason", "no capitals")[0] == 0
        assert b.read() == A.replace("two", "TWO").replace("three", "THREE").encode()
        b.server.call("spike_status")
        assert "no capitals" in json.dumps(b.server.meta)
        assert cli(b.opened, "reject", "--pending")[0] == 0
        assert b.read() == A.encode()
        assert b.map() == []
        stale = diff("src/a.py", " TWO", "-THREE", "+tree", head="@@ -2,2 +2,2 @@")
        assert b.apply(stale) in ("no_match", "stale_file")


def test_b58_undo_brings_the_rejected_bytes_back(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert b.edit("two\n", "GREEN\n") == ""
        (hunk,) = b.pending()
        assert b.approve(hunk)[0] == 0
        assert cli(b.opened, "reject", hunk)[0] == 0
        assert b.read() == A.encode()
        assert cli(b.opened, "undo")[0] == 0
        assert b"GREEN" in b.read()
        assert [h["state"] for h in b.map()] == ["approved"]
        assert cli(b.opened, "undo")[0] == 0
        assert [h["state"] for h in b.map()] == ["pending"]


def test_b59_the_run_finds_no_judge_and_no_tool_approves(tmp_path: Path) -> None:
    probe = (
        "ls ../judge ../verdict /root/.spikes 2>&1 | head -5; "
        "python3 -m spike_mcp.edge.cli approve h1 --tag 'rewriting sample' 2>&1 | tail -1; "
        "echo x > ../judge/hunk-map.yml 2>&1 || echo refused; exit 1\n"
    )
    with bench(tmp_path, files={"check.sh": probe}) as b:
        assert b.edit("two\n", "GREEN\n") == ""
        before = (b.judge / "hunk-map.yml").read_bytes()
        b.run()
        assert (b.judge / "hunk-map.yml").read_bytes() == before
        assert "ledger.jsonl" not in b.text
        tools = b.server.ask("tools/list")["result"]["tools"]
        assert not [t["name"] for t in tools if "approve" in t["name"] or "tag" in t["name"]]
        assert b.server.call("approve", hunk="h1")
        assert b.server.meta["code"] == "unknown_tool"
        row = next(r for r in rows(b.opened) if r["event"] == "session_opened")
        assert row["tier"] == "configured"
        _code, told = cli(b.opened, "status")
        assert told["approval_strength"] == "none"


def test_b59_a_signed_spike_takes_no_unsigned_decision(tmp_path: Path) -> None:
    with bench(tmp_path, passphrase="correct horse") as b:
        assert b.edit("two\n", "GREEN\n") == ""
        (hunk,) = b.pending()
        code, told = cli(b.opened, "approve", hunk, "--tag", "rewriting sample lines", stdin="y\n")
        assert (code, told["error"]["code"]) == (77, "not_authorised")
        assert [h["state"] for h in b.map()] == ["pending"]


def test_b60_no_view_sends_a_raw_control_character(tmp_path: Path) -> None:
    nasty = (
        "a\x1b[2K\x1b[1Ab \x1b]52;c;eA==\x07 \x1b]8;;http://x\x1b\\l \x08 e()\rpass \u202e \u200b"
    )
    with bench(tmp_path, allow_control=True) as b:
        assert b.apply(diff("src/a.py", " one", f"+{nasty}")) == ""
        assert b.create("src/\x1b[2K.py") == "path_invalid"
        assert "\x1b" not in b.text
        (hunk,) = b.pending()
        assert b.approve(hunk, tag=f"rewriting the sample {nasty}")[0] in (0, 78)
        verbs = [("status",), ("map",), ("diff",), ("show", hunk), ("log",), ("check",), ("test",)]
        for verb in [*verbs, ("verdict",)]:
            shown = said(b.opened, *verb)
            bad = [c for c in shown if (ord(c) < 32 and c not in "\n\t") or c in "\x7f\u202e\u200b"]
            assert not bad, (verb, bad)


def test_b62_cleaning_up_touches_only_the_disposable_worktree(tmp_path: Path) -> None:
    with bench(tmp_path, files={".gitignore": ".env\n"}) as b:
        repo = b.opened.repo
        (repo / "data.csv").write_text("mine\n")
        (repo / ".env").write_text("SECRET=1\n")
        (repo / ".gitignore").write_text(".env\nother\n")
        git(repo, "branch", "feature")
        git(repo, "stash", "list")
        assert b.create("src/new.py") == ""
        before = snapshot(repo, skip=(".git/worktrees", ".git/refs/heads/spike", ".git/objects"))
        (hunk,) = b.pending()
        assert cli(b.opened, "reject", hunk)[0] == 0
        assert not (b.work / "src/new.py").exists()
        code, _told = cli(b.opened, "kill", "--note", "it looked elsewhere")
        assert code in (0, 7)
        after = snapshot(repo, skip=(".git/worktrees", ".git/refs/heads/spike", ".git/objects"))
        changed = {k for k in {*before, *after} if before.get(k) != after.get(k)}
        own = (".git/refs/heads", ".git/logs/refs/heads", ".git/logs/refs/heads/spike")
        assert {name for name in changed if not name.startswith(own[2])} <= set(own)
        assert not b.work.exists()
        assert (b.judge / "ledger.jsonl").exists()
        assert (b.opened.spike.verdict_dir / "result.json").exists()


def test_b62_a_work_directory_that_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        moved = tmp_path / "moved"
        os.rename(b.work, moved)
        b.work.mkdir()
        (b.work / "precious").write_text("x\n")
        code, _told = cli(b.opened, "kill")
        assert code != 0
        assert (b.work / "precious").exists()


def test_b37_the_run_imports_the_tree_under_test(tmp_path: Path) -> None:
    """An editable install of the main checkout (a .pth beside the packages) finds work/'s files."""
    files = {
        "pkg/money.py": 'def half(n):\n    raise NotImplementedError("later")\n',
        "pkg/__init__.py": "",
        "tests/test_money.py": "from pkg.money import half\n\n\ndef test_half():\n"
        "    assert half(4) == 2\n    assert half(10) == 5\n",
    }
    repo = make_repo(tmp_path / "repo", files)
    python = _venv_with_pytest(tmp_path / "venv", repo)
    options = plain_options(
        repo,
        tmp_path / "root",
        hypothesis="halving numbers makes half right for callers",
        allow=("pkg/money.py",),
        oracle=("tests/test_money.py",),
        argv=(str(python), "-m", "pytest", "-q", "tests/test_money.py"),
    )
    made = init(options)
    start(made.spike, on_progress=lambda _t: None)
    with Wire(made.root) as server:
        b = Bench(Open(made.spike, repo), server)
        stub = '    raise NotImplementedError("later")\n'
        assert b.edit(stub, "    return n // 2\n", path="pkg/money.py") == ""
        assert b.run(), b.text
        assert b.approve(*b.pending(), tag="halving numbers for callers")[0] == 0
        code, told = cli(b.opened, "verdict")
        assert (code, told["decision"]) == (0, "SHIP"), told


def _venv_with_pytest(where: Path, checkout: Path) -> Path:
    """A virtual environment that holds pytest's files and an editable install of `checkout`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(where)], check=True)
    site = next(where.glob("lib/python3*/site-packages"))
    import pytest as installed

    source = Path(installed.__file__).parents[1]
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(source / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(source / "py.py", site)
    (site / "editable.pth").write_text(f"{checkout}\n")
    return where / "bin/python"
