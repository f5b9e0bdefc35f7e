"""Path patterns: exact path, `dir/` prefix, or glob over whole components (spec 4).

`*` and `?` stay inside a component, `**` stands for any number of whole components, `[..]` and
`[!..]` are classes. Hostile patterns must not hang the gate: every star but the last of a run is
compiled as an atomic group, so that matching never backtracks over more than one star.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

_CLASS_SPECIAL = re.compile(r"([\\\]\[^\-&~|])")


def _class_end(component: str, start: int) -> int:
    """Index of the `]` that closes the class opened at `start`, or -1."""
    first = start + 1
    if component[first : first + 1] in ("!", "^"):
        first += 1
    return component.find("]", first + 1)


def _class_char(char: str) -> str:
    return _CLASS_SPECIAL.sub(r"\\\1", char)


def _class_regex(body: str) -> str:
    """Regex for the inside of `[..]`; a reversed range matches nothing, as in a shell."""
    negated = body[0] in "!^"
    items = []
    chars = body[1:] if negated else body
    i = 0
    while i < len(chars):
        low, high = chars[i], chars[i + 2 : i + 3]
        if high and chars[i + 1] == "-":
            if low <= high:
                items.append(f"{_class_char(low)}-{_class_char(high)}")
            i += 3
        else:
            items.append(_class_char(low))
            i += 1
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]"
    return f"(?!/)[{inside}]" if inside else "(?!)"


def _pieces(component: str) -> list[str]:
    """Split at stars; each piece is the regex of a run without a star."""
    pieces, current, i = [], "", 0
    while i < len(component):
        char = component[i]
        end = _class_end(component, i) if char == "[" else -1
        if char == "*":
            pieces.append(current)
            current = ""
        elif char == "?":
            current += "[^/]"
        elif end > 0:
            current += _class_regex(component[i + 1 : end])
            i = end
        else:
            current += re.escape(char)
        i += 1
    return [*pieces, current]


def _component_regex(component: str) -> str:
    first, *rest = _pieces(re.sub(r"\*+", "*", component))
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1])
    # A lone star must not match an empty component.
    lead = "(?=[^/])" if not first else ""
    return f"{lead}{first}{middle}[^/]*{rest[-1]}(?![^/])"


def _split_segments(components: list[str]) -> list[list[str]]:
    segments: list[list[str]] = [[]]
    for component in components:
        if component == "**":
            segments.append([])
        else:
            segments[-1].append(component)
    return segments


def glob_regex(pattern: str) -> str:
    """Regex source that matches exactly the paths that `pattern` names, whole text.

    A trailing `/` or `/**` means everything beneath the directory, not the directory itself.
    """
    text = pattern + "**" if pattern.endswith("/") else pattern
    first, *rest = _split_segments(text.split("/"))
    if not rest:
        return "/".join(map(_component_regex, first)) + r"\Z"
    out = "".join(_component_regex(component) + "/" for component in first)
    for segment in rest[:-1]:
        if segment:
            # Leftmost is as good as any: what follows starts with `**` again.
            inner = "/".join(map(_component_regex, segment))
            out += f"(?>(?:[^/]+/)*?{inner}/)"
    last = rest[-1]
    if not last:
        return out + r"[^/].*\Z"
    return out + "(?>(?:[^/]+/)*?" + "/".join(map(_component_regex, last)) + r"\Z)"


class PathMatcher:
    """A set of patterns compiled once; asks cost one lookup and one regex match.

    An exact path matches itself even where it holds glob characters (`app/[id]/page.tsx`).
    """

    __slots__ = ("_exact", "_regex")

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._exact = frozenset(patterns)
        globs = [glob_regex(pattern) for pattern in patterns if is_glob(pattern)]
        source = "|".join(f"(?:{glob})" for glob in globs)
        self._regex = re.compile(source, re.DOTALL) if source else None

    def matches(self, path: str) -> bool:
        """Whether any pattern names `path` (repository-relative text)."""
        if path in self._exact:
            return True
        return self._regex is not None and self._regex.match(path) is not None


@lru_cache(maxsize=256)
def matcher(patterns: tuple[str, ...]) -> PathMatcher:
    """The matcher of `patterns`, kept between calls: policies are rebuilt, patterns are not."""
    return PathMatcher(patterns)


def matches(pattern: str, path: str) -> bool:
    """Whether the one `pattern` names `path`."""
    return matcher((pattern,)).matches(path)


def is_glob(pattern: str) -> bool:
    """Whether `pattern` can name more than one path."""
    return pattern.endswith("/") or any(char in pattern for char in "*?[")


def first_match(patterns: Iterable[str], path: str) -> str | None:
    """The first of `patterns` that names `path`, or None."""
    return next((pattern for pattern in patterns if matches(pattern, path)), None)
