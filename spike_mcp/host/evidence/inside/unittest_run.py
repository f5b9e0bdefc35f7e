"""`python -m unittest ...` with a recording result class. Inside.

argv: `run` or `list` (load the tests, run none), then unittest's own arguments.
"""

# mypy: ignore-errors
# (untyped: it must run on whatever Python the measured project has)

import os
import sys
import unittest


def _helpers():
    """Load the neighbour without leaving a module, a path entry or bytecode behind."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "channel.py")
    names = {"__name__": "spike_channel", "__file__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)  # noqa: S102
    return names


def main():
    helpers = _helpers()
    channel = helpers["Channel"]()
    helpers["first_path"](os.getcwd())
    loaded = helpers["Loaded"]()
    Recording.channel, Recording.failure = channel, staticmethod(helpers["failure"])
    Runner.channel, Runner.only_list = channel, sys.argv[1] == "list"
    channel.send("start", version="", python=list(sys.version_info[:3]))
    program = unittest.main(
        module=None, argv=["python -m unittest", *sys.argv[2:]], testRunner=Runner, exit=False
    )
    result = program.result
    good = bool(result.wasSuccessful())
    loaded.report(channel)
    channel.send("finish", status=0 if good else 1, collected=result.testsRun, failed=-1)
    sys.stdout.flush()
    if good and result.testsRun == 0 and sys.version_info >= (3, 12) and not result.skipped:
        return 5  # what unittest itself answers since 3.12
    return 0 if good else 1


def _flatten(test):
    try:
        parts = list(test)
    except TypeError:
        return [test]
    return [leaf for part in parts for leaf in _flatten(part)]


def _in_method(test, tb):
    """Did the test method itself run? (An exception of setUp has no frame of it.)"""
    method = getattr(type(test), getattr(test, "_testMethodName", ""), None)
    code = getattr(method, "__code__", None)
    while tb is not None and code is not None:
        if tb.tb_frame.f_code is code:
            return True
        tb = tb.tb_next
    return False


class Recording(unittest.TextTestResult):
    """unittest's own result; every decision is also sent."""

    channel = None
    failure = None

    def _send(self, test, outcome, err=None, **more):
        fields = dict(more, id=test.id(), when="call", outcome=outcome)
        if err is not None:
            if outcome == "failed" and not _in_method(test, err[2]):
                fields["when"] = "setup"
            fields["failure"] = self.failure(err[0], err[2])
        self.channel.send("report", **fields)

    def addSuccess(self, test):  # noqa: N802
        super().addSuccess(test)
        self._send(test, "passed")

    def addFailure(self, test, err):  # noqa: N802
        super().addFailure(test, err)
        self._send(test, "failed", err)

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        if type(test).__name__ == "_FailedTest":
            self.channel.send("collect_error", id=test.id(), text=str(err[1]).strip()[-500:])
        else:
            self._send(test, "failed", err)

    def addSkip(self, test, reason):  # noqa: N802
        super().addSkip(test, reason)
        self._send(test, "skipped")

    def addExpectedFailure(self, test, err):  # noqa: N802
        super().addExpectedFailure(test, err)
        self._send(test, "skipped", xfail=True)

    def addUnexpectedSuccess(self, test):  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._send(test, "passed", xfail=True)

    def addSubTest(self, test, subtest, err):  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._send(test, "failed", err)


class Runner(unittest.TextTestRunner):
    """unittest's own runner; names the tests first."""

    resultclass = Recording
    channel = None
    only_list = False

    def run(self, test):
        leaves = _flatten(test)
        real = [leaf for leaf in leaves if type(leaf).__name__ != "_FailedTest"]
        self.channel.send_many("collected", "ids", [leaf.id() for leaf in real])
        if self.only_list:
            test = unittest.TestSuite(leaf for leaf in leaves if leaf not in real)
        return super().run(test)


if __name__ == "__main__":
    sys.exit(main())
