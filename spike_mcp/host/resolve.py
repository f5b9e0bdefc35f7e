"""Find what a measurement needs from this machine, once, outside the sandbox (spec 11).

A command line names a program; what runs may be a version manager's shim, a link into a virtual
environment, a script with an interpreter line. The sandbox shows only what is bound, so all of it
must be found first: by asking the toolchain itself where it lives, never by guessing.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.core.runners import Runner, detect
from spike_mcp.host.evidence.python import is_python
from spike_mcp.host.places import Found, Toolchains, script_line, system
from spike_mcp.host.sandbox.model import Places

# What a plain command (make, npm, sh) may start: each is found and put on the PATH inside.
_PLAIN_TOOLS = ("python3", "python", "node", "cargo", "go")


def resolve(
    argv: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    trees: Sequence[str] = (),
) -> Places:
    """Every place of the machine that `argv` needs when it runs in `cwd`.

    `environ`: the human's environment, only asked for PATH and toolchain homes. `trees`: absolute
    paths over which the tree under test is mounted (work/, the main checkout): what an editable
    install points to there is no place. Asks toolchains by running them; takes 10-200 ms.
    Problem(INVALID_CONTRACT) if the program is not found or does not answer.
    """
    if not argv:
        raise Problem(Usage.INVALID_CONTRACT, "the measurement command is empty")
    program = _find(argv[0], cwd, environ)
    tools = Toolchains(cwd, environ, tuple(trees))
    runner = detect(argv)
    if is_python(argv[0]):
        found, real = tools.python(program)
        return _places(found, (real, *argv[1:]))
    if runner in (Runner.GO, Runner.CARGO, Runner.NODE):
        found, real = getattr(tools, runner)(program)
        return _places(found, (real, *(word for word in argv[1:] if not word.startswith("+"))))
    return _script(program, argv, tools)


def _script(program: str, argv: Sequence[str], tools: Toolchains) -> Places:
    """A console script, a shell script, or any other program with what it may start."""
    program = tools.through_shim(program)
    line = script_line(program)
    interpreter = _interpreter(line, tools)
    if interpreter and is_python(interpreter):
        found, real = tools.python(interpreter)
        found.add_file(program)
        found.bind(program)
        return _places(found, (real, program, *argv[1:]))
    found = Found()
    found.add_file(program)
    found.bind(program)
    if interpreter:
        found.bind(interpreter)
        found.add_file(interpreter)
    for name in _PLAIN_TOOLS:
        tools.add_tool(found, name)
    return _places(found, (program, *argv[1:]))


def _interpreter(line: Sequence[str], tools: Toolchains) -> str:
    """The program of a `#!` line; through `env` it is looked up as the shell would."""
    if not line:
        return ""
    if os.path.basename(line[0]) == "env":
        names = [word for word in line[1:] if not word.startswith("-") and "=" not in word]
        return tools.which(names[0]) if names else ""
    return line[0]


def _find(name: str, cwd: Path, environ: Mapping[str, str]) -> str:
    """Absolute path of the program as a shell in `cwd` would find it. Links are kept."""
    if "/" in name:
        path = os.path.normpath(os.path.join(cwd, name))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        raise Problem(
            Usage.INVALID_CONTRACT,
            f"the measurement's program {name} is not an executable file",
            "name a program that exists before the spike starts, or let --setup make it",
        )
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None:
        raise Problem(
            Usage.INVALID_CONTRACT,
            f"the measurement's program {name} is not on PATH",
            "activate the environment first, or name the program by its path",
        )
    return os.path.abspath(found)


def _places(found: Found, argv: Sequence[str]) -> Places:
    return Places(
        program=argv[0],
        argv=tuple(argv),
        read_only=tuple(path for path in found.shown() if not system(path)),
        env=tuple(sorted(found.variables().items())),
        packages=tuple(found.packages),
        program_files=tuple(found.files),
    )
