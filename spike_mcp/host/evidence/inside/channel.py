"""The way out for evidence: one inherited socket, a nonce, numbered lines. Runs inside.

The descriptor's number comes in the environment; the nonce is read from the socket itself, so it
stands in no argument list and no environment block. Then the socket moves to a high descriptor
that a daemon's clean-up loop does not hit and that children do not inherit. Code under test that
reads its caller's memory can still find it: in-process evidence is never proof by itself, and the
verdict does not rest on it alone.
"""

# mypy: ignore-errors
# (untyped: it must run on whatever Python the measured project has)

import json
import os
import sys

VARIABLE = "SPIKE_EVENTS"
ROOT = os.path.realpath(os.getcwd())  # of the tree under test; tests may go elsewhere later


class Channel:
    """Sends events; silent in a forked child, which would otherwise tell the story twice."""

    def __init__(self):
        import fcntl
        import random

        given = int(os.environ.pop(VARIABLE))
        self.fd = fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, random.randrange(300, 900))  # noqa: S311
        os.close(given)
        self.pid = os.getpid()
        self.count = 0
        self.nonce = self._line()

    def _line(self):
        data = b""
        while not data.endswith(b"\n"):
            byte = os.read(self.fd, 1)
            if not byte:
                raise SystemExit("no one listens on the evidence channel")
            data += byte
        return data[:-1].decode("ascii")

    def send(self, kind, **fields):
        """One event. Lost if the code under test closed the channel: the run is no pass then."""
        if os.getpid() != self.pid:
            return
        row = dict(fields, kind=kind, seq=self.count)
        self.count += 1
        data = (self.nonce + json.dumps(row) + "\n").encode("ascii")
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError:
            pass

    def send_many(self, kind, name, items, size=400):
        """A long list in pieces."""
        for start in range(0, len(items), size):
            self.send(kind, **{name: items[start : start + size]})


class Loaded:
    """Which files were read: modules, and by an audit hook what was opened below the root."""

    def __init__(self):
        self.root = ROOT
        self.opened = set()
        if hasattr(sys, "addaudithook"):  # Python 3.8
            sys.addaudithook(self._hook)

    def _hook(self, event, args):
        if event == "open" and isinstance(args[0], str) and len(self.opened) < 20000:
            try:  # noqa: SIM105  (a hot path)
                self.opened.add(os.path.join(os.getcwd(), args[0]))
            except OSError:
                pass  # the working directory is gone

    def report(self, channel):
        """Send modules as [name, file] and the existing files that were opened below the root."""
        modules = []
        for name, module in sorted(sys.modules.items(), key=lambda item: str(item[0])):
            spec = getattr(module, "__spec__", None)
            place = getattr(module, "__file__", None) or getattr(spec, "origin", None)
            if isinstance(place, str) and isinstance(name, str) and os.path.isabs(place):
                modules.append([str(name), os.path.realpath(place)])
        channel.send_many("modules", "modules", modules)
        opened = set()
        for path in list(self.opened):
            full = os.path.realpath(path)
            if full.startswith(self.root + os.sep) and os.path.isfile(full):
                opened.add(full[len(self.root) + 1 :])
        channel.send_many("opened", "opened", sorted(opened))


def failure(excinfo_type, tb):
    """Where an exception came from: type name, last frame, and the last frame below the root."""
    root = ROOT + os.sep
    last = None
    own = None
    while tb is not None:
        place = os.path.realpath(tb.tb_frame.f_code.co_filename)
        last = [place, tb.tb_lineno, tb.tb_frame.f_code.co_name]
        if place.startswith(root):
            own = [place[len(root) :], tb.tb_lineno, tb.tb_frame.f_code.co_name]
        tb = tb.tb_next
    direct = bool(last and own and last[0] == root + own[0] and last[1:] == own[1:])
    library = bool(last and last[0].replace(os.sep, "/").endswith("/unittest/case.py"))
    return {
        "exception": getattr(excinfo_type, "__name__", str(excinfo_type)),
        "path": own[0] if own else "",
        "line": own[1] if own else 0,
        "function": own[2] if own else "",
        "direct": direct or library,
    }


def first_path(value):
    """Replace sys.path[0], this program's directory, by what the real command has there."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path[0] = value
