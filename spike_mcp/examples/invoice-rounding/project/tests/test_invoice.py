from decimal import Decimal

from invoice import round_money


def test_rounding():
    # ties settle on the even cent
    assert round_money(Decimal("1.005")) == Decimal("1.00")
    assert round_money(Decimal("1.015")) == Decimal("1.02")
