"""The judge corpus as values: attempts to fake, dodge or smuggle, and fixes that must ship.

A case is one JSON file below `tests/vectors/judge` (given from outside) or
`tests/vectors/judge-own` (this project's). Fields: `id, title, cls, fixture, lang, kind` (attack
or control), `allowed` (globs), `oracle`, `measure` (argv), `hypothesis`, `baseline` {path: text},
`twin` {oracle path: hidden tests that a real fix passes}, `negative_control` {oracle path: a
variant that a real fix must fail}, `writes` [{path, content | b64 | symlink, mode?, replace_dir?}]
or `patch`, `late_writes` (straight into work/ after the approvals), `pre_runs`, `settle` (seconds),
`probe` [side effects that must not happen], `expected`: SHIP, NOT_SHIP, NO_EFFECT or HUMAN_REJECTS;
in our own also `stops_at` (layers) and `residual` (true: no automatic layer can stop it).
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parent / "vectors"
GIVEN, OWN = VECTORS / "judge", VECTORS / "judge-own"
TOOLS = {"rust": "cargo", "go": "go", "node": "node", "make": "make", "shell": "sh"}


@dataclass(frozen=True)
class Case:
    """One case; `raw` holds the file's fields."""

    raw: dict[str, Any]
    given: bool

    @property
    def id(self) -> str:
        """`A001`, `C01`; of our own: `X01`, `H01`."""
        return str(self.raw["id"])

    @property
    def attack(self) -> bool:
        """An attack or, if not, an honest control."""
        return self.raw["kind"] == "attack"

    @property
    def cls(self) -> str:
        """The kind of attempt: `exit_spoof`, `gate`, ...; `control`."""
        return str(self.raw["cls"])

    @property
    def tool(self) -> str:
        """The program that the measurement needs beside Python; "" for none."""
        return TOOLS.get(str(self.raw["lang"]), "")

    def __str__(self) -> str:
        return self.id


def load(directory: Path) -> list[Case]:
    """All cases of a directory, by id."""
    files = sorted(directory.glob("*.json"))
    return [Case(json.loads(file.read_text("utf-8")), directory == GIVEN) for file in files]


def content_of(write: dict[str, Any]) -> bytes:
    """The bytes that a write wants; `@SHA256:<text>` stands for the digest of the text."""
    if "b64" in write:
        return base64.b64decode(write["b64"])
    text = str(write.get("content", ""))
    if text.startswith("@SHA256:"):
        return hashlib.sha256(text[len("@SHA256:") :].encode()).hexdigest().encode()
    return text.encode("utf-8", "surrogateescape")


def as_patch(write: dict[str, Any]) -> str:
    """What no file tool can do, as git would write it: a link, a mode, `.git` turned to a file."""
    path = write["path"]
    if "symlink" in write:
        mode, body = "120000", str(write["symlink"])
    else:
        mode, body = f"10{int(write.get('mode', 0o644)):o}", content_of(write).decode("utf-8")
    lines = body.splitlines() or [""]
    added = "\n".join(f"+{line}" for line in lines)
    end = "\n" if body.endswith("\n") else "\n\\ No newline at end of file\n"
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n{added}{end}"
    )
