"""Hunks by example: identity, counterexamples of the experiment, compose, ids."""

import hashlib

import pytest

from spike_mcp.core import hunks as h
from spike_mcp.core.codes import ChangeKind


def region(old_start: int, removed: bytes, added: bytes, path: str = "f") -> h.Region:
    return h.Region(
        path, ChangeKind.MODIFY, old_start, h.count_lines(removed), old_start, removed, added
    )


def test_key_is_the_published_digest() -> None:
    one = region(7, b"a\n", b"b\nc")
    text = b"12:spike-hunk-16:modify1:f1:71:12:a\n3:b\nc"
    assert one.key == hashlib.sha256(text).hexdigest()
    assert one.lines_changed == 3
    assert (
        h.hunk_id([one.key])
        == hashlib.sha256(b"15:spike-hunk-id-164:" + one.key.encode()).hexdigest()
    )


def test_key_tells_an_insertion_from_a_deletion_of_the_same_line() -> None:
    assert region(1, b"", b"check()\n").key != region(1, b"check()\n", b"").key


def test_key_ignores_the_place_in_the_worktree_and_keeps_everything_else() -> None:
    one = region(3, b"a\n", b"b\n")
    moved = h.Region("f", ChangeKind.MODIFY, 3, 1, 99, b"a\n", b"b\n")
    assert moved.key == one.key
    others = [
        region(4, b"a\n", b"b\n"),
        region(3, b"a\n", b"b\r\n"),
        region(3, b"a\n", b"b"),
        region(3, b"a\n", b"b\n", path="g"),
        h.Region("f", ChangeKind.CREATE, 3, 1, 3, b"a\n", b"b\n"),
    ]
    assert one.key not in {other.key for other in others}
    assert h.resubmission_key(one) == h.resubmission_key(others[0])
    assert h.resubmission_key(one) != h.resubmission_key(others[1])


def test_non_utf8_path_bytes_reach_the_digest() -> None:
    one = h.Region("caf\udce9", ChangeKind.MODIFY, 0, 0, 0, b"", b"x\n")
    assert h.path_bytes(one.path) == b"caf\xe9"
    assert one.key != h.Region("café", ChangeKind.MODIFY, 0, 0, 0, b"", b"x\n").key


def test_a_line_that_returns_elsewhere_is_another_region() -> None:
    base = b"def local():\n    pass\n\n\ndef admin():\n    pass\n"
    here = h.diff("f", base, base.replace(b"    pass\n\n", b"    return True\n\n"))
    there = h.diff("f", base, base[:-9] + b"    return True\n")
    assert here[0].added == there[0].added == b"    return True\n"
    assert here[0].key != there[0].key


def test_regions_at_most_six_lines_apart_share_a_hunk() -> None:
    base = b"".join(b"%d\n" % n for n in range(30))
    for gap, want in [(6, 1), (7, 2)]:
        work = base.replace(b"5\n", b"five\n", 1).replace(b"\n%d\n" % (6 + gap), b"\nx\n", 1)
        regions = h.diff("f", base, work)
        assert len(regions) == 2
        assert len(h.hunks("f", base, work)) == len(h.group(h.spans(regions))) == want


def test_header_and_lines_are_gits() -> None:
    base = b"def f():\n    one\n    two\n    three\n    four\n    five\n"
    work = base.replace(b"five\n", b"FIVE")
    (hunk,) = h.hunks("f", base, work)
    assert hunk.header == "@@ -3,4 +3,4 @@ def f():"
    assert (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines) == (3, 4, 3, 4)
    assert [(v.sign, v.old_no, v.new_no) for v in hunk.lines] == [
        (" ", 3, 3),
        (" ", 4, 4),
        (" ", 5, 5),
        ("-", 6, None),
        ("+", None, 6),
    ]
    assert h.unified(hunk).endswith(b"-    five\n+    FIVE\n\\ No newline at end of file\n")
    key = hunk.regions[0].key
    assert [v.key for v in hunk.lines] == [None, None, None, key, key]


def test_created_and_deleted_files_are_one_region_however_they_look() -> None:
    (made,) = h.hunks("f", None, b"a\nb\n")
    assert (made.kind, made.header, len(made.regions)) == (ChangeKind.CREATE, "@@ -0,0 +1,2 @@", 1)
    (gone,) = h.hunks("f", b"a\nb", None)
    assert (gone.kind, gone.header) == (ChangeKind.DELETE, "@@ -1,2 +0,0 @@")
    assert h.diff("f", None, None) == ()
    assert h.diff("f", b"", None)[0].key != h.diff("f", None, b"")[0].key


def test_view_digest_ignores_worktree_numbers_and_sees_context() -> None:
    base = b"".join(b"line %d\n" % n for n in range(40))
    late = base.replace(b"line 30\n", b"LINE\n")
    shifted = b"new\n" + late
    near = late.replace(b"line 28\n", b"LINE 28\n")
    (alone,) = h.hunks("f", base, late)
    below = h.hunks("f", base, shifted)[1]
    (together,) = h.hunks("f", base, near)
    assert alone.header != below.header
    assert alone.id == below.id
    assert h.view_sha256(alone) == h.view_sha256(below)
    assert together.regions[1].key == alone.regions[0].key
    assert h.view_sha256(together) != h.view_sha256(alone)


def test_view_digest_sees_the_heading() -> None:
    lines = b"".join(b" %d\n" % n for n in range(9))
    base = b"def local():\n" + lines
    (one,) = h.hunks("f", base, base + b" x\n")
    other = base.replace(b"local", b"admin")
    (two,) = h.hunks("f", other, other + b" x\n")
    assert one.id == two.id
    assert h.view_sha256(one) != h.view_sha256(two)


def test_too_many_regions_is_an_answer_of_its_own() -> None:
    base = b"".join(b"%d\n" % n for n in range(100))
    work = b"".join(b"%d%s\n" % (n, b"" if n % 2 else b"!") for n in range(100))
    with pytest.raises(h.TooManyRegions) as caught:
        h.diff("f", base, work, limit=49)
    assert (caught.value.count, caught.value.limit) == (50, 49)
    assert len(h.diff("f", base, work, limit=50)) == 50


BASE = b"a\nb\nc\nd"


@pytest.mark.parametrize(
    "regions",
    [
        [region(1, b"b\n", b"B\n"), region(1, b"b\n", b"X\n")],
        [region(0, b"a\nb\n", b""), region(1, b"b\n", b"X\n")],
        [region(1, b"b\n", b"B\n"), region(2, b"c\n", b"C\n")],
        [region(1, b"", b"one\n"), region(1, b"", b"two\n")],
        [region(1, b"x\n", b"B\n")],
        [region(9, b"", b"B\n")],
        [region(3, b"d\n", b"D\n")],
        [region(4, b"", b"e\n")],
        [region(1, b"b\n", b"B")],
        [h.Region("f", ChangeKind.CREATE, 0, 0, 0, b"", b"x\n")],
        [h.Region("f", ChangeKind.DELETE, 0, 4, 0, b"a\nb\nc\n", b"")],
        [h.Region("f", ChangeKind.DELETE, 0, 4, 0, BASE, b""), region(1, b"b\n", b"B\n")],
    ],
    ids=[
        "the same lines twice",
        "overlap",
        "touching",
        "two insertions in one gap",
        "other bytes removed",
        "insertion beyond the end",
        "line ending not as removed",
        "insertion glued to an unfinished line",
        "added line glued to the next",
        "create over a file",
        "delete with other content",
        "whole file and a part",
    ],
)
def test_compose_refuses_what_does_not_fit(regions: list[h.Region]) -> None:
    with pytest.raises(h.RegionsConflict):
        h.compose(BASE, regions)


def test_compose_refuses_a_part_of_an_absent_file() -> None:
    with pytest.raises(h.RegionsConflict):
        h.compose(None, [region(0, b"", b"x\n")])
    assert h.compose(None, []) is None
    assert h.compose(BASE, [h.Region("f", ChangeKind.DELETE, 0, 4, 0, BASE, b"")]) is None


def test_short_ids_grow_until_no_other_id_starts_the_same() -> None:
    one, two, three = "a" * 12 + "0" * 52, "a" * 12 + "1" * 52, "b" * 64
    names = h.short_ids([one, three], taken=[two, one])
    assert names == {one: "h" + one[:13], three: "h" + "b" * 8}
    assert h.short_ids([]) == {}
