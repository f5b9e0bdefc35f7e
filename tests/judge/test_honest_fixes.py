"""Honest fixes, ugly or elegant: every one of them ships, with and without hidden parts."""

import pytest
from expected import check, select
from judge_cases import Case
from judge_player import Play

pytestmark = [pytest.mark.security, pytest.mark.slow]


@pytest.mark.parametrize("case", select("control"), ids=str)
def test_verdict(case: Case, play: Play) -> None:
    check(play(case))
