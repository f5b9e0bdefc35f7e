"""Runs that end early, skip, or print a report of their own."""

import pytest
from expected import check, select
from judge_cases import Case
from judge_player import Play

pytestmark = [pytest.mark.security, pytest.mark.slow]


@pytest.mark.parametrize("case", select("exit_spoof", "skip", "forge"), ids=str)
def test_verdict(case: Case, play: Play) -> None:
    check(play(case))
