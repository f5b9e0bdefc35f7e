"""Ask toolchains where they live: Python, node, Rust, Go, and version managers' shims (spec 11)."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from spike_mcp.core.codes import Problem, Usage

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
_BASE_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_ASK_SECONDS = 60

# Runs in the measured project's Python: what it is, where it imports from, what an editable
# install added. Printed after a marker because a .pth file may print something of its own.
_ASK_PYTHON = r"""
import json, os, site, sys, sysconfig
extra = []
for name, module in list(sys.modules.items()):
    if name.startswith("__editable__"):
        extra += [str(v) for v in getattr(module, "MAPPING", {}).values()]
        extra += [str(p) for v in getattr(module, "NAMESPACES", {}).values() for p in v]
print("SPIKE" + json.dumps({
    "executable": sys.executable, "prefix": sys.prefix, "base": sys.base_prefix,
    "exec_base": sys.base_exec_prefix, "stdlib": sysconfig.get_path("stdlib"),
    "sites": site.getsitepackages() if hasattr(site, "getsitepackages") else [],
    "user": site.getusersitepackages() if site.ENABLE_USER_SITE else "",
    "userbase": site.getuserbase() if site.ENABLE_USER_SITE else "",
    "path": sys.path[1:] if sys.path and sys.path[0] in ("", os.getcwd()) else sys.path,
    "editable": extra}))
"""


def system(path: str) -> bool:
    """Is this shown in every sandbox anyway?"""
    return any(path == top or path.startswith(top + "/") for top in _SYSTEM)


def script_line(path: str) -> tuple[str, ...]:
    """The words of a file's `#!` line; () for anything else."""
    try:
        with open(path, "rb") as file:
            first = file.readline(512)
    except OSError:
        return ()
    if not first.startswith(b"#!"):
        return ()
    return tuple(first[2:].decode("utf-8", "replace").split())


class Found:
    """Collects places: what to bind, what to seal, which variables to set."""

    def __init__(self) -> None:
        self._binds: dict[str, None] = {}
        self._path: dict[str, None] = {}
        self._env: dict[str, str] = {}
        self.packages: list[str] = []
        self.files: list[str] = []

    def bind(self, path: str) -> None:
        """Show `path`, and every link on the way to what it really is."""
        for _ in range(40):
            self._binds[os.path.normpath(path)] = None
            if not os.path.islink(path):
                break
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        real = os.path.realpath(path)
        if os.path.exists(real):
            self._binds[real] = None

    def on_path(self, directory: str) -> None:
        """Put a directory on the PATH inside."""
        if (directory := os.path.normpath(directory)) not in _BASE_PATH:
            self._path[directory] = None

    def add_file(self, path: str) -> None:
        """Seal one file, by what it really is."""
        real = os.path.realpath(path)
        if os.path.isfile(real) and real not in self.files:
            self.files.append(real)

    def add_packages(self, directory: str) -> None:
        """Seal a directory of packages."""
        if os.path.isdir(directory) and directory not in self.packages:
            self.packages.append(directory)

    def add_library(self, directory: str) -> None:
        """Seal a standard library, without the packages of others that lie inside it."""
        foreign = ("site-packages", "dist-packages", "__pycache__")
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir() and entry.name not in foreign:
                    self.add_packages(entry.path)
                elif entry.name.endswith((".py", ".so")):
                    self.add_file(entry.path)

    def set(self, name: str, value: str) -> None:
        """One variable of the fixed environment."""
        self._env[name] = value

    def merge(self, other: "Found") -> None:
        """Take over all of `other`; its PATH entries stay in their order."""
        self._binds |= other._binds
        self._path |= other._path
        self._env |= other._env
        self.packages += [path for path in other.packages if path not in self.packages]
        self.files += [path for path in other.files if path not in self.files]

    def shown(self) -> list[str]:
        """Paths to bind: existing ones, none inside another."""
        kept: list[str] = []
        for path in sorted(self._binds, key=len):
            inner = any(path == above or path.startswith(above + "/") for above in kept)
            if not inner and os.path.exists(path):
                kept.append(path)
        return kept

    def variables(self) -> dict[str, str]:
        """The variables, PATH included."""
        return self._env | {"PATH": ":".join((*self._path, *_BASE_PATH))}


class Toolchains:
    """Asks each toolchain in the human's environment."""

    def __init__(self, cwd: Path, environ: Mapping[str, str], trees: tuple[str, ...]) -> None:
        self._cwd = cwd
        self._environ = {name: environ[name] for name in _ASK_WITH if name in environ}
        self._trees = trees
        self._home = os.path.realpath(environ.get("HOME", os.path.expanduser("~")))

    def which(self, name: str) -> str:
        """Path of a program on the human's PATH; '' if there is none."""
        found = shutil.which(name, path=self._environ.get("PATH", os.defpath))
        return os.path.abspath(found) if found else ""

    def through_shim(self, program: str) -> str:
        """What a version manager's shim (pyenv, asdf, mise) stands for; else the program itself."""
        parts = program.split("/")
        if "shims" not in parts:
            return program
        for manager in ("pyenv", "asdf", "mise"):
            if manager in program and self.which(manager):
                answer = self._ask([self.which(manager), "which", parts[-1]], must=False).strip()
                if answer and os.access(answer, os.X_OK):
                    return answer
        return program

    def add_tool(self, found: Found, name: str) -> None:
        """Add a tool that a plain command may start, if it is found outside the system.

        A virtual environment's `python` is a link to the system's: where the link lies counts too.
        """
        program = self.which(name)
        if not program or (system(program) and system(os.path.realpath(program))):
            return
        try:
            toolchain = self.python if name.startswith("python") else getattr(self, name)
            more, real = toolchain(program)
        except Problem:
            return
        found.merge(more)
        found.on_path(os.path.dirname(real))

    def python(self, program: str) -> tuple[Found, str]:
        """A Python: prefix, base prefix, packages, editable installs. Returns its real command."""
        text = self._ask([program, "-c", _ASK_PYTHON])
        told = json.loads(text.rpartition("SPIKE")[2])
        found = Found()
        executable = str(told["executable"])
        found.add_file(executable)
        found.add_file(os.path.join(told["prefix"], "pyvenv.cfg"))
        found.on_path(os.path.dirname(executable))
        self._show(found, executable, bool(told["prefix"] != told["base"]))
        for prefix in (told["prefix"], told["base"], told["exec_base"]):
            self._bind_prefix(found, str(prefix))
        if told["user"] and os.path.isdir(told["user"]):
            found.bind(str(told["user"]))
            found.set("PYTHONUSERBASE", str(told["userbase"]))
        for directory in (*told["sites"], told["user"]):
            if directory:
                found.add_packages(str(directory))
        found.add_library(str(told["stdlib"]))
        for path in (*told["path"], *told["editable"]):
            self._import_place(found, str(path))
        return found, executable

    def _import_place(self, found: Found, path: str) -> None:
        """An import path beside the packages: another checkout, unless the tree covers it."""
        covered = any(path == tree or path.startswith(tree + "/") for tree in self._trees)
        known = any(path == top or path.startswith(top + "/") for top in found.shown())
        if covered or known or system(path) or not os.path.exists(path):
            return
        found.bind(path)
        found.add_packages(path)

    def node(self, program: str) -> tuple[Found, str]:
        """node: its real program and the prefix it was installed under."""
        real = os.path.realpath(self.through_shim(program))
        found = Found()
        found.add_file(real)
        found.on_path(os.path.dirname(real))
        if not system(real):
            self._bind_prefix(found, os.path.dirname(os.path.dirname(real)))
            found.bind(real)
        return found, real

    def cargo(self, program: str) -> tuple[Found, str]:
        """cargo: the toolchain behind rustup's proxy, its registry, no network."""
        program = self.through_shim(program)
        real = os.path.realpath(program)
        if os.path.basename(real) == "rustup":
            real = self._ask([os.path.join(os.path.dirname(program), "rustup"), "which", "cargo"])
            real = os.path.realpath(real.strip())
        toolchain = os.path.dirname(os.path.dirname(real))
        found = Found()
        for name in ("cargo", "rustc", "rustdoc"):
            found.add_file(os.path.join(os.path.dirname(real), name))
        found.on_path(os.path.dirname(real))
        if not system(real):
            self._bind_prefix(found, toolchain)
        home = self._environ.get("CARGO_HOME", os.path.join(self._home, ".cargo"))
        for part in ("registry", "git", "config.toml", "config"):
            found.bind(os.path.join(home, part))
            found.add_file(os.path.join(home, part))
        rustlib = f"{toolchain}/lib/rustlib" if system(real) else f"{toolchain}/lib"
        for place in (rustlib, f"{home}/registry/src", f"{home}/git/checkouts"):
            found.add_packages(place)
        found.set("CARGO_HOME", home)
        found.set("CARGO_NET_OFFLINE", "true")
        found.set("CARGO_TERM_COLOR", "never")
        return found, real

    def go(self, program: str) -> tuple[Found, str]:
        """go: GOROOT and the module cache, no network."""
        program = self.through_shim(program)
        keys = ("GOROOT", "GOMODCACHE", "GOFLAGS", "GOVERSION", "GOPRIVATE")
        told = json.loads(self._ask([program, "env", "-json", *keys]))
        root = str(told["GOROOT"])
        real = os.path.join(root, "bin", "go")
        found = Found()
        found.add_file(real)
        found.on_path(os.path.dirname(real))
        found.bind(root)
        found.bind(str(told["GOMODCACHE"]))
        for place in (f"{root}/pkg", f"{root}/src", str(told["GOMODCACHE"])):
            found.add_packages(place)
        flags = str(told["GOFLAGS"])
        fixed = {"GOFLAGS": flags, "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOSUMDB": "off"}
        for name, value in (fixed | {"GOROOT": root, "GOMODCACHE": told["GOMODCACHE"]}).items():
            found.set(name, str(value))
        return found, real

    def _show(self, found: Found, executable: str, virtual: bool) -> None:
        """Bind the prefix of every link from a virtual environment's python to the real one."""
        path = executable
        for _ in range(40):
            if not os.path.islink(path):
                break
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
            if virtual:
                self._bind_prefix(found, os.path.dirname(os.path.dirname(path)))
        found.bind(path)

    def _bind_prefix(self, found: Found, prefix: str) -> None:
        """Bind an installation's directory, but never a home directory or one above it."""
        prefix = os.path.normpath(prefix)
        above = prefix == "/" or (self._home + "/").startswith(prefix.rstrip("/") + "/")
        if not above and not system(prefix):
            found.bind(prefix)

    def _ask(self, argv: Sequence[str], must: bool = True) -> str:
        try:
            done = subprocess.run(
                argv,
                cwd=self._cwd,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ASK_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Problem(Usage.INVALID_CONTRACT, f"{argv[0]} does not answer: {error}") from error
        if done.returncode != 0 and must:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise Problem(
                Usage.INVALID_CONTRACT,
                f"{argv[0]} could not say where it is installed: {lines[-1][:300]}",
                "run it by hand in the repository and repair it first",
            )
        return done.stdout.decode("utf-8", "surrogateescape")


# Enough for version managers to answer as they do for the human, and nothing else.
_ASK_WITH = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("PYENV_ROOT", "PYENV_VERSION", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR"),
        *("RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN", "GOROOT", "GOPATH", "GOMODCACHE"),
        *("GOENV_ROOT", "GOENV_VERSION", "NVM_DIR", "NODENV_ROOT", "NODENV_VERSION"),
    }
)
