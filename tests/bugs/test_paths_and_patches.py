"""B01-B25, B63: paths, parser differences, patch dialects, placement, encodings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support import Open, git, make_repo, plain_options
from support_bugs import A, Bench, bench, creation, diff, said
from wire import Wire

from spike_mcp.session.opening import init
from spike_mcp.session.starting import start

pytestmark = pytest.mark.security


def test_b01_only_whole_components_of_one_canonical_form_are_allowed(tmp_path: Path) -> None:
    paths = [
        *("src_evil/x.py", "srcx.py", "src/../tests/new.py", "src/./../../judge/x", "//src/a.py"),
        *("/abs/work/src/a.py", "src/a.py/", "src//a.py", "src/ a.py"),
    ]
    with bench(tmp_path) as b:
        before = b.tree()
        for path in paths:
            code = b.apply(creation(path, "x"))
            assert code in ("path_not_allowed", "path_invalid", "path_protected"), (path, code)
            assert b.create(path) in ("path_not_allowed", "path_invalid", "path_protected")
        assert b.tree() == before
        assert b.map() == []
        told = [row for row in b.refusals() if row.startswith("path_")]
        assert told
        assert b.create("src/b.py") == ""


def test_b02_a_link_in_the_path_is_never_followed(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        (b.work / "src/link").symlink_to("../../judge")
        (b.work / "src/dang").symlink_to("../../judge/new.json")
        (b.work / "src/l2").symlink_to("../tests/test_oracle.py")
        judge = sorted(p.name for p in b.judge.iterdir())
        wanted = ("symlink_in_path", "out_of_band_change")
        assert b.create("src/link/x.py") in wanted
        assert b.create("src/dang") in wanted
        assert b.edit("assert", "pass", path="src/l2") in wanted
        assert sorted(p.name for p in b.judge.iterdir()) == judge
        assert b.read("tests/test_oracle.py") == b"assert 1\n"


def test_b02_a_link_of_the_baseline_is_never_written_through(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "linked", {"src/a.py": A, "tests/test_oracle.py": "assert 1\n"})
    (repo / "check.sh").write_text("grep -q GREEN src/a.py\n")
    os.symlink("../tests", repo / "src/peek")
    os.symlink("../../judge/new.json", repo / "src/dang")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "links")
    made = init(plain_options(repo, tmp_path / "root2"))
    start(made.spike, on_progress=lambda _t: None)
    with Wire(made.root) as server:
        b2 = Bench(Open(made.spike, repo), server)
        assert b2.create("src/peek/new.py") in ("symlink_in_path", "path_protected")
        assert b2.create("src/dang") == "symlink_in_path"
        assert b2.edit("assert", "pass", path="src/peek/test_oracle.py") != ""
        assert b2.read("tests/test_oracle.py") == b"assert 1\n"


def test_b04_a_hard_link_never_leads_to_the_judge_or_the_oracle(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        contract = (b.judge / "contract.toml").read_bytes()
        os.link(b.judge / "contract.toml", b.work / "src/h.py")
        os.link(b.work / "tests/test_oracle.py", b.work / "src/o.py")
        for path in ("src/h.py", "src/o.py"):
            assert b.edit("a", "b", path=path) in ("hard_linked", "out_of_band_change")
        assert (b.judge / "contract.toml").read_bytes() == contract
        assert b.read("tests/test_oracle.py") == b"assert 1\n"
        _code, told = b.final()
        assert told["decision"] == "KILL"


@pytest.mark.parametrize(
    "head",
    [
        "diff --git a/src/a.py b/src/a.py\n"
        "--- a/tests/test_oracle.py\n+++ b/tests/test_oracle.py\n",
        "--- a/src/a.py\n+++ b/tests/test_oracle.py\n",
        "--- a/tests/test_oracle.py\n+++ b/src/a.py\n",
    ],
)
def test_b06_header_lines_that_disagree_are_malformed(tmp_path: Path, head: str) -> None:
    with bench(tmp_path) as b:
        code = b.apply(head + "@@ -1 +1 @@\n-assert 1\n+assert True\n")
        assert code == "patch_malformed"
        assert "src/a.py" in b.text and "tests/test_oracle.py" in b.text
        assert b.read("tests/test_oracle.py") == b"assert 1\n"


def test_b08_a_change_without_a_hunk_is_refused_or_an_entry_of_its_own(tmp_path: Path) -> None:
    kinds = {
        "rename": "diff --git a/tests/test_oracle.py b/src/b.py\nsimilarity index 100%\n"
        "rename from tests/test_oracle.py\nrename to src/b.py\n",
        "copy": "diff --git a/tests/test_oracle.py b/src/b.py\nsimilarity index 100%\n"
        "copy from tests/test_oracle.py\ncopy to src/b.py\n",
        "mode": "diff --git a/src/a.py b/src/a.py\nold mode 100644\nnew mode 100755\n",
        "gitlink": "diff --git a/src/sub b/src/sub\nnew file mode 160000\n--- /dev/null\n"
        f"+++ b/src/sub\n@@ -0,0 +1 @@\n+Subproject commit {'1' * 40}\n",
        "binary": "diff --git a/src/a.py b/src/a.py\nGIT binary patch\n"
        "literal 3\nKcmZQzWMT#Y01f~L\n\n",
    }
    with bench(tmp_path) as b:
        before = b.tree()
        for kind, patch in kinds.items():
            assert b.apply(patch) in ("unsupported_change_kind", "path_protected"), kind
        assert b.tree() == before
        assert b.create("src/__init__.py", "") == ""
        delete = diff("src/a.py", *(f"-{line}" for line in A.splitlines()), head="@@ -1,8 +0,0 @@")
        assert b.apply(delete.replace("+++ b/src/a.py", "+++ /dev/null")) == ""
        assert sorted((h["path"], h["kind"], h["state"]) for h in b.map()) == [
            ("src/__init__.py", "create", "pending"),
            ("src/a.py", "delete", "pending"),
        ]


def test_b09_protected_names_are_patterns_not_a_snapshot(tmp_path: Path) -> None:
    names = ["conftest.py", "tests/conftest.py", "src/conftest.py", "pytest.ini", "src/.git/HEAD"]
    with bench(tmp_path) as b:
        for name in names:
            assert b.apply(creation(name, "x")) in ("path_protected", "path_invalid"), name
        (b.work / "src/conftest.py").write_text("x = 1\n")
        code, told = b.final()
        assert (code, told["reason"]) == (5, "test_configuration_changed")


def test_b10_no_line_is_ever_lost_to_a_wrong_count(tmp_path: Path) -> None:
    lines = (" one", "-two", "+TWO", " three", "+EXTRA1", "+EXTRA2")
    with bench(tmp_path) as b:
        assert b.apply(diff("src/a.py", *lines)) == ""
        assert "counts_corrected" in b.text
        assert b.read().startswith(b"one\nTWO\nthree\nEXTRA1\nEXTRA2\nfour\n")


def test_b11_every_dialect_is_taken_or_named_and_nothing_is_an_empty_success(
    tmp_path: Path,
) -> None:
    envelope = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-two\n+TWO\n*** End Patch\n"
    with bench(tmp_path) as b:
        assert b.apply(envelope) == "" and b.read().startswith(b"one\nTWO\n")
        stars = envelope.replace("Patch\n***", "Patch ***\n***", 1).replace("two", "three")
        assert b.apply(stars.replace("TWO", "THREE")) == ""
        wrapped = json.dumps({"command": ["apply_patch", envelope]})
        assert b.apply(wrapped) in ("", "no_match", "patch_dialect", "no_changes")
        bare = "--- a/src/a.py\n+++ b/src/a.py\n@@\n four\n-five\n+FIVE\n"
        assert b.apply(bare) == ""
        fenced = "Here is the fix:\n\n```diff\n" + diff("src/a.py", "-six", "+SIX") + "```\nDone.\n"
        assert b.apply(fenced) == ""
        assert b.read() == b"one\nTWO\nTHREE\nfour\nFIVE\nSIX\nseven\neight\n"
        before = b.tree()
        for text in ("", "nothing here", "diff --cc src/a.py\n@@@ -1,2 -1,2 +1,2 @@@\n++x\n"):
            code = b.apply(text)
            assert code in ("patch_dialect", "patch_malformed", "no_changes"), (text, code)
        assert b.apply("--- \n+++ \n@@ -1 +1 @@\n-one\n+ONE\n") != ""
        same = diff("src/a.py", " one", head="@@ -1 +1 @@")
        assert b.apply(same) in ("no_changes", "patch_malformed", "patch_dialect")
        assert b.tree() == before


def test_b14_control_bytes_in_added_lines_are_refused_and_named(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert b.apply(diff("src/a.py", " one", '+s = "a\rb"')) == "content_deceptive"
        assert b.apply(diff("src/a.py", " one", "+esc \x1b[2K")) == "content_deceptive"
        assert "line 2" in b.text and "\x1b" not in b.text
        assert b.read() == A.encode()


def test_b14_with_allow_control_bytes_are_kept_shown_and_flagged(tmp_path: Path) -> None:
    with bench(tmp_path, allow_control=True) as b:
        assert b.apply(diff("src/a.py", " one", '+s = "a\rb"', "+esc \x1b[2K")) == ""
        assert b'one\ns = "a\rb"\nesc \x1b[2K\ntwo\n' in b.read()
        (hunk,) = b.map()
        assert hunk["flags"]
        shown = said(b.opened, "show", hunk["id"])
        assert "<000d>" in shown and "<001b>" in shown
        assert "\x1b[2K" not in shown and "\r" not in shown


def test_b15_a_stripped_final_newline_or_blank_context_line_still_applies(tmp_path: Path) -> None:
    text = "def f():\n    a = 1\n\n    b = 2\n\n"
    with bench(tmp_path, files={"src/b.py": text}) as b:
        whole = diff("src/a.py", " one", "-two", "+TWO", head="@@ -1,2 +1,2 @@")
        assert b.apply(whole.rstrip("\n")) == ""
        last = "--- a/src/b.py\n+++ b/src/b.py\n@@ -4,2 +4,2 @@\n-    b = 2\n+    b = 3"
        assert b.apply(last) == ""
        blank = "--- a/src/b.py\n+++ b/src/b.py\n@@ -2,3 +2,3 @@\n"
        blank += "-    a = 1\n+    a = 9\n\n     b = 3\n"
        assert b.apply(blank) == ""
        assert b.read("src/b.py") == b"def f():\n    a = 9\n\n    b = 3\n\n"


def test_b17_several_matches_are_refused_and_named(tmp_path: Path) -> None:
    with bench(
        tmp_path, files={"src/t.txt": "a\nb\nc\n" * 4, "src/w.txt": "\tx = 1\n\ty\n" * 2}
    ) as b:
        before = b.tree()
        assert b.apply(diff("src/t.txt", " a", "-b", "+B", " c", head="@@ -50,3 +50,3 @@")) == (
            "ambiguous_match"
        )
        assert all(str(n) in b.text for n in (1, 4, 7, 10))
        assert (
            b.apply(diff("src/w.txt", "-    x = 1", "+    x = 2", head="@@ -1 +1 @@")) == "no_match"
        )
        assert b.tree() == before
        assert b.apply(diff("src/t.txt", " a", "-b", "+B", " c", head="@@ -4,3 +4,3 @@")) == ""
        assert b.read("src/t.txt").splitlines()[4] == b"B"


def test_b17_a_moved_place_is_reported(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert b.apply(diff("src/a.py", " six", "-seven", "+SEVEN", head="@@ -2,2 +2,2 @@")) == ""
        assert "offset" in b.text


def test_b19_creating_never_replaces(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert b.apply(creation("src/a.py", "mine")) == "file_exists"
        assert b.create("src/b.py") == ""
        assert b.create("src/b.py", "y\n") == "file_exists"
        assert b.read() == A.encode()
        assert b.read("src/b.py") == b"x\n"
        assert len(b.map()) == 1


def test_b20_a_patch_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    patch = (
        diff("src/a.py", " one", "-two", "+TWO", " three")
        + creation("src/n.py", "new")
        + diff("src/c.py", "-nowhere", "+x", head="@@ -1 +1 @@")
    )
    with bench(tmp_path, files={"src/c.py": "here\n"}) as b:
        before = b.tree()
        assert b.apply(patch) == "no_match"
        assert b.tree() == before
        assert b.map() == []


def test_b22_line_endings_stay_as_they_are(tmp_path: Path) -> None:
    files = {"src/w.py": b"1\r\n2\r\n3\r\n4\r\n", "src/m.py": b"a\r\nb\nc\r\n"}
    with bench(tmp_path, files=files) as b:
        assert b.apply(diff("src/w.py", " 1", "-2", "+two", " 3")) == ""
        assert b.read("src/w.py") == b"1\r\ntwo\r\n3\r\n4\r\n"
        (hunk,) = b.map()
        assert (hunk["added"], hunk["removed"]) == (1, 1)
        assert b.edit("b", "B", path="src/m.py") == ""
        assert b.read("src/m.py") == b"a\r\nB\nc\r\n"
        crlf = diff("src/a.py", " one", "-two", "+TWO", " three").replace("\n", "\r\n")
        assert b.apply(crlf) == ""
        assert b.read() == A.replace("two", "TWO").encode()
        assert not list(b.work.glob("src/*\r*"))


def test_b23_the_byte_order_mark_stays(tmp_path: Path) -> None:
    with bench(tmp_path, files={"src/bom.py": b"\xef\xbb\xbfone\ntwo\n"}) as b:
        assert b.apply(diff("src/bom.py", "-one", "+ONE", " two")) == ""
        assert b.read("src/bom.py") == b"\xef\xbb\xbfONE\ntwo\n"
        assert b.apply(diff("src/bom.py", " ONE", "-two", "+TWO")) == ""
        assert b.read("src/bom.py") == b"\xef\xbb\xbfONE\nTWO\n"


def test_b25_the_end_of_the_file_stays_as_it_is(tmp_path: Path) -> None:
    with bench(tmp_path, files={"src/n.txt": b"one\ntwo", "src/m.txt": b"a\nb\n\n"}) as b:
        assert b.edit("one", "ONE", path="src/n.txt") == ""
        assert b.read("src/n.txt") == b"ONE\ntwo"
        assert b.apply(diff("src/n.txt", " ONE", "-two", "+TWO", head="@@ -1,2 +1,2 @@")) == ""
        assert b.read("src/n.txt") == b"ONE\nTWO"
        for old, new in (("a", "A"), ("A", "AA"), ("AA", "a1")):
            assert b.apply(diff("src/m.txt", f"-{old}", f"+{new}", " b", "")) == ""
        assert b.read("src/m.txt") == b"a1\nb\n\n"


def test_b63_odd_paths_are_refused_and_the_server_keeps_serving(tmp_path: Path) -> None:
    odd = [
        *("a" * 300 + ".py", "/".join("d" * 40) + "/x.py", "src/" + "a" * 300 + ".py"),
        *("src/a\x00.py", "src/a\n.py", "", ".", "src", "con.py", "x" * 100_000),
    ]
    with bench(tmp_path) as b:
        before = b.tree()
        for path in odd:
            code = b.create(path)
            assert code in (
                *("path_invalid", "path_not_allowed", "not_a_file", "malformed_request"),
            ), (path[:40], code)
            assert len(b.text) < 2_000
        assert b.create("src/" + "d/" * 40 + "x.py") == "path_invalid"
        assert b.tree() == before
        b.server.call("spike_status")
        assert b.server.meta["outcome"] == "accepted"
