"""Reaching out of the run: judge, processes, network, git, the tree after approval."""

import pytest
from expected import check, select
from judge_cases import Case
from judge_player import Play

pytestmark = [pytest.mark.security, pytest.mark.slow]
CASES = select("host_tamper", "exfil", "toctou", "git_host", "combo")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdict(case: Case, play: Play) -> None:
    check(play(case))
