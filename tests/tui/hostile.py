"""Text that an agent could use to deceive a reader, and the rule that no output may break."""

from __future__ import annotations

import unicodedata

CORPUS = {
    "csi": "x = 1 \x1b[2K\x1b[1A# harmless",
    "c1_csi": "a\x9b31mred\x9b0m",
    "osc8_link": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "osc52_clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "title": "\x1b]0;pwned\x07",
    "bell_backspace": "ok\x08\x08no\x07",
    "cr_overwrite": "evil()\rpass  ",
    "vertical": "a\x0bb\x0cc\x1cd\x1ee\x85f",
    "bidi": "if admin: \u202e} ;)\u2066 x \u2069",
    "zero_width": "pass\u200bword\u200d\ufeff\u2060",
    "separators": "one\u2028two\u2029three",
    "tags_plane": "x\U000e0041\U000e0042",
    "variation": "a\ufe0fb\ufe01",
    "private": "\ue000\U000f0000",
    "lone_surrogate": "\udc9b31m\udcff",
    "homoglyph": "p\u0430ssword = \u0440ath",
    "rich_markup": "[bold red]markup[/] [@click=app.quit]click[/] [link=x]y[/link]",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "entity": "&lt;b&gt; &#27;[31m",
    "markdown": "](javascript:x) ![i](http://e/x.png) ``` ` <details> | a | b | @user #1",
    "fence": "```\n# heading\n```",
    "jinja": "{{ 7*7 }} ${x} %s %(a)s",
    "nul": "a\x00b",
    "emoji": "\U0001f469\u200d\U0001f4bb wide \u6f22\u5b57",
    "combining": "Z\u0351\u036b\u0343a\u0316\u031f\u0332lgo",
    "huge": "y" * 20_000 + "\x1b[0m",
}

ALL = " ".join(CORPUS.values())


def bad_characters(text: str) -> list[str]:
    """Characters that may never reach a terminal or a page: controls but newline and tab, formats,
    separators, private use, surrogates."""
    hidden = {"Cc", "Cf", "Zl", "Zp", "Co", "Cs"}
    found = {c for c in text if c not in "\n\t" and unicodedata.category(c) in hidden}
    return sorted(f"U+{ord(c):04X}" for c in found)


def encoded(text: str) -> bytes:
    """The corpus text as file content."""
    return text.encode("utf-8", "surrogateescape")
