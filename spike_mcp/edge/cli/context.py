"""What a verb works with: its options, the spike that is meant, the key that signs decisions."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from spike_mcp.core.codes import Problem, Refusal, Usage
from spike_mcp.edge.cli.out import Out
from spike_mcp.edge.find import locate

if TYPE_CHECKING:
    from pathlib import Path

    from spike_mcp.host.signing import Signer
    from spike_mcp.session.spike import Spike

_PASSPHRASE_BYTES = 4096


class Context:
    """One command line being carried out. `command` = what stood after `--`, if that is one."""

    def __init__(
        self,
        args: argparse.Namespace,
        out: Out,
        environ: Mapping[str, str],
        command: Sequence[str] | None,
    ) -> None:
        self.args = args
        self.out = out
        self.environ = environ
        self.command = command

    @property
    def cwd(self) -> str:
        """The current directory, "" where it was removed under our feet."""
        try:
            return os.getcwd()
        except OSError:
            return ""

    def root(self) -> Path:
        """The directory of the spike that is meant. `Problem(SPIKE_NOT_FOUND)` otherwise."""
        from pathlib import Path

        return Path(locate(self.args.spike, self.environ, self.cwd))

    def spike(self, *, settle: bool = True) -> Spike:
        """The spike, opened. Whoever looks first after the total writes the verdict (spec 5)."""
        root = self.root()
        from spike_mcp.session.spike import Spike

        found = Spike(root)
        if settle:
            self._settle(found)
        return found

    def _settle(self, spike: Spike) -> None:
        state = spike.state
        if spike.damage or not state.started or state.killed:
            return
        if state.verdict is not None:
            if not (spike.verdict_dir / "result.json").exists():
                from spike_mcp.session.judging import written

                written(spike)
            return
        from spike_mcp.core.clock import elapsed

        clock = state.clock
        spent = elapsed(clock, spike.clock.read()) if clock else 0.0
        try:
            total = spike.contract.budgets.total * 60
        except Problem:
            return  # whatever is asked for says so itself, but `verdict` and `kill` still end it
        if spent >= total:
            from spike_mcp.session.judging import at_deadline

            self.out.say("the time is spent: the state at the deadline is being scored")
            try:
                judged = at_deadline(spike)
            except Problem as problem:
                # Looking must still work; the next command that looks tries again.
                self.out.warn(f"the verdict could not be written yet: {problem.message}")
                return
            if judged is not None:
                from spike_mcp.edge.cli.elsewhere import write_reports

                write_reports(spike, self.out)

    # --- the passphrase -------------------------------------------------------------------------

    def signer(self, spike: Spike) -> Signer | None:
        """The unlocked approval key of a spike that has one, None otherwise.

        `Problem(NOT_AUTHORISED)` without a passphrase or with a wrong one.
        """
        if not spike.created.approval_key:
            return None
        try:
            return self._unlocked(spike)
        except Problem as problem:
            # Whoever tries passphrases leaves a trace.
            from spike_mcp.session.decisions import note_refused

            note_refused(spike, "passphrase", problem)
            raise

    def _unlocked(self, spike: Spike) -> Signer:
        from spike_mcp.core import layout
        from spike_mcp.host import signing

        try:
            blob = (spike.judge / layout.SECRET_KEY).read_bytes()
        except OSError as error:
            raise Problem(
                Refusal.NOT_AUTHORISED,
                f"the spike's approval key can't be read: {error.strerror}",
                "without it nothing can be decided; close the spike: spike kill",
            ) from error
        return signing.unlock(blob, self.passphrase("passphrase: "))

    def passphrase(self, prompt: str, *, repeat: bool = False) -> str:
        """From --passphrase-fd, else asked for on a terminal."""
        descriptor: int | None = getattr(self.args, "passphrase_fd", None)
        if descriptor is not None:
            return _read_passphrase(descriptor)
        if not _has_terminal():
            raise Problem(
                Refusal.NOT_AUTHORISED,
                "a passphrase is needed and there is no terminal to ask for it",
                "give it with --passphrase-fd N (0 = standard input)",
            )
        import getpass

        try:
            given = getpass.getpass(prompt)
            if repeat and getpass.getpass("once more: ") != given:
                raise Problem(Refusal.NOT_AUTHORISED, "the two passphrases differ", "try again")
        except EOFError:
            given = ""
        return given


def _has_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:
        return False


def _read_passphrase(descriptor: int) -> str:
    """The first line that can be read from a descriptor."""
    data = b""
    try:
        while b"\n" not in data and len(data) < _PASSPHRASE_BYTES:
            more = os.read(descriptor, 256)
            if not more:
                break
            data += more
        return data.partition(b"\n")[0].removesuffix(b"\r").decode("utf-8")
    except (OSError, OverflowError, UnicodeDecodeError) as error:
        raise Problem(
            Usage.USAGE,
            f"no passphrase can be read from descriptor {descriptor}: {error}",
            "open it for the command: --passphrase-fd 3 3<FILE",
        ) from error
