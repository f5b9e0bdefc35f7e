"""Seals: what is sealed, and that every change of it is named (spec 2, 3, 4)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spike_mcp.core import layout
from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.core.paths import RepoPath
from spike_mcp.host import digests, judge_dir
from spike_mcp.host.files import Blobs, write_atomic
from spike_mcp.host.judge_dir import ABSENT, Difference, Part, Seals, SealWatch

HYPOTHESIS = "reading the header makes Retry-After of a 429 visible"
ARGV = ("python", "-m", "pytest", "tests/test_a.py")
CONTRACT = (
    f'hypothesis = "{HYPOTHESIS}"\napproval_key = "ab"\nname = "retry"\n'
    '[measurement]\nargv = ["python", "-m", "pytest", "tests/test_a.py"]\n'
).encode()
ORACLE = {
    RepoPath.parse("tests/test_a.py"): (b"assert True\n", 0o100644),
    RepoPath.parse("tests/run.sh"): (b"#!/bin/sh\n", 0o100755),
}


class Spike:
    """A sealed spike on disk, its files settled long ago."""

    def __init__(self, root: Path) -> None:
        self.root, self.judge, self.work = root, root / "judge", root / "work"
        judge_dir.create_layout(root)
        self.work.mkdir()
        judge_dir.plant(self.judge, CONTRACT, HYPOTHESIS, ORACLE)
        write_atomic(self.judge / layout.MANIFEST, b"manifest", 0o444)
        self.hidden = Blobs(self.judge / layout.BLOBS).put(b"[[call]]\n")
        (self.work / "Makefile").write_text("test:\n")
        (self.work / "link.mk").symlink_to("Makefile")
        self.outside = root / "outside.cfg"
        self.outside.write_text("[a]\n")
        names = ["Makefile", "pytest.ini", "link.mk", str(self.outside)]
        self.seals = judge_dir.seal(
            self.judge,
            argv=ARGV,
            hypothesis=HYPOTHESIS,
            inputs=judge_dir.input_digests(names, self.work),
            hidden=[self.hidden],
            approval_key="ab",
        )
        for place in root.rglob("*"):
            if place.is_file() and not place.is_symlink():
                os.utime(place, (1_000_000, 1_000_000))
        self.watch = SealWatch(self.judge)

    def check(self, watch: SealWatch | None = None, work: bool = True) -> list[str]:
        found = (watch or self.watch).check(self.seals.digest, work=self.work if work else None)
        return [each.text for each in found]

    def write(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.chmod(0o600)
        path.write_bytes(data)


@pytest.fixture
def spike(tmp_path: Path) -> Spike:
    return Spike(tmp_path / "retry")


def test_the_layout_has_the_modes_of_the_specification(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        spike = Spike(tmp_path / "s")
    finally:
        os.umask(before)
    judge = spike.judge
    modes = {
        judge: 0o700,
        judge / "oracle": 0o700,
        judge / "blobs": 0o700,
        spike.root / "verdict": 0o755,
        spike.root / "agent": 0o755,
        judge / "hypothesis.txt": 0o444,
        judge / "contract.toml": 0o444,
        judge / "seals.json": 0o444,
        judge / "oracle/tests/test_a.py": 0o444,
        judge / "oracle/tests/run.sh": 0o555,
    }
    assert {path: path.stat().st_mode & 0o777 for path in modes} == modes
    assert (judge / "hypothesis.txt").read_text() == HYPOTHESIS + "\n"


def test_a_root_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Problem) as caught:
        judge_dir.create_layout(tmp_path)
    assert caught.value.code is Usage.SPIKE_EXISTS


def test_what_was_sealed_holds(spike: Spike) -> None:
    assert spike.check() == []
    assert spike.check(SealWatch(spike.judge)) == []
    assert set(spike.seals.files) == {
        "contract.toml",
        "hypothesis.txt",
        "baseline.manifest",
        "oracle/tests/test_a.py",
        "oracle/tests/run.sh",
        f"blobs/{spike.hidden}",
    }
    assert spike.seals.inputs["pytest.ini"] == ABSENT


def test_seals_come_back_from_their_bytes(spike: Spike) -> None:
    data = (spike.judge / "seals.json").read_bytes()
    again = Seals.from_bytes(data)
    assert again == spike.seals and again.to_bytes() == data


HARM: dict[str, tuple[Callable[[Spike], None], list[str]]] = {
    "hypothesis file": (lambda s: s.write("judge/hypothesis.txt", b"other\n"), ["hypothesis"]),
    "hypothesis in the contract": (
        lambda s: s.write("judge/contract.toml", CONTRACT.replace(b"429", b"503")),
        ["hypothesis", "contract"],
    ),
    "argv": (
        lambda s: s.write("judge/contract.toml", CONTRACT.replace(b'"-m", ', b"")),
        ["measurement command", "contract"],
    ),
    "argv as text": (
        lambda s: s.write(
            "judge/contract.toml",
            CONTRACT.replace(b'["python", "-m", "pytest", "tests/test_a.py"]', b'"python"'),
        ),
        ["measurement command", "contract"],
    ),
    "approval key": (
        lambda s: s.write("judge/contract.toml", CONTRACT.replace(b'"ab"', b'""')),
        ["contract", "approval key"],
    ),
    "another contract byte": (
        lambda s: s.write("judge/contract.toml", CONTRACT + b"\n"),
        ["contract"],
    ),
    "no TOML": (lambda s: s.write("judge/contract.toml", b"\xff["), ["contract"]),
    "contract gone": (lambda s: (s.judge / "contract.toml").unlink(), ["contract"]),
    "manifest": (lambda s: s.write("judge/baseline.manifest", b""), ["baseline manifest"]),
    "oracle copy": (
        lambda s: s.write("judge/oracle/tests/test_a.py", b"assert 1\n"),
        ["oracle copy tests/test_a.py"],
    ),
    "oracle gone": (
        lambda s: (s.judge / "oracle/tests/run.sh").unlink(),
        ["oracle copy tests/run.sh"],
    ),
    "hidden": (lambda s: s.write(f"judge/blobs/{s.hidden}", b""), ["hidden part"]),
    "seals": (lambda s: s.write("judge/seals.json", b"{}"), ["seals"]),
    "seals gone": (lambda s: (s.judge / "seals.json").unlink(), ["seals"]),
    "input": (lambda s: s.write("work/Makefile", b"x"), ["measurement input Makefile"]),
    "absent input appears": (
        lambda s: (s.work / "pytest.ini").touch(),
        ["measurement input pytest.ini"],
    ),
    "input outside": (
        lambda s: s.outside.unlink(),
        ["measurement input {root}/outside.cfg"],
    ),
    "input becomes a directory": (
        lambda s: ((s.work / "Makefile").unlink(), (s.work / "Makefile").mkdir()),
        ["measurement input Makefile"],
    ),
    "input becomes a pipe": (
        lambda s: ((s.work / "Makefile").unlink(), os.mkfifo(s.work / "Makefile")),
        ["measurement input Makefile"],
    ),
    "a link instead of an equal file": (
        lambda s: (
            (s.work / "Makefile").rename(s.work / "Real"),
            (s.work / "Makefile").symlink_to("Real"),
        ),
        ["measurement input Makefile"],
    ),
    "a link leads elsewhere": (
        lambda s: ((s.work / "link.mk").unlink(), (s.work / "link.mk").symlink_to("Other")),
        ["measurement input link.mk"],
    ),
}


@pytest.mark.parametrize("name", HARM)
def test_every_change_is_named(spike: Spike, name: str) -> None:
    harm, expected = HARM[name]
    assert spike.check() == []
    harm(spike)
    expected = [text.format(root=spike.root) for text in expected]
    assert spike.check() == expected, "by the process that checked before"
    assert spike.check(SealWatch(spike.judge)) == expected, "by a new one"


def test_an_equal_size_and_a_restored_time_do_not_hide_a_change(spike: Spike) -> None:
    path = spike.judge / "oracle/tests/test_a.py"
    assert spike.check() == []
    times = path.stat()
    spike.write("judge/oracle/tests/test_a.py", b"assert 1234\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert spike.check() == ["oracle copy tests/test_a.py"]


def test_untouched_files_are_not_read_again(spike: Spike, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_TOO_YOUNG_NS", -(10**18))
    assert spike.check() == []
    monkeypatch.setattr(digests, "_regular", lambda *_: pytest.fail("read again"))
    assert spike.check() == []


def test_a_file_written_just_now_is_not_trusted_by_its_times(
    spike: Spike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_TOO_YOUNG_NS", 10**18)
    path = spike.judge / "contract.toml"
    assert spike.check() == []
    # A change within one tick of the file system's clock, which leaves every time as it is.
    real = digests.stamp(path.stat())
    spike.write("judge/contract.toml", CONTRACT.replace(b"retry", b"other"))
    monkeypatch.setattr(digests, "stamp", lambda _: real)
    assert spike.check() == ["contract"]


def test_inputs_in_the_repository_need_the_worktree(spike: Spike) -> None:
    (spike.work / "Makefile").unlink()
    assert spike.check(work=False) == []
    spike.outside.unlink()
    assert spike.check(work=False) == [f"measurement input {spike.outside}"]


def test_what_later_rows_seal_is_checked_too(spike: Spike) -> None:
    helper = {RepoPath.parse("tests/helper.py"): (b"x = 1\n", 0o100644)}
    rows = judge_dir.store_oracle(spike.judge, helper)
    support = tuple(judge_dir.input_digests(["lib/conf.py"], spike.work).items())

    def check() -> tuple[Difference, ...]:
        return spike.watch.check(spike.seals.digest, oracle=rows, inputs=support, work=spike.work)

    assert check() == ()
    spike.write("judge/oracle/tests/helper.py", b"x = 2\n")
    (spike.work / "lib").mkdir()
    (spike.work / "lib/conf.py").touch()
    assert check() == (
        Difference(Part.ORACLE, "tests/helper.py"),
        Difference(Part.INPUT, "lib/conf.py"),
    )


def test_who_edits_and_seals_anew_is_told_what_was_edited(spike: Spike) -> None:
    changed = CONTRACT.replace(b"429", b"503")
    judge_dir.plant(spike.judge, changed, HYPOTHESIS.replace("429", "503"), ORACLE)
    judge_dir.seal(spike.judge, argv=ARGV, hypothesis=HYPOTHESIS.replace("429", "503"), inputs={})
    assert spike.check() == ["seals", "hypothesis", "contract"]


def test_without_the_sealed_bytes_of_the_seals_nothing_holds(spike: Spike) -> None:
    assert spike.watch.check("") == (Difference(Part.SEALS),)
    (spike.judge / "blobs" / spike.seals.digest).unlink()
    spike.write("judge/hypothesis.txt", b"other\n")
    assert spike.check(SealWatch(spike.judge)) == ["hypothesis"]
    (spike.judge / "seals.json").unlink()
    assert spike.check(SealWatch(spike.judge)) == ["seals"]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 1}', b"\xff"])
def test_bytes_that_are_no_seals_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        Seals.from_bytes(data)


def test_a_missing_file_can_not_be_sealed(spike: Spike) -> None:
    (spike.judge / "baseline.manifest").unlink()
    with pytest.raises(Problem) as caught:
        judge_dir.seal(spike.judge, argv=ARGV, hypothesis="x", inputs={})
    assert caught.value.code is Refusal.SEAL_BROKEN


def test_arguments_do_not_run_into_each_other() -> None:
    digest = judge_dir.argv_digest
    assert len({digest(["a", "b"]), digest(["ab"]), digest(["a b"]), digest(["a", "b", ""])}) == 4
