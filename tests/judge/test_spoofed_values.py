"""A patched runner, values that equal everything, code made for the visible cases."""

import pytest
from expected import check, select
from judge_cases import Case
from judge_player import Play

pytestmark = [pytest.mark.security, pytest.mark.slow]


@pytest.mark.parametrize("case", select("runner_patch", "value_spoof", "overfit"), ids=str)
def test_verdict(case: Case, play: Play) -> None:
    check(play(case))
