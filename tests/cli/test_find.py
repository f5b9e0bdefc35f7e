"""Which spike is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from spike_mcp.core.codes import Problem
from spike_mcp.edge.find import known, locate, stage, standing_in


def plant(root: Path, *events: str) -> str:
    """A directory that looks like a spike, with these ledger rows."""
    (root / "judge").mkdir(parents=True)
    (root / "work" / "src").mkdir(parents=True)
    rows = "".join(f'{{"seq":{n},"event":"{e}"}}\n' for n, e in enumerate(events or ("x",), 1))
    (root / "judge" / "ledger.jsonl").write_text(rows)
    return str(root.resolve())


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"SPIKE_HOME": str(tmp_path / "home")}


def test_the_option_wins_then_the_variable_then_the_place_then_the_only_open(
    tmp_path: Path, env: dict[str, str]
) -> None:
    one = plant(tmp_path / "home" / "shop-1" / "one")
    two = plant(tmp_path / "home" / "shop-1" / "two")
    inside = f"{two}/work/src"
    assert locate("one", {**env, "SPIKE": "two"}, inside) == one
    assert locate("", {**env, "SPIKE": "one"}, inside) == one
    assert locate("", env, inside) == two
    with pytest.raises(Problem, match="several spikes are open") as found:
        locate("", env, str(tmp_path))
    assert one in found.value.message and two in found.value.message
    plant(tmp_path / "other")
    (tmp_path / "home" / "shop-1" / "one" / "judge" / "ledger.jsonl").write_text(
        '{"seq":1,"event":"verdict"}\n'
    )
    assert locate("", env, str(tmp_path)) == two


def test_a_judged_spike_is_meant_where_none_runs(tmp_path: Path, env: dict[str, str]) -> None:
    done = plant(tmp_path / "home" / "r-1" / "done", "created", "verdict", "shipped")
    assert locate("", env, "") == done
    judged = plant(tmp_path / "home" / "r-1" / "judged", "created", "verdict")
    assert locate("", env, "") == judged
    assert (stage(done), stage(judged), stage("/nowhere")) == (2, 1, 2)


def test_paths_and_parts_of_paths_name_a_spike(tmp_path: Path, env: dict[str, str]) -> None:
    one = plant(tmp_path / "home" / "shop-1" / "same")
    two = plant(tmp_path / "home" / "site-2" / "same")
    far = plant(tmp_path / "elsewhere")
    for wanted in (far, f"{far}/work", f"{far}/judge", "elsewhere"):
        assert locate(wanted, env, str(tmp_path)) == far
    with pytest.raises(Problem, match="several spikes are called same"):
        locate("same", env, str(tmp_path))
    assert locate("shop-1/same", env, str(tmp_path)) == one
    assert locate("site-2/same", env, str(tmp_path)) == two
    ledger = Path(far) / "judge" / "ledger.jsonl"
    ledger.write_text('{"seq":1,"event":"created","name":"called"}\n' + ledger.read_text())
    (tmp_path / "home" / "site-2" / "dir").symlink_to(far)
    assert locate("called", env, str(tmp_path)) == far
    for wanted in ("ame", "none", "/", "a\0b", "..", f"{far}/work/src"):
        with pytest.raises(Problem, match="there is no spike"):
            locate(wanted, env, str(tmp_path / "home"))


def test_what_the_agent_plants_in_work_is_no_spike(tmp_path: Path, env: dict[str, str]) -> None:
    real = plant(tmp_path / "home" / "shop-1" / "real")
    planted = plant(Path(real) / "work" / "x")
    assert standing_in(f"{planted}/work/src") == real
    assert standing_in(planted) == standing_in(f"{real}/verdict") == standing_in(real) == real
    assert standing_in(str(tmp_path)) == standing_in("") == ""


def test_spikes_put_elsewhere_are_found_from_their_repository(
    tmp_path: Path, env: dict[str, str]
) -> None:
    far = plant(tmp_path / "far")
    entry = tmp_path / "repo" / ".git" / "worktrees" / "work"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_text(f"{far}/work/.git\n")
    (entry / "commondir").write_text("../..\n")
    (tmp_path / "repo" / "deep").mkdir()
    assert known(env, str(tmp_path / "repo" / "deep")) == [far]
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {entry}\n")
    assert known(env, str(linked)) == [far]
    assert known(env, str(tmp_path / "home")) == []
    (entry / "gitdir").write_bytes(b"\xff\0\n")
    assert known(env, str(linked)) == []
