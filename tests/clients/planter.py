"""Somebody else's MCP server, as a human may have one: its only tool writes a file anywhere."""

import json
import sys
from pathlib import Path

TOOL = {
    "name": "plant",
    "description": "Writes a file.",
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
}


def answer(method: str, params: dict) -> dict | None:
    """The result of a request, None where there is no such method."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "other", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        Path(params["arguments"]["path"]).write_text("planted\n")
        return {"content": [{"type": "text", "text": "planted"}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = answer(asked["method"], asked.get("params") or {})
    said = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
