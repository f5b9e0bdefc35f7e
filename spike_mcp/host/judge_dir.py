"""judge/: how it is laid out, what in it is sealed, and whether the seals hold (spec 2, 3, 4).

seals.json holds digests only. It is itself anchored by the ledger's first row (its own SHA-256),
so `SealWatch.check` is given that digest and trusts nothing else. Its bytes are kept in blobs too:
who edits a sealed file and seals.json to match is still told what was edited.
"""

import contextlib
import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from spike_mcp.core import layout
from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.core.paths import RepoPath
from spike_mcp.host.digests import ABSENT, Digests
from spike_mcp.host.files import Blobs, write_atomic

__all__ = [
    "ABSENT",
    "Difference",
    "Part",
    "SealWatch",
    "Seals",
    "argv_digest",
    "create_layout",
    "input_digests",
    "places",
    "plant",
    "seal",
    "store_oracle",
]

_VERSION = 1


class Part(StrEnum):
    """What kind of sealed thing differs; the verdict's rows tell them apart (spec 12)."""

    SEALS = "seals"
    HYPOTHESIS = "hypothesis"
    ARGV = "measurement command"
    CONTRACT = "contract"
    APPROVAL_KEY = "approval key"
    MANIFEST = "baseline manifest"
    ORACLE = "oracle copy"
    HIDDEN = "hidden part"
    INPUT = "measurement input"


class Difference(NamedTuple):
    """One sealed thing that is not as it was sealed; `name` is its path where it has one."""

    part: Part
    name: str = ""

    @property
    def text(self) -> str:
        """For people and the agent: no digest, no path of judge/."""
        return f"{self.part.value} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Seals:
    """The content of seals.json; all values are digests in hex.

    `files`: path below judge/ -> SHA-256. `inputs`: repository path, or absolute path of a file
    outside -> SHA-256, or `absent`. `hypothesis`: of the sentence itself. `approval_key`: the
    public key, "" without a passphrase.
    """

    files: Mapping[str, str]
    inputs: Mapping[str, str]
    argv: str
    hypothesis: str
    approval_key: str = ""

    def to_bytes(self) -> bytes:
        """The bytes of seals.json; the same seals give the same bytes."""
        value = {"version": _VERSION, **asdict(self)}
        return json.dumps(value, sort_keys=True, indent=1).encode("ascii") + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> "Seals":
        """The reverse. `ValueError` for anything else."""
        value = json.loads(data)
        if type(value) is not dict or value.pop("version", None) != _VERSION:
            raise ValueError("not a seals file of this version")
        try:
            seals = cls(**value)
        except TypeError as error:
            raise ValueError(f"not a seals file: {error}") from None
        tables = (seals.files, seals.inputs)
        if not all(type(table) is dict for table in tables):
            raise ValueError("not a seals file: no tables")
        return seals

    @property
    def digest(self) -> str:
        """SHA-256 of seals.json, for the ledger's first row."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


# --- making -------------------------------------------------------------------------------------


def create_layout(root: Path) -> None:
    """Make a spike's directories but work/ (that one is git's). The modes do not hang on the umask.

    `Problem(SPIKE_EXISTS)` if `root` is there and holds anything.
    """
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise Problem(
            Usage.SPIKE_EXISTS,
            f"{root} is not empty",
            "choose another name, or remove the old spike with `spike rm`",
        )
    judge = root / layout.JUDGE
    for path in places(root):
        path.mkdir()  # judge/ first: of two that make the same spike one has it
        path.chmod(0o700 if path.is_relative_to(judge) else 0o755)


def places(root: Path) -> tuple[Path, ...]:
    """The directories that `create_layout` makes, in its order."""
    judge = root / layout.JUDGE
    inside = (judge / layout.ORACLE, judge / layout.BLOBS)
    return (judge, *inside, root / layout.VERDICT, root / layout.AGENT)


def plant(
    judge: Path, contract: bytes, hypothesis: str, oracle: Mapping[RepoPath, tuple[bytes, int]]
) -> None:
    """Write contract.toml, hypothesis.txt (0444) and the oracle's copies: (bytes, mode) by path."""
    write_atomic(judge / layout.CONTRACT, contract, 0o444)
    write_atomic(judge / layout.HYPOTHESIS, hypothesis.encode("utf-8") + b"\n", 0o444)
    store_oracle(judge, oracle)


def store_oracle(
    judge: Path, copies: Mapping[RepoPath, tuple[bytes, int]]
) -> tuple[tuple[str, str], ...]:
    """Copy oracle files to judge/oracle/, read-only; (path, SHA-256) sorted, for a `sealed` row."""
    for path, (data, mode) in copies.items():
        target = judge / layout.ORACLE / path.text
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, data, mode & 0o111 | 0o444)
    return tuple(
        sorted((path.text, hashlib.sha256(data).hexdigest()) for path, (data, _) in copies.items())
    )


def seal(
    judge: Path,
    *,
    argv: Sequence[str],
    hypothesis: str,
    inputs: Mapping[str, str],
    hidden: Iterable[str] = (),
    approval_key: str = "",
) -> Seals:
    """Seal judge/ as it is now; write seals.json, and its bytes to blobs.

    `inputs` comes from `input_digests`; `hidden` names the blobs that hold vectors, hidden tests
    and negative controls. `Problem(SEAL_BROKEN)` if one of the files is not there.
    """
    names = [layout.CONTRACT, layout.HYPOTHESIS, layout.MANIFEST]
    names += sorted(_below(judge, layout.ORACLE))
    names += sorted(f"{layout.BLOBS}/{digest}" for digest in set(hidden))
    digests, files = Digests(), {}
    for name in names:
        digest = digests.of(str(judge / name))
        if not _is_digest(digest):
            raise Problem(Refusal.SEAL_BROKEN, f"judge/{name} can't be sealed: {digest}")
        files[name] = digest
    seals = Seals(
        files=files,
        inputs=dict(inputs),
        argv=argv_digest(argv),
        hypothesis=_text_digest(hypothesis),
        approval_key=approval_key,
    )
    Blobs(judge / layout.BLOBS).put(seals.to_bytes())
    write_atomic(judge / layout.SEALS, seals.to_bytes(), 0o444)
    return seals


def input_digests(paths: Iterable[str], work: Path) -> dict[str, str]:
    """Digests of measurement inputs, absent ones as absent: repository paths, or absolute ones.

    A link in the repository is an input itself; outside it the file it leads to is.
    """
    return {path: Digests().of(*_place(path, work)) for path in paths}


def argv_digest(argv: Sequence[str]) -> str:
    """SHA-256 over the length-prefixed arguments."""
    digest = hashlib.sha256()
    for argument in argv:
        raw = argument.encode("utf-8", "surrogateescape")
        digest.update(b"%d:" % len(raw) + raw)
    return digest.hexdigest()


# --- checking -----------------------------------------------------------------------------------


class SealWatch:
    """Checks the seals of one judge/; files untouched since its last check are not read again."""

    def __init__(self, judge: Path) -> None:
        self._judge = judge
        self._top = os.path.join(judge, "")
        self._digests = Digests()
        self._seals: tuple[str, Seals] | None = None
        self._outside: dict[str, str] = {}

    def check(
        self,
        expected: str,
        *,
        oracle: Iterable[tuple[str, str]] = (),
        inputs: Iterable[tuple[str, str]] = (),
        work: Path | None = None,
    ) -> tuple[Difference, ...]:
        """What is not as sealed, in the order of `Part`; empty = the seals hold.

        `expected` is the digest of seals.json in the ledger; `oracle` and `inputs` are the (path,
        SHA-256) of later `sealed` rows. Inputs inside the repository are looked at in `work`, or
        not at all without it. When the bytes of seals.json are lost for good, `Part.SEALS` is
        all that can be said.
        """
        found: list[Difference] = []
        if self._digests.of(self._top + layout.SEALS) != expected:
            found.append(Difference(Part.SEALS))
        seals = self._load(expected)
        if seals is None:
            found.append(Difference(Part.SEALS))
        else:
            found += [*self._files(seals, oracle), *self._inputs(seals, inputs, work)]
        order = list(Part)
        return tuple(sorted(set(found), key=lambda each: (order.index(each.part), each.name)))

    def _load(self, expected: str) -> Seals | None:
        """The seals with that digest, from seals.json or from blobs; None if gone from both."""
        if self._seals is None or self._seals[0] != expected:
            try:
                seals = Seals.from_bytes(self._sealed_bytes(expected))
            except (Problem, ValueError):
                return None
            self._seals = (expected, seals)
            # Every call of the agent checks these; most inputs are names that lie inside work/.
            self._outside = {p: d for p, d in seals.inputs.items() if os.path.isabs(p)}
        return self._seals[1]

    def _sealed_bytes(self, expected: str) -> bytes:
        with contextlib.suppress(OSError):
            data = (self._judge / layout.SEALS).read_bytes()
            if hashlib.sha256(data).hexdigest() == expected:
                return data
        return Blobs(self._judge / layout.BLOBS).get(expected)

    def _files(self, seals: Seals, oracle: Iterable[tuple[str, str]]) -> Iterator[Difference]:
        later = {f"{layout.ORACLE}/{path}": digest for path, digest in oracle}
        for name, digest in (later | dict(seals.files)).items():
            if self._digests.of(self._top + name) != digest:
                yield _difference(name)
                if name == layout.CONTRACT:
                    yield from self._contract(seals)

    def _contract(self, seals: Seals) -> Iterator[Difference]:
        """Which of the contract's parts with a verdict of their own differ, as far as readable."""
        try:
            value = tomllib.loads((self._judge / layout.CONTRACT).read_bytes().decode("utf-8"))
        except (OSError, ValueError):
            return
        if _text_digest(value.get("hypothesis")) != seals.hypothesis:
            yield Difference(Part.HYPOTHESIS)
        measurement = value.get("measurement")
        argv = measurement.get("argv") if type(measurement) is dict else None
        if not _is_argv(argv) or argv_digest(argv) != seals.argv:
            yield Difference(Part.ARGV)
        if value.get("approval_key", "") != seals.approval_key:
            yield Difference(Part.APPROVAL_KEY)

    def _inputs(
        self, seals: Seals, later: Iterable[tuple[str, str]], work: Path | None
    ) -> Iterator[Difference]:
        sealed = self._outside if work is None else seals.inputs
        for path, digest in (dict(later) | dict(sealed)).items():
            if work is None and not os.path.isabs(path):
                continue
            if self._digests.of(*_place(path, work or Path("/"))) != digest:
                yield Difference(Part.INPUT, path)


def _difference(name: str) -> Difference:
    whole = {
        layout.CONTRACT: Part.CONTRACT,
        layout.HYPOTHESIS: Part.HYPOTHESIS,
        layout.MANIFEST: Part.MANIFEST,
    }
    if name in whole:
        return Difference(whole[name])
    folder, _, rest = name.partition("/")
    # A hidden part is a blob named by its digest, which nobody needs to see.
    return Difference(Part.ORACLE, rest) if folder == layout.ORACLE else Difference(Part.HIDDEN)


def _place(path: str, work: Path) -> tuple[str, bool]:
    """Where an input lies, and whether links are followed."""
    return (path, True) if os.path.isabs(path) else (str(work / path), False)


def _below(judge: Path, folder: str) -> Iterator[str]:
    for directory, _, names in os.walk(judge / folder):
        for name in names:
            yield os.path.relpath(os.path.join(directory, name), judge)


def _is_argv(value: Any) -> TypeGuard[list[str]]:
    return type(value) is list and all(type(each) is str for each in value)


def _is_digest(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


def _text_digest(text: object) -> str:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b"\0"
    return hashlib.sha256(raw).hexdigest()
