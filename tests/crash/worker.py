"""A process that works on a spike and may be killed: `worker.py ROOT WHAT [ARGUMENT]`.

patch N    send a patch of two files; SIGKILL itself at the Nth effect
reject N   reject all that is pending; SIGKILL itself at the Nth effect
verdict N  ask for the verdict; SIGKILL itself at the Nth effect
agent W    send 12 edits as writer W, one line each; prints what was accepted
human      approve, comment, reject and undo until the writers are done
small N    send a patch with no file allowed to grow beyond N bytes; prints the code
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from effects import Died, Effects
from support import Open
from test_session_crash import PATCH

from spike_mcp.core.codes import Problem
from spike_mcp.session import decisions, judging, rejecting
from spike_mcp.session.spike import Spike
from spike_mcp.session.view import hunk_map

TAG = "rewriting the sample lines green"


def patch(o: Open) -> str:
    reply = o.desk.call("spike_apply_patch", {"patch": PATCH, "rationale": "all of it"})
    return reply.code or reply.outcome


def work(o: Open, what: str) -> None:
    if what == "patch":
        patch(o)
    elif what == "reject":
        rejecting.reject(o.spike, [], "no", pending=True)
    else:
        judging.ask(o.spike, final=False, on_progress=lambda _text: None)


def die_at(o: Open, what: str, number: int) -> None:
    """A real SIGKILL in place of the effect."""
    effects = Effects(number)
    real = effects.call

    def call(*arguments: object, **more: object) -> object:
        try:
            return real(*arguments, **more)  # type: ignore[arg-type]
        except Died:
            os.kill(os.getpid(), signal.SIGKILL)
            raise

    effects.call = call  # type: ignore[method-assign, assignment]
    with effects.counted():
        work(o, what)


def agent(o: Open, writer: int) -> list[str]:
    accepted = []
    for turn in range(12):
        line = 10 * turn + writer
        old, new = f"line {line}\n", f"writer {writer} turn {turn}\n"
        for _try in range(50):
            reply = o.edit("src/a.py", old, new, f"writer {writer}")
            if reply.outcome == "accepted":
                accepted.append(str(reply.data["patch"]))
                break
            if reply.code not in ("busy", "review_backlog"):
                raise AssertionError(reply)
            time.sleep(0.02)
    return accepted


def human(o: Open) -> list[str]:
    done = []
    for turn in range(25):
        o.spike.refresh()
        pending = hunk_map(o.spike).pending
        if not pending:
            time.sleep(0.02)
            continue
        name = pending[turn % len(pending)].id
        with suppress(Problem):
            if turn % 3 == 0:
                done.append(rejecting.reject(o.spike, [name], "not this").decision)
                done.append(rejecting.undo(o.spike).decision)
            elif turn % 3 == 1:
                done.append(decisions.comment(o.spike, name, "why?"))
            else:
                done.append(decisions.approve(o.spike, [name], TAG).hunks[0])
    return done


def small(o: Open, limit: int) -> str:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    return patch(o)


def main(root: str, what: str, argument: str = "0") -> None:
    o = Open(Spike(Path(root)), Path(root))
    if what == "agent":
        print(json.dumps(agent(o, int(argument))))
    elif what == "human":
        print(json.dumps(human(o)))
    elif what == "small":
        print(json.dumps(small(o, int(argument))))
    else:
        die_at(o, what, int(argument))


if __name__ == "__main__":
    main(*sys.argv[1:])
