"""Which characters a reader can't see, and one visible form for them.

The core needs it for the offending part of a refusal, `edge.text` for everything that is shown.
"""

import re
import unicodedata

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cs"})

# Drawn as nothing although their category says letter, mark or unassigned: Unicode's
# Default_Ignorable_Code_Point. Variation selectors are among them: they carry whole messages.
_IGNORABLE = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2065, 0x2065),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0xE0000, 0xE0FFF),
)

# Everything outside printable ASCII, newline and tab; the common text has none and is done at once.
_SUSPECT = re.compile(r"[^\n\t -~]")


def is_hidden(char: str) -> bool:
    """Whether `char` (one code point) shows nothing, moves the cursor or reorders text.

    Newline and tab are hidden too here; callers that keep them say so.
    """
    if " " <= char <= "~":
        return False
    point = ord(char)
    if unicodedata.category(char) in _HIDDEN_CATEGORIES:
        return True
    if (point & 0xFFFE) == 0xFFFE or 0xFDD0 <= point <= 0xFDEF:
        return True
    return any(low <= point <= high for low, high in _IGNORABLE)


# Drawn through the letter before them: a line can be made to look struck out with them.
_OVERLAYS = frozenset(
    chr(point)
    for low, high in ((0x0334, 0x0338), (0x20D2, 0x20D3), (0x20D8, 0x20DA), (0x20E5, 0x20EB))
    for point in range(low, high + 1)
)
_MARK = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_PILED = re.compile(f"[{_MARK}]{{4,}}")


def needs_hex(char: str) -> bool:
    """Whether `visible` shows `char` by its code point: it is hidden, or hides its neighbour."""
    return is_hidden(char) or char in _OVERLAYS


def obscuring(text: str) -> bool:
    """Whether marks in `text` are drawn over letters or piled up until they cover other lines."""
    if text.isascii():
        return False
    return not _OVERLAYS.isdisjoint(text) or _PILED.search(text) is not None


def escape(char: str) -> str:
    """`<001b>` for ESC: the code point in hex, four digits or more.

    A byte that is no UTF-8 arrives as a lone surrogate and shows as `<dcXX>`, XX being the byte.
    """
    return f"<{ord(char):04x}>"


def _escape_hidden(match: re.Match[str]) -> str:
    char = match.group()
    return escape(char) if needs_hex(char) else char


def visible(text: str) -> str:
    """`text` with each hidden character, newline and tab excepted, in its visible form."""
    if text.isascii() and text.isprintable():
        return text
    return _SUSPECT.sub(_escape_hidden, text)


def count_hidden(text: str) -> int:
    """How many characters of `text` `visible` would replace."""
    if text.isascii() and text.isprintable():
        return 0
    return sum(1 for match in _SUSPECT.finditer(text) if needs_hex(match.group()))


def quoted(text: str, limit: int = 120) -> str:
    """`text` for the inside of a one-line message: escaped, odd blanks and newlines too, and cut.

    The result is at most `limit` characters; a cut text says its full length ("... (100000)").
    """
    shown = visible(text[: limit + 1])
    head = "".join(char if char.isprintable() else escape(char) for char in shown)
    if len(text) <= limit and len(head) <= limit:
        return head
    rest = f"... ({len(text)})"
    return head[: limit - len(rest)] + rest


_WORD = re.compile(r"[^\W\d_]+")
_TWIN_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "ARMENIAN", "CHEROKEE"})
# Greek letters stand beside Latin ones in honest formulas (delta t); only these look Latin.
_GREEK_TWINS = frozenset("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧινορυ")


# Letters that no font draws otherwise than a Latin one. Lower-case Greek is left out but for the
# omicron: formulas are full of it, and rho, nu or iota can be told from p, v and i.
_LATIN_TWINS = frozenset("асеорхуіѕјһԁԛԝАВЕЅІЈКМНОРСТХУҺΑΒΕΖΗΙΚΜΝΟΡΤΥΧοօ")


def twin_words(text: str) -> list[tuple[int, str]]:
    """`(column, word)` of words made of letters that only look Latin: a name that is another."""
    if text.isascii():
        return []
    found = ((match.start(), match.group()) for match in _WORD.finditer(text))
    return [(at, word) for at, word in found if _LATIN_TWINS.issuperset(word)]


def _script(char: str) -> str:
    if char in _GREEK_TWINS:
        return "GREEK"
    name = unicodedata.name(char, "").partition(" ")[0]
    return name if name in _TWIN_SCRIPTS else ""


def mixed_scripts(text: str) -> bool:
    """Whether one word of `text` mixes Latin letters with look-alikes of another script."""
    if text.isascii():
        return False
    words = (match.group() for match in _WORD.finditer(text))
    return any(len({script for script in map(_script, word) if script}) > 1 for word in words)


_NAME = re.compile(r"[^\W\d]\w*")


def _is_disguised(name: str) -> bool:
    """Single letters are left alone: mathematics is full of them."""
    return len(name) > 1 and unicodedata.normalize("NFKC", name).isascii()


def lookalikes(text: str) -> tuple[str, ...]:
    """Names in `text` that are not what they look like, each once, in order.

    A name counts when it mixes Latin letters with look-alikes of another script, or when Python
    would read it as a plainer one (full-width letters). Honest names in one script don't.
    """
    if text.isascii():
        return ()
    names = dict.fromkeys(name for name in _NAME.findall(text) if not name.isascii())
    return tuple(
        name
        for name in names
        if name.isidentifier() and (_is_disguised(name) or mixed_scripts(name))
    )
