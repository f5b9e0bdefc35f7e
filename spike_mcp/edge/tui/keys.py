"""The keys of the review screen: one table for the screen, its help, and the documentation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """`keys` are Textual's names or the character itself; `shown` is what people read.

    `brief`: the word in the key row, "" for keys that stand only in the help.
    """

    keys: tuple[str, ...]
    shown: str
    action: str
    brief: str
    words: str


KEYS: tuple[Key, ...] = (
    Key(
        ("a",), "a", "approve", "approve", "approve what is marked, else this hunk: asks for a tag"
    ),
    Key(("r",), "r", "reject", "reject", "reject: bytes go back, reason optional (Enter)"),
    Key(("c",), "c", "comment", "comment", "tell the agent something about this hunk"),
    Key(("u",), "u", "undo", "undo", "take the last decision back"),
    Key(("n",), "n", "next_pending", "next", "next pending"),
    Key(("p",), "p", "previous_pending", "", "previous pending"),
    Key(("space",), "space", "mark", "mark", "mark or unmark this hunk"),
    Key(("*",), "*", "mark_same", "same", "mark every hunk with the same changed lines"),
    Key(("/",), "/", "filter", "find", "show only what holds these words (path, id, state, text)"),
    Key(
        ("T",),
        "T",
        "test",
        "test",
        "run the test on work/, or once nothing is pending on what is approved",
    ),
    Key(("j", "]"), "j ]", "next", "", "next hunk"),
    Key(("k", "["), "k [", "previous", "", "previous hunk"),
    Key(("}",), "}", "next_file", "", "next file"),
    Key(("{",), "{", "previous_file", "", "previous file"),
    Key(("down", "ctrl+n"), "down", "scroll_down", "", "scroll the hunk by a line"),
    Key(("up", "ctrl+p"), "up", "scroll_up", "", "scroll the hunk back by a line"),
    Key(("pagedown", "ctrl+f"), "PgDn", "page_down", "", "scroll by a page"),
    Key(("pageup", "ctrl+b"), "PgUp", "page_up", "", "scroll back by a page"),
    Key(("home",), "Home", "top", "", "top of the hunk"),
    Key(("end", "G"), "End", "bottom", "", "end of the hunk"),
    Key(
        ("right", "left"),
        "left right",
        "sideways",
        "",
        "scroll sideways while lines are not wrapped",
    ),
    Key(("e",), "e", "expand", "", "ten more lines of context; E: as git shows it again"),
    Key(("E",), "E", "shrink", "", ""),
    Key(("w",), "w", "wrap", "", "wrap long lines or cut them"),
    Key(("g",), "g", "group", "", "group by patch, file or state"),
    Key(("v",), "v", "approved_only", "", "only what is approved: the diff that would ship"),
    Key(("l",), "l", "list", "", "show the list where the screen is too low for it"),
    Key(("o",), "o", "output", "", "output of the last test run"),
    Key(("escape",), "Esc", "clear", "", "drop marks, then the filter"),
    Key(("?",), "?", "help", "help", "these keys"),
    Key(("q", "ctrl+c", "ctrl+q"), "q", "quit", "quit", "quit; every decision is saved already"),
)

BY_KEY: dict[str, str] = {key: entry.action for entry in KEYS for key in entry.keys}
BOX_WORDS = (
    ("Tab", "complete a word of the hypothesis; again: the next that fits"),
    ("Enter", "decide"),
    ("Esc", "leave without deciding; what you typed is offered again"),
    ("up down PgUp PgDn", "scroll the hunk above"),
    ("ctrl+w ctrl+u", "delete a word, or all before the caret"),
    ("y n", "acknowledge a flag, or leave"),
    ("F2", "while rejecting: back to the baseline instead of your approved version"),
)
