"""The one door between strings of agent origin and a human's eyes (review-ux 'Safe text').

Hidden characters are shown, never stripped: the reviewer must see that they are there. A byte that
is no UTF-8 shows as `<dcXX>`, XX being the byte: the same form as every other code point.
"""

from spike_mcp.core import unsafe
from spike_mcp.core.next_actions import next_action
from spike_mcp.core.unsafe import lookalikes
from spike_mcp.edge.messages import MESSAGES, Message, hint_for_people, message_of

__all__ = [
    "MESSAGES",
    "Message",
    "count_hidden",
    "hidden_note",
    "hint_for_people",
    "lookalikes",
    "message_of",
    "next_action",
    "safe",
    "safe_line",
]

MAX_LINE = 500


def safe(text: str | bytes) -> str:
    """`text` for a terminal, page or log: what can't be seen becomes `<001b>`.

    That is control, format, private, surrogate and ignorable characters, and the line and
    paragraph separators; newline and tab stay.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return unsafe.visible(text)


def safe_line(text: str | bytes, limit: int = MAX_LINE) -> str:
    """`safe` on one line: tab becomes a space, newline `<000a>`; at most `limit` characters.

    A cut text says its full length at the end ("... (1200)").
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return unsafe.quoted(text.replace("\t", " "), limit)


def count_hidden(text: str | bytes) -> int:
    """How many characters `safe` shows in hex; a hunk that has any says how many."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return unsafe.count_hidden(text)


def hidden_note(count: int) -> str:
    """The line above a hunk that holds hidden characters, "" when there are none."""
    if count == 0:
        return ""
    noun, them = ("character", "it") if count == 1 else ("characters", "them")
    return (
        f"! {count} invisible or control {noun} in this hunk, shown as <hex>. "
        f"Read {them} before approving."
    )
