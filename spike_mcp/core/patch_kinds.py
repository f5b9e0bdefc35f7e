"""Git's extended header lines, and the kinds of change that have no lines a person could review."""

from __future__ import annotations

import re

from spike_mcp.core.codes import Problem
from spike_mcp.core.patch_types import unsupported
from spike_mcp.core.unsafe import quoted

EXTENDED = (
    "index ",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity index ",
    "dissimilarity index ",
    "rename ",
    "copy ",
    "Binary files ",
    "GIT binary patch",
)
"""How the lines between `diff --git` and `---` begin."""

_MODE = re.compile(r"(?:old mode|new mode|new file mode|deleted file mode) (\d+)$")
_INDEX_MODE = re.compile(r"index [0-9a-f]+(?:,[0-9a-f]+)*\.\.[0-9a-f]+ (\d+)$")
_PLAIN_MODE = "100644"


def extended(line: str, row: int, names: str) -> str:
    """`created`, `deleted` or `""`, what an extended header line says of the file.

    Raises `UNSUPPORTED_CHANGE_KIND` for renames, copies, modes, links, submodules and binaries;
    `names` is the text after `diff --git `.
    """
    if line.startswith(("rename ", "copy ", "similarity ")):
        raise unsupported(
            f"patch line {row}: this renames or copies a file: {quoted(names)}",
            "create the new file with its content and delete the old one, line by line",
        )
    if line.startswith(("Binary files ", "GIT binary patch")):
        raise binary(row)
    mode = _MODE.match(line) or _INDEX_MODE.match(line)
    if mode:
        _check_mode(line, mode.group(1), row)
    if line.startswith("new file mode "):
        return "created"
    return "deleted" if line.startswith("deleted file mode ") else ""


def _check_mode(line: str, mode: str, row: int) -> None:
    if mode.startswith(("12", "16", "04")):
        what = "symbolic links" if mode.startswith("12") else "submodules"
        raise unsupported(
            f"patch line {row}: {what} are not supported (mode {mode})",
            "only regular files can be changed; report it as unknown if the spike needs it",
        )
    if line.startswith(("old mode ", "new mode ")):
        raise unsupported(
            f"patch line {row}: mode changes are not supported",
            "send the content change alone; the file keeps its mode",
        )
    if line.startswith("new file mode ") and mode != _PLAIN_MODE:
        raise unsupported(
            f"patch line {row}: a new file can't have mode {mode}",
            f"create it with mode {_PLAIN_MODE}",
        )


def binary(row: int) -> Problem:
    """The refusal of a binary patch."""
    return unsupported(
        f"patch line {row}: binary patches are not supported",
        "only text can be reviewed line by line; report it as unknown if the spike needs it",
    )
