"""The tool surface is a contract: it equals the committed copy, and keeps the clients' limits.

To change it on purpose: `python tests/conformance/test_surface.py` writes the copy anew.
"""

import json
import re
from pathlib import Path

import mcp_types as types
import pytest

from spike_mcp.core.codes import Refusal
from spike_mcp.core.requests import PARAMS, TOOLS
from spike_mcp.edge import tools
from spike_mcp.edge.connection import make_server

COPY = Path(__file__).with_name("tools.json")


def surface():
    return {
        "server": tools.SERVER_NAME,
        "instructions": tools.INSTRUCTIONS,
        "tools": [tool.to_wire() for tool in tools.TOOLS],
    }


def named(text):
    """Tools that a text names; codes of refusals look alike."""
    return set(re.findall(r"\bspike_[a-z_]+", text)) - {code.value for code in Refusal}


def test_the_surface_is_the_committed_one():
    assert json.loads(COPY.read_text()) == surface()


def test_the_ten_tools_and_no_other():
    assert [tool.name for tool in tools.TOOLS] == [
        "spike_status",
        "spike_list_files",
        "spike_read_file",
        "spike_search_files",
        "spike_apply_patch",
        "spike_edit_file",
        "spike_write_file",
        "spike_revert_patch",
        "spike_run_test",
        "spike_report",
    ]


@pytest.mark.parametrize("tool", tools.TOOLS, ids=lambda tool: tool.name)
def test_each_tool_keeps_what_the_clients_can_take(tool):
    assert re.fullmatch(r"spike_[a-z_]+", tool.name)
    assert len(tool.name) <= 40
    assert len(tool.description) < 1500
    assert "refused" in tool.description
    assert "human" in tool.description
    schema = json.dumps(tool.input_schema)
    assert not re.search(r'"\$ref"|"anyOf"|"oneOf"|"allOf"', schema)
    assert "outputSchema" not in tool.to_wire()
    for name, value in tool.input_schema["properties"].items():
        assert value["type"] in ("string", "integer", "boolean"), name
        assert value["description"]
    hints = tool.annotations()
    assert hints["openWorldHint"] is False
    assert hints["destructiveHint"] is False
    assert hints["readOnlyHint"] is (
        tool.name.removeprefix("spike_") in ("status", "list_files", "read_file", "search_files")
    )
    types.Tool.model_validate(tool.to_wire())


def test_the_instructions_name_the_way_and_fit():
    assert len(tools.INSTRUCTIONS) < 1500
    assert named(tools.INSTRUCTIONS) <= set(TOOLS)
    for word in ("rationale", "kind=done", "kind=unknown", "refused", "human"):
        assert word in tools.INSTRUCTIONS


def test_every_description_names_only_tools_and_arguments_that_exist():
    arguments = {param.name for params in PARAMS.values() for param in params}
    for tool in tools.TOOLS:
        assert named(tool.description) <= set(TOOLS)
        for name in re.findall(r"`([a-z_]+)`", tool.description):
            assert name in arguments


def test_the_server_offers_tools_and_nothing_else():
    server = make_server(object(), tend=False)
    offered = server.get_capabilities().model_dump(exclude_none=True)
    assert set(offered) == {"tools"}
    assert offered["tools"].get("list_changed", False) is False
    assert server.name == "spike"


if __name__ == "__main__":
    COPY.write_text(json.dumps(surface(), indent=1, ensure_ascii=False) + "\n")
