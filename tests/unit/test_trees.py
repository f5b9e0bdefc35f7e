"""Seals of packages and environment: what counts as a change, what is hashed again (spec 4)."""

import os
from pathlib import Path

import pytest

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host import digests, trees
from spike_mcp.host.trees import TreeSeal, diff, packages, seal_trees


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    site = tmp_path / "venv/lib/site-packages"
    for name in ("six.py", "foo/__init__.py", "foo/a.py", "foo/data.bin", "foo-1.0.dist-info/M"):
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (site / "foo/link").symlink_to("a.py")
    (tmp_path / "venv/lib64").symlink_to("lib")
    return tmp_path / "venv"


def named(venv: Path, paths: tuple[str, ...]) -> list[str]:
    return [os.path.relpath(path, venv / "lib/site-packages") for path in paths]


def test_files_and_links_are_sealed_links_not_followed(venv: Path) -> None:
    seal = seal_trees([venv])
    names = {os.path.relpath(path, venv) for path in seal.items}
    assert "lib/site-packages/foo/link" in names and "lib64" in names
    assert not any(name.startswith("lib64/") for name in names)
    assert len(names) == 7


def test_every_kind_of_change_is_named(venv: Path) -> None:
    old = seal_trees([venv])
    site = venv / "lib/site-packages"
    (site / "six.py").write_text("SIX.py")
    (site / "foo/a.py").chmod(0o755)
    (site / "foo/data.bin").unlink()
    (site / "foo/new.so").touch()
    (site / "foo/link").unlink()
    (site / "foo/link").symlink_to("data.bin")
    changed = diff(old, seal_trees([venv], old))
    assert named(venv, changed) == [
        "foo/a.py",
        "foo/data.bin",
        "foo/link",
        "foo/new.so",
        "six.py",
    ]
    assert packages(changed) == ("foo", "six")
    assert diff(old, seal_trees([venv])) == changed


def test_touching_is_no_change_and_hashes_only_what_was_touched(
    venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_TOO_YOUNG_NS", -(10**18))
    old = seal_trees([venv])
    touched = venv / "lib/site-packages/six.py"
    os.utime(touched, (1, 1))
    hashed = []

    def content(path: str):
        hashed.append(path)
        return digests.content(path)

    monkeypatch.setattr(trees, "content", content)
    new = seal_trees([venv], old)
    assert diff(old, new) == () and new.digest == old.digest
    assert hashed == [str(touched)]


def test_same_size_and_restored_time_is_a_change(venv: Path) -> None:
    path = venv / "lib/site-packages/six.py"
    os.utime(path, (1, 1))
    old = seal_trees([venv])
    path.write_text("SIX.py")
    os.utime(path, (1, 1))
    assert diff(old, seal_trees([venv], old)) == (str(path),)


def test_a_file_too_young_to_be_known_by_its_times_is_hashed_again(
    venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_TOO_YOUNG_NS", 10**18)
    seal = seal_trees([venv])
    assert {item.stat for path, item in seal.items.items() if path.endswith(".py")} == {"-"}


def test_bytecode_beside_its_source_is_no_change(venv: Path) -> None:
    old = seal_trees([venv])
    cache = venv / "lib/site-packages/foo/__pycache__"
    cache.mkdir()
    for name in (
        "a.cpython-311.pyc",
        "a.cpython-311.opt-1.pyc",
        "a.cpython-311-pytest-9.2.0.pyc",
        "a.cpython-311.pyc.140213",
        "__init__.cpython-313t.pyc",
    ):
        (cache / name).touch()
    (cache.parent / "a.pyc").touch()
    assert diff(old, seal_trees([venv], old)) == ()


def test_bytecode_without_a_source_and_other_files_in_the_cache_are_changes(venv: Path) -> None:
    old = seal_trees([venv])
    cache = venv / "lib/site-packages/foo/__pycache__"
    cache.mkdir()
    (cache / "gone.cpython-311.pyc").touch()
    (cache / "a.py").touch()
    (cache.parent / "alone.pyc").touch()
    assert named(venv, diff(old, seal_trees([venv], old))) == [
        "foo/__pycache__/a.py",
        "foo/__pycache__/gone.cpython-311.pyc",
        "foo/alone.pyc",
    ]


def test_bytecode_counts_once_its_source_is_gone(venv: Path) -> None:
    site = venv / "lib/site-packages"
    (site / "six.pyc").touch()
    old = seal_trees([venv])
    (site / "six.py").unlink()
    assert named(venv, diff(old, seal_trees([venv], old))) == ["six.py", "six.pyc"]


def test_roots_may_be_files_links_nested_or_absent(venv: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!")
    (tmp_path / "alias").symlink_to("venv")
    roots = [program, tmp_path / "alias", venv, venv / "lib", tmp_path / "later"]
    old = seal_trees(roots)
    assert str(tmp_path / "alias/lib/site-packages/six.py") in old.items
    assert str(tmp_path / "alias") in old.items
    (tmp_path / "later").touch()
    program.chmod(0o755)
    assert diff(old, seal_trees(roots, old)) == (str(tmp_path / "later"), str(program))


def test_special_files_are_sealed_without_being_opened(venv: Path) -> None:
    old = seal_trees([venv])
    os.mkfifo(venv / "pipe")
    assert diff(old, seal_trees([venv], old)) == (str(venv / "pipe"),)


def test_a_seal_is_kept_and_found_unchanged(venv: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(str(venv)) + b'/odd "\\ \n\xff name')
    Path(odd).touch()
    seal = seal_trees([venv])
    assert odd in seal.items
    place = tmp_path / "environment.seal"
    seal.save(place)
    assert place.stat().st_mode & 0o777 == 0o600
    assert TreeSeal.load(place, seal.digest) == seal


@pytest.mark.parametrize("harm", ["other", "cut", "garbage", "missing"])
def test_a_seal_that_is_not_the_ledgers_is_broken(venv: Path, tmp_path: Path, harm: str) -> None:
    seal = seal_trees([venv])
    place = tmp_path / "environment.seal"
    seal.save(place)
    if harm == "other":
        (venv / "new").touch()
        seal_trees([venv]).save(place)
    elif harm == "cut":
        place.write_bytes(place.read_bytes()[:-5])
    elif harm == "garbage":
        place.write_bytes(b"garbage")
    else:
        place.unlink()
    with pytest.raises(Problem) as caught:
        TreeSeal.load(place, seal.digest)
    assert caught.value.code is Refusal.SEAL_BROKEN


def test_packages_are_named_as_people_know_them() -> None:
    assert packages(
        [
            "/v/lib/python3.11/site-packages/foo/a.py",
            "/v/lib/python3.11/site-packages/foo_bar-1.2.dist-info/RECORD",
            "/usr/lib/python3/dist-packages/six.py",
            "/w/node_modules/left/index.js",
            "/w/node_modules/@scope/pkg/node_modules/@a/b/x.js",
            "/w/node_modules/.bin",
            "/usr/bin/make",
        ]
    ) == (".bin", "/usr/bin/make", "@a/b", "foo", "foo_bar", "left", "six")
