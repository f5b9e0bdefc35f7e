"""The one place where `spike` writes: data on stdout, messages on stderr, nothing unsafe on either.

Every text passes `edge.text.safe` here, after which a line holds no control character but tab, so
no string of agent origin can start a line of its own, move the cursor or hide itself. Colour is put
around texts afterwards and always says what words or signs say too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from spike_mcp.edge.cli.layout import one_line, terminal_width, wrap

SCHEMA_VERSION = 1
"""Version of every `--json` object; keys are added, never renamed (spec 13)."""

Part = str | tuple[str, str]
"""A text, or a text with a style of `STYLES`."""

Line = str | list[Part]

STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "alarm": "1;31",
    "reverse": "7",
    "red+": "1;4;31",
    "green+": "1;4;32",
}


class Unwritable(Exception):  # noqa: N818  (what the output is)
    """The output can't be written: a full disk, a device that fails. The text says why."""


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error.strerror or str(error)) from error


class Answer:
    """What a command has to say: `data` for `--json`, `lines` for people, and the exit code.

    `lines` is only run through when a person reads, so it may be a generator. `after` are messages
    (what comes next), said on stderr once the lines are out.
    """

    __slots__ = ("after", "code", "data", "lines")

    def __init__(
        self,
        data: Mapping[str, Any],
        lines: Iterable[Line] = (),
        code: int = 0,
        after: Sequence[Line] = (),
    ) -> None:
        self.data = data
        self.lines = lines
        self.code = code
        self.after = after


class Out:
    """Where a command's words go. `as_json`: one object on stdout and no line for people."""

    def __init__(
        self,
        stdout: TextIO | None,
        stderr: TextIO | None,
        environ: Mapping[str, str],
        *,
        as_json: bool = False,
        color: str = "auto",
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.as_json = as_json
        self.width = terminal_width(stdout, environ)
        # Not by $COLUMNS: whoever reads messages from a pipe looks for whole sentences.
        self.message_width = terminal_width(stderr, {})
        self.color = _colored(stdout, environ, color)
        self.color_messages = _colored(stderr, environ, color)
        self._progress = ""
        for stream in (stdout, stderr):
            _never_fail_on_encoding(stream)

    def answer(self, answer: Answer) -> int:
        """Write what a command answered; returns its exit code."""
        if self.as_json:
            self._write(self.stdout, dump(answer.data) + "\n")
        else:
            self.lines(answer.lines)
            self.flush()
            for line in answer.after:
                self.say(line)
        return answer.code

    def lines(self, lines: Iterable[Line]) -> None:
        """Data for people; nothing with `--json`, whose object stands alone."""
        if self.as_json:
            return
        for line in lines:
            self._write(self.stdout, self.styled(line, self.color) + "\n")

    def say(self, line: Line) -> None:
        """A message on stderr: progress, a warning, what comes next."""
        self._write(self.stderr, self.styled(line, self.color_messages) + "\n")
        if self.stderr is not None:
            with _written():
                self.stderr.flush()

    def warn(self, text: str) -> None:
        """`warning: ...` on stderr."""
        self._labelled(("warning: ", "yellow"), text)

    def progress(self, text: str) -> None:
        """A word on what is going on, for whoever waits; the same word is said once."""
        if text.strip() and text != self._progress:
            self.say([(text, "dim")])
        self._progress = text

    def failure(self, code: str, message: str, hint: str) -> None:
        """`error CODE: message` and `hint: ...` on stderr; with `--json` the error object."""
        if self.as_json:
            error = {"code": code, "message": message, "hint": hint}
            self._write(self.stdout, dump({"error": error}) + "\n")
            return
        self._labelled((f"error {code}: ", "alarm"), message)
        if hint:
            self._labelled(("hint: ", "bold"), hint)

    def _labelled(self, label: tuple[str, str], text: str) -> None:
        """A message; further lines of it (a file's lines, an output's tail) stand indented.

        On a terminal the sentence is broken at blanks, beside its label.
        """
        sentence, *rest = text.split("\n")
        beside = " " * len(label[0])
        room = max(self.message_width - len(beside), 20) if self.message_width else 0
        first, *more = wrap(one_line(sentence), room)
        self.say([label, first])
        for line in more:
            self.say(f"{beside}{line}")
        for line in rest:
            self.say(f"  {line}")

    def flush(self) -> None:
        """Make sure that all of it went out."""
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                with _written():
                    stream.flush()

    def styled(self, line: Line, color: bool) -> str:
        """A line as text, made safe, with colour if `color`."""
        parts = [line] if isinstance(line, str) else line
        return "".join(_part(part, color) for part in parts)

    @staticmethod
    def _write(stream: TextIO | None, text: str) -> None:
        # A closed descriptor (`>&-`) gives Python no stream at all.
        if stream is not None:
            with _written():
                stream.write(text)


def dump(data: Mapping[str, Any]) -> str:
    """One JSON object on one line, ASCII: what hides is escaped, so a terminal can show it."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **data}, allow_nan=False)


def _part(part: Part, color: bool) -> str:
    text, style = (part, "") if isinstance(part, str) else part
    shown = one_line(text)
    return f"\x1b[{STYLES[style]}m{shown}\x1b[0m" if color and style and shown else shown


def _colored(stream: TextIO | None, environ: Mapping[str, str], choice: str) -> bool:
    if choice != "auto" or stream is None:
        return choice == "always" and stream is not None
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except ValueError:
        return False


def _never_fail_on_encoding(stream: TextIO | None) -> None:
    """A terminal that can't show a character gets its escape, not a traceback."""
    change = getattr(stream, "reconfigure", None)
    if change is not None:
        change(errors="backslashreplace")


def process_streams() -> tuple[TextIO | None, TextIO | None]:
    """stdout and stderr as they are now (tests exchange them)."""
    return sys.stdout, sys.stderr
