from types import SimpleNamespace

import pytest

from src.http_client import ServerError, fetch


def answer(status, headers=None, body=""):
    return lambda url: SimpleNamespace(status=status, headers=headers or {}, body=body)


def test_a_body_comes_back():
    assert fetch(answer(200, body="hello"), "http://a.test/") == "hello"


def test_a_server_error_names_its_status():
    with pytest.raises(ServerError) as caught:
        fetch(answer(503), "http://a.test/")
    assert caught.value.status == 503
