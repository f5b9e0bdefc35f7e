"""What a checker of the published method does, written from its description alone.

It reads `judge/hunk-map.yml`, `judge/ledger.jsonl` and git's own diff in `work/`, and knows nothing
of this program. `spike check` and the verdict must agree with it (spec 9, 12).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

_HEADER = re.compile(rb"(?m)^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORD = re.compile(r"[a-z]{4,}")
_NEUTRAL = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def git_diff(work: Path, baseline: str) -> bytes:
    """`git diff --unified=3 <baseline>` under git's default configuration."""
    command = ["git", "diff", "--unified=3", "--text", "--no-ext-diff", "--no-textconv", baseline]
    done = subprocess.run(
        command, cwd=work, check=True, capture_output=True, env={**os.environ, **_NEUTRAL}
    )
    return done.stdout


def hunks_of(diff: bytes) -> Iterator[tuple[str, int, int]]:
    """(file, old start, new start) of every hunk; a file without hunk has starts -1."""
    for part in re.split(rb"(?m)^diff --git ", diff)[1:]:
        head, *_rest = re.split(rb"(?m)^@@ ", part, maxsplit=1)
        name = _name(head)
        headers = _HEADER.findall(part[len(head) :])
        if not headers:
            yield name, -1, -1
        for old, new in headers:
            yield name, int(old), int(new)


def _name(head: bytes) -> str:
    """The file of a diff's head: from `+++`, `---`, or the first line where there is neither."""
    for sign in (b"+++ b/", b"--- a/"):
        found = re.search(rb"(?m)^" + re.escape(sign) + rb"(.*?)\t?$", head)
        if found:
            return found[1].decode("utf-8", "surrogateescape")
    first = head.split(b"\n", 1)[0]
    return first[: len(first) // 2].decode("utf-8", "surrogateescape").removeprefix("a/")


def map_complaints(root: Path) -> list[str]:
    """Why the published map check does not say OK; empty = it does."""
    told = yaml.safe_load((root / "judge" / "hunk-map.yml").read_text(encoding="utf-8"))
    words = set(_WORD.findall(told["hypothesis"].lower()))
    known = {(h["file"], h["old_start"], h["new_start"]) for h in told["hunks"]}
    whole = {entry["file"] for entry in told["files"]}
    found = [
        f"not in the map: {hunk}"
        for hunk in hunks_of(git_diff(root / "work", told["baseline"]))
        if hunk not in known and not (hunk[1] < 0 and hunk[0] in whole)
    ]
    tags = [entry["tag"] for entry in (*told["hunks"], *told["files"])]
    bare = [tag for tag in tags if not words & set(_WORD.findall(tag.lower()))]
    return [*found, *(f"tag without a word of the hypothesis: {tag!r}" for tag in bare)]


def rows_of(root: Path) -> list[dict[str, object]]:
    """The ledger's rows as JSON."""
    text = (root / "judge" / "ledger.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def checkpoint_verdict(rows: list[dict[str, object]], minutes: float = 90) -> str:
    """KILL at two overs or more than the total spent; SHIP when the last is met, none over."""
    stops = [row for row in rows if row["event"] == "stop"]
    overs = sum(bool(row["over"]) for row in stops)
    spent = sum(float(str(row["minutes"])) for row in stops)
    if overs >= 2 or spent > minutes:
        return "KILL"
    return "SHIP" if stops and stops[-1]["met"] and not overs else "PARK"
