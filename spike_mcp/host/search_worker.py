"""Look for a text or an expression in files, in a process that may be killed (spec 7).

Standard library only and nothing of this package: started as `python3 -I -S search_worker.py`.
One JSON object on standard input (`root`, `names`, `pattern`, `regex`, `hits`, `line`, `file`,
`seconds`), JSON lines on standard output:

    ["hit", index of the name, line number, text]   ["done", files searched, files skipped]
    ["bad", what is wrong with the expression]      ["more"]: the last hit that was asked for

The kernel ends the process after `seconds`, whatever the expression does meanwhile.
"""

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MEMORY = 1 << 30
"""Bytes of address space: an expression that needs more is refused."""
BEFORE = 60
"""Characters shown before a match in a line that is too long to show."""

Search = Callable[[str], "int | None"]
"""Where in a line the first match begins, or None."""


def confine(seconds: float) -> None:
    """Have the kernel end this process after `seconds`, and bound its memory."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def searcher(pattern: str, regex: bool) -> Search:
    """The function that looks into one line. `re.error` and the like for a bad expression."""
    if not regex:

        def plain(line: str) -> int | None:
            at = line.find(pattern)
            return None if at < 0 else at

        return plain
    compiled = re.compile(pattern)

    def matching(line: str) -> int | None:
        found = compiled.search(line)
        return None if found is None else found.start()

    return matching


class Tree:
    """Files below a root, reached through handles: no link is followed (`host.handles`).

    The directories on the way to the last file stay open, since names come in order.
    """

    def __init__(self, root: str) -> None:
        self._parts: list[bytes] = []
        self._handles = [os.open(root, DIRECTORY)]

    def read(self, name: str, limit: int) -> bytes | None:
        """The bytes of a regular file with one name; None for anything else, or a longer one."""
        *parents, last = name.encode("utf-8", "surrogateescape").split(b"/")
        try:
            file = os.open(last, READ, dir_fd=self._directory(parents))
        except OSError:
            return None
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1 or facts.st_size > limit:
                return None
            return _all_of(file, facts.st_size, limit)
        finally:
            os.close(file)

    def _directory(self, parts: list[bytes]) -> int:
        same = 0
        while same < len(parts) and parts[same : same + 1] == self._parts[same : same + 1]:
            same += 1
        while len(self._handles) > same + 1:
            os.close(self._handles.pop())
        del self._parts[same:]
        for part in parts[same:]:
            self._handles.append(os.open(part, DIRECTORY, dir_fd=self._handles[-1]))
            self._parts.append(part)
        return self._handles[-1]


def _all_of(file: int, size: int, limit: int) -> bytes:
    """All bytes up to `limit`; one call for a file that is as long as its `size` says."""
    pieces: list[bytes] = []
    wanted = size + 1
    while wanted > 0 and (data := os.read(file, wanted)):
        pieces.append(data)
        wanted = limit - sum(map(len, pieces))
        if len(pieces) == 1 and len(data) <= size:
            break
    return b"".join(pieces)


def lines_of(data: bytes) -> list[str]:
    """The lines without their endings; one that is no UTF-8 is read as ISO-8859-1."""
    try:
        rows = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        rows = [_decode(line) for line in data.split(b"\n")]
    if not rows[-1]:
        rows.pop()
    return [row.removesuffix("\r") for row in rows] if b"\r" in data else rows


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("iso-8859-1")


def shown(line: str, at: int, limit: int) -> str:
    """The line, or the part of a long one in which the match begins."""
    if len(line) <= limit:
        return line
    start = max(0, min(at - BEFORE, len(line) - limit))
    end = start + limit
    return ("..." if start else "") + line[start:end] + ("..." if end < len(line) else "")


def hits(data: bytes, search: Search, limit: int) -> Iterator[tuple[int, str]]:
    """(1-based number, text as shown) of each line that holds a match."""
    for number, line in enumerate(lines_of(data), 1):
        at = search(line)
        if at is not None:
            yield number, shown(line, at, limit)


def look(job: dict[str, Any], say: Callable[[list[object]], None]) -> None:
    """Search every file in order and say what was found."""
    try:
        search = searcher(job["pattern"], job["regex"])
    except (re.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
        say(["bad", str(error) or type(error).__name__])
        return
    rare = None if job["regex"] else job["pattern"].encode("utf-8")
    tree = Tree(job["root"])
    searched = skipped = told = 0
    for index, name in enumerate(job["names"]):
        data = tree.read(name, job["file"])
        if data is None or b"\0" in data:
            skipped += 1
            continue
        searched += 1
        if rare is not None and rare.isascii() and rare not in data:
            continue
        for number, text in hits(data, search, job["line"]):
            if told == job["hits"]:
                say(["more"])
                return
            told += 1
            say(["hit", index, number, text])
    say(["done", searched, skipped])


def main() -> None:
    """Read the job, do it, say what was found."""
    job = json.loads(sys.stdin.buffer.read())
    confine(job["seconds"])

    def say(row: list[object]) -> None:
        os.write(1, json.dumps(row).encode() + b"\n")

    try:
        look(job, say)
    except MemoryError:
        say(["bad", "the expression needs too much memory"])


if __name__ == "__main__":
    main()
