"""The marker of tests that drive a public suite from a registry."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "protocol: drives a public MCP suite from a registry")
