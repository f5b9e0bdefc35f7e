"""Elapsed time of a spike: what counts, what wins, what gains nothing (spec 5)."""

from hypothesis import given
from hypothesis import strategies as st

from spike_mcp.core.clock import ClockState, Reading, duration_text, elapsed
from spike_mcp.host.clock import ManualClock, SystemClock, boot_id


def begun() -> tuple[ManualClock, ClockState]:
    clock = ManualClock()
    return clock, ClockState.begin(clock.read())


def test_time_that_passes_awake_is_elapsed() -> None:
    clock, state = begun()
    clock.tick(61.5)
    state = state.advance(clock.read())
    assert state.elapsed == 61.5
    assert state.note == ""


def test_suspended_time_counts_and_is_named() -> None:
    clock, state = begun()
    clock.tick(60 * 60)
    state = state.advance(clock.read())
    clock.tick(5 * 60)
    clock.suspend(4 * 3600)
    state = state.advance(clock.read())
    assert state.elapsed == 3600 + 300 + 4 * 3600
    assert state.note == "suspended 4h00m"


def test_suspension_goes_unnamed_where_the_second_clock_is_unknown() -> None:
    state = ClockState.begin(Reading(0.0, 0, "b"))
    later = state.advance(Reading(100.0, 100_000, "b"))
    assert later.elapsed == 100.0
    assert later.note == ""


def test_a_small_difference_of_wall_time_is_nothing() -> None:
    clock, state = begun()
    clock.tick(100)
    clock.set_wall(1.9)
    state = state.advance(clock.read())
    assert state.elapsed == 100
    assert state.disagreement is None


def test_wall_clock_ahead_wins_and_is_recorded() -> None:
    clock, state = begun()
    clock.tick(100)
    clock.set_wall(50)
    state = state.advance(clock.read())
    assert state.elapsed == 150
    assert state.disagreement is not None
    assert state.disagreement.boot_seconds == 100
    assert state.disagreement.wall_seconds == 150
    assert "2m30s" in state.note and "1m40s" in state.note


def test_wall_clock_set_back_gains_nothing() -> None:
    clock, state = begun()
    clock.tick(100)
    clock.set_wall(-3600)
    state = state.advance(clock.read())
    assert state.elapsed == 100
    assert state.disagreement is not None
    clock.tick(10)
    assert elapsed(state, clock.read()) == 110


def test_wall_clock_forward_and_back_neither_returns_nor_stops_the_clock() -> None:
    clock, state = begun()
    clock.set_wall(3600)
    state = state.advance(clock.read())
    clock.set_wall(-3600)
    state = state.advance(clock.read())
    assert state.elapsed == 3600
    clock.tick(30)
    assert elapsed(state, clock.read()) == 3630


def test_after_a_reboot_wall_time_counts() -> None:
    clock, state = begun()
    clock.tick(100)
    state = state.advance(clock.read())
    clock.reboot(300)
    state = state.advance(clock.read())
    assert state.elapsed == 400
    assert state.disagreement is None
    clock.tick(20)
    clock.set_wall(-1000)
    state = state.advance(clock.read())
    assert state.elapsed == 420
    assert "rebooted 1 x" in state.note


def test_a_reboot_with_the_wall_clock_set_back_keeps_what_had_passed_and_is_recorded() -> None:
    clock, state = begun()
    clock.tick(100)
    state = state.advance(clock.read())
    clock.reboot(-500)
    clock.tick(30)
    state = state.advance(clock.read())
    assert state.elapsed == 130  # the machine has been up for 30 s, whatever the wall clock says
    assert state.disagreement is not None and state.disagreement.rebooted
    clock.tick(30)
    assert elapsed(state, clock.read()) == 160


def test_a_drifting_clock_is_recorded_in_steps_not_at_each_reading() -> None:
    clock, state = begun()
    findings = set()
    for _ in range(100):
        clock.tick(1)
        clock.set_wall(0.1)
        state = state.advance(clock.read())
        findings.add(state.disagreement)
    assert len(findings - {None}) < 6


moves = st.lists(
    st.tuples(
        st.sampled_from(["tick", "suspend", "set_wall", "reboot"]),
        st.floats(-5000, 5000, allow_nan=False),
    ),
    max_size=20,
)


@given(moves)
def test_elapsed_never_decreases_and_never_lags_behind_the_boot_clock(
    steps: list[tuple[str, float]],
) -> None:
    clock, state = begun()
    for name, amount in steps:
        size = abs(amount) if name in ("tick", "suspend") else amount
        getattr(clock, name)(size)
        after = state.advance(clock.read())
        passed = round(size, 3) if name in ("tick", "suspend") else 0.0
        assert after.elapsed >= round(state.elapsed + passed, 3) - 0.002
        state = after


def test_folding_every_row_or_only_the_last_agrees_while_the_clocks_agree() -> None:
    clock, start = begun()
    state = start
    for _ in range(50):
        clock.tick(0.333)
        state = state.advance(clock.read())
    assert state.elapsed == elapsed(start, clock.read())


def test_durations_read_well() -> None:
    assert duration_text(0) == "0.0s"
    assert duration_text(12.34) == "12.3s"
    assert duration_text(330) == "5m30s"
    assert duration_text(4 * 3600) == "4h00m"
    assert duration_text(-90) == "-1m30s"


def test_the_system_clock_moves_and_names_its_boot() -> None:
    first, second = SystemClock().read(), SystemClock().read()
    assert second.boot_ms >= first.boot_ms
    assert first.boot_id == second.boot_id == boot_id()
    assert len(first.boot_id) == 12
    assert first.mono_ms is not None and first.mono_ms <= first.boot_ms
