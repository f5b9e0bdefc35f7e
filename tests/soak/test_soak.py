"""Nothing grows, nothing leaks and nothing breaks over a long spike with many hands in it."""

from __future__ import annotations

import statistics

import pytest
from soaking import Soak


def check(soak: Soak) -> None:
    assert soak.statuses == [0, 0, 0]
    assert soak.verified() == (True, ())
    assert soak.leftovers() == []
    # What can happen when several write at once, and nothing that is a fault of ours.
    assert not {"internal_error", "ledger_damaged", "seal_broken"} & set(soak.outcomes)
    for kind in ("accepted", "out_of_band_change", "malformed_request", "path_not_allowed"):
        assert soak.outcomes[kind], soak.outcomes
    assert soak.decided["approved"] and soak.decided["restored"]
    for sample in soak.samples:
        assert max(sample.threads) <= 12
        assert max(sample.children) <= 1


def test_many_hands_for_a_while(tmp_path):
    soak = Soak(tmp_path, calls=300)
    soak.run()
    check(soak)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_two_hours_and_ten_thousand_calls(tmp_path, capsys):
    soak = Soak(tmp_path, calls=10_000)
    soak.run()
    with capsys.disabled():
        print(report(soak))
    check(soak)
    warm = [s for s in soak.samples if s.calls > soak.calls * 0.25]
    for server in range(3):
        memory = [sample.memory[server] for sample in warm]
        half = len(memory) // 2
        growth = statistics.median(memory[half:]) - statistics.median(memory[:half])
        assert growth < 12_000, f"server {server} grew by {growth} kB over the second half"
        handles = [sample.descriptors[server] for sample in warm]
        assert max(handles) - min(handles) <= 4, "descriptors leak"


def report(soak: Soak) -> str:
    """What docs/soak.md tells."""
    lines = [
        "",
        "| calls | memory of the servers, MB | descriptors | threads |",
        "|---|---|---|---|",
    ]
    for sample in soak.samples[:: max(1, len(soak.samples) // 10)]:
        memory = " ".join(f"{kb / 1024:.0f}" for kb in sample.memory)
        handles = " ".join(map(str, sample.descriptors))
        threads = " ".join(map(str, sample.threads))
        lines.append(f"| {sample.calls:,} | {memory} | {handles} | {threads} |")
    state = soak.human.refresh()
    lines += [
        "",
        f"{soak.seconds:.0f} s; {state.seq} rows, {len(state.patches)} patches; "
        f"meddled {soak.meddled} times",
        f"answers: {dict(soak.outcomes.most_common())}",
        f"reviewer: {dict(soak.decided.most_common())}",
    ]
    return "\n".join(lines)
