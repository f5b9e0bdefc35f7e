"""Tier `configured` with the real clients: our tools work, theirs are gone, hidden calls fail.

Each has its control: the same client and script without our configuration does write files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from client_players import plant, play, players
from client_record import record
from scripted_model import Call

from spike_mcp.edge.clients import client, client_config
from spike_mcp.edge.clients.model import seen

pytestmark = [pytest.mark.clients, pytest.mark.security, pytest.mark.timeout(400)]

WORK_STEPS = (
    Call("spike_status"),
    Call(
        "spike_edit_file",
        {
            "path": "src/a.py",
            "old_text": "one\n",
            "new_text": "GREEN\n",
            "rationale": "rewriting the first line makes the sample file green",
        },
    ),
    Call("spike_run_test"),
)


def planted(work: Path) -> list[str]:
    return sorted(path.name for path in work.rglob("planted*"))


def own_tools(name: str, offered: set[str]) -> set[str]:
    """What was offered beside our tools."""
    ours = set(seen(client(name).shows))
    plain = {label.split("/")[-1].split(">")[-1] for label in offered}
    return plain - ours


@pytest.mark.parametrize("player", players())
def test_a_client_has_our_tools_and_no_other_way_to_write_or_run(
    player, installed, opened, tmp_path
):
    work = opened.spike.work
    config = client_config(opened.spike, player.name, write=True).data
    where = {
        "work": work,
        "home": tmp_path / "home",
        "args": config["argv"][1:],
        "env": config["env"],
        "amend": Path(config["directory"]),
    }
    attacks = [*player.attacks(work), plant(player, work)]
    script = [*WORK_STEPS, *(() if player.gives_up else attacks), "finished"]
    done = play(player, script, **where)
    results = done.model.results()
    assert "spike plain: " in results.get(0, ""), done.output
    assert "applied P1 to src/a.py" in results[1]
    assert "R3 green" in results[2]
    assert sorted(results) == list(range(len(script) - 1)), done.output
    assert done.status == 0
    for attack in attacks if player.gives_up else ():
        assert play(player, [attack, "finished"], **where).model.asked
    assert planted(tmp_path) == []

    left = own_tools(player.name, done.model.offered)
    assert left <= set(client(player.name).left)
    assert {"spike_status", "spike_report"} <= {
        name for name in seen("X") if any(label.endswith(name) for label in done.model.offered)
    }
    assert set(opened.ledger()) >= {"session_opened", "patch_applied"}
    opened.spike.refresh()
    assert opened.spike.state.tiers == {"configured"}
    record(player.name, "configured", left=sorted(left), headless=config["headless"])


@pytest.mark.parametrize("player", players())
def test_without_our_configuration_the_same_steps_write_files(player, installed, opened, tmp_path):
    work = opened.spike.work
    script = [*player.attacks(work), plant(player, work), "finished"]
    done = play(player, script, work=work, home=tmp_path / "home", args=player.control, env={})
    found = planted(work)
    assert len(found) >= 2, done.output
    assert "planted-other" in found, done.output
    record(player.name, "control", written=found)
