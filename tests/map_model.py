"""A small model of the hunk map, made from git's own diff and the specification's words alone.

It shares no code with the program: regions are read from what `git diff` prints, bytes are put
together line by line, and approvals move by the rules of spec 9. One file is modelled.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NEUTRAL = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin"}

Region = tuple[int, bytes, bytes]
"""(baseline lines above it, removed, added): what a human is shown of it, endings included."""

Hunk = tuple[Region, ...]


def lines_of(data: bytes) -> list[bytes]:
    """Lines with their endings; they end at `\\n` only."""
    found = [line + b"\n" for line in data.split(b"\n")]
    last = found.pop()[:-1]
    return [*found, last] if last else found


@cache
def hunks_of(place: Path, base: bytes, work: bytes) -> tuple[Hunk, ...]:
    """The hunks of `git diff --unified=3`, each as the regions in it."""
    if base == work:
        return ()
    (place / "old").write_bytes(base)
    (place / "new").write_bytes(work)
    command = ["git", "diff", "--no-index", "--text", "--unified=3", "--no-ext-diff", "old", "new"]
    done = subprocess.run(command, cwd=place, capture_output=True, env=_NEUTRAL, check=False)
    return tuple(_regions(at, body) for at, body in _bodies(lines_of(done.stdout)))


def _bodies(text: list[bytes]) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
    """(baseline lines above, [(sign, line)]) of each hunk, read by the counts of its header."""
    number = 0
    while number < len(text):
        header = _HEADER.match(text[number])
        number += 1
        if header is None:
            continue
        old, new = (1 if header[n] is None else int(header[n]) for n in (2, 4))
        body: list[tuple[bytes, bytes]] = []
        while old or new or text[number : number + 1] == [b"\\ No newline at end of file\n"]:
            sign, line = text[number][:1], text[number][1:]
            number += 1
            if sign == b"\\":
                body[-1] = (body[-1][0], body[-1][1][:-1])
                continue
            old -= sign != b"+"
            new -= sign != b"-"
            body.append((sign, line))
        yield int(header[1]) - (header[2] != b"0"), body


def _regions(at: int, body: Iterable[tuple[bytes, bytes]]) -> Hunk:
    found: list[Region] = []
    inside = False
    for sign, line in body:
        if sign == b" ":
            at, inside = at + 1, False
            continue
        if not inside:
            found.append((at, b"", b""))
        first, removed, added = found[-1]
        inside = True
        if sign == b"-":
            found[-1], at = (first, removed + line, added), at + 1
        else:
            found[-1] = (first, removed, added + line)
    return tuple(found)


def place_of(region: Region) -> tuple[int, int]:
    """Where it stands in the baseline: from, to (half open; equal for an insertion)."""
    return region[0], region[0] + len(lines_of(region[1]))


def touch(one: Region, other: Region) -> bool:
    """Whether two places overlap or abut."""
    (a, b), (c, d) = place_of(one), place_of(other)
    return a <= d and c <= b


def put_together(base: bytes, regions: Iterable[Region]) -> bytes | None:
    """The baseline with these regions; None where they can't stand side by side."""
    old = lines_of(base)
    out: list[bytes] = []
    at, first = 0, True
    for region in sorted(regions):
        start, end = place_of(region)
        if start < at or (start == at and not first):
            return None
        if b"".join(old[start:end]) != region[1]:
            return None
        out += [*old[at:start], *lines_of(region[2])]
        at, first = end, False
    out += old[at:]
    if any(not line.endswith(b"\n") for line in out[:-1]):
        return None
    return b"".join(out)


@dataclass
class MapModel:
    """Bytes, and what became of every region that was ever approved. Newest lapses come last."""

    place: Path
    base: bytes
    work: bytes
    approved: set[Region] = field(default_factory=set)
    withdrawn: set[Region] = field(default_factory=set)
    lapsed: list[Region] = field(default_factory=list)

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """The hunks now."""
        return hunks_of(self.place, self.base, self.work)

    @property
    def regions(self) -> list[Region]:
        """The regions now."""
        return [region for hunk in self.hunks for region in hunk]

    @property
    def pending(self) -> list[Hunk]:
        """Hunks with a region that nobody approved."""
        return [hunk for hunk in self.hunks if not self.approved.issuperset(hunk)]

    def approve(self, hunk: Hunk) -> None:
        """A human saw these regions."""
        self.approved |= set(hunk)
        self.lapsed = [region for region in self.lapsed if region not in hunk]

    def agent_writes(self, work: bytes) -> None:
        """The agent makes a revision."""
        before, covered = self.regions, self.approved.copy()
        self.work = work
        now = self.regions
        gone = self._settle(now)
        left_behind: list[Region] = []
        for lapse in reversed(self.lapsed):
            over = [region for region in before if touch(region, lapse)]
            pending = over and not covered.intersection(over)
            bare = not any(touch(region, lapse) for region in now)
            if pending and bare and not any(touch(lapse, other) for other in left_behind):
                left_behind.append(lapse)
        for region in gone:
            if any(touch(other, region) for other in now):
                self.lapsed.append(region)
            else:
                self.withdrawn.add(region)
        self.lapsed = [region for region in self.lapsed if region not in left_behind]
        self.withdrawn |= set(left_behind)

    def human_writes(self, work: bytes, revived: Iterable[Region], gone: Iterable[Region]) -> None:
        """A reject or undo: `revived` are approved by its row, `gone` was its target."""
        forgotten = set(gone)
        self.work = work
        now = self.regions
        lost = self._settle(now)
        self.lapsed = [r for r in (*self.lapsed, *lost) if r not in forgotten]
        back = {region for region in revived if region in now}
        self.approved |= back
        self.withdrawn -= back
        self.lapsed = [region for region in self.lapsed if region not in back]

    def _settle(self, now: list[Region]) -> list[Region]:
        """Approved regions that left the diff; withdrawn ones whose place is covered lapse."""
        gone = sorted(self.approved.difference(now))
        self.approved &= set(now)
        for region in sorted(self.withdrawn):
            if any(touch(other, region) for other in now):
                self.withdrawn.discard(region)
                self.lapsed.append(region)
        return gone

    def without(self, targets: Iterable[Region]) -> tuple[bytes, list[Region]]:
        """The file after a reject, and the regions that it puts back."""
        leaving = list(targets)
        kept = [region for region in self.regions if region not in leaving]
        back: list[Region] = []
        for lapse in reversed(self.lapsed):
            over = lapse not in leaving and any(touch(lapse, region) for region in leaving)
            if over and put_together(self.base, [*kept, lapse]) is not None:
                kept.append(lapse)
                back.append(lapse)
        after = put_together(self.base, kept)
        assert after is not None, "a reject never depends on another region"
        return after, back
