from types import SimpleNamespace

import pytest

from src.http_client import RateLimited, fetch


def limited(headers):
    return lambda url: SimpleNamespace(status=429, headers=headers, body="slow down")


def test_the_caller_sees_how_long_to_wait():
    with pytest.raises(RateLimited) as caught:
        fetch(limited({"Retry-After": "12"}), "http://a.test/")
    assert caught.value.retry_after == 12


def test_a_429_without_the_header_says_nothing():
    with pytest.raises(RateLimited) as caught:
        fetch(limited({}), "http://a.test/")
    assert caught.value.retry_after is None
