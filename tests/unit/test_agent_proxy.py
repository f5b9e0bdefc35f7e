"""What the proxy takes for a request, a target, a list."""

import pytest

from spike_mcp.host.agent.proxy import Request, name_of, parse_head, parse_list, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("api.example.com:443", ("api.example.com", 443)),
        ("API.Example.COM.:443", ("api.example.com", 443)),
        ("127.0.0.1:11434", ("127.0.0.1", 11434)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_targets(text, target):
    assert parse_target(text) == target
    assert parse_target(name_of(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "host", "host:", ":80", "host:0", "host:65536", "host:8o", "host:-1", "a b:1"),
        *("user@host:80", "host:80:90", "::1:80", "[::1]", "[::1", "host/:80", "ho\nst:80"),
        *(
            "-host:80",
            "host-:80",
            "host:²",
            "host:١",
            "*.example.com:443",
            "xn--ü:1",
            "host:000080",
        ),
    ],
)
def test_no_targets(text):
    assert parse_target(text) is None
    with pytest.raises(ValueError, match="host:port"):
        parse_list(["a:1", text])


def test_a_tunnel():
    head = b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n"
    assert parse_head(head) == Request(("api.example.com", 443), b"")


def test_an_absolute_request_is_rewritten_for_its_own_host():
    head = (
        b"POST http://LocalHost:8080/v1/x?y=http://z/ HTTP/1.1\r\nHost: evil.example\r\n"
        b"Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\nX-Key: a:b\r\n"
        b"Content-Length: 3\r\n\r\n"
    )
    assert parse_head(head) == Request(
        ("localhost", 8080),
        b"POST /v1/x?y=http://z/ HTTP/1.1\r\nHost: LocalHost:8080\r\nX-Key: a:b\r\n"
        b"Content-Length: 3\r\nConnection: close\r\n\r\n",
    )
    bare = parse_head(b"GET http://h HTTP/1.0\r\n\r\n")
    assert bare == Request(("h", 80), b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")


@pytest.mark.security
@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET https://h/ HTTP/1.1\r\n\r\n",
        b"GET ftp://h/ HTTP/1.1\r\n\r\n",
        b"GET http://user@h/ HTTP/1.1\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\n\r\n",
        b"CONNECT h HTTP/1.1\r\n\r\n",
        b"CONNECT http://h:1 HTTP/1.1\r\n\r\n",
        b"CONNECT h:1 HTTP/2\r\n\r\n",
        b"connect h:1 HTTP/1.1\r\n\r\n",
        b"CONNECT h:1  HTTP/1.1\r\n\r\n",
        b"CONNECT h:1 HTTP/1.1\r\n folded\r\n\r\n",
        b"GET http://h/ HTTP/1.1\r\nA: b\nHost: evil\r\n\r\n",
        b"GET http://h/ HTTP/1.1\r\nA : b\r\n\r\n",
        b"GET http://h/ HTTP/1.1\r\nA: \0\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_what_is_no_request_for_a_proxy(head):
    assert parse_head(head) is None
