"""What the words for approvals and for the agent's confinement mean, for people (spec 14)."""

from __future__ import annotations

_APPROVALS = {
    "signed": "each carries your passphrase's signature",
    "enforced": "not signed, but the agent was locked in by `spike run`",
    "none": "not signed, and the agent was not locked in",
}
_WRITERS = {
    "enforced": "locked in by `spike run`",
    "configured": "asked to use only our tools, by convention",
    "none": "no agent has connected",
}


def approvals(strength: str) -> str:
    """`none: not signed, and ...`: the result's word first, then what it means."""
    return f"{strength}: {_APPROVALS[strength]}" if strength in _APPROVALS else strength


def writer(tier: str) -> str:
    """`configured: asked to ...`, in the same form."""
    return f"{tier}: {_WRITERS[tier]}" if tier in _WRITERS else tier
