"""Which paths an agent may never write, as data, and why (spec 4, 'Protected paths').

Patterns, never a snapshot: a name is protected whether or not the file exists. A table entry is
short: `name` is that base name anywhere, `name/` that component anywhere (file or directory, and
everything beneath it), `/name` the one at the repository's top; glob characters count.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class ProtectedPattern:
    """One protected pattern (glob text as `core.globs` reads it) and the reason shown for it."""

    pattern: str
    why: str


def _table(entries: str, why: str) -> tuple[ProtectedPattern, ...]:
    out = []
    for entry in entries.split():
        name = entry[1:] if entry[0] == "/" else f"**/{entry.removesuffix('/')}"
        out.append(ProtectedPattern(name, why))
        if entry.endswith("/"):
            out.append(ProtectedPattern(f"{name}/**", why))
    return tuple(out)


GIT = _table(
    ".git/ git~1/ .gitattributes .gitignore .gitmodules .lfsconfig",
    "git's own file",
)
CLIENTS = _table(
    """.mcp.json .claude/ .claude.json CLAUDE.md CLAUDE.local.md AGENTS.md
    AGENTS.override.md .agents/ .codex/ .gemini/ GEMINI.md .geminiignore .qwen/ QWEN.md .qwenignore
    opencode.json opencode.jsonc .opencode/ .cursor/ .cursorrules .cursorignore .vscode/ .copilot/
    .continue/ .continuerc.json .cline/ .clinerules/ .clineignore .kimi/ .kimi-code/ .aider* .roo/
    .roorules .kilocode/ .windsurf/ .windsurfrules .junie/ .amazonq/ .goose/ .goosehints .openhands/
    .zed/ .idea/ .devcontainer/
    .github/copilot*/ .github/instructions/ .github/agents/ .github/prompts/""",
    "an agent client's or editor's own file",
)
TOOLCHAIN = _table(
    """.envrc .python-version .python-versions .tool-versions mise.toml .mise.toml .mise/
    .nvmrc .node-version .ruby-version .go-version""",
    "chooses the program that the measurement runs",
)
VARIABLES = _table(
    ".env .env.local .env.test .env.test.local .flaskenv",
    "sets variables for tools that load it (pipenv, dotenv plugins, just)",
)
# What the host itself leaves alone wherever it is found; stands in every contract.
ALWAYS = GIT + CLIENTS + TOOLCHAIN + VARIABLES

PYTHON = _table(
    """conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml pyproject.toml setup.cfg
    /setup.py tox.ini tox.toml .coveragerc noxfile.py hatch.toml uv.toml uv.lock poetry.toml
    poetry.lock pdm.toml pdm.lock Pipfile Pipfile.lock pylock.toml""",
    "configuration of the test runner",
) + _table(
    """sitecustomize.py sitecustomize/ usercustomize.py usercustomize/ *.pth *._pth pyvenv.cfg
    *.pyc *.pyo __pycache__/ *.dist-info/ *.egg-info/ *.egg-link""",
    "loaded by Python before or beside the source",
)
NODE = _table(
    """package.json package.json5 package.yaml .npmrc package-lock.json npm-shrinkwrap.json
    yarn.lock .yarnrc .yarnrc.yml .yarn/ pnpm-lock.yaml pnpm-workspace.yaml .pnpmfile.cjs bun.lock
    bun.lockb bunfig.toml deno.json deno.jsonc deno.lock .pnp.cjs .pnp.loader.mjs node_modules/
    node.config.json *.node jest.config.* jest.setup.* vitest.config.* vitest.workspace.*
    vite.config.* .mocharc* .taprc ava.config.* karma.conf.* playwright.config.* cypress.config.*
    babel.config.* .babelrc* .swcrc tsconfig*.json jsconfig.json .nycrc* .c8rc*""",
    "read by npm, node or the test runner",
)
GO = _table(
    "go.mod go.sum go.work go.work.sum go.env vendor/modules.txt",
    "read by the go command",
) + _table("*_test.go", "compiled into the test program (TestMain, init)")
CARGO = _table(
    """Cargo.toml Cargo.lock .cargo/ build.rs rust-toolchain rust-toolchain.toml nextest.toml""",
    "read by cargo",
)
MAKE = _table(
    """Makefile GNUmakefile Makefile.* *.mk *.mak *.make CMakeLists.txt CMakePresets.json *.cmake
    meson.build meson_options.txt build.ninja /configure justfile .justfile *.just Taskfile.yml
    Taskfile.yaml Taskfile.dist.* /tasks.py invoke.yaml SConstruct SConscript BUILD BUILD.bazel
    WORKSPACE MODULE.bazel *.bzl .bazelrc""",
    "read by the build tool that the measurement starts",
)
OTHER_TOOLS = _table(
    """build.gradle* settings.gradle* gradle.properties gradle/ gradlew pom.xml .mvn/ mvnw Gemfile
    Gemfile.lock Rakefile .rspec spec_helper.rb rails_helper.rb .bundle/ composer.json composer.lock
    phpunit.xml* mix.exs mix.lock *.csproj *.sln Directory.Build.* nuget.config""",
    "read by the build tool that the measurement starts",
)
# A plain command may start anything: `make` calls pytest, `npm` calls node.
_BY_RUNNER: dict[str, tuple[ProtectedPattern, ...]] = {
    "pytest": PYTHON,
    "unittest": PYTHON,
    "go": GO,
    "cargo": CARGO,
    "node": NODE,
    "plain": PYTHON + NODE + GO + CARGO + MAKE + OTHER_TOOLS,
}
_BY_PROGRAM: dict[str, tuple[ProtectedPattern, ...]] = {
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "node", "bun", "deno"), NODE),
    **dict.fromkeys(("make", "gmake", "just", "task", "cmake", "ctest", "ninja"), MAKE),
    "go": GO,
    "cargo": CARGO,
}

_MODULE_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_ARGUMENT_PATH = re.compile(r"[\w.@+][\w.@+ /-]*")
_MAKE_INCLUDE = re.compile(rb"^[ ]*(?:-|s)?include[ \t]+([^#\n]+)", re.MULTILINE)
_MAKE_VARIABLE = re.compile(r"\$(?:\([^()]*\)|\{[^{}]*\}|.)")


def _named_modules(argv: Sequence[str]) -> Iterable[str]:
    """Modules that `python -m NAME` and `pytest -p NAME` load from the tree before any test."""
    for flag, value in pairwise(argv):
        if flag in ("-m", "-p") and _MODULE_NAME.fullmatch(value):
            yield value
    for argument in argv:
        if argument.startswith("-p") and _MODULE_NAME.fullmatch(argument[2:]):
            yield argument[2:]


def argument_paths(argv: Sequence[str]) -> tuple[str, ...]:
    """Repository paths that the arguments name: `tests/run.sh`, `--config=ci/x.toml`, `a.py::t`.

    Only spellings count, no file is looked at; plain words without `.` or `/` are left out.
    """
    found = []
    for argument in argv:
        value = argument.partition("=")[2] if argument.startswith("-") else argument
        text = value.partition("::")[0].removeprefix("./")
        if ("/" in text or "." in text) and _ARGUMENT_PATH.fullmatch(text) and ".." not in text:
            found.append(text.rstrip("/"))
    return tuple(dict.fromkeys(found))


def _from_argv(argv: Sequence[str]) -> Iterable[ProtectedPattern]:
    for path in argument_paths(argv):
        yield ProtectedPattern(path, "named by the measurement command")
    for module in _named_modules(argv):
        parts = module.split(".")
        base = "/".join(parts)
        files = [f"{base}.py", f"{base}/__init__.py", f"{base}/__main__.py"]
        files += ["/".join(parts[:n]) + "/__init__.py" for n in range(1, len(parts))]
        for file in files:
            yield ProtectedPattern(file, f"module {module} is named by the measurement command")


def protected_for(runner: str, argv: Sequence[str]) -> tuple[ProtectedPattern, ...]:
    """Every protected pattern of a measurement: always, per runner, per program, per argument.

    `runner` is `Measurement.runner`; an unknown one counts as `plain`. Order is stable and the
    first pattern that matches gives the reason.
    """
    program = argv[0].rpartition("/")[2] if argv else ""
    groups = (
        *ALWAYS,
        *_BY_RUNNER.get(runner, _BY_RUNNER["plain"]),
        *_BY_PROGRAM.get(program, ()),
        *_from_argv(argv),
    )
    return tuple({item.pattern: item for item in reversed(groups)}.values())[::-1]


def makefile_includes(data: bytes) -> tuple[ProtectedPattern, ...]:
    """Patterns for what a Makefile's `include` lines read; a variable counts as `*`.

    A bare variable (`include $(FILES)`) names nothing that can be protected and is left out.
    """
    found = []
    for match in _MAKE_INCLUDE.finditer(data.replace(b"\\\n", b" ")):
        for word in match.group(1).decode("utf-8", "surrogateescape").split():
            pattern = _MAKE_VARIABLE.sub("*", word).removeprefix("./")
            if pattern.strip("*/") and not pattern.startswith("/"):
                found.append(ProtectedPattern(pattern, "included by the Makefile"))
    return tuple(dict.fromkeys(found))
