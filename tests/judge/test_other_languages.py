"""Attacks and honest fixes for make, npm, shell, go and cargo; they need the toolchains."""

import pytest
from expected import check, select
from judge_cases import Case
from judge_player import Play

pytestmark = [pytest.mark.security, pytest.mark.slow]


def marked(case: Case) -> object:
    """Cases for compilers carry a mark of their own."""
    marks = [pytest.mark.toolchain] if case.tool in ("go", "cargo") else []
    return pytest.param(case, marks=marks, id=case.id)


@pytest.mark.parametrize("case", [marked(case) for case in select(python=False)])
def test_verdict(case: Case, play: Play) -> None:
    check(play(case))
