"""Names, contents and patches that are not what they look like."""

import pytest
from expected import check, select
from judge_cases import Case
from judge_player import Play

pytestmark = [pytest.mark.security, pytest.mark.slow]


@pytest.mark.parametrize("case", select("config", "shadow", "path", "patch", "deceive"), ids=str)
def test_verdict(case: Case, play: Play) -> None:
    check(play(case))
