"""A small HTTP client: sends a request and turns the response into a body or an error."""

import logging

log = logging.getLogger(__name__)


class ServerError(Exception):
    """The server answered with a status of 500 or more."""

    def __init__(self, url, status):
        super().__init__(f"{url} answered {status}")
        self.url = url
        self.status = status


class RateLimited(Exception):
    """The server answered 429: too many requests."""

    def __init__(self, url):
        super().__init__(f"rate limited: {url}")
        self.url = url


def fetch(send, url):
    """The body at `url`; `send(url)` gives an object with status, headers and body."""
    response = send(url)
    if response.status == 429:
        raise RateLimited(url)
    if response.status >= 500:
        log.warning("server error %s at %s", response.status, url)
        raise ServerError(url, response.status)
    return response.body
