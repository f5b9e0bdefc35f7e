"""Checks of the contract's single values: each returns the canonical value or raises.

`key` is the TOML key, for the message; the error is `Problem(INVALID_CONTRACT)`, or `PATH_INVALID`
where a path is no path.
"""

import re
import shlex
from collections.abc import Callable, Mapping

from spike_mcp.core.codes import Isolation, Problem, Usage
from spike_mcp.core.paths import RepoPath, check_pattern
from spike_mcp.core.unsafe import count_hidden, quoted

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*")
_MAX_NAME = 64
DIGEST = re.compile(r"[0-9a-f]{64}")


def invalid(message: str, hint: str = "") -> Problem:
    """The refusal of a value."""
    return Problem(Usage.INVALID_CONTRACT, message, hint)


def check_name(raw: str) -> str:
    """A spike's name: directory and branch `spike/NAME`; `Problem(INVALID_CONTRACT)` otherwise."""
    fits = _NAME.fullmatch(raw) and len(raw) <= _MAX_NAME
    if not fits or raw.endswith(".") or raw.lower().endswith(".lock"):
        hint = f"letters, digits, '-', '_' and single dots, at most {_MAX_NAME} characters"
        raise invalid(f"'{quoted(raw)}' can't be a spike's name", hint)
    return raw


def text(key: str, value: object) -> str:
    """A string without control or invisible characters."""
    if not isinstance(value, str):
        raise invalid(f"{key} must be a string")
    if count_hidden(value):
        raise invalid(f"{key} holds control or invisible characters: {quoted(value)}")
    return value


def filled(key: str, value: object) -> str:
    """A `text` that is not empty."""
    if text(key, value) == "":
        raise invalid(f"{key} must not be empty")
    return str(value)


def matching(pattern: re.Pattern[str], what: str) -> Callable[[str, object], str]:
    """A check for strings that `pattern` matches whole; `what` says so in words."""

    def check(key: str, value: object) -> str:
        given = text(key, value)
        if not pattern.fullmatch(given):
            raise invalid(f"{key} must be {what}, not '{quoted(given)}'")
        return given

    return check


def flag(key: str, value: object) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise invalid(f"{key} must be true or false")
    return value


def strings(key: str, value: object) -> tuple[str, ...]:
    """A list of strings, each once."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise invalid(f"{key} must be a list of strings")
    return tuple(dict.fromkeys(value))


def argv(key: str, value: object) -> tuple[str, ...]:
    """A list of arguments; a single string is split as a POSIX shell would."""
    if isinstance(value, str):
        try:
            return argv(key, shlex.split(value))
        except ValueError as error:
            raise invalid(f"{key} can't be read ({error}): {quoted(value)}") from error
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise invalid(f"{key} must be a list of arguments")
    if any("\0" in item for item in value) or (value and not value[0]):
        raise invalid(f"{key} holds an argument that no program can be given")
    return tuple(value)


def command(key: str, value: object) -> tuple[str, ...]:
    """An `argv` with a program."""
    arguments = argv(key, value)
    if not arguments:
        raise invalid(f"{key} names no program")
    return arguments


def patterns(key: str, value: object) -> tuple[str, ...]:
    """Patterns of allowed or unprotected paths."""
    return tuple(dict.fromkeys(check_pattern(item) for item in strings(key, value)))


def some_patterns(key: str, value: object) -> tuple[str, ...]:
    """`patterns`, at least one."""
    some = patterns(key, value)
    if not some:
        raise invalid(f"{key} names no path", "name one with --allow")
    return some


def paths(key: str, value: object) -> tuple[str, ...]:
    """Repository paths."""
    return tuple(dict.fromkeys(RepoPath.parse(item).text for item in strings(key, value)))


def directories(key: str, value: object) -> tuple[str, ...]:
    """Repository paths of directories; the `/` at the end may be written."""
    return paths(key, [item.removesuffix("/") for item in strings(key, value)])


def some_paths(key: str, value: object) -> tuple[str, ...]:
    """`paths`, at least one."""
    some = paths(key, value)
    if not some:
        raise invalid(f"{key} names no file", "name the test that decides with --oracle")
    return some


def digests(key: str, value: object) -> dict[str, str]:
    """A table of repository path = sha256."""
    if not isinstance(value, Mapping):
        raise invalid(f"{key} must be a table of path = sha256")
    check = matching(DIGEST, "a sha256 in hex")
    return {RepoPath.parse(str(path)).text: check(key, digest) for path, digest in value.items()}


def isolation(key: str, value: object) -> Isolation:
    """A level of the sandbox."""
    if value not in tuple(Isolation):
        raise invalid(f"{key} must be one of {', '.join(Isolation)}")
    return Isolation(str(value))


def name(_key: str, value: object) -> str:
    """The name of the spike."""
    return check_name(text("name", value))
