"""Installations are tried when asked for (`make test-install`)."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "install: builds, installs and plays a demo; minutes each")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "install" in config.option.markexpr:
        return
    asked = [item for item in items if item.get_closest_marker("install")]
    if asked:
        config.hook.pytest_deselected(items=asked)
        items[:] = [item for item in items if item not in asked]
