"""`spike run`: an agent's own client inside bubblewrap, the server outside (spec 14).

What it guarantees: no process of the agent can write the worktree, the repository or the human's
home, see the judge or the verdict, reach a socket or a port of this machine that is not listed, or
outlive the deadline. It does not guarantee that the agent runs no code: a client with a shell can
copy the tree to its own /tmp and run tests there.

This does not hold when the kernel is attacked, when the human binds more than the client needs,
or for what the listed hosts do with what the agent sends them.
"""

from spike_mcp.host.agent.model import (
    AgentNeverRan,
    AgentRun,
    ClientNeeds,
    HomeBind,
    HomeFile,
    Peer,
    Referee,
)

__all__ = [
    "AgentNeverRan",
    "AgentRun",
    "ClientNeeds",
    "HomeBind",
    "HomeFile",
    "Peer",
    "Referee",
]
