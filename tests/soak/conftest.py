"""The long soak is run when asked for (`make soak`)."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: two hours of spike time, minutes of ours")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "soak" in config.option.markexpr:
        return
    asked = [item for item in items if item.get_closest_marker("soak")]
    if asked:
        config.hook.pytest_deselected(items=asked)
        items[:] = [item for item in items if item not in asked]
