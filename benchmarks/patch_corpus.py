"""The patch corpus through our placement and through what others do with the same text.

Run: `python benchmarks/patch_corpus.py > table.md`. Peers: `git apply --recount`, `patch -F3`, the
rule "first match wins, then white space ignored" of envelope editors, and similarity matching.
Every peer gets the prefix level right. The two models are ours; they stand for the rule, not for
any product.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "corpus"))

import patch_mutants
from patch_mutants import Mutant

from spike_mcp.core import patches
from spike_mcp.core.codes import Problem

Tree = dict[str, bytes]
OUTCOMES = (
    "applied right",
    "refused right",
    "refused wrong",
    "lucky guess",
    "applied wrong",
    "left half done",
)
MEANING = {
    "applied right": "the one correct result",
    "refused right": "refused what must be refused, tree untouched",
    "refused wrong": "refused a patch that has one clear meaning",
    "lucky guess": "applied a patch that does not fit, and hit what was meant",
    "applied wrong": "said yes and left other bytes than were meant",
    "left half done": "said no and changed the tree",
}


def ours(mutant: Mutant, tree: Tree) -> Tree | None:
    """This project: all or nothing, in memory."""
    out = dict(tree)
    try:
        for one in patches.parse(mutant.patch).files:
            change = patches.place(one, tree.get(one.path.text)).change
            if change.after is None:
                del out[one.path.text]
            else:
                out[one.path.text] = change.after
    except Problem:
        return None
    return out


def level(patch: str) -> str:
    """The prefix level that a careful person would give."""
    prefixed = re.search(r'^(?:---|\+\+\+) "?[abiw]/', patch, flags=re.MULTILINE)
    return "-p1" if prefixed or "diff --git a/" in patch else "-p0"


def program(argv: list[str]) -> Callable[[Mutant, Tree], Tree | None]:
    """A program that reads the patch on stdin and changes files below its directory."""

    def run(mutant: Mutant, tree: Tree) -> Tree | None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for path, data in tree.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(data)
            done = subprocess.run(
                [*argv, level(mutant.patch)],
                input=mutant.patch.encode("utf-8", "surrogateescape"),
                cwd=root,
                env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull},
                capture_output=True,
                timeout=30,
            )
            found = {
                str(file.relative_to(root)): file.read_bytes()
                for file in root.rglob("*")
                if file.is_file() and not file.is_symlink() and file.suffix not in (".rej", ".orig")
            }
            if done.returncode == 0:
                return found
            if found != tree:
                raise HalfDoneError
            return None

    return run


class HalfDoneError(Exception):
    """The tool refused and changed files."""


def hunks_of(patch: str) -> list[tuple[str, list[str], list[str]]]:
    """`(path, old lines, new lines)` as a lenient editor reads them: signs only, no numbers."""
    found: list[tuple[str, list[str], list[str]]] = []
    path = ""
    for line in patch.split("\n"):
        line = line.removesuffix("\r")
        named = re.match(r"(?:\+\+\+ (?:[abiw]/)?|\*\*\* (?:Update|Add) File: )(\S+)", line)
        if named:
            path = named.group(1)
            found.append((path, [], []))
        elif line.startswith("@@") and path:
            found.append((path, [], []))
        elif path and found and line[:1] in (" ", "-", "+", "") and not line.startswith("--- "):
            if line[:1] != "+":
                found[-1][1].append(line[1:])
            if line[:1] != "-":
                found[-1][2].append(line[1:])
    for _, old, new in found:
        while old and new and not old[-1] and not new[-1]:
            old.pop()
            new.pop()
    return [item for item in found if item[1] != item[2]]


def seek(lines: list[str], old: list[str], start: int) -> int | None:
    """First exact match, then first match without white space at the ends of lines."""
    for same in (str, str.rstrip, str.strip):
        want = [same(line) for line in old]
        for at in range(start, len(lines) - len(old) + 1):
            if [same(line) for line in lines[at : at + len(old)]] == want:
                return at
    return None


def similar(lines: list[str], old: list[str], start: int) -> int | None:
    """The most similar window, if at least 0.8 alike."""
    best, place = 0.8, None
    text = "\n".join(old)
    for at in range(start, len(lines) - len(old) + 1):
        window = "\n".join(lines[at : at + len(old)])
        matcher = difflib.SequenceMatcher(None, window, text, autojunk=False)
        if matcher.real_quick_ratio() >= best and matcher.quick_ratio() >= best:
            ratio = matcher.ratio()
            if ratio > best:
                best, place = ratio, at
    return place


def model(
    find: Callable[[list[str], list[str], int], int | None],
) -> Callable[[Mutant, Tree], Tree | None]:
    """An editor that replaces old lines by new ones where `find` says."""

    def run(mutant: Mutant, tree: Tree) -> Tree | None:
        found = hunks_of(mutant.patch)
        texts: dict[str, list[str]] = {}
        at: dict[str, int] = defaultdict(int)
        for path, old, new in found:
            if path not in tree and old:
                return None
            lines = texts.setdefault(path, tree.get(path, b"").decode("latin-1").split("\n"))
            old, new = ([t.encode().decode("latin-1") for t in side] for side in (old, new))
            place = find(lines, old, at[path]) if old else len(lines) - 1
            if place is None:
                return None
            lines[place : place + len(old)] = new
            at[path] = place + len(new)
        if not found:
            return None
        return {**tree, **{p: "\n".join(t).encode("latin-1") for p, t in texts.items()}}

    return run


PEERS: dict[str, Callable[[Mutant, Tree], Tree | None]] = {
    "spike-mcp": ours,
    "git apply --recount": program(["git", "apply", "--recount"]),
    "patch -F3": program(["patch", "--batch", "--silent", "--no-backup-if-mismatch", "-F3"]),
    "first match wins": model(seek),
    "most similar wins": model(similar),
}


def judge(peer: Callable[[Mutant, Tree], Tree | None], mutant: Mutant) -> str:
    """One of `OUTCOMES`."""
    try:
        result = peer(mutant, mutant.files)
    except (HalfDoneError, subprocess.TimeoutExpired):
        return "left half done"
    if result is None:
        return "refused right" if mutant.after is None else "refused wrong"
    if result == expected(mutant.files, mutant.after):
        return "applied right"
    meant = mutant.after is None and result == expected(mutant.files, mutant.meant)
    return "lucky guess" if meant else "applied wrong"


def expected(tree: Tree, after: dict[str, bytes | None] | None) -> Tree | None:
    """`tree` with `after` in place."""
    if after is None:
        return None
    merged = {**tree, **after}
    return {path: data for path, data in merged.items() if data is not None}


def main() -> None:
    """Print the table."""
    everything = patch_mutants.mutants()
    cases = [case for case in everything if not case.by_rule]
    must_apply = sum(case.after is not None for case in cases)
    print(f"{len(cases)} patches: {must_apply} have one right result, ", end="")
    print(f"{len(cases) - must_apply} must be refused.\n")
    verdicts = {name: [judge(peer, case) for case in cases] for name, peer in PEERS.items()}
    counts = {name: Counter(found) for name, found in verdicts.items()}
    print("| " + " | ".join(["", *OUTCOMES]) + " |")
    print("|---|" + "---:|" * len(OUTCOMES))
    for name, count in counts.items():
        print("| " + " | ".join([name, *(str(count[o]) for o in OUTCOMES)]) + " |")
    print("\n" + "\n".join(f"* **{name}**: {meaning}." for name, meaning in MEANING.items()))
    print("\nApplied wrong or left half done, by kind of damage:\n")
    families = sorted({case.family for case in cases})
    print("| " + " | ".join(["", "patches", *PEERS]) + " |")
    print("|---|" + "---:|" * (len(PEERS) + 1))
    for family in families:
        places = [at for at, case in enumerate(cases) if case.family == family]
        bad = [sum(found[at] in OUTCOMES[4:] for at in places) for found in verdicts.values()]
        print("| " + " | ".join([family, str(len(places)), *map(str, bad)]) + " |")
    ruled = [judge(ours, case) for case in everything if case.by_rule]
    print(
        f"\nLeft out: {len(ruled)} patches with renames, copies, modes, links, NUL bytes, context "
        "diffs and unended envelopes. Others may well apply them; spike-mcp refuses the kind and "
        f"did so in {ruled.count('refused right')} cases."
    )


if __name__ == "__main__":
    main()
