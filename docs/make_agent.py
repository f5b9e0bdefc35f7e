"""Writes the transcript of docs/agent.md: a scripted agent's calls, every answer real.

python docs/make_agent.py          rewrite the transcript
python docs/make_agent.py --check  exit 1 if playing it again gives another one

Plays on the stage of make_walkthrough.py; what differs from run to run is written as <...>.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import make_walkthrough as walk

PAGE = Path(__file__).with_name("agent.md")
BEGIN = "<!-- begin transcript (made by docs/make_agent.py) -->\n"
END = "\n<!-- end transcript -->"
SOURCE = "src/http_client.py"
LOOSE = "    if response.status == 429:\n        raise RateLimited(response.url)\n"


def play(story: walk.Story) -> None:
    """What an agent sees from its first call to its last."""
    story.human(
        *("init", "retry-after", "--root", str(story.root), "--hypothesis", walk.HYPOTHESIS),
        *("--allow", SOURCE, "--allow", "tests/test_http_client.py"),
        *("--oracle", "tests/test_retry_after.py"),
    )
    os.environ["SPIKE"] = str(story.root)
    story.human("start")
    story.lines.clear()
    story.clock.tick(120)
    story.agent("spike_status")
    story.agent("spike_read_file", path=SOURCE)
    story.say("A change outside the allowed paths is refused; nothing is written.")
    story.agent(
        "spike_write_file",
        path="src/retry.py",
        content="SECONDS = 12\n",
        rationale="a place for the default",
    )
    story.say("Old text that is not in the file: the answer shows the lines that are there.")
    story.agent(
        "spike_edit_file",
        path=SOURCE,
        old_text=LOOSE,
        new_text=LOOSE.replace("response.url", 'response.url, response.headers["Retry-After"]'),
        rationale="hand the header on",
    )
    story.say("The change, small and with its reason.")
    story.agent(
        "spike_apply_patch",
        patch=walk._patch("fix"),
        rationale="RateLimited carries the header's value, read where the 429 is seen",
    )
    story.agent("spike_run_test")
    story.say("Something extra. It is applied, and will have to be explained by a human.")
    story.agent(
        "spike_apply_patch",
        patch=walk._patch("more"),
        rationale="a test of my own; and logging set up properly while I am here",
    )
    hunk = story.pending("basicConfig")
    kept = len(story.lines)
    story.human("reject", hunk, "--reason", "logging is not part of this hypothesis")
    del story.lines[kept:]
    story.say("Meanwhile the human rejected one hunk. The next answer says so, whatever was asked.")
    story.agent("spike_run_test")
    story.agent(
        "spike_report", kind="done", text="A 429 carries its Retry-After; the header is read once."
    )
    story.say("After that writing is over.")
    story.agent(
        "spike_edit_file",
        path=SOURCE,
        old_text="import",
        new_text="import ",
        rationale="tidying up",
    )


def make() -> str:
    """The transcript."""
    return walk.played("spike-agent-", play).strip("\n")


def main() -> int:
    """Write or check the page."""
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    new = head + BEGIN + make() + END + tail
    if "--check" in sys.argv:
        if new != page:
            print("docs/agent.md is out of date: python docs/make_agent.py")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
