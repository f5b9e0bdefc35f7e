"""`python -m pytest ...` with a recorder registered; everything else is the project's own. Inside.

argv: `module` or the path of the console script, then pytest's own arguments.
"""

# mypy: ignore-errors
# (untyped: it must run on whatever Python the measured project has)

import os
import sys


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
    flavour = sys.argv[1]
    script = "" if flavour == "module" else os.path.dirname(os.path.realpath(flavour))
    helpers["first_path"](script or os.getcwd())
    loaded = helpers["Loaded"]()
    import pytest

    origin = os.path.join(os.path.dirname(os.path.realpath(pytest.__file__)), "__main__.py")
    sys.argv[:2] = [origin if flavour == "module" else flavour]
    for name, marks in _MARKS.items():
        pytest.hookimpl(**marks)(getattr(Recorder, name))
    recorder = Recorder(channel, loaded, helpers["failure"], pytest.__version__)
    code = pytest.main(plugins=[recorder])
    sys.stdout.flush()
    return code


# Applied once pytest could be imported, which must not happen before sys.path is right.
_MARKS = {
    "pytest_cmdline_main": {"hookwrapper": True},
    "pytest_sessionstart": {"tryfirst": True},
    "pytest_collection_finish": {"trylast": True},
    "pytest_runtest_makereport": {"hookwrapper": True},
    "pytest_runtest_logreport": {"tryfirst": True},
    "pytest_sessionfinish": {"trylast": True},
}


class Recorder:
    """Reports what pytest itself decided; changes nothing but where xdist would run tests."""

    def __init__(self, channel, loaded, failure, version):
        self._channel = channel
        self._loaded = loaded
        self._failure = failure
        self._version = version

    def pytest_cmdline_main(self, config):
        if getattr(config.option, "numprocesses", None):
            # Workers are processes of their own, whose modules this one can't see.
            config.option.numprocesses = 0
            self._channel.send("note", text="xdist switched off for the run")
        yield

    def pytest_sessionstart(self, session):  # noqa: ARG002
        self._channel.send("start", version=self._version, python=list(sys.version_info[:3]))

    def pytest_collectreport(self, report):
        if report.failed:
            lines = str(report.longrepr).strip().splitlines()
            self._channel.send("collect_error", id=report.nodeid, text=(lines or [""])[-1][:500])

    def pytest_deselected(self, items):
        self._channel.send_many("deselected", "ids", [item.nodeid for item in items])

    def pytest_collection_finish(self, session):
        self._channel.send_many("collected", "ids", [item.nodeid for item in session.items])

    def pytest_runtest_makereport(self, item, call):  # noqa: ARG002
        outcome = yield
        info = call.excinfo
        if info is not None and outcome.excinfo is None:
            outcome.get_result()._spike_failure = self._failure(info.type, info.tb)

    def pytest_runtest_logreport(self, report):
        fields = {"id": report.nodeid, "when": report.when, "outcome": report.outcome}
        if hasattr(report, "wasxfail"):
            fields["xfail"] = True
        if report.failed:
            fields["failure"] = getattr(report, "_spike_failure", None)
        self._channel.send("report", **fields)

    def pytest_sessionfinish(self, session, exitstatus):
        self._loaded.report(self._channel)
        self._channel.send(
            "finish",
            status=int(exitstatus),
            collected=int(session.testscollected),
            failed=int(session.testsfailed),
        )


if __name__ == "__main__":
    sys.exit(main())
