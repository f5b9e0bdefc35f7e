"""Pydantic AI (pydantic-ai-slim[mcp,openai]): an agent whose only tools are the spike's."""

import os

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.mcp import MCPToolset

SERVER = ["spike-mcp", "--spike", "NAME"]
WORDS = "Call spike_status, test its hypothesis with the spike_ tools, end with spike_report."

# A refusal is an answer that the model has to read: the default would count it as a failed try.
transport = StdioTransport(command=SERVER[0], args=SERVER[1:])
spike = MCPToolset(transport, tool_error_behavior="failed", read_timeout=900)
agent = Agent(os.environ["SPIKE_MODEL"], toolsets=[spike])
print(agent.run_sync(WORDS, usage_limits=UsageLimits(request_limit=200)).output)
