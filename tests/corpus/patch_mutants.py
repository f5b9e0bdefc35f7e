"""Patches as models, mail and editors really send them, each with the one right outcome.

From every base file (`tests/vectors/patch_bases.json`) a good diff is made with difflib, which is
not what the product uses, and changed along each way a patch goes wrong. A mutant is either still
right (`after` holds the only correct result) or must be refused (`after` is None).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

BASES = Path(__file__).parent.parent / "vectors" / "patch_bases.json"
NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class Base:
    """One honest change of one file, lines with LF."""

    name: str
    path: str
    before: str
    after: str

    def diff(self, context: int = 3) -> str:
        """The plain unified diff with `a/` and `b/`."""
        return unified(self.path, self.before, self.after, context)


@dataclass(frozen=True)
class Mutant:
    """One request: `files` in the tree, `patch` sent, `after` what must come of it.

    `after` None: the patch must be refused, and nothing may change. `family` groups the table.
    `meant` is what its author had in mind where it must be refused all the same: a tool that
    guesses can still be lucky. `by_rule`: another tool may well apply it; this project refuses
    the kind, because a person could not review it line by line.
    """

    name: str
    family: str
    files: dict[str, bytes]
    patch: str
    after: dict[str, bytes | None] | None
    meant: dict[str, bytes | None] | None = None
    by_rule: bool = False


def bases() -> list[Base]:
    """The honest changes."""
    found = []
    for item in json.loads(BASES.read_text())["files"]:
        end = "\n" if item["final_newline"] else ""
        texts = ("\n".join(item[side]) + end for side in ("before", "after"))
        found.append(Base(item["name"], item["path"], *texts))
    return found


def lines(text: str) -> list[str]:
    """Lines of `text` with endings; only `\\n` ends a line."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def body(before: str, after: str, context: int = 3) -> str:
    """Hunks from `before` to `after`, with markers for missing final newlines."""
    found = list(difflib.unified_diff(lines(before), lines(after), n=context))[2:]
    return "".join(line if line.endswith("\n") else line + "\n" + NO_NEWLINE for line in found)


def unified(path: str, before: str, after: str, context: int = 3) -> str:
    """A plain unified diff with prefixes."""
    return f"--- a/{path}\n+++ b/{path}\n" + body(before, after, context)


def git_header(path: str) -> str:
    """The lines that git prints above `---`."""
    return (
        f"diff --git {quoted('a/' + path)} {quoted('b/' + path)}\nindex 1111111..2222222 100644\n"
    )


def quoted(name: str) -> str:
    """A name as git prints it by default."""
    if name.isascii():
        return name
    raw = "".join(chr(b) if b < 128 else f"\\{b:03o}" for b in name.encode())
    return f'"{raw}"'


def as_git(base: Base, diff: str | None = None) -> str:
    """`diff` as git prints it."""
    diff = base.diff() if diff is None else diff
    hunks = diff.split("\n", 2)[2]
    names = f"--- {quoted('a/' + base.path)}\n+++ {quoted('b/' + base.path)}\n"
    return git_header(base.path) + names + hunks


def as_envelope(base: Base, heading: str = "") -> str:
    """The change in the envelope, without any number."""
    hunks = re.sub(r"^@@.*@@.*$", f"@@{heading}", base.diff().split("\n", 2)[2], flags=re.MULTILINE)
    hunks = hunks.replace(NO_NEWLINE, "")
    return f"*** Begin Patch\n*** Update File: {base.path}\n{hunks}*** End Patch\n"


def numbers(diff: str, change: Callable[[list[int]], list[int]]) -> str:
    """`diff` with the four numbers of every `@@` line changed."""

    def one(match: re.Match[str]) -> str:
        a, b, c, d = change([int(g) if g else 1 for g in match.groups()])
        return f"@@ -{a},{b} +{c},{d} @@"

    pattern = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
    return pattern.sub(one, diff)


def old_blocks(diff: str) -> list[str]:
    """The old lines of every hunk of a one-file diff."""
    blocks: list[list[str]] = []
    for line in lines(diff.split("\n", 2)[2]):
        if line.startswith("@@"):
            blocks.append([])
        elif line[0] in " -":
            blocks[-1].append(line[1:])
    return ["".join(block) for block in blocks]


def all_unique(base: Base, context: int = 3) -> bool:
    """Whether each hunk's old lines stand in the file once, as whole lines."""
    text = "\n" + base.before.rstrip("\n") + "\n"
    return all(count(text, block) == 1 for block in old_blocks(base.diff(context)))


def count(text: str, block: str) -> int:
    """Overlapping occurrences of whole lines; final newlines do not matter."""
    needle = "\n" + block.rstrip("\n") + "\n"
    return sum(text.startswith(needle, at) for at in range(len(text)))


def mutants() -> list[Mutant]:
    """Every mutant of every base, and the ones over two files."""
    made: list[Mutant] = []
    everything = bases()
    for base in everything:
        for make in (
            _dialects,
            _numbers,
            _whitespace,
            _endings,
            _names,
            _placement,
            _lost,
            _kinds,
            _by_rule,
        ):
            made += list(make(base))
    for one, two in pairwise(everything):
        made += list(_pairs(one, two))
    return made


def _mutant(base: Base, family: str, name: str, patch: str, right: bool = True) -> Mutant:
    meant: dict[str, bytes | None] = {base.path: base.after.encode()}
    files = {base.path: base.before.encode()}
    return Mutant(f"{base.name}: {name}", family, files, patch, meant if right else None, meant)


def _dialects(base: Base) -> Iterator[Mutant]:
    diff = base.diff()
    git = as_git(base)
    prose = "This is the change you asked for.\n\n"
    yield _mutant(base, "dialect", "plain", diff)
    yield _mutant(base, "dialect", "git", git)
    yield _mutant(base, "dialect", "fence", f"{prose}```diff\n{git}```\n\nDone:\n- a\n- b\n")
    yield _mutant(base, "dialect", "prose around", f"{prose}{diff}\nThat is all.\n")
    yield _mutant(base, "dialect", "prose with list below", f"{diff}\nThat is all:\n- one line\n")
    mail = f"From 12 Mon Sep 17\nSubject: [PATCH]\n\n- text\n---\n x | 2 +-\n\n{git}-- \n2.39.5\n\n"
    yield _mutant(base, "dialect", "mail", mail)
    stamped = diff.replace(f"a/{base.path}\n", f"a/{base.path}\t2026-01-01 10:00:00\n", 1)
    yield _mutant(base, "dialect", "time stamp", stamped)
    unique = all_unique(base)
    yield _mutant(base, "envelope", "envelope", as_envelope(base), unique)
    text = json.dumps({"command": ["apply_patch", as_envelope(base)]})
    yield _mutant(base, "envelope", "envelope in JSON", text, unique)
    starred = as_envelope(base).replace("Begin Patch", "Begin Patch ***")
    yield _mutant(base, "envelope", "envelope with stars", starred, unique)


def _numbers(base: Base) -> Iterator[Mutant]:
    diff, unique = base.diff(), all_unique(base)
    bare = re.sub(r"^@@.*@@$", "@@", diff, flags=re.MULTILINE)
    dots = re.sub(r"^@@.*@@$", "@@ ... @@", diff, flags=re.MULTILINE)
    yield _mutant(base, "numbers", "bare @@", bare, unique)
    yield _mutant(base, "numbers", "@@ ... @@", dots, unique)
    for name, shift in (("far off", 1000), ("few lines off", 2)):
        wrong = numbers(diff, lambda n, s=shift: [n[0] + s, n[1], n[2] + s, n[3]])
        yield _mutant(base, "numbers", f"line numbers {name}", wrong, unique)
    top = numbers(diff, lambda n: [1, n[1], 1, n[3]])
    yield _mutant(base, "numbers", "all at line 1", top, unique)
    for name, old, new in (
        ("new count small", 0, -1),
        ("old count small", -1, 0),
        ("both small", -2, -2),
        ("new count large", 0, 2),
        ("old count large", 3, 1),
        ("both far too large", 20, 20),
    ):
        patch = numbers(
            diff, lambda n, o=old, w=new: [n[0], max(n[1] + o, 0), n[2], max(n[3] + w, 0)]
        )
        yield _mutant(base, "counts", name, patch)
    yield _mutant(base, "counts", "zero", numbers(diff, lambda n: [n[0], 0, n[2], 0]))
    hunks = re.split(r"(?=^@@)", diff, flags=re.MULTILINE)
    turned = "".join([hunks[0], *reversed(hunks[1:])])
    yield _mutant(base, "numbers", "hunks in reverse order", turned)
    for context in (1, 10):
        yield _mutant(base, "context", f"{context} lines of context", base.diff(context))
    bare_one = re.sub(r"^@@.*@@$", "@@", base.diff(1), flags=re.MULTILINE)
    yield _mutant(base, "context", "one line of context, bare", bare_one, all_unique(base, 1))


def _whitespace(base: Base) -> Iterator[Mutant]:
    diff = base.diff()
    yield _mutant(base, "stripped", "no final newline", diff.rstrip("\n"))
    yield _mutant(base, "stripped", "strip()", diff.strip())
    blank = re.sub(r"^ $", "", diff, flags=re.MULTILINE)
    yield _mutant(base, "stripped", "blank context lines lost their blank", blank)
    trailing = re.sub(r"^(-.*\S)$", r"\1 ", diff, count=1, flags=re.MULTILINE)
    if "\n-" in diff.split("\n", 2)[2]:
        trailing = diff.split("\n", 2)[0] + "\n" + diff.split("\n", 2)[1] + "\n"
        trailing += re.sub(
            r"^(-.*\S)$", r"\1 ", diff.split("\n", 2)[2], count=1, flags=re.MULTILINE
        )
        yield _mutant(base, "stale", "removed line with a trailing blank", trailing, False)
    head, rest = diff[: diff.index("@@")], diff[diff.index("@@") :]
    indented = re.sub(r"^ (\S.*)$", r"  \1", rest, count=1, flags=re.MULTILINE)
    if indented != rest:
        yield _mutant(base, "stale", "context indented by one more", head + indented, False)
    tabs = rest.replace("\t", "    ") if "\t" in rest else rest.replace("\n     ", "\n \t", 1)
    if tabs != rest:
        yield _mutant(base, "stale", "tabs for blanks", head + tabs, False)
    typo = re.sub(r"^([ -].*)([A-Za-z])(.*)$", r"\1#\3", rest, count=1, flags=re.MULTILINE)
    if typo != rest:
        yield _mutant(base, "stale", "typo in an old line", head + typo, False)
    swapped = re.sub(r"^( .+\n)( .+\n)", r"\2\1", rest, count=1, flags=re.MULTILINE)
    if swapped != rest and re.search(r"^( .+\n)\1", rest, flags=re.MULTILINE) is None:
        yield _mutant(base, "stale", "context lines swapped", head + swapped, False)


def _endings(base: Base) -> Iterator[Mutant]:
    diff = base.diff()

    def case(name: str, patch: str, before: bytes, after: bytes) -> Mutant:
        files = {base.path: before}
        return Mutant(f"{base.name}: {name}", "endings", files, patch, {base.path: after})

    old, new = base.before.encode(), base.after.encode()
    old_crlf, new_crlf = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    yield case("LF patch, CRLF file", diff, old_crlf, new_crlf)
    yield case("CRLF patch, LF file", diff.replace("\n", "\r\n"), old, new)
    yield case("CRLF patch, CRLF file", diff.replace("\n", "\r\n"), old_crlf, new_crlf)
    literal = re.sub(r"(?m)^([ +-].*)$", "\\1\r", body(base.before, base.after))
    literal = re.sub(r"\r\n\\ No", "\n\\\\ No", literal)
    git_crlf = f"--- a/{base.path}\n+++ b/{base.path}\n{literal}"
    yield case("git diff of the CRLF file", git_crlf, old_crlf, new_crlf)
    mark = b"\xef\xbb\xbf"
    yield case("BOM in the file", diff, mark + old, mark + new)
    with_mark = unified(base.path, "\ufeff" + base.before, "\ufeff" + base.after)
    yield case("BOM in file and patch", with_mark, mark + old, mark + new)
    latin = f"# caf\xe9 {base.name}\n".encode("latin-1") * 5
    moved = numbers(diff, lambda n: [n[0] + 5, n[1], n[2] + 5, n[3]])
    yield case("Latin-1 lines above", moved, latin + old, latin + new)
    if base.before.endswith("\n"):
        return
    unmarked = diff.replace(NO_NEWLINE, "")
    yield case("no newline at the end, no marker", unmarked, old, new)
    with_newline = unified(base.path, base.before, base.after + "\n")
    yield case("marker adds a final newline", with_newline, old, new + b"\n")
    drops = unified(base.path, base.before + "\n", base.after)
    yield case("marker drops the final newline", drops, old + b"\n", new)


def _names(base: Base) -> Iterator[Mutant]:
    diff, hunks = base.diff(), base.diff().split("\n", 2)[2]
    path = base.path
    bare = f"--- {path}\n+++ {path}\n{hunks}"
    yield _mutant(base, "names", "no prefixes", bare)
    yield _mutant(base, "names", "no prefixes, git", f"diff --git {path} {path}\n{bare}")
    yield _mutant(base, "names", "mnemonic prefixes", f"--- i/{path}\n+++ w/{path}\n{hunks}")
    octal = "".join(f"\\{b:03o}" for b in path.encode())
    spelled = f'--- "a/{octal}"\n+++ "b/{octal}"\n{hunks}'
    yield _mutant(base, "names", "octal name", spelled)
    other = "tests/test_oracle.py"
    lie_1 = git_header("notes.txt") + diff
    lie_2 = f"--- a/{path}\n+++ b/{other}\n{hunks}"
    lie_3 = f"--- a/{other}\n+++ b/{path}\n{hunks}"
    for number, patch in enumerate((lie_1, lie_2, lie_3), 1):
        lie = _mutant(base, "names", f"header names differ ({number})", patch, False)
        files = {**lie.files, other: base.before.encode(), "notes.txt": base.before.encode()}
        yield Mutant(lie.name, lie.family, files, patch, None)
    for name in ("../" + path, "/" + path, path.replace("/", "//"), "./" + path):
        patch = f"--- a/{name}\n+++ b/{name}\n{hunks}"
        yield _mutant(base, "names", f"path {name}", patch, False)
    yield _mutant(base, "names", "empty names", f"--- \n+++ \n{hunks}", False)
    yield _mutant(base, "names", "missing file", diff.replace(path, "src/absent.py"), False)


def _placement(base: Base) -> Iterator[Mutant]:
    diff = base.diff()
    head = [f"# added above, line {n}\n" for n in range(7)]

    def drifted(name: str, before: str, after: str, right: bool) -> Mutant:
        result = {base.path: after.encode()} if right else None
        return Mutant(f"{base.name}: {name}", "drift", {base.path: before.encode()}, diff, result)

    top = "".join(head)
    yield drifted("seven lines added above", top + base.before, top + base.after, all_unique(base))
    if base.before.endswith("\n"):
        gap = "# between\n" * 30
        far = numbers(diff, lambda n: [n[0] + 5000, n[1], n[2] + 5000, n[3]])
        twice = {base.path: (base.before + gap + base.before).encode()}
        yield Mutant(f"{base.name}: file twice", "twins", twice, far, None)
        first = {base.path: (base.after + gap + base.before).encode()}
        yield Mutant(f"{base.name}: stated twin", "twins", twice, diff, first)
        offset = len(lines(base.before)) + 30
        second = numbers(diff, lambda n: [n[0] + offset, n[1], n[2] + offset, n[3]])
        result = {base.path: (base.before + gap + base.after).encode()}
        yield Mutant(f"{base.name}: other stated twin", "twins", twice, second, result)
    done = {base.path: base.after.encode()}
    yield Mutant(f"{base.name}: applied already", "stale", done, diff, None)
    repeated = diff + diff.split("\n", 2)[2]
    yield _mutant(base, "stale", "every hunk twice", repeated, False)
    yield _mutant(base, "stale", "two sections", diff + diff, False)
    insert = re.sub(r"^[ -].*\n", "", diff.split("\n", 2)[2], flags=re.MULTILINE)
    insert = diff[: diff.index("@@")] + insert.replace(NO_NEWLINE, "")
    if re.search(r"^\+", insert[insert.index("@@") :], flags=re.MULTILINE):
        insert = re.sub(r"^@@.*\n(?!\+)", "", insert, flags=re.MULTILINE)
        yield _mutant(base, "stale", "added lines only", insert, False)


def _lost(base: Base) -> Iterator[Mutant]:
    """Lines that a lenient reader would drop without a word."""
    diff = base.diff()
    head, rest = diff[: diff.index("@@")], diff[diff.index("@@") :]
    unsigned = re.sub(r"^ (\S.*)$", r"\1", rest, count=1, flags=re.MULTILINE)
    first = re.match(r"^ (\S)", "\n".join(rest.split("\n")[1:]), flags=re.MULTILINE)
    if unsigned != rest and first and first.group(1) not in "+-@\\":
        yield _mutant(base, "lost", "context line without its blank", head + unsigned, False)
        yield _mutant(base, "lost", "the same in a fence", f"```\n{head}{unsigned}```\n", False)
    if base.before.endswith("\n"):
        stray = f"{diff}\n+stray = 1\n"
        yield _mutant(base, "lost", "added line after a blank line", stray, False)
    no_header = head + re.sub(r"^@@.*\n", "", rest, flags=re.MULTILINE)
    yield _mutant(base, "lost", "no @@ lines", no_header, False)
    no_target = re.sub(r"^\+\+\+ .*\n", "", head, flags=re.MULTILINE) + rest
    yield _mutant(base, "lost", "no +++ line", no_target, False)
    context = "".join(x for x in lines(rest) if x[0] in " @")
    yield _mutant(base, "lost", "context only", head + context, False)
    yield _mutant(
        base, "lost", "only signs", "".join(x for x in lines(rest) if x[0] in "+-"), False
    )
    yield _mutant(base, "lost", "empty", "", False)
    yield _mutant(base, "lost", "prose", "I changed the file as you asked.\n", False)


def _kinds(base: Base) -> Iterator[Mutant]:
    path = base.path
    added = "".join("+" + line for line in lines(base.after))
    total = len(lines(base.after))
    marker = "" if base.after.endswith("\n") else "\n" + NO_NEWLINE
    create = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{total} @@\n{added}{marker}"
    yield _mutant(base, "kinds", "create over the file", create, False)
    new = Mutant(f"{base.name}: create", "kinds", {}, create, {path: base.after.encode()})
    yield new
    miscounted = create.replace(f"+1,{total} @@", f"+1,{total + 5} @@")
    yield Mutant(f"{base.name}: create, wrong count", "kinds", {}, miscounted, new.after)
    removed = "".join("-" + line for line in lines(base.before))
    count_old = len(lines(base.before))
    marker = "" if base.before.endswith("\n") else "\n" + NO_NEWLINE
    delete = f"--- a/{path}\n+++ /dev/null\n@@ -1,{count_old} +0,0 @@\n{removed}{marker}"
    gone = Mutant(
        f"{base.name}: delete", "kinds", {path: base.before.encode()}, delete, {path: None}
    )
    yield gone
    partial = delete.replace(removed, "".join("-" + line for line in lines(base.before)[:-1]))
    yield _mutant(base, "kinds", "delete part of the file", partial, False)
    names = f"diff --git a/{path} b/{path}\n"
    binary = f"{names}Binary files a/{path} and b/{path} differ\n"
    yield _mutant(base, "kinds", "binary", binary, False)
    merge = f"diff --cc {path}\nindex 1,2..3\n--- a/{path}\n+++ b/{path}\n@@@ -1,1 -1,1 +1,1 @@@\n"
    yield _mutant(base, "kinds", "combined diff", merge + "++x\n", False)
    blocks = f"<<<<<<< SEARCH\n{base.before}=======\n{base.after}>>>>>>> REPLACE\n"
    yield _mutant(base, "kinds", "search and replace block", f"{path}\n{blocks}", False)


def _by_rule(base: Base) -> Iterator[Mutant]:
    """Kinds of change that are refused although their meaning is clear."""
    diff, path = base.diff(), base.path
    hunks = diff.split("\n", 2)[2]
    names = f"diff --git a/{path} b/{path}\n"
    mode = f"{names}old mode 100644\nnew mode 100755\n"
    moved = f"diff --git a/{path} b/moved\nsimilarity index 90%\n"
    rename = f"{moved}rename from {path}\nrename to moved\n"
    at = diff.index("@@")
    nul = diff[:at] + re.sub(r"^\+", "+\0", diff[at:], count=1, flags=re.MULTILINE)
    link = (
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n"
        f"@@ -0,0 +1 @@\n+{path}\n{NO_NEWLINE}"
    )
    program = f"{names}new file mode 100755\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    context = difflib.context_diff(lines(base.before), lines(base.after), f"a/{path}", f"b/{path}")
    for name, patch in (
        ("mode change", mode),
        ("mode and content", mode + diff),
        ("rename", rename),
        ("rename with content", f"{rename}--- a/{path}\n+++ b/moved\n{hunks}"),
        ("copy", f"{moved}copy from {path}\ncopy to moved\n"),
        ("symbolic link beside it", diff + link),
        ("context diff", "".join(context)),
        ("NUL in an added line", nul),
        ("envelope without end", as_envelope(base).replace("*** End Patch\n", "")),
    ):
        yield replace(_mutant(base, "by rule", name, patch, False), by_rule=True)
    yield Mutant(f"{base.name}: new program", "by rule", {}, program, None, by_rule=True)


def _pairs(one: Base, two: Base) -> Iterator[Mutant]:
    files = {one.path: one.before.encode(), two.path: two.before.encode()}
    after: dict[str, bytes | None] = {
        one.path: one.after.encode(),
        two.path: two.after.encode(),
    }
    title = f"{one.name} and {two.name}"
    both = one.diff() + two.diff()
    yield Mutant(f"{title}: plain", "two files", files, both, after)
    yield Mutant(f"{title}: git", "two files", files, as_git(one) + as_git(two), after)
    wrong = numbers(both, lambda n: [n[0], n[1] + 9, n[2], n[3] + 9])
    yield Mutant(f"{title}: counts too large", "two files", files, wrong, after)
    mail = f"{as_git(one)}-- \n2.39.5\n\nFrom 1\n---\n x | 2 +-\n\n{as_git(two)}-- \n2.39.5\n"
    yield Mutant(f"{title}: two mails", "two files", files, mail, after)
    stale = one.diff() + unified(two.path, two.after, two.before + "x\n")
    yield Mutant(f"{title}: second is stale", "two files", files, stale, None)
    fences = f"First:\n```diff\n{one.diff()}```\nthen:\n```diff\n{two.diff()}```\n"
    yield Mutant(f"{title}: two fences", "two files", files, fences, after)
    if all_unique(one) and all_unique(two):
        joined = as_envelope(one).replace("*** End Patch\n", "")
        joined += as_envelope(two).replace("*** Begin Patch\n", "")
        yield Mutant(f"{title}: envelope", "two files", files, joined, after)
