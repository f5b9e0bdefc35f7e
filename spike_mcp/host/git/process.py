"""Running git: cleared environment, neutral configuration, bytes in and out, a time limit.

The user's global and system configuration is not read, so that the same repository gives the same
bytes for everybody. The repository's own configuration is read (it says how objects are stored) and
could name programs: each option below switches one of these ways off. What no option can switch off
are the filters named by attributes; see `worktrees`.
"""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

from spike_mcp.core.codes import Problem, Usage

SECONDS: Final = 120.0
CHECKOUT_SECONDS: Final = 1800.0

OPTIONS: Final = (
    "core.hooksPath=/dev/null",  # hooks run programs
    "core.fsmonitor=false",  # so does every `git status` with an fsmonitor hook
    "core.untrackedCache=false",  # would trust directory times
    "core.pager=cat",
    "core.attributesFile=/dev/null",  # attributes of the user, not of the repository
    "gc.auto=0",  # no background process in the user's repository
    "maintenance.auto=false",
    "protocol.allow=never",  # a missing object must not start ssh
    "submodule.recurse=false",  # submodules are left alone
    "commit.gpgSign=false",  # gpg is a program
    "i18n.commitEncoding=UTF-8",
    "diff.orderFile=/dev/null",
    "advice.graftFileDeprecated=false",  # said at every call because of GIT_GRAFT_FILE
)

_ENVIRONMENT: Final = {
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LC_ALL": "C",  # messages are matched below
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # the only thing that stops `git replace` from lying
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",  # reading must never make the user's own git fail
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",  # a path is a path, also if it holds a star
}


@dataclass(frozen=True, slots=True)
class Result:
    """What a git process answered; `err` is for people."""

    verb: str
    code: int
    out: bytes
    err: bytes

    def output(self) -> bytes:
        """stdout of a command that did its work; `Problem(GIT_FAILED)` otherwise."""
        if self.code == 0:
            return self.out
        message = f"git {self.verb} failed: {self.reason}"
        raise Problem(Usage.GIT_FAILED, message, "run the same git command by hand to see why")

    @property
    def reason(self) -> str:
        """The last complaint on stderr, without its prefix."""
        lines = self.err.decode("utf-8", "replace").strip().splitlines()
        fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
        line = (fatal or lines or [f"exit status {self.code}"])[-1]
        return line.removeprefix("fatal: ").removeprefix("error: ")


def run(
    verb: str,
    *arguments: str | bytes,
    git_dir: str = "",
    work_tree: str = "",
    cwd: str = "/",
    stdin: bytes | None = None,
    environment: Mapping[str, str | None] | None = None,
    options: Sequence[str] = (),
    seconds: float = SECONDS,
    on_stderr: Callable[[bytes], None] | None = None,
) -> Result:
    """Run `git VERB ARGUMENTS`; raises only for a time-out or a git that can't be started.

    `environment` changes the cleared one (None removes a name), `options` are further `-c`
    settings, `on_stderr` gets stderr as it comes (then stdout must stay empty). On any way out the
    process and its children are dead.
    """
    argv: list[str | bytes] = [program()]
    argv += [f"--git-dir={git_dir}"] if git_dir else []
    argv += [f"--work-tree={work_tree}"] if work_tree else []
    for option in (*OPTIONS, *options):
        argv += ["-c", option]
    process = _start([*argv, verb, *arguments], stdin is not None, cwd, environment or {})
    with process:
        try:
            if on_stderr is not None:
                return _follow(verb, process, on_stderr, seconds)
            out, err = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise Problem(
                Usage.GIT_FAILED,
                f"git {verb} did not finish within {seconds:.0f} seconds",
                "look for a program that git waits for (a filter), or a disk that hangs",
            ) from error
        finally:
            _kill(process)
    return Result(verb, process.returncode, out, err)


def _start(
    argv: Sequence[str | bytes], piped: bool, cwd: str, environment: Mapping[str, str | None]
) -> subprocess.Popen[bytes]:
    changed = {**_ENVIRONMENT, "PATH": search_path(), **environment}
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={name: value for name, value in changed.items() if value is not None},
            start_new_session=True,  # so that _kill reaches the helpers too
        )
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise Problem(Usage.GIT_FAILED, f"git can't be started: {reason}") from error


@cache
def program() -> str:
    """The git to use: the first on PATH, whose relative entries do not count."""
    found = shutil.which("git", path=search_path())
    if found is None:
        raise Problem(Usage.GIT_FAILED, "git is not installed", "install git 2.32 or newer")
    return found


def search_path() -> str:
    """PATH without relative entries: the current directory may be the agent's."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry))


def users_environment() -> dict[str, str | None]:
    """What lets git see the user's own configuration, to read a name or an exception from it."""
    kept = ("HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "EMAIL")
    named = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL")
    own = {name: os.environ[name] for name in (*kept, *named) if name in os.environ}
    return {
        "XDG_CONFIG_HOME": None,
        "GIT_CONFIG_GLOBAL": os.environ.get("GIT_CONFIG_GLOBAL"),
        "GIT_CONFIG_NOSYSTEM": os.environ.get("GIT_CONFIG_NOSYSTEM"),
        **own,
    }


def _follow(
    verb: str,
    process: subprocess.Popen[bytes],
    on_stderr: Callable[[bytes], None],
    seconds: float,
) -> Result:
    assert process.stderr is not None
    timer = threading.Timer(seconds, _kill, (process,))
    timer.daemon = True
    timer.start()
    kept = b""
    try:
        while piece := os.read(process.stderr.fileno(), 1 << 16):
            kept = (kept + piece)[-(1 << 16) :]
            on_stderr(piece)
        return Result(verb, process.wait(), b"", kept)
    finally:
        timer.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process group: a filter or helper must not outlive its command."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
