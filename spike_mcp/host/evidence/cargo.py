"""Adapter for `cargo test`: the lines that the test harness prints on standard output."""

import re
from collections.abc import Sequence

from spike_mcp.host.evidence.model import Evidence, Launch, Reader
from spike_mcp.host.evidence.stream import MAX_IDS, short_id
from spike_mcp.host.sandbox.model import Places

_DETAIL = (
    "the stable test harness has no machine-readable report: its printed lines are read, and a"
    " library that runs code before `main` can print the same; which files were read is not known"
)
_RUNNING = re.compile(r"running (\d+) tests?$")
_TEST = re.compile(r"test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:$|[ ,<])")
_RESULT = re.compile(
    r"test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured"
)
# A documentation test is named by its line, which moves with every edit above it.
_DOC_LINE = re.compile(r"^(\S+\.rs - .*?) ?\(line \d+\)")
_LISTED = re.compile(r"(.+): test$")
_WORDS = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


class CargoReader:
    """Sections of `running N tests ... test result:`; one for each test program."""

    modules: Sequence[tuple[str, str]] = ()
    opened: Sequence[str] = ()

    def __init__(self, dry: bool) -> None:
        self._dry = dry
        self._outcomes: dict[str, str] = {}
        self._listed: list[str] = []
        self._expected: int | None = None  # tests announced by the open section
        self._section: list[str] = []
        self._numbers: dict[str, int] = {}
        self._sections = 0
        self._failed = 0
        self._flaws: dict[str, None] = {}

    def event(self, line: bytes) -> None:
        """There is no channel."""

    def text(self, line: bytes) -> bytes:
        """One line of the harness or of a test; shown as it is."""
        text = line.decode("utf-8", "replace").rstrip("\r")
        if self._dry:
            if (listed := _LISTED.match(text)) and len(self._listed) < MAX_IDS:
                self._listed.append(short_id(listed[1]))
        elif running := _RUNNING.match(text):
            self._begin(int(running[1]))
        elif result := _RESULT.match(text):
            self._end([int(number) for number in result.groups()])
        elif test := _TEST.match(text):
            self._one(test[1], _WORDS[test[2]])
        return line

    def _begin(self, count: int) -> None:
        if self._expected is not None:
            self._flaw("a test program began before the last one ended")
        self._expected = count
        self._section = []
        self._sections += 1

    def _one(self, name: str, outcome: str) -> None:
        name = short_id(_DOC_LINE.sub(r"\1", name))
        if self._expected is None:
            self._flaw(f"{name} was reported outside a test program")
        # The same name stands in another test program, or on another line.
        number = self._numbers.get(name, 0) + 1
        key = name if number == 1 else f"{name}#{number}"
        if len(self._outcomes) < MAX_IDS:
            self._numbers[name] = number
            self._outcomes[key] = outcome
            self._section.append(outcome)

    def _end(self, counts: list[int]) -> None:
        passed, failed, ignored, measured = counts
        told = [self._section.count(word) for word in ("passed", "failed", "skipped")]
        if self._expected is None or sum(counts) != self._expected:
            self._flaw("a test program's counts do not add up")
        elif told[1:] != [failed, ignored] or told[0] != passed or measured:
            self._flaw("a test program's summary differs from its tests")
        self._failed += failed
        self._expected = None
        self._section = []  # so that a summary said over and over costs nothing

    def _flaw(self, text: str) -> None:
        if len(self._flaws) < 20:
            self._flaws[text] = None

    def evidence(self) -> Evidence:
        """`finished`: every test program that began gave its summary."""
        if self._dry:
            done = bool(self._listed)
            return Evidence("cargo", collected=tuple(self._listed), finished=done, detail=_DETAIL)
        finished = self._sections > 0 and self._expected is None
        return Evidence(
            kind="cargo",
            collected=tuple(self._outcomes),
            outcomes=dict(self._outcomes),
            failed_in_call=tuple(
                key for key, outcome in self._outcomes.items() if outcome == "failed"
            ),
            finished=finished,
            status=(101 if self._failed else 0) if finished else None,
            flaws=tuple(self._flaws),
            detail=_DETAIL,
        )


class CargoAdapter:
    """`cargo test ...`; the harness is asked for one line a test even under `-q`."""

    def launch(self, places: Places, inside: str, dry: bool) -> Launch:
        """Adds harness arguments behind `--`."""
        del inside
        argv = places.argv
        at = argv.index("--") if "--" in argv else len(argv)
        more = ("--list",) if dry else ("--format=pretty", "--color=never")
        have = [word for word in argv[at + 1 :] if not word.startswith(("--format", "--color"))]
        return Launch((*argv[:at], "--", *more, *have), text=True)

    def reader(self, dry: bool) -> Reader:
        """Reads the harness's lines."""
        return CargoReader(dry)
