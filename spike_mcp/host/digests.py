"""SHA-256 of a file's content, read again only when its stat changed (spec 4, 9).

mtime and ctime, inode and size say that a file may have changed, never that it did; the digest
says what it is. A file whose times are so young that a later write could leave them as they are is
not remembered (clock ticks of common file systems are up to 10 ms apart).
"""

import hashlib
import os
import stat
import time

ABSENT = "absent"
OTHER = "not a file"
UNREADABLE = "unreadable"

_TOO_YOUNG_NS = 100_000_000
Stamp = tuple[int, int, int, int, int, int]


def stamp(found: os.stat_result) -> Stamp:
    """What must be equal for a file to count as untouched."""
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def settled(found: os.stat_result) -> bool:
    """Whether these times are old enough that any later change must move them."""
    return time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _TOO_YOUNG_NS


def content(path: str, *, follow: bool = False) -> tuple[str, os.stat_result | None]:
    """(digest, stat it belongs to) of the file at `path`; the stat is None if there is none.

    The digest is 64 hex, or `ABSENT`, `UNREADABLE`, `OTHER` (a directory, a device: never opened
    for long, a pipe can't hang us), or `link ` and the digest of a symlink's target; `follow` reads
    what the link leads to instead.
    """
    try:
        found = os.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, None
    except OSError:
        return UNREADABLE, None
    if stat.S_ISLNK(found.st_mode):
        return "link " + hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest(), found
    if not stat.S_ISREG(found.st_mode):
        return OTHER, found
    return _regular(path, follow)


def _regular(path: str, follow: bool) -> tuple[str, os.stat_result | None]:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        with open(os.open(path, flags), "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return OTHER, found
            return hashlib.file_digest(file, "sha256").hexdigest(), found
    except FileNotFoundError:
        return ABSENT, None
    except OSError:
        return UNREADABLE, None


class Digests:
    """Digests of a few files, remembered by this object while their stat stays the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], tuple[Stamp, str]] = {}

    def of(self, path: str, follow: bool = False) -> str:
        """The digest as `content` gives it."""
        known = self._known.get((path, follow))
        if known is not None:
            try:
                if stamp(os.stat(path, follow_symlinks=follow)) == known[0]:
                    return known[1]
            except OSError:
                pass
        digest, found = content(path, follow=follow)
        if found is not None and settled(found):
            self._known[path, follow] = (stamp(found), digest)
        else:
            self._known.pop((path, follow), None)
        return digest
