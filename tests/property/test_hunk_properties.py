"""Properties of the hunk map's ground: regions, ids, views (invariants I1-I3, I8, I9)."""

import itertools
import os
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spike_mcp.core import hunks as h
from spike_mcp.core.codes import ChangeKind

ALPHABET = [
    b"",
    b"    ",
    b"{",
    b"}",
    b"\tx = 1",
    b"    return x",
    b"def local():",
    b"class A:  ",
    b"_private()",
    b"$js",
    b"\f",
    b"  \f",
    b"\vx",
    b"\x01",
    b"x\ry",
    b"end\r",
    b"caf\xe9",
    b"n\xc3\xa9 and \xff",
    b"@@ -1,3 +1,3 @@ f",
    b"-- a/x",
    b"++ b/x",
    b"- x",
    b"diff --git a/x b/x",
    b"\\ No newline at end of file",
    b"nul\x00inside",
    b"w" * 79 + "é".encode() + b"tail",
    b"u\xef\xbf\xbf tail",
]

GIT_ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}


def join(lines: list[bytes], newline: bool) -> bytes:
    data = b"\n".join(lines)
    return data + b"\n" if newline and lines else data


def random_pair(rng: random.Random) -> tuple[bytes, bytes]:
    """A file and an edited copy: blocks moved, copied, cut, replaced; endings changed."""
    symbols = rng.sample(ALPHABET, rng.randint(2, 8))
    old = [rng.choice(symbols) for _ in range(rng.randint(0, 40))]
    new = list(old)
    for _ in range(rng.randint(0, 5)):
        at = rng.randint(0, len(new))
        size = rng.randint(1, 4)
        match rng.randint(0, 3):
            case 0:
                del new[at : at + size]
            case 1:
                new[at:at] = [rng.choice(symbols) for _ in range(size)]
            case 2:
                new[at : at + size] = [rng.choice(symbols) for _ in range(size)]
            case _:
                other = rng.randint(0, len(new))
                new[at:at] = new[other : other + size]
    return join(old, rng.random() < 0.8), join(new, rng.random() < 0.8)


def git_views(pairs: list[tuple[bytes, bytes]], where: Path) -> dict[int, bytes]:
    """Real git's -U3 bodies of all pairs, from one run over two directories."""
    for name, side in (("old", 0), ("new", 1)):
        (where / name).mkdir()
        for index, pair in enumerate(pairs):
            (where / name / f"{index:05}").write_bytes(pair[side])
    argv = ["git", "diff", "--no-index", "--unified=3", "--text", "--no-ext-diff", "--no-textconv"]
    run = subprocess.run([*argv, "old", "new"], cwd=where, env=GIT_ENV, stdout=subprocess.PIPE)
    assert run.returncode in (0, 1)
    views: dict[int, bytes] = {}
    for section in (b"\n" + run.stdout).split(b"\ndiff --git ")[1:]:
        head, mark, body = section.partition(b"\n@@ ")
        index = int(head.split(b"\n")[0][-5:])
        views[index] = b"@@ " + body.removesuffix(b"\n") + b"\n" if mark else b""
    return views


def check_regions(base: bytes, work: bytes) -> tuple[h.Region, ...]:
    """I1 and I2 for one pair."""
    regions = h.diff("f", base, work)
    assert h.compose(base, regions) == work
    assert h.compose(base, reversed(regions)) == work
    for one, two in itertools.pairwise(regions):
        assert two.old_start > one.old_start + one.old_count
        assert two.new_start > one.new_start + one.added_count
    assert len({r.key for r in regions}) == len(regions)
    assert bool(regions) == (base != work)
    return regions


def check_views(pairs: list[tuple[bytes, bytes]], where: Path) -> None:
    """I8: our view is git's, byte for byte."""
    views = git_views(pairs, where)
    for index, (base, work) in enumerate(pairs):
        regions = check_regions(base, work)
        shown = h.hunks("f", base, work, regions)
        assert h.unified(*shown) == views.get(index, b""), (base, work)
        assert tuple(r for hunk in shown for r in hunk.regions) == regions
        grouped = h.group(h.spans(regions))
        assert [[s.key for s in part] for part in grouped] == [
            [r.key for r in hunk.regions] for hunk in shown
        ]


@pytest.mark.parametrize("seed", range(4))
def test_view_equals_git_diff_over_the_fuzz_alphabet(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    check_views([random_pair(rng) for _ in range(500)], tmp_path)


def tiny_files(longest: int) -> list[bytes]:
    files = []
    for length in range(longest + 1):
        for lines in itertools.product((b"a", b"b"), repeat=length):
            files.append(join(list(lines), True))
            if lines:
                files.append(join(list(lines), False))
    return files


def test_equal_key_means_equal_content_and_place_over_all_tiny_files(tmp_path: Path) -> None:
    by_key: dict[str, tuple[object, ...]] = {}
    by_what: dict[tuple[object, ...], str] = {}
    pairs = list(itertools.product(tiny_files(3), tiny_files(4)))
    for base, work in pairs:
        for r in check_regions(base, work):
            what = (r.path, r.kind, r.old_start, r.old_count, r.removed, r.added)
            assert by_key.setdefault(r.key, what) == what
            assert by_what.setdefault(what, r.key) == r.key
    check_views([pair for pair in pairs if pair[0] != pair[1]], tmp_path)


lines = st.lists(st.sampled_from(ALPHABET), max_size=12)
files = st.one_of(st.none(), st.builds(join, lines, st.booleans()), st.binary(max_size=40))


@settings(max_examples=300, deadline=None)
@given(base=files, work=files)
def test_any_pair_of_files_composes_back_and_views_tell_every_byte(
    base: bytes | None, work: bytes | None
) -> None:
    regions = h.diff("f", base, work)
    assert h.compose(base, regions) == work
    shown = h.hunks("f", base, work, regions)
    for hunk in shown:
        removed = b"".join(line.text for line in hunk.lines if line.sign == "-")
        added = b"".join(line.text for line in hunk.lines if line.sign == "+")
        assert removed == b"".join(r.removed for r in hunk.regions)
        assert added == b"".join(r.added for r in hunk.regions)
        for line in hunk.lines:
            if line.old_no is not None:
                assert h.split_lines(base or b"")[line.old_no - 1] == line.text
            if line.new_no is not None:
                assert h.split_lines(work or b"")[line.new_no - 1] == line.text
    assert len({h.view_sha256(hunk) for hunk in shown}) == len(shown)


@settings(max_examples=200, deadline=None)
@given(base=st.builds(join, lines, st.booleans()), work=st.builds(join, lines, st.booleans()))
def test_any_subset_of_regions_keeps_the_others_bytes(base: bytes, work: bytes) -> None:
    regions = h.diff("f", base, work)
    for left_out in regions:
        rest = [r for r in regions if r is not left_out]
        partial = h.compose(base, rest)
        assert partial is not None
        assert len(partial) == len(work) - len(left_out.added) + len(left_out.removed)


def test_a_nul_an_empty_file_a_bom_and_a_lone_cr_each_make_an_entry() -> None:
    for base, work in [
        (b"one\n", b"one\x00\n"),
        (b"one\n", b"\xef\xbb\xbfone\n"),
        (b"one two\n", b"one\rtwo\n"),
        (b"one\n", b"one"),
        (b"one\n", b""),
        (b"", b"one\n"),
        (b"\x00" * 9000, b"\x00" * 9001),
    ]:
        (region,) = h.diff("f", base, work)
        assert region.kind is ChangeKind.MODIFY
        assert len(h.hunks("f", base, work)) == 1
    for base, work, kind in [(None, b"", ChangeKind.CREATE), (b"", None, ChangeKind.DELETE)]:
        (hunk,) = h.hunks("f", base, work)
        assert (hunk.kind, hunk.header, hunk.lines) == (kind, "", ())
        assert h.unified(hunk) == b""
