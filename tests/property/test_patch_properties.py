"""Fuzzed patches: nothing crashes, nothing is lost, nothing is placed where it does not belong."""

import itertools
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spike_mcp.core import hunks as h
from spike_mcp.core import patches
from spike_mcp.core.codes import ChangeKind, Problem
from spike_mcp.core.content import BOM
from spike_mcp.core.paths import RepoPath

PATH = RepoPath.parse("src/a.py")

TEXTS = [b"", b" ", b"a", b"b", b"a ", b"\ta", b"x\ry", b"r\r", b"\f", b"\v\x85", b"caf\xe9"]
TEXTS += [b"n\xc3\xa9", b"-- a/x", b"++ b/x", b"@@ -1 +1 @@", b"\\ No newline", b"diff --git a/b"]
TEXTS += [b"- ", b"```", b"*** End Patch", b"\xe2\x80\xa8"]
ENDS = [b"\n", b"\n", b"\n", b"\r\n"]


def file_of(rng: random.Random, symbols: list[bytes]) -> bytes:
    pieces = [rng.choice(symbols) + rng.choice(ENDS) for _ in range(rng.randint(0, 14))]
    data = b"".join(pieces)
    return data.removesuffix(b"\n") if rng.random() < 0.3 else data


def edited(rng: random.Random, data: bytes, symbols: list[bytes]) -> bytes:
    lines = h.split_lines(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(lines))
        new = [rng.choice(symbols) + rng.choice(ENDS) for _ in range(rng.randint(0, 2))]
        lines[at : at + rng.randint(0, 2)] = new
    if len(lines) > 1:
        lines[:-1] = [line if line.endswith(b"\n") else line + b"\n" for line in lines[:-1]]
    return b"".join(lines)


def as_patch(before: bytes | None, after: bytes | None) -> str:
    """What `git diff` prints for the change, as text with surrogate escapes."""
    old = "/dev/null" if before is None else "a/src/a.py"
    new = "/dev/null" if after is None else "b/src/a.py"
    body = h.unified(*h.hunks("src/a.py", before, after))
    return f"--- {old}\n+++ {new}\n" + body.decode("utf-8", "surrogateescape")


def applied(patch: str, before: bytes | None) -> bytes | None:
    (one,) = patches.parse(patch).files
    return patches.place(one, before).change.after


@pytest.mark.parametrize("seed", range(4))
def test_a_diff_and_its_inverse_give_back_every_byte(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(400):
        # A patch can't say which encoding a new character has in a file that mixes two.
        other = TEXTS[10] if rng.random() < 0.5 else b"n\xc3\xa9"
        symbols = rng.sample([t for t in TEXTS if t.isascii() or t == other], rng.randint(2, 6))
        before = file_of(rng, symbols)
        after = edited(rng, before, symbols)
        if before == after or not before or not after:
            continue
        assert applied(as_patch(before, after), before) == after, (before, after)
        assert applied(as_patch(after, before), after) == before, (before, after)
        assert applied(as_patch(None, after), None) == after
        assert applied(as_patch(after, None), after) is None
        there = h.diff("src/a.py", before, after)
        again = applied(as_patch(before, after), applied(as_patch(after, before), after))
        assert [r.key for r in h.diff("src/a.py", before, again)] == [r.key for r in there]


def naive(one: patches.FilePatch, before: str) -> str | None:
    """A second, slow placement for LF text: None when any hunk has no single place."""
    old = before.split("\n")[:-1]
    edits: list[tuple[int, int, list[str]]] = []
    for hunk in one.hunks:
        want = [line.text for line in hunk.lines if line.sign != "+"]
        want += [""] * hunk.missing_blanks
        places = [at for at in range(len(old) - len(want) + 1) if old[at : at + len(want)] == want]
        stated = None if hunk.start is None else max(hunk.start - 1, 0)
        if not want:
            places = [0] if not old else []
        elif stated in places:
            places = [stated]
        if len(places) != 1:
            return None
        at = places[0]
        for line in hunk.lines:
            if line.sign == "+":
                edits.append((at, at, [line.text]))
            elif line.sign == "-":
                edits.append((at, at + 1, []))
            at += line.sign != "+"
    result = list(old)
    for start, end, new in reversed(sorted_stable(edits)):
        result[start:end] = new
    return "".join(line + "\n" for line in result)


def sorted_stable(edits: list[tuple[int, int, list[str]]]) -> list[tuple[int, int, list[str]]]:
    """By place; insertions before a line stay in their order and before its removal."""
    grouped: list[tuple[int, int, list[str]]] = []
    for start, same in itertools.groupby(sorted(edits, key=lambda e: e[0]), key=lambda e: e[0]):
        items = list(same)
        added = [text for _, _, new in items for text in new]
        grouped.append((start, max(end for _, end, _ in items), added))
    return grouped


def mutate(rng: random.Random, patch: str) -> str:
    """Change lines of a patch as carelessly as anyone could."""
    lines = patch.split("\n")[:-1]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(2, len(lines))
        match rng.randint(0, 5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, rng.choice([" a", "+a", "-b", "", "@@", "+++ b/x", "--- a/x"]))
            case 2:
                lines[at] = rng.choice(" +-") + lines[at][1:]
            case 3:
                if lines[at].startswith("@@"):
                    n = [rng.randint(0, 9) for _ in range(4)]
                    lines[at] = f"@@ -{n[0]},{n[1]} +{n[2]},{n[3]} @@"
            case 4:
                lines[at] = lines[at].rstrip()
            case _:
                other = rng.randrange(2, len(lines))
                lines[at], lines[other] = lines[other], lines[at]
        if len(lines) < 3:
            break
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(4))
def test_a_careless_patch_is_placed_as_a_slow_model_says_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    accepted = 0
    for _ in range(500):
        symbols = rng.sample(["a", "b", "c", "d", "", "def f():", "-- a/x", "++ b/x"], 4)
        before = "".join(rng.choice(symbols) + "\n" for _ in range(rng.randint(1, 12)))
        after = edited_text(rng, before, symbols)
        if before == after:
            continue
        patch = mutate(rng, as_patch(before.encode(), after.encode()))
        try:
            parsed = patches.parse(patch)
            placed = [patches.place(one, before.encode()) for one in parsed.files]
        except Problem:
            continue
        accepted += 1
        (one,) = parsed.files
        assert placed[0].change.after == (naive(one, before) or "").encode(), (before, patch)
        assert_nothing_lost(parsed, patch)
    assert accepted > 50


def edited_text(rng: random.Random, before: str, symbols: list[str]) -> str:
    lines = before.split("\n")[:-1]
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(lines))
        lines[at : at + rng.randint(0, 2)] = rng.choices(symbols, k=rng.randint(0, 2))
    return "".join(line + "\n" for line in lines)


def assert_nothing_lost(parsed: patches.PatchSet, patch: str) -> None:
    """Every line with a sign is in a hunk or is one of the two header lines of a file."""
    signed = sum(line[:1] in ("+", "-") for line in patch.split("\n"))
    kept = sum(line.sign != " " for f in parsed.files for hunk in f.hunks for line in hunk.lines)
    assert signed == kept + 2 * len(parsed.files), patch


STRUCTURE = [
    "diff --git a/src/a.py b/src/a.py",
    "diff --git a/src/b.py b/src/b.py",
    "index 1..2 100644",
    "new file mode 100644",
    "deleted file mode 100644",
    "--- a/src/a.py",
    "+++ b/src/a.py",
    "--- /dev/null",
    "+++ /dev/null",
    "--- a/src/b.py",
    "+++ b/src/b.py",
    "--- ",
    "+++ ",
    "---",
    "+++",
    "@@ -1,1 +1,1 @@",
    "@@ -1,2 +1,3 @@ def f():",
    "@@ -0,0 +1 @@",
    "@@",
    "@@ x",
    " a",
    "-a",
    "+b",
    "+",
    "-",
    "",
    " ",
    "\\ No newline at end of file",
    "```diff",
    "```",
    "-- ",
    "2.39.5",
    "prose",
    "- item",
    "*** Begin Patch",
    "*** End Patch",
    "*** Update File: src/a.py",
    "*** Add File: src/c.py",
    "*** End of File",
    "+x\ry",
    " a\r",
    "{",
]


@settings(max_examples=600, deadline=None)
@given(lines=st.lists(st.sampled_from(STRUCTURE), max_size=25), ended=st.booleans())
@example(lines=["--- ", "+++ ", "@@"], ended=False)
def test_any_soup_of_structure_is_read_or_refused(lines: list[str], ended: bool) -> None:
    soup = "\n".join(lines) + ("\n" if ended else "")
    try:
        parsed = patches.parse(soup)
    except Problem as problem:
        assert problem.message
        assert problem.hint
        return
    assert parsed.files
    for one in parsed.files:
        assert one.hunks or one.kind is not ChangeKind.MODIFY
        for before in (None, b"a\n", b"a\na\n", b"", b"x\r\na\r\n", BOM + b"a"):
            try:
                patches.place(one, before)
            except Problem as problem:
                assert problem.hint


@settings(max_examples=300, deadline=None)
@given(
    data=st.one_of(st.none(), st.binary(max_size=60)),
    old=st.text(max_size=8),
    new=st.text(max_size=8),
)
def test_edit_replaces_the_text_once_or_refuses(data: bytes | None, old: str, new: str) -> None:
    try:
        after = patches.edit(PATH, data, old, new).change.after
    except Problem as problem:
        assert problem.hint
        return
    assert data is not None
    assert after is not None
    assert after != data


@settings(max_examples=300, deadline=None)
@given(
    before=st.text(alphabet="ab \n", max_size=20),
    at=st.integers(0, 19),
    size=st.integers(1, 6),
    new=st.text(alphabet="abc\n", max_size=6),
)
def test_edit_of_plain_text_is_string_replacement(
    before: str, at: int, size: int, new: str
) -> None:
    old = before[at : at + size]
    hits = sum(before.startswith(old, i) for i in range(len(before)))
    if not old or hits != 1 or old == new:
        return
    want = before.replace(old, new).encode()
    assert patches.edit(PATH, before.encode(), old, new).change.after == want


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for patch in (text, f"--- a/x\n+++ b/x\n@@\n{text}", f"*** Begin Patch\n{text}"):
        try:
            patches.parse(patch)
        except Problem as problem:
            assert problem.hint
