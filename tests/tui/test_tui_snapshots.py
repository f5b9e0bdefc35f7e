"""The screen as committed text: layout at several sizes, without colour, in ASCII.

`SPIKE_UPDATE_SNAPSHOTS=1 pytest tests/tui/test_tui_snapshots.py` writes the files anew; look at
the difference before committing it.
"""

import difflib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from drive import Screen, on_screen
from fake_desk import FakeDesk, approved, entry, make_map, map_of, sample
from rich.color import ColorType

from spike_mcp.core.hunks import diff, hunks
from spike_mcp.session.view import Withdrawn

HERE = Path(__file__).parent / "snapshots"
SIZES = {"wide": (120, 36), "narrow": (72, 30), "tiny": (40, 12), "low": (100, 24)}


def check(name: str, text: str) -> None:
    path = HERE / f"{name}.txt"
    if os.environ.get("SPIKE_UPDATE_SNAPSHOTS") == "1":
        HERE.mkdir(exist_ok=True)
        path.write_text(text + "\n", "utf-8")
        return
    wanted = path.read_text("utf-8").removesuffix("\n")
    if text != wanted:
        found = difflib.unified_diff(
            wanted.split("\n"), text.split("\n"), "committed", "now", "", ""
        )
        pytest.fail(f"{name}.txt differs:\n" + "\n".join(found))


def rich_desk() -> FakeDesk:
    """Every state at once: approved, lapsed, withdrawn, out of band, flagged, commented."""
    entries = list(map_of(sample()).hunks)
    base = b"".join(b"line %d\n" % n for n in range(1, 20))
    work = base.replace(b"line 5\n", b"call 5, retry = 429 \n").replace(
        b"line 9\n", b"\tline 9\r\n"
    )
    (mixed,) = hunks("src/mixed.py", base, work, diff("src/mixed.py", base, work))
    lapse = entry(
        mixed,
        patch="P6",
        rationale="needed for the header",
        region_states=("approved", "lapsed"),
        approvals=approved(entry(mixed), "callers read it").approvals[:1],
        old_tags=("callers read it",),
        why="touched by P6",
        context_changed=True,
    )
    entries[0] = approved(entries[0], "client surfaces Retry-After of 429")
    entries[4] = replace(entries[4], comments=("is this one needed?",))
    evil = [entry(h, patch="P7") for h in hunks("src/evil.py", None, b"import os\nos._exit(0)\n")]
    gone = Withdrawn("ab" * 32, "habababab", "src/gone.py", "callers get the value", ())
    desk = FakeDesk(sample(), make_map([*entries, lapse, *evil], [gone]))
    desk.outside = ("src/backdoor.py",)
    desk.rejected = 2
    return desk


STORIES: dict[str, Sequence[str]] = {
    "start": (),
    "tag": ("/", *"logutil", "enter", "a", "c", "tab", *"reads", "space", *"it", "space"),
    "mixed": ("/", *"mixed", "enter"),
    "marked": ("/", *"backoff", "enter", "*"),
    "flagged": ("/", *"evil", "enter", "a"),
    "reject": ("/", *"logutil", "enter", "r", *"no"),
    "approved": ("v",),
    "withdrawn": ("/", *"gone", "enter"),
    "help": ("?",),
}


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("size", ["wide", "narrow", "tiny"])
def test_screen(story: str, size: str) -> None:
    async def play(screen: Screen) -> None:
        await screen.rush(*STORIES[story])
        rows = screen.rows()
        assert len(rows) == SIZES[size][1]
        check(f"{story}-{size}", screen.text())

    on_screen(play, rich_desk(), size=SIZES[size])


@pytest.mark.parametrize("story", ["start", "mixed", "tag"])
def test_ascii(story: str) -> None:
    async def play(screen: Screen) -> None:
        await screen.rush(*STORIES[story])
        assert screen.text().isascii()
        check(f"{story}-ascii", screen.text())

    on_screen(play, rich_desk(), ascii_only=True)


@pytest.mark.parametrize("story", ["mixed", "marked", "flagged"])
def test_no_color(story: str) -> None:
    """Weights, underline and reverse say what colour says elsewhere; the snapshot shows them."""

    async def play(screen: Screen) -> None:
        await screen.rush(*STORIES[story])
        check(f"{story}-no-color", "\n".join(marked_up(screen)))

    on_screen(play, rich_desk(), color=False)


def marked_up(screen: Screen) -> list[str]:
    """Rows with `{b:bold}`, `{u:...}`, `{r:...}`, `{d:...}`, `{i:...}` around what is so."""
    lines = []
    for strip in screen.app.screen._compositor.render_strips():
        line = ""
        for segment in strip:
            style = segment.style
            if style is not None:
                for color in (style.color, style.bgcolor):
                    assert color is None or color.type is ColorType.DEFAULT, (segment.text, style)
            names = "".join(
                letter
                for letter, on in (
                    ("b", style and style.bold),
                    ("u", style and style.underline),
                    ("r", style and style.reverse),
                    ("d", style and style.dim),
                    ("i", style and style.italic),
                )
                if on
            )
            text = segment.text
            line += f"{{{names}:{text}}}" if names and text.strip() else text
        lines.append(line.rstrip())
    return lines


def test_no_color_of_the_environment_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    from spike_mcp.edge import tui

    seen = []
    monkeypatch.setattr(
        "spike_mcp.edge.tui.app.ReviewApp.run", lambda self: seen.append(self._canvas._looks.color)
    )
    monkeypatch.setattr(tui, "SpikeDesk", lambda spike, signer: FakeDesk())
    monkeypatch.setattr(tui, "Unlock", lambda spike, factory: lambda: None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert tui.main(None, None) == 0
    monkeypatch.delenv("NO_COLOR")
    assert tui.main(None, None) == 0
    assert tui.main(None, None, color=False) == 0
    assert seen == [False, True, False]


@pytest.mark.parametrize("width", [20, 33, 59, 60, 89, 90, 119, 200])
@pytest.mark.parametrize("height", [6, 9, 15, 16, 19, 29, 30, 31, 60])
def test_every_size_is_filled_exactly_and_shows_the_hunk(width: int, height: int) -> None:
    from spike_mcp.edge.present import UNICODE
    from spike_mcp.edge.tui.paint import width_of
    from spike_mcp.edge.tui.view import View

    desk = rich_desk()
    snapshot = desk.look()
    view = View(desk.sealed, snapshot, UNICODE, width=width, height=height)
    view.review.take(snapshot)
    view.review.start()
    view.reveal()
    for _ in range(6):
        frame = view.frame()
        assert len(frame) == height
        assert {width_of(line) for line in frame} == {width}
        view.review.step(1)
        view.reveal()
    shown = "\n".join("".join(text for text, _style in line) for line in view.frame())
    if height >= 9:
        assert "statu" in shown
