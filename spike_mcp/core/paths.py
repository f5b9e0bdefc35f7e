"""RepoPath, the only way a string becomes a path, and PathPolicy, who may write where (spec 4)."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from spike_mcp.core import globs
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.protected import (
    ProtectedPattern,
    argument_paths,
    makefile_includes,
    protected_for,
)
from spike_mcp.core.shadows import Exists, import_roots, shadow_reason
from spike_mcp.core.unsafe import is_hidden, mixed_scripts, quoted

__all__ = [
    "Override",
    "PathClass",
    "PathPolicy",
    "ProtectedPattern",
    "RepoPath",
    "allow_pattern",
    "makefile_includes",
    "overridden",
    "protected_for",
]

MAX_PATH_BYTES = 4096
MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 32

_DRIVE = re.compile(r"[A-Za-z]:")
# Windows opens a device for these, whatever follows the first dot.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?", re.IGNORECASE | re.DOTALL)
_BLANK_DRAWING = "\u2800"  # Braille blank: a symbol that looks like a space
_HINT = "give the path relative to the repository's top, such as src/a.py"


def _invalid(what: str, part: str) -> Problem:
    return Problem(Refusal.PATH_INVALID, f"the path {what}: '{quoted(part)}'", _HINT)


def _is_foreign(char: str) -> bool:
    """Characters that no honest file name needs and that deceive a reader."""
    odd = not char.isprintable()  # unassigned ones and blanks other than the space among them
    return is_hidden(char) or odd or char == _BLANK_DRAWING


def _check_unicode(text: str, part: str) -> None:
    for char in part:
        if _is_foreign(char):
            raise _invalid("holds a control, blank, invisible or undecodable character", part)
    if unicodedata.normalize("NFKC", part) != part:
        raise _invalid("is not in Unicode's composed plain form (NFKC)", part)
    if mixed_scripts(part):
        raise _invalid("mixes letters of look-alike scripts", part)
    if len(part.encode("utf-8", "surrogateescape")) > MAX_COMPONENT_BYTES:
        raise _invalid(f"has a component of more than {MAX_COMPONENT_BYTES} bytes", text)


def _check_part(text: str, part: str) -> None:
    if part == "":
        raise _invalid("has an empty component", text)
    if part in (".", ".."):
        raise _invalid(f"holds a {part!r} component", text)
    if part[0] == " " or part[-1] == " ":
        raise _invalid("has a component that begins or ends with a space", part)
    if len(part) > MAX_COMPONENT_BYTES:
        raise _invalid(f"has a component of more than {MAX_COMPONENT_BYTES} bytes", part)
    if not (part.isascii() and part.isprintable()):
        _check_unicode(text, part)
    if _DEVICE.fullmatch(part):
        raise _invalid("has a component that is a device name on Windows", part)


def _check_whole(raw: str) -> None:
    if raw == "":
        raise _invalid("is empty", raw)
    if len(raw) > MAX_PATH_BYTES or len(raw.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise _invalid(f"is longer than {MAX_PATH_BYTES} bytes", raw)
    if raw[0] == "/":
        raise _invalid("is absolute", raw)
    if "\\" in raw:
        raise _invalid("holds a backslash", raw)
    if _DRIVE.match(raw):
        raise _invalid("begins with a drive letter", raw)


@dataclass(frozen=True, slots=True, order=True)
class RepoPath:
    """A canonical repository-relative path: `/` between components, nothing to resolve.

    `text` of a path from git's own listing may hold any bytes, non-UTF-8 ones as surrogateescape.
    """

    text: str

    @classmethod
    def parse(cls, raw: str) -> "RepoPath":
        """Path from the agent or the human; `Problem(PATH_INVALID)` for every other spelling.

        Nothing is repaired: `src//a.py` and `./src/a.py` are refused, not cleaned.
        """
        _check_whole(raw)
        parts = raw.split("/")
        if len(parts) > MAX_DEPTH:
            raise _invalid(f"is more than {MAX_DEPTH} levels deep", raw)
        for part in parts:
            _check_part(raw, part)
        return cls(raw)

    @classmethod
    def trusted(cls, raw: bytes | str) -> "RepoPath":
        """Path from git's tree listing or a walk of the worktree: any bytes but empty."""
        text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
        assert text
        return cls(text)

    @property
    def parts(self) -> tuple[str, ...]:
        """The components, top first."""
        return tuple(self.text.split("/"))

    @property
    def name(self) -> str:
        """The last component."""
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> "RepoPath | None":
        """The directory, None at the repository's top."""
        head = self.text.rpartition("/")[0]
        return RepoPath(head) if head else None

    def __str__(self) -> str:
        return self.text


class PathClass(StrEnum):
    """What the contract says about writing a path."""

    ALLOWED = "allowed"
    NOT_ALLOWED = "not_allowed"
    PROTECTED = "protected"


def fold(text: str) -> str:
    """The form under which protection compares: what a case-blind disk would open.

    Case and Unicode compatibility forms are folded, trailing dots and spaces of components cut.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = text.lower()
    if ". " in text or "./" in text or " /" in text or text[-1:] in ". ":
        text = "/".join(part.rstrip(". ") or part for part in text.split("/"))
    return text


def check_pattern(raw: str) -> str:
    """A pattern of `--allow` or `--unprotect`, canonical; `Problem(PATH_INVALID)` if it is none.

    A leading `./` is dropped. Exact path, `dir/`, or glob (`core.globs`).
    """
    text = raw
    while text.startswith("./"):
        text = text[2:]
    _check_whole(text)
    for part in text.removesuffix("/").split("/"):
        _check_part(raw, part)
    return text


def allow_pattern(raw: str, is_directory: Callable[[str], bool]) -> str:
    """`check_pattern`, and `dir` becomes `dir/` where the baseline has such a directory."""
    text = check_pattern(raw)
    return f"{text}/" if not text.endswith("/") and is_directory(text) else text


@dataclass(frozen=True)
class PathPolicy:
    """The contract's answer for every path.

    `allowed` and `unprotected` are patterns as `check_pattern` gives them, `oracle` exact paths,
    `roots` the directories a run may put on `sys.path`. `exists` tells which files the baseline
    has; it is asked only to judge new module names and must stay the same for the whole spike.
    """

    allowed: tuple[str, ...]
    protected: tuple[ProtectedPattern, ...]
    unprotected: tuple[str, ...]
    oracle: tuple[str, ...]
    roots: frozenset[str] = field(compare=False)
    exists: Exists = field(compare=False, repr=False)

    @classmethod
    def of(
        cls,
        *,
        allowed: tuple[str, ...],
        oracle: tuple[str, ...],
        unprotected: tuple[str, ...],
        runner: str,
        argv: tuple[str, ...],
        exists: Exists,
        extra: tuple[ProtectedPattern, ...] = (),
    ) -> "PathPolicy":
        """Policy of a contract; `extra` are patterns the host found (`makefile_includes`)."""
        roots = import_roots(oracle, argument_paths(argv))
        return cls(allowed, protected_for(runner, argv) + extra, unprotected, oracle, roots, exists)

    # Compiled once for each policy: to look the patterns up by their text means to hash them all.

    @cached_property
    def _allows(self) -> globs.PathMatcher:
        return globs.matcher(self.allowed)

    @cached_property
    def _is_oracle(self) -> globs.PathMatcher:
        return globs.matcher(tuple(map(fold, self.oracle)))

    @cached_property
    def _protects(self) -> globs.PathMatcher:
        return globs.matcher(tuple(fold(each.pattern) for each in self.protected))

    def sealing(self, paths: Iterable[str]) -> "PathPolicy":
        """The same policy with more oracle files (support files that the red runs loaded)."""
        return replace(self, oracle=tuple(dict.fromkeys((*self.oracle, *paths))))

    def classify(self, path: RepoPath) -> PathClass:
        """Class of `path`: protected wins over allowed, whether or not the file exists."""
        if self.protection(path):
            return PathClass.PROTECTED
        if self._allows.matches(path.text):
            return PathClass.ALLOWED
        return PathClass.NOT_ALLOWED

    def protection(self, path: RepoPath) -> str:
        """Why `path` is protected, or "" when it is not. The oracle can't be unprotected."""
        folded = fold(path.text)
        if self._is_oracle.matches(folded):
            return "it is the oracle"
        if globs.matcher(self.unprotected).matches(path.text):
            return ""
        if self._protects.matches(folded):
            found = next(p for p in self.protected if globs.matches(fold(p.pattern), folded))
            return f"{found.why} ({found.pattern})"
        return self._package_of_oracle(path) or shadow_reason(path.text, self.roots, self.exists)

    def _package_of_oracle(self, path: RepoPath) -> str:
        if path.name.lower() != "__init__.py" or self.exists(path.text):
            return ""
        directory = path.text.rpartition("/")[0]
        beside = any(o.rpartition("/")[0] == directory for o in self.oracle if o.endswith(".py"))
        return "a new __init__.py beside the oracle changes how it is imported" if beside else ""

    def why(self, path: RepoPath) -> str:
        """One sentence that gives the reason for `classify`."""
        reason = self.protection(path)
        if reason:
            return f"{quoted(path.text)} is protected: {reason}"
        found = globs.first_match(self.allowed, path.text)
        if found is not None:
            return f"{quoted(path.text)} is allowed by {quoted(found)}"
        listed = quoted(", ".join(self.allowed), 300)
        return f"{quoted(path.text)} is outside the allowed paths ({listed})"

    def refusal(self, path: RepoPath) -> Problem | None:
        """The refusal of a write to `path`, None when it is allowed."""
        kind = self.classify(path)
        if kind is PathClass.ALLOWED:
            return None
        if kind is PathClass.PROTECTED:
            hint = "leave it; if the hypothesis needs it, report that as unknown (spike_report)"
            return Problem(Refusal.PATH_PROTECTED, self.why(path), hint)
        hint = "allowed paths are frozen for this spike; spike_status lists them"
        return Problem(Refusal.PATH_NOT_ALLOWED, self.why(path), hint)


@dataclass(frozen=True, slots=True)
class Override:
    """`pattern` of `--allow` names `path`, but `why` protects it."""

    pattern: str
    path: str
    why: str


def overridden(policy: PathPolicy, files: Iterable[str]) -> tuple[Override, ...]:
    """What `init` names: every allowed path that protection overrides (spec 4).

    Exact allowed paths count whether or not they exist; globs and prefixes over `files`, the
    baseline's paths.
    """
    allowed = globs.matcher(policy.allowed)
    exact = [pattern for pattern in policy.allowed if not globs.is_glob(pattern)]
    present = [path for path in files if allowed.matches(path)]
    out = []
    for text in dict.fromkeys((*exact, *present)):
        why = policy.protection(RepoPath.trusted(text))
        if why:
            out.append(Override(globs.first_match(policy.allowed, text) or text, text, why))
    return tuple(out)
