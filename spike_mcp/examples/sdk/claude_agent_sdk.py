"""Claude Agent SDK (claude-agent-sdk): no built-in tool, no settings, no servers but the spike's."""

import asyncio

from claude_agent_sdk import ClaudeAgentOptions, query

SERVER = ["spike-mcp", "--spike", "NAME"]
WORDS = "Call spike_status, test its hypothesis with the spike_ tools, end with spike_report."


async def main() -> None:
    spike = {"type": "stdio", "command": SERVER[0], "args": SERVER[1:], "alwaysLoad": True}
    options = ClaudeAgentOptions(
        tools=[],
        allowed_tools=["mcp__spike"],
        mcp_servers={"spike": spike},
        strict_mcp_config=True,
        setting_sources=[],
    )
    async for message in query(prompt=WORDS, options=options):
        print(message)


asyncio.run(main())
