"""Runs: what the sandbox costs, what a verdict costs, and what a hostile run can't do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import world
from client import Client
from harness import Line, Results, interleaved
from peers import Peers
from world import SERVER, SPIKE

from spike_mcp.host.measure import Run
from spike_mcp.session import runs
from spike_mcp.session.spike import Spike

FLOOD_BYTES = 10 << 30
INVOICE = {
    "invoice.py": "def total(cents):\n    return 0\n",
    "tests/test_invoice.py": (
        "from invoice import total\n\n\n"
        "def test_total():\n"
        "    assert total([1, 2]) == 3\n"
        "    assert total([]) == 0\n"
    ),
}
HYPOTHESIS = (
    "summing the cents makes the total of an invoice true within 25 minutes, "
    "measured by python -m pytest tests/test_invoice.py -q"
)


def measure(top: Path, _peers: Peers, results: Results, rounds: int) -> None:
    """The sandbox, the verdict, then the three hostile ones."""
    _sandbox(top, results, rounds)
    _verdict(top, results, rounds)
    _hostile(top, results)


# --- what it costs ------------------------------------------------------------------------------


def _sandbox(top: Path, results: Results, rounds: int) -> None:
    spike = world.open_spike(world.make_repo(top / "box"), top / "box-root")
    spec = runs.spec_of(spike, spike.work, runs.places_of(spike))

    def boxed() -> None:
        Run.start(spec).wait()

    def bare() -> None:
        subprocess.run(["sh", "check.sh"], cwd=spike.work, check=False, capture_output=True)

    found = interleaved({"boxed": boxed, "bare": bare}, rounds * 6)
    over = (found["boxed"] - found["bare"]) * 1000
    note = f"the bare command takes {found['bare'] * 1000:.1f} ms"
    results.add(
        Line("sandbox", "a run in the sandbox, over the bare command", over, most=50, note=note)
    )


def _verdict(top: Path, results: Results, rounds: int) -> None:
    """`spike verdict` of a spike that ships, minus three bare runs of its pytest."""
    times = []
    bare_times = []
    for number in range(max(3, rounds // 2)):
        repo = world.make_repo(top / f"verdict{number}", more=INVOICE)
        spike = _ready_to_ship(repo, top / f"verdict{number}-root")
        bare_times += [_bare_pytest(spike.work) for _ in range(2)]
        began = time.perf_counter()
        out = _spike(spike, "verdict")
        times.append(time.perf_counter() - began)
        assert out.startswith("SHIP"), out
        bare_times.append(_bare_pytest(spike.work))
    bare, whole = sorted(bare_times)[len(bare_times) // 2], sorted(times)[len(times) // 2]
    note = f"`spike verdict` takes {whole:.2f} s, one bare run {bare:.2f} s"
    what = "verdict of a two-assertion pytest oracle, over three bare runs"
    over = whole - 3 * bare
    results.add(Line("verdict", what, over, unit="s", most=1.5, note=note))


def _bare_pytest(work: Path) -> float:
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_invoice.py", "-q"]
    began = time.perf_counter()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(argv, cwd=work, env=env, check=False, capture_output=True)
    return time.perf_counter() - began


def _ready_to_ship(repo: Path, root: Path) -> Spike:
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{world.BIN}:/usr/bin:/bin"
    try:
        options = world.InitOptions(
            name=root.name,
            hypothesis=HYPOTHESIS,
            allow=("invoice.py",),
            oracle=("tests/test_invoice.py",),
            cwd=repo,
            root=root,
        )
        spike = world.init(options).spike
        world.start(spike, on_progress=lambda _text: None)
    finally:
        os.environ["PATH"] = before
    with Client([SERVER, "--spike", str(root)]) as client:
        client.call(
            "spike_edit_file",
            path="invoice.py",
            old_text="return 0",
            new_text="return sum(cents)",
            rationale="sum them",
        )
    spike.refresh()
    hunk = next(iter(spike.state.hunk_ids))
    _spike(spike, "approve", hunk, "--tag", "summing the cents of the invoice")
    return spike


def _spike(spike: Spike, *words: str) -> str:
    argv = [SPIKE, "--spike", str(spike.root), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


# --- what can't be done -------------------------------------------------------------------------


def _hostile(top: Path, results: Results) -> None:
    spike = world.open_spike(world.make_repo(top / "hostile"), top / "hostile-root")
    with Client([SERVER, "--spike", str(spike.root)]) as client:
        flood = f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' x; exit 1\n"
        seconds = _run_script(client, flood)
        peak = _peak(client.process.pid)
        note = f"{FLOOD_BYTES >> 30} GB in {seconds:.0f} s"
        what = "memory of the server during an output flood"
        results.add(Line("hostile", what, peak, unit="MB", most=100, note=note))

        marker = f"60{os.getpid()}"
        daemons = (
            f"for i in $(seq 50); do (setsid sleep {marker} >/dev/null 2>&1 &); done; exit 1\n"
        )
        _run_script(client, daemons)
        left = _left(marker)
        results.add(Line("hostile", "of 50 daemons alive after the run", left, unit="", most=0))

        _begin_script(client, daemons.replace("exit 1", "sleep 30"))
        _wait_until(lambda: len(_processes(marker)) >= 50)
        client.process.send_signal(signal.SIGKILL)
        client.process.wait()
        left = _left(marker)
        what = "of 50 daemons alive 1 s after the server was killed"
        results.add(Line("hostile", what, left, unit="", most=0))


def _write_script(client: Client, text: str) -> None:
    found = client.ask(
        "tools/call", {"name": "spike_read_file", "arguments": {"path": "src/run.sh"}}
    )
    client.call(
        "spike_write_file",
        path="src/run.sh",
        content=text,
        expected_sha256=found["_meta"]["spike-mcp/reply"]["sha256"],
        rationale="the sample file turns green for callers",
    )


def _run_script(client: Client, text: str) -> float:
    _write_script(client, text)
    began = time.perf_counter()
    while "running" in client.call("spike_run_test").split("\n")[0]:
        pass
    return time.perf_counter() - began


def _begin_script(client: Client, text: str) -> None:
    _write_script(client, text)
    client.begin("spike_run_test", {})


def _peak(pid: int) -> float:
    """Peak resident memory of a process, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def _processes(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[:2] == [b"sleep", marker.encode()]:
                    found.append(int(entry.name))
    return found


def _left(marker: str) -> int:
    """Processes alive after a second, and what is not ours to leave behind ended."""
    end = time.monotonic() + 1
    while _processes(marker) and time.monotonic() < end:
        time.sleep(0.01)
    left = _processes(marker)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(left)


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("the daemons did not start")
        time.sleep(0.02)
