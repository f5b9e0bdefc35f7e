"""Git as baseline store and witness; the only package that calls `git` (spec 9; habit 10).

`process` runs it in a cleared environment, `objects` reads and writes objects and checks every
digest itself, `repository` looks at the user's checkout, `worktrees` makes and removes `work/`.
"""

from spike_mcp.host.git.objects import Git, TreeChange, TreeEntry
from spike_mcp.host.git.repository import PathState, Repository, discover
from spike_mcp.host.git.worktrees import (
    add_worktree,
    check_removable,
    checked_out,
    mark_intent,
    remove_worktree,
)

__all__ = [
    "Git",
    "PathState",
    "Repository",
    "TreeChange",
    "TreeEntry",
    "add_worktree",
    "check_removable",
    "checked_out",
    "discover",
    "mark_intent",
    "remove_worktree",
]
