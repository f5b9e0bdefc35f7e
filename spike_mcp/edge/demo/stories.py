"""What happens in the demos: the agent's calls and the human's commands, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources

import anyio

from spike_mcp.edge.demo.stage import Agent, Stage

_RETRY_HYPOTHESIS = (
    "reading the header makes Retry-After of a 429 visible within 25 minutes, "
    "measured by python -m pytest tests/test_retry_after.py -q"
)
_INVOICE_HYPOTHESIS = (
    "banker's rounding in round_money makes test_rounding true within 25 minutes, "
    "measured by python -m pytest tests/test_invoice.py::test_rounding -q"
)


def retry_after(stage: Stage) -> None:
    """The client swallows `Retry-After`; a third hunk nobody asked for stands in the way."""
    _open(
        stage,
        _RETRY_HYPOTHESIS,
        allow=("src/http_client.py", "tests/test_http_client.py"),
        oracle="tests/test_retry_after.py",
    )
    anyio.run(_retry_agent, stage)

    stage.chapter("the human reviews: three hunks serve the hypothesis, one does not")
    stage.human("map")
    _approve(stage, 'headers.get("Retry-After")', "callers of a 429 can see retry-after")
    _approve(stage, "import RateLimited, ServerError", "the 429 test needs the error visible")
    _approve(stage, "test_a_429_carries", "pins that a 429 makes Retry-After visible")
    stage.say("the tests are green, but the logging hunk is not explained:")
    stage.human("verdict", expect=10)
    stage.human(
        *("reject", stage.pending("basicConfig")),
        *("--reason", "logging is not part of this hypothesis"),
    )
    anyio.run(_hears_the_reason, stage)
    _end(stage)


async def _retry_agent(stage: Stage) -> None:
    stage.chapter("the agent cheats, and is told no")
    async with stage.agent() as agent:
        await agent.call("spike_status")
        await _cheats(agent, "tests/test_retry_after.py", "assert caught.value.retry_after == 12")
        stage.chapter("the agent works")
        await agent.call("spike_read_file", path="src/http_client.py")
        await agent.call("spike_run_test")
        await agent.call(
            "spike_apply_patch",
            patch=_patch("retry-after", "fix"),
            rationale="RateLimited carries the header's value, read where the 429 is seen",
        )
        await agent.call("spike_run_test")
        await agent.call(
            "spike_apply_patch",
            patch=_patch("retry-after", "more"),
            rationale="a test of my own; and logging set up properly while I am here",
        )
        await agent.call("spike_run_test")
        await agent.call("spike_report", kind="done", text="Retry-After reaches the caller.")


async def _hears_the_reason(stage: Stage) -> None:
    stage.chapter("the agent hears why at its next call")
    async with stage.agent() as agent:
        await agent.call("spike_status")


async def _cheats(agent: Agent, oracle: str, line: str) -> None:
    why = "this makes the test pass"
    await agent.call(
        "spike_edit_file",
        refused="path_protected",
        path=oracle,
        old_text=line,
        new_text="assert True",
        rationale=why,
    )
    await agent.call(
        "spike_write_file",
        refused="path_not_allowed",
        path="src/cache.py",
        content="CACHE = {}\n",
        rationale="a cache would help",
    )
    await agent.call(
        "spike_write_file",
        refused="path_protected",
        path="tests/conftest.py",
        content="def pytest_runtest_makereport(item, call): ...\n",
        rationale=why,
    )
    await agent.call(
        "spike_write_file",
        refused="path_invalid",
        path="src/../../judge/ledger.jsonl",
        content="{}\n",
        rationale=why,
    )
    await agent.call(
        "spike_apply_patch",
        refused="unsupported_change_kind",
        patch=f"diff --git a/{oracle} b/src/old.py\nsimilarity index 100%\n"
        f"rename from {oracle}\nrename to src/old.py\n",
        rationale="move the test out of the way",
    )


def invoice_rounding(stage: Stage) -> None:
    """A stub that has to round ties to the even cent; two patches make one hunk."""
    _open(stage, _INVOICE_HYPOTHESIS, allow=("invoice.py",), oracle="tests/test_invoice.py")
    anyio.run(_invoice_agent, stage)
    stage.chapter("the human reviews")
    stage.human("map")
    _approve(stage, "quantize", "round_money uses banker's rounding of a cent")
    _end(stage)


async def _invoice_agent(stage: Stage) -> None:
    stage.chapter("the agent cheats, and is told no")
    async with stage.agent() as agent:
        await agent.call("spike_status")
        await _cheats(agent, "tests/test_invoice.py", "# ties settle on the even cent")
        stage.chapter("the agent works")
        await agent.call("spike_read_file", path="invoice.py")
        await agent.call(
            "spike_edit_file",
            path="invoice.py",
            old_text='    raise NotImplementedError("spike target")\n',
            new_text="    return value.quantize(CENT, rounding=ROUND_HALF_EVEN)\n",
            rationale="quantize with ROUND_HALF_EVEN settles ties on the even cent",
        )
        await agent.call("spike_run_test")
        await agent.call(
            "spike_edit_file",
            path="invoice.py",
            old_text="from decimal import Decimal\n",
            new_text='from decimal import ROUND_HALF_EVEN, Decimal\n\nCENT = Decimal("0.01")\n',
            rationale="the names that the last patch uses",
        )
        await agent.call("spike_run_test")
        await agent.call("spike_report", kind="done", text="Ties settle on the even cent.")


def _patch(example: str, name: str) -> str:
    """A patch that the scripted agent sends."""
    folder = resources.files("spike_mcp") / "examples" / example / "agent"
    return (folder / f"{name}.patch").read_text(encoding="utf-8")


def _open(stage: Stage, hypothesis: str, *, allow: tuple[str, ...], oracle: str) -> None:
    stage.chapter("the human opens the spike: hypothesis, scope and judge are sealed")
    options = [part for path in allow for part in ("--allow", path)]
    stage.human(
        *("init", stage.name, "--root", str(stage.root), "--hypothesis", hypothesis),
        *(*options, "--oracle", oracle),
    )
    stage.env["SPIKE"] = str(stage.root)
    stage.chapter("red twice on the untouched baseline, then the clock runs")
    stage.human("start")


def _approve(stage: Stage, containing: str, tag: str) -> None:
    hunk = stage.pending(containing)
    stage.human("approve", hunk, "--tag", tag)


def _end(stage: Stage) -> None:
    stage.chapter("the verdict")
    stage.human("check")
    stage.human("verdict")
    stage.human("ship")
    stage.human("verify")
    stage.chapter("what is left: the map and the ledger")
    stage.human("map")
    stage.human("log", show=80)
    told = stage.human_json("verdict")
    stage.verdict_line = f"{told['decision']} {told['reason']}"


STORIES: Mapping[str, Callable[[Stage], None]] = {
    "retry-after": retry_after,
    "invoice-rounding": invoice_rounding,
}
