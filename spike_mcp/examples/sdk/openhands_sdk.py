"""OpenHands SDK (openhands-sdk, Python 3.12): no tool but the spike's and "finish".

It can't take spike_report, whose argument `kind` is a word of its own: the human ends the attempt.
"""

import os

from openhands.sdk import LLM, Agent, Conversation
from pydantic import SecretStr

SERVER = ["spike-mcp", "--spike", "NAME"]
WORDS = "Call spike_status, test its hypothesis with the spike_ tools, stop once the test is green."

llm = LLM(
    model=os.environ["SPIKE_MODEL"],
    api_key=SecretStr(os.environ["SPIKE_MODEL_KEY"]),
    base_url=os.environ.get("SPIKE_MODEL_URL"),
)
servers = {"mcpServers": {"spike": {"command": SERVER[0], "args": SERVER[1:]}}}
agent = Agent(
    llm=llm,
    tools=[],
    include_default_tools=["FinishTool"],
    mcp_config=servers,
    filter_tools_regex="^spike_(?!report)",
)
conversation = Conversation(agent=agent, workspace=os.getcwd())
conversation.send_message(WORDS)
conversation.run()
