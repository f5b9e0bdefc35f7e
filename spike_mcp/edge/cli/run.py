"""`spike run`: the agent's client inside the sandbox, the referee outside (spec 14)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.edge.cli.elsewhere import part
from spike_mcp.edge.clients import client as client_named
from spike_mcp.edge.clients.sandboxed import Prepared, prepare
from spike_mcp.edge.referee import SpikeReferee
from spike_mcp.host.agent.model import AgentRun
from spike_mcp.host.agent.run import run_agent, warnings
from spike_mcp.session.decisions import note_refused
from spike_mcp.session.spike import Spike

Say = Callable[[str], None]


def run(
    spike: Spike,
    *,
    client: str | None,
    command: tuple[str, ...],
    network: Literal["proxy", "host"],
    exit_with: Literal["agent", "verdict"],
    say: Say,
    allow: tuple[str, ...] = (),
    env: tuple[str, ...] = (),
) -> int:
    """Run an agent to its end; its exit status, or with `exit_with` = verdict the verdict's.

    `client` names one of `edge.clients`; `command` is the agent's own command line, in which the
    client's lock-down is put. `allow`: further `host:port` that it may reach; `env`: names of
    further variables that it gets. AgentNeverRan (71) when it could not be started.
    """
    _check_open(spike)
    screen = _has_terminal()
    ready = _prepared(spike, client) if client else None
    argv = ready.argv(command, screen=screen) if ready else command
    if ready and not ready.locks(command):
        say(f"{command[0]} is not {ready.client.program}: its own tools are not taken away")
    spec = AgentRun(
        root=spike.root,
        work=spike.work,
        git_dir=Path(spike.contract.git_dir),
        argv=argv,
        client=ready.needs if ready else None,
        network=network,
        allow_hosts=allow,
        env=_variables(env),
        interactive=screen,
    )
    for warning in warnings(spec):
        say(f"warning: {warning}")
    referee = SpikeReferee(spike, say=say, after_verdict=_write_reports)
    referee.preload()
    status = run_agent(spec, referee)
    spike.refresh()
    if exit_with == "verdict":
        return _verdict(spike, say)
    say(f"the agent ended with status {status}; next: {_next(spike)}")
    return status


def _check_open(spike: Spike) -> None:
    """An agent without a clock, or after the end, could do nothing."""
    state = spike.state
    if state.verdict is not None or state.killed is not None:
        refusal = Problem(Refusal.SPIKE_CLOSED, "the spike is closed", "open a new one: spike init")
    elif not state.started:
        refusal = Problem(Refusal.NOT_STARTED, "the spike has not been started", "spike start")
    else:
        return
    note_refused(spike, "run", refusal)
    raise refusal


def _prepared(spike: Spike, name: str) -> Prepared:
    found = client_named(name)
    if found.sandbox is None:
        raise Problem(
            Usage.USAGE,
            f"{found.title} can't be started by `spike run`",
            f"spike client-config {name} wires it in; or run another agent after --",
        )
    return prepare(found, spike.agent_dir, spike.work, os.environ, Path.home())


def _variables(names: tuple[str, ...]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise Problem(Usage.USAGE, f"--env: {missing[0]} is not set", "export it first")
    return {name: os.environ[name] for name in names}


def _has_terminal() -> bool:
    with suppress(ValueError, AttributeError):
        return sys.stdin.isatty() and sys.stdout.isatty()
    return False


def _write_reports(spike: Spike) -> None:
    # A page that can't be written never hides the verdict.
    with suppress(Problem, OSError):
        part("reports")(spike)


def _verdict(spike: Spike, say: Say) -> int:
    """The verdict's exit status: SHIP is written if it is due, nothing else is forced."""
    from spike_mcp.session.judging import ask

    answer = ask(spike, final=False, on_progress=say)
    if answer.written:
        _write_reports(spike)
    word = "verdict" if answer.written else "the verdict would be"
    say(f"{word} {answer.result['decision']} {answer.result['reason']}")
    for line in answer.todo:
        say(line)
    return int(answer.exit)


def _next(spike: Spike) -> str:
    return "spike verdict" if spike.state.verdict is not None else "spike review, spike verdict"
