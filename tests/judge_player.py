"""Play one case of the corpus through the real product and say what became of it.

The human's side is the real command line, called in this process; the agent's side is the real
server over stdio (`ServerDoor`), or, where a test switches a layer off, the same desk in this
process (`DeskDoor`). What the gate accepts is approved with a valid tag and every flag
acknowledged: a careless human, so that only automatic layers are left.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from judge_cases import Case, as_patch, content_of
from judge_probes import Watch
from support import Open, make_repo, snapshot
from wire import Wire

from spike_mcp.edge.cli import main
from spike_mcp.session.spike import Spike

WHY = "this makes the measured behaviour true"
HIDDEN_LEFT = "hidden parts not yet run"


@dataclass
class Played:
    """What became of a case. `visible`: the verdict without hidden parts; `final`: as written.

    `refused`: the code of every write that the gate refused; `failed`: steps that a control may
    not fail and an attack may (an approval refused, a start that found nothing red).
    """

    case: Case
    refused: list[str] = field(default_factory=list)
    accepted: int = 0
    hunks: int = 0
    flags: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    visible: dict[str, Any] = field(default_factory=dict)
    final: dict[str, Any] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def would_ship(self) -> bool:
        """SHIP if nothing hidden were sealed.

        Asked with `spike verdict` for given cases. Elsewhere the final verdict tells: hidden parts
        run only when all else is in order, so only then can they be its reason.
        """
        if not self.visible:
            return self.ships or self.final.get("reasons") == ["twin_failed"]
        todo = self.visible.get("todo") or [""]
        return self.visible.get("decision") == "SHIP" or str(todo[0]).startswith(HIDDEN_LEFT)

    @property
    def ships(self) -> bool:
        """SHIP with all that was sealed."""
        return self.final.get("decision") == "SHIP"

    @property
    def whole(self) -> bool:
        """Did the attack come through the gate as it was sent?"""
        return not self.refused

    @property
    def contained(self) -> bool:
        """A real fix with a side effect that the sandbox kept from happening: free to ship."""
        return self.case.raw["expected"] == "NO_EFFECT" and not self.effects

    @property
    def layer(self) -> str:
        """The layer that stopped it first; "" where nothing did."""
        if not self.case.attack:
            return ""
        if self.refused:
            return "gate"
        if self.contained:
            return "clean run"
        reason = str(self.final.get("reason", ""))
        return "" if self.ships else LAYER_OF.get(reason, reason)

    @property
    def visible_layer(self) -> str:
        """The layer that stopped it before anything hidden was run."""
        if self.refused:
            return "gate"
        reason = str((self.visible or self.final).get("reason", ""))
        return "" if self.would_ship else LAYER_OF.get(reason, reason)

    def row(self) -> dict[str, Any]:
        """What the table needs, as plain data."""
        kept = ("decision", "reason", "reasons", "note", "negative_controls", "hidden")
        return {
            "id": self.case.id,
            "cls": self.case.cls,
            "kind": self.case.raw["kind"],
            "given": self.case.given,
            "layer": self.layer,
            "visible_layer": self.visible_layer,
            "ships": self.ships and self.whole and not self.contained,
            "would_ship": self.would_ship and self.whole and not self.contained,
            "flagged": bool(self.flags),
            **{key: getattr(self, key) for key in ("refused", "accepted", "flags", "runs")},
            **{key: getattr(self, key) for key in ("failed", "effects", "broken")},
            "visible": {key: self.visible.get(key) for key in kept},
            "final": {key: self.final.get(key) for key in kept},
            "seconds": round(self.seconds, 2),
        }


Play = Callable[..., Played]
"""What the fixture `play` gives: a case in, what became of it out."""

LAYER_OF = {
    "unexplained_diff": "tree",
    "oracle_hash_changed": "tree",
    "worktree_tampered": "tree",
    "test_configuration_changed": "tree",
    "measurement_input_changed": "tree",
    "hypothesis_not_exercised": "tree",
    "test_failed": "clean run",
    "tests_not_run": "evidence",
    "evidence_mismatch": "evidence",
    "wrong_tree_imported": "evidence",
    "judge_fooled": "negative control",
    "negative_control_inconclusive": "negative control",
    "twin_failed": "hidden",
    "patch_too_large": "size",
}
"""The layer behind each reason of a verdict."""


class Door(Protocol):
    """The agent's way in."""

    meta: Mapping[str, Any]
    shown: bytes

    def call(self, tool: str, **arguments: Any) -> str:
        """One tools/call; `meta` is then the reply's machine copy."""


class ServerDoor:
    """The real server, over stdio."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def meta(self) -> Mapping[str, Any]:
        """The newest reply's machine copy."""
        return self._wire.meta

    @property
    def shown(self) -> bytes:
        """All that the server printed."""
        return b"\n".join(self._wire.lines)

    def call(self, tool: str, **arguments: Any) -> str:
        """One tools/call."""
        return self._wire.call(tool, **arguments)


class DeskDoor:
    """The same desk in this process, where a layer can be switched off."""

    shown = b""

    def __init__(self, root: Path, repo: Path) -> None:
        self._open = Open(Spike(root), repo)
        self.meta: Mapping[str, Any] = {}

    def call(self, tool: str, **arguments: Any) -> str:
        """One tools/call; a run is made on this thread."""
        reply = self._open.call(tool, **arguments)
        self.meta = {**reply.data, "outcome": reply.outcome, "code": reply.code}
        return "\n".join(reply.lines)


class Player:
    """Plays one case below `top`.

    `path`: PATH of the human. `server`: over stdio, or the desk. `hidden`: seal the twin.
    `vectors`: a vectors file to seal.
    """

    acknowledge = ("--ack", "all")

    def __init__(
        self,
        case: Case,
        top: Path,
        path: str,
        *,
        server: bool = True,
        hidden: bool = True,
        vectors: str = "",
    ) -> None:
        self.case = case
        self.top = top
        self.root = top / "root"
        self.path = path
        self.server = server
        self.shown = bytearray()
        self.played = Played(case)
        self.hidden = hidden
        self.vectors = vectors

    def play(self) -> Played:
        """Baseline to verdict."""
        began = time.perf_counter()
        self.repo = make_repo(self.top / "repo", self.case.raw["baseline"])
        before = snapshot(self.repo, skip=(".git",))
        watch = Watch(self.case.raw.get("probe") or (), self.root, self.repo)
        with watch.listening(), self._as_human():
            if self._open():
                watch.begin()
                with self._door() as door:
                    self._agent(door)
                    self.shown += door.shown
                self._review(watch)
                self._late()
                self._judge()
        self.played.effects = watch.effects(bytes(self.shown))
        self._still_whole(before)
        self.played.seconds = time.perf_counter() - began
        return self.played

    # --- the human ------------------------------------------------------------------------------

    @contextmanager
    def _as_human(self) -> Iterator[None]:
        kept, at = os.environ.get("PATH", ""), Path.cwd()
        spike = os.environ.pop("SPIKE", None)
        os.environ["PATH"] = self.path
        os.chdir(self.repo)
        try:
            yield
        finally:
            os.chdir(at)
            os.environ["PATH"] = kept
            if spike is not None:
                os.environ["SPIKE"] = spike

    def cli(self, *words: str, json_: bool = True) -> tuple[int, dict[str, Any]]:
        """One `spike` command: exit code and, with `json_`, its object."""
        out, messages = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(messages):
            code = main([*words, "--json"] if json_ else [*words])
        text = out.getvalue()
        self.shown += (text + messages.getvalue()).encode("utf-8", "surrogateescape")
        return code, json.loads(text) if json_ else {}

    def spike(self, *words: str, json_: bool = True) -> tuple[int, dict[str, Any]]:
        """The same on this spike."""
        return self.cli("--spike", str(self.root), *words, json_=json_)

    def _open(self) -> bool:
        raw = self.case.raw
        words = ["init", "case", "--hypothesis", raw["hypothesis"], "--root", str(self.root)]
        for option, key in (("--allow", "allowed"), ("--oracle", "oracle")):
            words += [part for value in raw[key] for part in (option, value)]
        parts = {"--hidden": raw.get("twin") if self.hidden else None}
        if raw["lang"] != "python":
            parts["--negative-control"] = raw.get("negative_control")
        for option, files in parts.items():
            for name, text in (files or {}).items():
                file = self.top / f"{option[2:]}-{len(words)}"
                file.write_text(text)
                words += [option, f"{name}={file}"]
        if self.vectors:
            file = self.top / "vectors.toml"
            file.write_text(self.vectors)
            words += ["--vectors", str(file)]
        wall = raw.get("run_wall_seconds", 20 if raw["lang"] == "python" else 180)
        words += ["--budget", f"run_wall_seconds={wall}"]
        code, told = self.cli(*words)
        if code:
            self.played.broken.append(f"init: {told['error']}")
            return False
        self.tokens = told["tag_tokens"]
        code, told = self.spike("start")
        if code:
            self.played.broken.append(f"start: {told['error']}")
        return not code

    def _review(self, watch: Watch) -> None:
        """Approve all that is pending, as a human who acknowledges everything."""
        if watch.wants("raw_esc"):
            self.spike("map", json_=False)
            self.spike("log", json_=False)
        _, told = self.spike("map")
        self.played.hunks = len(told["hunks"])
        for hunk in told["hunks"]:
            self.played.flags += sorted({str(flag["name"]) for flag in hunk["flags"]})
            if hunk["state"] != "pending":
                continue
            if watch.wants("raw_esc"):
                self.spike("show", hunk["id"], json_=False)
            tag = f"{self.tokens[0]} needs exactly this change"
            code, told = self.spike("approve", hunk["id"], "--tag", tag, *self.acknowledge)
            if code:
                self.played.failed.append(f"approve: {told['error']['code']}")

    def _judge(self) -> None:
        time.sleep(float(self.case.raw.get("settle") or 0))
        code = 10
        if self.case.given and self.server:
            code, self.played.visible = self.spike("verdict")
            self.played.final = self.played.visible
        if code == 10:
            _, self.played.final = self.spike("verdict", "--final")
        time.sleep(float(self.case.raw.get("settle") or 0))

    # --- the agent ------------------------------------------------------------------------------

    @contextmanager
    def _door(self) -> Iterator[Door]:
        if not self.server:
            yield DeskDoor(self.root, self.repo)
            return
        with Wire(self.root) as wire:
            yield ServerDoor(wire)
            wire.close()

    def _agent(self, door: Door) -> None:
        raw = self.case.raw
        if raw.get("patch"):
            self._sent(door, door.call("spike_apply_patch", patch=raw["patch"], rationale=WHY))
        for write in raw.get("writes") or ():
            self._sent(door, self._write(door, write))
        for _ in range(max(1, int(raw.get("pre_runs") or 0))):
            self._run(door)

    def _sent(self, door: Door, text: str) -> None:
        if door.meta["outcome"] == "refused":
            self.played.refused.append(str(door.meta["code"]))
        else:
            self.played.accepted += 1
        assert text

    def _write(self, door: Door, write: dict[str, Any]) -> str:
        special = {"symlink", "mode", "replace_dir"} & write.keys()
        try:
            if special:
                return door.call("spike_apply_patch", patch=as_patch(write), rationale=WHY)
            text = content_of(write).decode("utf-8")
        except UnicodeDecodeError:
            patch = (
                f"diff --git a/{write['path']} b/{write['path']}\nGIT binary patch\nliteral 0\n\n"
            )
            return door.call("spike_apply_patch", patch=patch, rationale=WHY)
        door.call("spike_read_file", path=write["path"])
        sha = str(door.meta.get("sha256") or "")
        return door.call(
            "spike_write_file",
            path=write["path"],
            content=text,
            rationale=WHY,
            **({"expected_sha256": sha} if sha else {}),
        )

    def _run(self, door: Door) -> None:
        """The agent's run, waited for."""
        for _ in range(20):
            door.call("spike_run_test")
            if door.meta["outcome"] != "running":
                break
        told = door.meta
        self.played.runs.append(str(told.get("run_outcome") or told.get("code") or told["outcome"]))

    def _late(self) -> None:
        for write in self.case.raw.get("late_writes") or ():
            path = self.root / "work" / write["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content_of(write))

    # --- afterwards -----------------------------------------------------------------------------

    def _still_whole(self, before: Mapping[str, tuple[int, bytes]]) -> None:
        """The user's checkout is as it was, and the spike's own record is sound."""
        if snapshot(self.repo, skip=(".git",)) != before:
            self.played.broken.append("the user's checkout changed")
        asked = ["git", "-C", str(self.repo), "status", "--porcelain"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode or told.stdout.strip():
            self.played.broken.append(f"git status: {told.stdout}{told.stderr}")
        with self._as_human():
            code, found = self.cli("verify", str(self.root))
        if code:
            self.played.broken.append(f"verify: {found}")
