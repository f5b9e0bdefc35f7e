"""What the tests saw, kept in record.json when SPIKE_CLIENT_RECORD=1 asks for it.

`docs/make_clients.py` makes the table of docs/clients.md from it.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from spike_mcp.edge.clients import client

RECORD = Path(__file__).with_name("record.json")


def record(name: str, what: str, **seen: Any) -> None:
    """Keep what was seen of a client; a part of another version is dropped."""
    if os.environ.get("SPIKE_CLIENT_RECORD") != "1":
        return
    with open(RECORD, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = json.loads(file.read() or "{}")
        mine = known.get(name, {})
        version = client(name).tried
        if mine.get("version") != version:
            mine = {"version": version}
        mine[what] = seen
        known[name] = mine
        file.truncate(0)
        file.write(json.dumps(known, indent=2, sort_keys=True) + "\n")
