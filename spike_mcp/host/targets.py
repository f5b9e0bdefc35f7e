"""What stands at a path of the worktree, and which refusal that calls for (spec 6, 8)."""

import os
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.host import handles
from spike_mcp.host.handles import Trouble, Walk
from spike_mcp.host.manifest import Manifest


class Kind(StrEnum):
    """What stands at a path."""

    ABSENT = "absent"
    REGULAR = "regular"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What the file system and the baseline say about a path, without following anything.

    `symlink_at`: the component (as a path) that is a symbolic link. `blocked_at`: the component
    that is no directory although something is asked below it, or can't be looked into.
    `case_collision`: an existing path that differs from the missing one in case or Unicode
    composition only. `unsupported`: a sentence why a write here could not be shipped (submodule,
    not checked out, converted at checkout). "" = none. `size` in bytes, `mode` = permission bits.
    """

    exists: bool
    kind: Kind
    nlink: int = 0
    size: int = 0
    mode: int = 0
    same_device: bool = True
    symlink_at: str = ""
    blocked_at: str = ""
    case_collision: str = ""
    parent_missing: bool = False
    unsupported: str = ""

    def read_problem(self, path: str) -> Problem | None:
        """The refusal these facts call for when somebody wants to read the file."""
        if self.symlink_at:
            message = f"{self.symlink_at} is a symbolic link"
            return Problem(Refusal.SYMLINK_IN_PATH, message, "name the file it points to")
        if self.blocked_at or not self.same_device or self.kind in (Kind.DIRECTORY, Kind.OTHER):
            message = f"{self.blocked_at or path} is not a regular file of the worktree"
            return Problem(Refusal.NOT_A_FILE, message, "name a regular file")
        return hard_linked(path) if self.nlink > 1 else None

    def write_problem(self, path: str) -> Problem | None:
        """The refusal these facts call for when somebody wants to create or change the file."""
        problem = self.read_problem(path)
        if problem is not None:
            return problem
        if self.unsupported:
            return Problem(Refusal.UNSUPPORTED_CHANGE_KIND, self.unsupported, "leave it alone")
        if self.case_collision:
            message = f"{self.case_collision} exists: the same name on a disk that is case-blind"
            return Problem(Refusal.FILE_EXISTS, message, "use the existing spelling")
        return None


def hard_linked(path: str) -> Problem:
    """The refusal of a file that has another name: its content may be another file's."""
    message = f"{path} shares its content with another name (hard link)"
    return Problem(Refusal.HARD_LINKED, message, "a human can part them: spike restore")


def look(root: int, reached: Walk, parts: Sequence[bytes], baseline: Manifest) -> TargetFacts:
    """The facts of the path `parts`, whose parent was walked to as far as `reached` says."""
    at = handles.decode(b"/".join(parts[: reached.depth + 1]))
    match reached.trouble:
        case Trouble.SYMLINK:
            return TargetFacts(False, Kind.ABSENT, symlink_at=at, parent_missing=True)
        case Trouble.OTHER_DEVICE:
            return TargetFacts(False, Kind.ABSENT, same_device=False, blocked_at=at)
        case Trouble.NOT_DIRECTORY | Trouble.UNREADABLE:
            return TargetFacts(False, Kind.ABSENT, blocked_at=at, parent_missing=True)
        case Trouble.MISSING:
            return _absent(reached, parts, baseline, parent_missing=True)
        case Trouble.NONE:
            pass
    try:
        found = handles.lstat(reached.fd, parts[-1])
    except OSError:
        return TargetFacts(False, Kind.OTHER, blocked_at=at)
    if found is None:
        return _absent(reached, parts, baseline, parent_missing=False)
    kind = _kind(found.st_mode)
    return TargetFacts(
        True,
        kind,
        nlink=found.st_nlink if kind is Kind.REGULAR else 1,
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode) & 0o777,
        same_device=found.st_dev == os.fstat(root).st_dev,
        symlink_at=at if kind is Kind.SYMLINK else "",
        unsupported=_unsupported(parts, baseline),
    )


def _absent(
    reached: Walk, parts: Sequence[bytes], baseline: Manifest, *, parent_missing: bool
) -> TargetFacts:
    return TargetFacts(
        False,
        Kind.ABSENT,
        case_collision=_collision(reached, parts),
        parent_missing=parent_missing,
        unsupported=_unsupported(parts, baseline),
    )


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.REGULAR
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.SYMLINK if stat.S_ISLNK(mode) else Kind.OTHER


def _collision(reached: Walk, parts: Sequence[bytes]) -> str:
    """The existing name that a case-blind disk would take for the first missing component."""
    wanted = _folded(handles.decode(parts[reached.depth]))
    for name in os.listdir(reached.fd):
        if _folded(name) == wanted:
            found = (*parts[: reached.depth], os.fsencode(name))
            return handles.decode(b"/".join(found))
    return ""


def _folded(name: str) -> str:
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _unsupported(parts: Sequence[bytes], baseline: Manifest) -> str:
    """Why a change of this path can't become a faithful commit on top of the baseline."""
    for depth in range(1, len(parts) + 1):
        text = handles.decode(b"/".join(parts[:depth]))
        entry = baseline.get(text)
        if entry is None:
            continue
        if entry.is_gitlink:
            return f"{text} is a submodule"
        if entry.is_absent:
            return f"{text} is in the commit but was not checked out (sparse checkout)"
        if entry.converted:
            return f"{text} was converted at checkout (eol, ident, filter or LFS)"
        return ""
    return ""
