from decimal import Decimal


def round_money(value: Decimal) -> Decimal:
    raise NotImplementedError("spike target")
