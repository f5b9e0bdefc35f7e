"""The manifest holds any path, finds one without reading all, and refuses to guess."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host.manifest import Entry, Manifest, absent, gitlink, write_manifest

ZERO = "0" * 64
paths = st.binary(min_size=1, max_size=12).filter(lambda raw: b"\0" not in raw)
entries = st.builds(
    Entry,
    st.sampled_from([0o100644, 0o100755, 0o100600, 0o120777]),
    st.integers(0, 10**12),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(paths, entries, max_size=30), st.lists(paths, max_size=10))
def test_every_path_is_found_with_its_entry_and_no_other_is(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[bytes, Entry], others: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("m") / "baseline.manifest"
    named = {raw.decode("utf-8", "surrogateescape"): entry for raw, entry in rows.items()}
    digest = write_manifest(path, named.items())
    manifest = Manifest(path)
    assert manifest.digest() == digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(manifest) == len(named)
    assert dict(manifest.under("")) == named
    assert sorted(manifest.names()) == sorted(named)
    for text in [*named, *(raw.decode("utf-8", "surrogateescape") for raw in others)]:
        assert manifest.get(text) == named.get(text)
        assert (text in manifest) == (text in named)
        place = manifest.index(text)
        assert (place is None) == (text not in named)
        assert place is None or manifest.names()[place] == text
        below = {name for name in named if name.startswith(text + "/")}
        assert {name for name, _ in manifest.under(text)} == below
        assert manifest.has_directory(text) == bool(below)
    manifest.close()


def test_a_directory_is_not_its_longer_named_sibling(tmp_path: Path) -> None:
    rows = [(name, Entry(0o100644, 1, ZERO)) for name in ("src_evil/a.py", "src-x", "srcx.py")]
    write_manifest(tmp_path / "m", rows)
    assert not Manifest(tmp_path / "m").has_directory("src")


def test_submodules_and_absent_paths_are_recorded_as_such(tmp_path: Path) -> None:
    write_manifest(tmp_path / "m", [("sub", gitlink()), ("gone", absent())])
    manifest = Manifest(tmp_path / "m")
    sub, gone = manifest.get("sub"), manifest.get("gone")
    assert sub is not None
    assert sub.is_gitlink
    assert gone is not None
    assert gone.is_absent
    assert not gone.is_file


def test_a_path_given_twice_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="twice"):
        write_manifest(tmp_path / "m", [("a", gitlink()), ("a", absent())])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"spike-manifest 2 0\n",
        b"spike-manifest 1 1\n",
        b"spike-manifest 1 1\n100644 short a\n",
        b"spike-manifest 1 1\n100644 " + b"0" * 64 + b"                1 = a",
    ],
)
def test_a_damaged_manifest_is_seal_broken_never_an_empty_baseline(
    tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(Problem) as refused:
        Manifest(tmp_path / "m").names()
    assert refused.value.code is Refusal.SEAL_BROKEN


def test_a_missing_manifest_is_seal_broken(tmp_path: Path) -> None:
    with pytest.raises(Problem) as refused:
        Manifest(tmp_path / "m")
    assert refused.value.code is Refusal.SEAL_BROKEN
