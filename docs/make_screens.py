"""Writes the pictures of docs/review.md: real screens over a real spike, and the report's page.

    python docs/make_screens.py [DIR]     rewrite docs/screens (or DIR)

The project, worktree, gate and runs are real; only the clock is moved by hand. Needs the `review`
extra; the picture of the report needs Chromium and is left out without it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from spike_mcp.edge.desk import SpikeDesk
from spike_mcp.edge.report import make_report, to_html
from spike_mcp.edge.tui.app import ReviewApp
from spike_mcp.host.clock import ManualClock
from spike_mcp.host.measure import Run
from spike_mcp.session import decisions, judging, rejecting, runs
from spike_mcp.session.agent import AgentDesk, run_reply
from spike_mcp.session.opening import InitOptions, init
from spike_mcp.session.spike import Spike
from spike_mcp.session.starting import start
from spike_mcp.session.view import hunk_map

TARGET = Path(__file__).with_name("screens")
HYPOTHESIS = (
    "the client surfaces Retry-After of 429 responses to callers within 25 minutes, "
    "measured by python -m pytest tests/test_retry_after.py -q"
)
CLIENT = '''"""A small HTTP client."""

import logging

log = logging.getLogger(__name__)


class RateLimited(Exception):
    """The server answered 429: too many requests."""

    def __init__(self, url):
        super().__init__(f"rate limited: {url}")
        self.url = url


def fetch(send, url):
    """The body at `url`; `send(url)` gives an object with status, headers and body."""
    response = send(url)
    if response.status == 429:
        raise RateLimited(url)
    return response.body
'''
STEP = '''def {name}(response, retries=3):
    """Wait before the next {name}."""
    wait = 1.0
    if response.status == 429:
        wait = 2.0
    for attempt in range(retries):
        wait = wait * 2
        log.debug("attempt %s", attempt)
    return wait


'''
BACKOFF = "import logging\n\nlog = logging.getLogger(__name__)\n\n\n" + "".join(
    STEP.format(name=name) for name in ("get", "post", "delete")
)
CACHE = '''"""Keeps responses for a while."""

SECONDS = 60


def fresh(entry, now):
    """Whether an entry may still be used."""
    return now - entry.at < SECONDS
'''
TEST = """import sys

sys.path.insert(0, "src")

import pytest
from http_client import RateLimited, fetch


class Response:
    status, headers, body = 429, {"Retry-After": "7"}, b""


def test_retry_after():
    with pytest.raises(RateLimited) as caught:
        fetch(lambda url: Response, "http://x.test")
    assert caught.value.retry_after == "7"
"""
FILES = {
    "src/http_client.py": CLIENT,
    "src/backoff.py": BACKOFF,
    "src/cache.py": CACHE,
    "tests/test_retry_after.py": TEST,
}


class Story:
    """A spike that is played up to the moment of a picture."""

    def __init__(self, top: Path) -> None:
        repo = _repository(top / "shop")
        self.clock = ManualClock()
        options = InitOptions(
            name="retry-after",
            hypothesis=HYPOTHESIS,
            allow=("src/",),
            oracle=("tests/test_retry_after.py",),
            root=top / "spike",
            cwd=repo,
            allow_control=True,
        )
        self.spike = init(options, clock=self.clock).spike
        start(self.spike, on_progress=lambda _text: None)
        self.agent = AgentDesk(self.spike, "docs")

    def call(self, tool: str, **arguments: object) -> None:
        """One call of the agent."""
        reply = self.agent.call(tool, arguments)
        if reply.ticket is not None:
            result = Run.start(reply.ticket.spec).wait()
            runs.finish(self.spike, reply.ticket, result, human=False)
            reply = run_reply(self.spike, self.spike.state.runs[reply.ticket.run])
        if reply.outcome == "refused":
            raise SystemExit(f"{tool}: {reply.lines}")

    def edit(self, path: str, old: str, new: str, why: str) -> None:
        """`spike_edit_file`."""
        self.call("spike_edit_file", path=path, old_text=old, new_text=new, rationale=why)

    def wait(self, minutes: float) -> None:
        """Move the clock."""
        self.clock.tick(minutes * 60)

    def screen(self, name: str, *keys: str, size: tuple[int, int] = (120, 36)) -> None:
        """A picture of the screen after `keys`."""
        asyncio.run(self._screen(name, keys, size))

    async def _screen(self, name: str, keys: Sequence[str], size: tuple[int, int]) -> None:
        desk = SpikeDesk(Spike(self.spike.root, self.clock))
        app = ReviewApp(desk)
        async with app.run_test(size=size) as pilot:
            await app.settled()
            for key in keys:
                await pilot.press("space" if key == " " else key)
            await app.settled()
            await pilot.pause()
            picture = app.export_screenshot(title="spike review")
        # The exported picture would load its font from somewhere; the reader's own will do.
        picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
        picture = picture.replace("Fira Code, monospace", "Menlo, Consolas, monospace")
        picture = re.sub(r"terminal-\d+-", "t-", picture)
        picture = "\n".join(line.rstrip() for line in picture.split("\n"))
        (TARGET / f"{name}.svg").write_text(picture, "utf-8")


def _repository(where: Path) -> Path:
    for name, text in FILES.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    identity = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        identity |= {f"GIT_{who}_NAME": "Docs", f"GIT_{who}_EMAIL": "docs@example.test"}
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "shop"]):
        subprocess.run(["git", *arguments], cwd=where, check=True, env={**os.environ, **identity})
    return where


def play(top: Path) -> None:
    """The story, with its pictures."""
    story = Story(top)
    story.wait(18)
    story.edit(
        "src/http_client.py",
        '    def __init__(self, url):\n        super().__init__(f"rate limited: {url}")\n'
        "        self.url = url\n",
        "    def __init__(self, url, retry_after=None):\n"
        '        super().__init__(f"rate limited: {url}")\n'
        "        self.url = url\n        self.retry_after = retry_after\n",
        "RateLimited carries the header's value",
    )
    story.edit(
        "src/http_client.py",
        "        raise RateLimited(url)\n",
        '        raise RateLimited(url, response.headers.get("Retry-After"))\n',
        "read Retry-After where the 429 is seen",
    )
    after = BACKOFF.replace("        wait = 2.0\n", "        wait = float(response.retry_after)\n")
    story.call(
        "spike_write_file",
        path="src/backoff.py",
        content=after,
        rationale="backoff waits as long as the server says",
        expected_sha256=_sha(BACKOFF),
    )
    story.edit(
        "src/cache.py",
        "SECONDS = 60\n",
        'import os\n\nSECONDS = 60 if os.environ.get("PYTEST_CURRENT_TEST") else 300\n',
        "longer cache",
    )
    story.wait(4)
    story.screen("review")
    story.screen("tag", "a", *"callers", " ", *"get", " ", "r", "tab")
    story.screen("same", "j", "*")
    story.screen("flags", "p", "a")
    story.screen("narrow", "a", size=(72, 30))
    story.screen("tiny", "a", "c", "tab", size=(40, 12))

    story.call("spike_run_test")
    (client,) = [each for each in hunk_map(story.spike).hunks if "http" in each.path]
    tag = "callers find Retry-After on the exception"
    decisions.approve(story.spike, [client.id], tag, sha=client.view, seconds=21.0)
    story.wait(3)
    story.edit(
        "src/http_client.py",
        'response.headers.get("Retry-After")',
        'response.headers.get("Retry-After", "0")',
        "a missing header means no wait",
    )
    story.screen("lapse", "p", "a")

    story.edit(
        "src/cache.py",
        "    return now - entry.at < SECONDS\n",
        "    return now - entry.at < SECONDS  # \x1b[2K\x1b[1A harmless \u202e\n"
        "    # [bold]markup[/] \x1b]8;;http://evil.test\x1b\\here\x1b]8;;\x1b\\\n",
        "\x1b[31murgent\x1b[0m",
    )
    story.screen("hostile", "p")
    finish(story)


def finish(story: Story) -> None:
    """Decide what is open, ask for the verdict, and take a picture of the report."""
    story.wait(5)
    for each in hunk_map(story.spike).pending:
        if "http" not in each.path:
            reason = "not what the hypothesis is about"
            rejecting.reject(story.spike, [each.id], reason)
    for each in hunk_map(story.spike).pending:
        tag = "surface Retry-After from 429 responses, none means 0"
        decisions.approve(story.spike, [each.id], tag, sha=each.view, seconds=9.0)
    story.call("spike_run_test")
    story.call("spike_report", kind="done", text="callers see Retry-After")
    story.wait(2)
    judging.ask(story.spike, final=True, on_progress=lambda _text: None)
    page = story.spike.root / "report.html"
    page.write_text(to_html(make_report(story.spike)), "utf-8")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium: the report's picture is left as it is", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                "--window-size=1000,1500",
                f"--screenshot={TARGET / 'report.png'}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


def _sha(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        TARGET = Path(sys.argv[1]).resolve()
    TARGET.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as directory:
        play(Path(directory).resolve())
