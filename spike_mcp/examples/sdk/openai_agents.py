"""OpenAI Agents SDK (openai-agents): an agent whose only tools are the spike's."""

import asyncio

from agents import Agent, Runner
from agents.mcp import MCPServerStdio

SERVER = ["spike-mcp", "--spike", "NAME"]
WORDS = "Call spike_status, test its hypothesis with the spike_ tools, end with spike_report."


async def main() -> None:
    params = {"command": SERVER[0], "args": SERVER[1:]}
    async with MCPServerStdio(params, client_session_timeout_seconds=900) as spike:
        agent = Agent(name="spike", instructions=WORDS, mcp_servers=[spike])
        done = await Runner.run(agent, WORDS, max_turns=200)
        print(done.final_output)


asyncio.run(main())
