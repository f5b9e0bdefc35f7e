"""Keeps the head and the tail of an endless stream in flat memory."""

from collections.abc import Callable


class Capture:
    """The first `head` and the last `tail` bytes of what was fed, and how many were dropped."""

    def __init__(self, head: int, tail: int) -> None:
        self._limit = head
        self._keep = tail
        self._head = bytearray()
        self._tail = b""
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        """Take one chunk of any size."""
        self.total += len(chunk)
        room = self._limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail = (self._tail + chunk[-self._keep :])[-self._keep :] if self._keep else b""

    @property
    def head(self) -> bytes:
        """The first bytes."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The last bytes after the head; empty while everything fits into the head."""
        return self._tail

    @property
    def dropped(self) -> int:
        """Bytes between head and tail that were thrown away; exact."""
        return self.total - len(self._head) - len(self._tail)

    def last_line(self) -> str:
        """The last line that is not blank, decoded with replacement characters."""
        text = (self._tail or bytes(self._head[-4096:])).decode("utf-8", "replace")
        lines = [line for line in text[-4096:].replace("\r", "\n").split("\n") if line.strip()]
        return lines[-1][:500] if lines else ""


class Lines:
    """Cuts a stream into lines and hands each to `take`; a line over `longest` comes in pieces."""

    def __init__(self, take: Callable[[bytes], None], longest: int = 1 << 20) -> None:
        self._take = take
        self._longest = longest
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Take one chunk; complete lines are handed on without their newline."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(line)
        if len(rest) > self._longest:
            self._take(rest)
            rest = b""
        self._rest = rest

    def end(self) -> None:
        """The stream is over: hand on what has no newline."""
        if self._rest:
            self._take(self._rest)
            self._rest = b""
