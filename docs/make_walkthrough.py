"""Writes docs/walkthrough.md: a spike played minute by minute, every output real.

    python docs/make_walkthrough.py          rewrite the page
    python docs/make_walkthrough.py --check  exit 1 if playing it again gives another page

The project, the worktree, the sandboxed runs, the command line and the gate are the real ones; only
the clock is moved by hand (there is no option for that in the product, so this script swaps the
class). What differs from run to run (paths, durations, random ids) is written as <...>.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from spike_mcp.edge.cli import main as spike_cli
from spike_mcp.edge.demo import make_repository
from spike_mcp.edge.replies import time_line
from spike_mcp.edge.text import safe
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.measure import Run
from spike_mcp.session import opening, runs, spike
from spike_mcp.session.agent import AgentDesk, run_reply

PAGE = Path(__file__).with_name("walkthrough.md")
HYPOTHESIS = (
    "reading the header makes Retry-After of a 429 visible within 25 minutes, "
    "measured by python -m pytest tests/test_retry_after.py -q"
)


WIDTH = 100
# What a run printed last, shown as it goes: which lines a person sees depends on the moment.
_PROGRESS = re.compile(r"^([.F]+ +\[100%\]|\d+ (failed|passed)( in .*)?)\n", re.MULTILINE)


class Story:
    """Collects the page while the story is played."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.repo = make_repository("retry-after", top / "shop")
        self.root = top / "spikes" / "retry-after"
        self.clock = ManualClock()
        self.began = self.clock.read().epoch
        self.lines: list[str] = []
        self.desk: AgentDesk | None = None
        spike.SystemClock = opening.SystemClock = lambda: self.clock  # type: ignore[assignment, misc, return-value]

    # --- the page -----------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """A paragraph."""
        self.lines += ["", text]

    def minute(self, minute: float, title: str) -> None:
        """Move the clock to a minute of the spike and begin a section."""
        now = (self.clock.read().epoch - self.began) / 60
        self.clock.tick(max(0.0, (minute - now) * 60))
        self.lines += ["", f"## Minute {minute:g}: {title}"]

    def _block(self, text: str) -> None:
        self.lines += ["", "```", *text.rstrip("\n").split("\n"), "```"]

    # --- the people ---------------------------------------------------------------------------

    def human(self, *arguments: str, expect: int = 0) -> str:
        """One command of the human, with its output and exit code."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = spike_cli(arguments)
        if code != expect:
            raise SystemExit(f"spike {shlex.join(arguments)}: exit {code}\n{out.getvalue()}")
        tail = f"\n(exit {code})" if code else ""
        text = _PROGRESS.sub("", out.getvalue()).rstrip()
        self._block(f"{_typed(self.hidden(arguments))}\n{text}{tail}")
        return out.getvalue()

    def hidden(self, arguments: Sequence[str]) -> list[str]:
        """The arguments as the page shows them: paths of this run are not broken into lines."""
        return [text.replace(str(self.root), "<spike>") for text in arguments]

    def agent(self, tool: str, **arguments: Any) -> None:
        """One tool call of the agent, with the text it gets."""
        if self.desk is None:
            self.desk = AgentDesk(spike.Spike(self.root), "walkthrough")
        reply = self.desk.call(tool, arguments)
        lines = list(reply.lines)
        if reply.ticket is not None:
            result = Run.start(reply.ticket.spec).wait()
            runs.finish(self.desk.spike, reply.ticket, result, human=False)
            lines += run_reply(self.desk.spike, self.desk.spike.state.runs[reply.ticket.run]).lines
        lines.append(time_line(reply.remaining, reply.writes_close))
        given = "\n".join(f"    {name}: {_shown(value)}" for name, value in arguments.items())
        text = safe("\n".join(lines))
        self._block(f"agent> {tool}\n{given}\n{text}" if given else f"agent> {tool}\n{text}")

    def pending(self, containing: str) -> str:
        """The short id of the hunk that holds a text."""
        from spike_mcp.core.hunks import unified
        from spike_mcp.session.view import hunk_map

        for each in hunk_map(spike.Spike(self.root)).hunks:
            if containing.encode() in unified(each.hunk):
                return each.short
        raise SystemExit(f"no hunk holds {containing!r}")

    def withdrawn(self) -> str:
        """The short id of the withdrawn entry."""
        from spike_mcp.session.view import hunk_map

        return hunk_map(spike.Spike(self.root)).withdrawn[0].short


def _typed(arguments: Sequence[str]) -> str:
    """A command line as a person types it: broken before an option that does not fit."""
    lines = ["human$ spike"]
    words = [_quoted(text) for text in arguments]
    while words:
        takes_value = words[0].startswith("--") and len(words) > 1 and words[1][:2] != "--"
        part = " ".join(words[: 1 + takes_value])
        words = words[1 + takes_value :]
        if len(lines[-1]) + len(part) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"         {part}")
        else:
            lines[-1] += f" {part}"
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """One word of a command line, in double quotes where it needs any."""
    if shlex.quote(text) == text or text == "<spike>":
        return text
    return shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'


def _shown(value: Any) -> str:
    lines = str(value).rstrip("\n").split("\n")
    return lines[0] if len(lines) == 1 else "\n      " + "\n      ".join(lines)


def _patch(name: str) -> str:
    folder = resources.files("spike_mcp") / "examples" / "retry-after" / "agent"
    return (folder / f"{name}.patch").read_text(encoding="utf-8")


def play(story: Story) -> None:
    """The story."""
    story.lines += [
        "# A spike, minute by minute",
        "<!-- made by docs/make_walkthrough.py -->",
        "",
        "The client of a small shop swallows `Retry-After` of a 429. A failing test exists; an agent is",
        "to find out whether reading the header is enough. Every command below was run and every output",
        "is real; `<...>` stands for what differs from run to run.",
    ]
    story.minute(0, "the question is sealed")
    story.say("One sentence that can be false, with a number and the command that measures it.")
    story.human(
        *("init", "retry-after", "--root", str(story.root), "--hypothesis", HYPOTHESIS),
        *("--allow", "src/http_client.py", "--allow", "tests/test_http_client.py"),
        *("--oracle", "tests/test_retry_after.py"),
    )
    os.environ["SPIKE"] = str(story.root)
    story.say("The test has to fail twice, in the same way, before anyone may try to make it pass.")
    story.human("start")

    story.minute(3, "the agent tries the short way")
    story.agent("spike_status")
    story.agent(
        "spike_edit_file",
        path="tests/test_retry_after.py",
        old_text="assert caught.value.retry_after == 12",
        new_text="assert True",
        rationale="makes the test pass",
    )
    story.minute(6, "the agent works")
    story.agent(
        "spike_apply_patch",
        patch=_patch("fix"),
        rationale="RateLimited carries the header's value, read where the 429 is seen",
    )
    story.agent("spike_run_test")
    story.minute(9, "the agent does a little more than it was asked")
    story.agent(
        "spike_apply_patch",
        patch=_patch("more"),
        rationale="a test of my own; and logging set up properly while I am here",
    )
    story.agent("spike_run_test")
    story.agent("spike_report", kind="done", text="Retry-After reaches the caller.")

    story.minute(41, "the reviewer comes back, late")
    story.say("The attempt's clock stopped at minute 9, when the agent said it was done.")
    story.human("status")
    story.human("map")
    fix = story.pending('headers.get("Retry-After")')
    story.human("show", fix)
    story.say("A tag says what a hunk does for the hypothesis. This one says nothing:")
    story.human("approve", fix, "--tag", "it works", expect=78)


def rest(story: Story) -> None:
    """From the first approvals to SHIP."""
    fix = story.pending('headers.get("Retry-After")')
    story.human("approve", fix, "--tag", "callers of a 429 can see retry-after")
    story.human(
        "approve",
        story.pending("import RateLimited"),
        "--tag",
        "the 429 test needs the error visible",
    )
    story.human(
        "approve", story.pending("test_a_429"), "--tag", "pins that a 429 makes Retry-After visible"
    )
    story.minute(43, "a first verdict, not final")
    story.say("The tests are green. The spike can't ship all the same: one hunk has no reason.")
    story.human("verdict", expect=10)
    story.human(
        *("reject", story.pending("basicConfig")),
        *("--reason", "logging is not part of this hypothesis"),
    )
    story.minute(45, "the agent hears why, and takes something back")
    story.say("A reject resumes the attempt. The agent takes its own test out again.")
    story.agent(
        "spike_edit_file",
        path="tests/test_http_client.py",
        old_text=(
            "\n\ndef test_a_429_carries_its_retry_after():\n"
            "    with pytest.raises(RateLimited) as caught:\n"
            '        fetch(answer(429, {"Retry-After": "7"}), "http://a.test/")\n'
            "    assert caught.value.retry_after == 7\n"
        ),
        new_text="",
        rationale="the oracle covers this already",
    )
    story.say(
        "The human had approved those lines. They are listed as withdrawn until somebody decides."
    )
    story.human("map")
    story.human("check", expect=1)
    story.say(
        "Rejecting the withdrawal puts the approved bytes back, and their approval with them."
    )
    story.human("reject", story.withdrawn(), "--reason", "the client's own tests should pin it too")
    story.minute(48, "the verdict")
    story.human("check")
    story.human("verdict")
    story.human("ship")
    story.human("verify")
    story.say(
        "Every row of the ledger, in words. `spike report` makes a page for the ticket of it."
    )
    story.human("log")


def volatile(text: str, story: Story) -> str:
    """The page with everything that differs from run to run as <...>."""
    text = text.replace(str(story.root), "<spike>").replace(str(story.repo), "<shop>")
    text = text.replace(str(story.top), "<top>")
    text = re.sub(r"(fingerprint\s+)(\w+ ){5}\w+", r"\1<six words>", text)
    text = re.sub(r"\bin \d+\.\d+s\b", "in <n>s", text)
    text = re.sub(r"\b\d+\.\d+ s\b", "<n> s", text)
    text = re.sub(r"\b\d+ ms\b", "<n> ms", text)
    text = re.sub(r"\b[0-9a-f]{40,64}\b", "<digest>", text)
    text = re.sub(r"\b[0-9a-f]{12}\b", "<digest>", text)
    text = re.sub(r"^warning: running as root.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(F+|\.+) +\[100%\]$", r"\1 [100%]", text, flags=re.MULTILINE)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def played(prefix: str, act: Callable[[Story], None]) -> str:
    """Play a story in a fresh directory; what it told."""
    here = os.path.dirname(sys.executable)
    os.environ["PATH"] = here + os.pathsep + os.environ.get("PATH", "")
    os.environ["COLUMNS"] = str(WIDTH)
    os.environ["NO_COLOR"] = "1"
    os.environ.pop("SPIKE", None)
    # /tmp, whatever TMPDIR says: where a line is folded depends on the length of its path.
    with tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp") as top:
        story = Story(Path(top).resolve())
        before = Path.cwd()
        os.chdir(story.repo)
        try:
            act(story)
        finally:
            os.chdir(before)
        return volatile("\n".join(story.lines), story)


def make() -> str:
    """The page."""

    def whole(story: Story) -> None:
        play(story)
        rest(story)

    return played("spike-walk-", whole) + "\n"


def main() -> int:
    """Write or check the page."""
    text = make()
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    kept = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if kept == text:
        return 0
    import difflib

    lines = difflib.unified_diff(
        kept.splitlines(), text.splitlines(), "kept", "played", lineterm=""
    )
    print("\n".join(lines))
    return 1


if __name__ == "__main__":
    sys.exit(main())
