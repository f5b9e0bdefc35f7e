"""pytest and unittest in the sandbox: what is proof that tests ran, and what is not (spec 11)."""

import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest
from measuring import PYTEST, QUIET, measure, output, spec, write

from spike_mcp.core.codes import Isolation
from spike_mcp.host.evidence import RunOutcome, pins_of, red_ids
from spike_mcp.host.measure import Run, is_green

pytestmark = pytest.mark.security

CODE = "def f(x):\n    return x + 1\n"
TESTS = (
    "import pytest\nfrom code_under import f\n\n"
    "def test_one():\n    assert f(1) == 2\n\n"
    "@pytest.mark.parametrize('x', [1, 2])\ndef test_more(x):\n    assert f(x) == x + 1\n"
)
UNIT = (
    "import unittest\nfrom code_under import f\n\n"
    "class TestF(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(f(1), 2)\n"
    "    def test_two(self):\n        for x in (1, 2):\n            with self.subTest(x=x):\n"
    "                self.assertEqual(f(x), x + 1)\n"
)
UNITTEST = (sys.executable, "-m", "unittest", "-q")
IDS = (
    "tests/test_f.py::test_one",
    "tests/test_f.py::test_more[1]",
    "tests/test_f.py::test_more[2]",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(tmp_path / "work", {"code_under.py": CODE, "tests/test_f.py": TESTS})


def test_a_pass_names_every_test_and_what_was_loaded(tree: Path) -> None:
    result = measure(tree, (*PYTEST, "tests"), pins=IDS)
    assert result.outcome is RunOutcome.PASSED, output(result)
    assert result.evidence.collected == IDS
    assert pins_of(result.evidence) == IDS
    assert is_green(result, IDS)
    assert not is_green(result, (*IDS, "tests/test_f.py::test_gone"))
    assert set(result.evidence.loaded) >= {"code_under.py", "tests/test_f.py"}
    assert result.evidence.foreign == ()


def test_a_failure_is_red_in_the_call_phase_with_its_place(tree: Path) -> None:
    write(tree, {"code_under.py": CODE.replace("+ 1", "+ 2")})
    result = measure(tree, (*PYTEST, "tests"))
    assert result.outcome is RunOutcome.FAILED
    assert red_ids(result.evidence) == tuple(sorted(IDS))
    where = result.evidence.failures[IDS[0]]
    assert (where.exception, where.path, where.line) == ("AssertionError", "tests/test_f.py", 5)
    assert (where.function, where.direct) == ("test_one", True)


def test_an_error_in_a_fixture_is_not_red(tree: Path) -> None:
    write(
        tree,
        {
            "tests/test_f.py": "import pytest\n@pytest.fixture\ndef x():\n    raise ValueError\n"
            "def test_x(x):\n    pass\n"
        },
    )
    result = measure(tree, (*PYTEST, "tests"))
    assert result.evidence.outcomes == {"tests/test_f.py::test_x": "error"}
    assert red_ids(result.evidence) == ()


def test_a_module_that_does_not_import_is_a_collection_error(tree: Path) -> None:
    write(tree, {"code_under.py": "import nothing_of_that_name\n"})
    result = measure(tree, (*PYTEST, "tests"))
    assert result.outcome is RunOutcome.COLLECTION_ERROR
    assert "nothing_of_that_name" in result.note
    dry = measure(tree, (*PYTEST, "tests"), dry=True)
    assert dry.outcome is RunOutcome.COLLECTION_ERROR


def test_a_dry_run_collects_and_runs_nothing(tree: Path) -> None:
    write(tree, {"code_under.py": "import sys\ndef f(x):\n    sys.exit('ran')\n"})
    result = measure(tree, (*PYTEST, "tests"), dry=True)
    assert result.outcome is RunOutcome.PASSED
    assert result.evidence.collected == IDS


def test_files_that_tests_open_are_named(tree: Path) -> None:
    write(
        tree,
        {
            "tests/data/in.json": "{}",
            "tests/conftest.py": "",
            "tests/data/b.json": "{}",
            "elsewhere/tests/data/c.json": "{}",
            "tests/test_f.py": "import os, pathlib\ndef test_x():\n"
            "    open('tests/data/in.json').close()\n    open('made.txt', 'w').close()\n"
            "    pathlib.Path(__file__).with_name('data').joinpath('b.json').read_text()\n"
            "    os.chdir('elsewhere')\n    open('tests/data/c.json').close()\n",
        },
    )
    loaded = measure(tree, (*PYTEST, "tests")).evidence.loaded
    assert set(loaded) == {
        "elsewhere/tests/data/c.json",
        "tests/conftest.py",
        "tests/data/b.json",
        "tests/data/in.json",
        "tests/test_f.py",
    }


def test_a_failure_elsewhere_still_has_its_place(tree: Path) -> None:
    write(
        tree,
        {"tests/test_f.py": "import os\ndef test_x():\n    os.chdir('/tmp')\n    assert 1 == 2\n"},
    )
    result = measure(tree, (*PYTEST, "tests"))
    where = result.evidence.failures["tests/test_f.py::test_x"]
    assert (where.path, where.line, where.direct) == ("tests/test_f.py", 4, True)


# -- the project's own ways stay as they are


def test_the_projects_configuration_and_plugins_are_used(tree: Path) -> None:
    write(
        tree,
        {
            "src/deep/inner.py": CODE,
            "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['src/deep']\n"
            "addopts = '-W error -p tests.own_plugin'\nmarkers = ['mine']\n",
            "tests/__init__.py": "",
            "tests/own_plugin.py": "import pytest\n@pytest.fixture\ndef three():\n    return 3\n",
            "tests/test_f.py": "from inner import f\n"
            "def test_x(three):\n    assert f(2) == three\n",
        },
    )
    result = measure(tree, (*PYTEST, "tests"))
    assert result.outcome is RunOutcome.PASSED, output(result)


def test_the_console_script_has_its_own_import_path(tree: Path) -> None:
    script = Path(sys.executable).with_name("pytest")
    failing = measure(tree, (str(script), "-q", *QUIET, "tests"))
    assert failing.outcome is RunOutcome.COLLECTION_ERROR  # no working directory on sys.path
    write(tree, {"conftest.py": ""})
    assert measure(tree, (str(script), "-q", *QUIET, "tests")).outcome is RunOutcome.PASSED


def test_safe_path_keeps_the_working_directory_out(tree: Path) -> None:
    argv = (sys.executable, "-P", *PYTEST[1:], "tests")
    assert measure(tree, argv).outcome is RunOutcome.COLLECTION_ERROR


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="needs pytest-xdist")
def test_xdist_is_switched_off_and_said_so(tree: Path) -> None:
    plain = [word for word in PYTEST if word != "no:xdist"]
    at = [i for i, word in enumerate(plain) if word == "-p" and plain[i + 1] == "-p"]
    for index in reversed(at):
        del plain[index]
    result = measure(tree, (*plain, "-n", "2", "tests"), pins=IDS)
    assert result.outcome is RunOutcome.PASSED, output(result)
    assert result.evidence.notes == ("xdist switched off for the run",)
    assert "code_under.py" in result.evidence.loaded


def test_a_test_that_forks_tells_its_story_once(tree: Path) -> None:
    write(
        tree,
        {
            "tests/test_f.py": "import os\ndef test_x():\n    pid = os.fork()\n"
            "    if pid:\n        os.waitpid(pid, 0)\n    else:\n        assert False\n"
        },
    )
    result = measure(tree, (*PYTEST, "tests"))
    assert result.evidence.outcomes == {"tests/test_f.py::test_x": "passed"}
    assert not result.evidence.flaws


# -- bytecode


def test_stale_or_planted_bytecode_is_never_read(tree: Path) -> None:
    planted = tree / "planted.py"
    planted.write_text("def f(x):\n    return 'planted'\n")
    target = importlib.util.cache_from_source(str(tree / "code_under.py"))
    Path(target).parent.mkdir(exist_ok=True)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(planted), target, doraise=True, invalidation_mode=mode)
    planted.unlink()
    assert measure(tree, (*PYTEST, "tests")).outcome is RunOutcome.PASSED
    open_run = measure(tree, (*PYTEST, "tests"), isolation=Isolation.NONE)
    assert open_run.outcome is RunOutcome.PASSED
    assert Path(target).exists()


def test_two_versions_of_one_length_in_one_second(tree: Path) -> None:
    argv = (*PYTEST, "tests/test_f.py::test_one")
    assert measure(tree, argv).outcome is RunOutcome.PASSED
    stamp = (tree / "code_under.py").stat()
    write(tree, {"code_under.py": CODE.replace("+ 1", "+ 2")})
    os.utime(tree / "code_under.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert measure(tree, argv).outcome is RunOutcome.FAILED


# -- the wrong tree


def _installed(tmp_path: Path, name: str) -> Path:
    """A virtual environment that sees pytest and holds a module of its own."""
    env = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    site = next((env / "lib").glob("python*/site-packages"))
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "ours.pth").write_text(f"{ours}\n")
    (site / name).write_text(CODE)
    return env / "bin/python"


def test_a_copy_installed_elsewhere_is_the_wrong_tree(tree: Path, tmp_path: Path) -> None:
    python = _installed(tmp_path, "code_under.py")
    (tree / "src").mkdir()
    (tree / "code_under.py").rename(tree / "src/code_under.py")
    result = measure(tree, (str(python), "-P", *PYTEST[1:], "tests"))
    assert result.outcome is RunOutcome.WRONG_TREE
    assert "code_under" in result.note
    assert not is_green(result, IDS)


def test_an_editable_install_of_the_main_checkout_finds_the_tree(
    tree: Path, tmp_path: Path
) -> None:
    main = write(
        tmp_path / "main", {"src/code_under.py": "def f(x):\n    return 'main checkout'\n"}
    )
    python = _installed(tmp_path, "unrelated.py")
    site = next((tmp_path / "env/lib").glob("python*/site-packages"))
    (site / "editable.pth").write_text(f"{main}/src\n")
    (tree / "src").mkdir()
    (tree / "code_under.py").rename(tree / "src/code_under.py")
    places = (str(tree), str(main))
    result = measure(tree, (str(python), *PYTEST[1:], "tests"), mount_at=places, pins=IDS)
    assert result.outcome is RunOutcome.PASSED, output(result)
    assert "src/code_under.py" in result.evidence.loaded


def test_an_environment_in_the_main_checkout_is_shown_there(tree: Path, tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    python = _installed(main, "unrelated.py")
    result = measure(
        tree, (str(python), *PYTEST[1:], "tests"), mount_at=(str(tree), str(main)), pins=IDS
    )
    assert result.outcome is RunOutcome.PASSED, output(result)
    assert not [path for path in result.evidence.loaded if path.startswith("env/")]


# -- forged evidence


@pytest.mark.parametrize("how", ["no nonce", "closed", "exit after an own end"])
def test_tampering_with_the_channel_is_no_pass(how: str, tree: Path) -> None:
    lines = {
        "no nonce": "for fd in range(3, 1000):\n    try: os.write(fd, b'{}\\n')\n"
        "    except OSError: pass\n",
        "closed": "os.closerange(3, 4096)\n",
        "exit after an own end": "import gc\n"
        "for x in gc.get_objects():\n"
        "    if type(x).__name__ == 'Channel':\n"
        "        x.send('finish', status=0, collected=1, failed=0)\n        os._exit(0)\n",
    }[how]
    write(tree, {"code_under.py": f"import os\n{lines}{CODE}"})
    result = measure(tree, (*PYTEST, "tests"), pins=IDS)
    assert result.outcome is not RunOutcome.PASSED
    assert red_ids(result.evidence) == ()


def test_the_nonce_stands_in_no_argument_or_environment(tree: Path) -> None:
    write(
        tree,
        {
            "tests/test_f.py": "import os, sys\ndef test_x():\n"
            "    assert 'SPIKE_EVENTS' not in os.environ\n"
            "    assert not [w for w in sys.argv if 'spike' in w]\n"
            "    assert 'spike_channel' not in sys.modules\n"
            "    assert not [p for p in sys.path if '/run/spike' in p]\n"
        },
    )
    result = measure(tree, (*PYTEST, "tests"))
    assert result.outcome is RunOutcome.PASSED, output(result)


# -- unittest


def test_unittest_names_its_tests(tree: Path) -> None:
    write(tree, {"tests/test_u.py": UNIT, "tests/__init__.py": ""})
    argv = (*UNITTEST, "tests.test_u")
    result = measure(tree, argv)
    assert result.outcome is RunOutcome.PASSED, output(result)
    ids = ("tests.test_u.TestF.test_one", "tests.test_u.TestF.test_two")
    assert result.evidence.collected == ids
    write(tree, {"code_under.py": CODE.replace("+ 1", "+ 2")})
    red = measure(tree, argv, pins=ids)
    assert red.outcome is RunOutcome.FAILED
    assert red_ids(red.evidence) == ids
    where = red.evidence.failures[ids[0]]
    assert (where.path, where.line, where.direct) == ("tests/test_u.py", 6, True)


@pytest.mark.parametrize(
    ("body", "outcome", "word"),
    [
        (
            "def setUp(self):\n        raise ValueError\n    def test_x(self): pass",
            "failed",
            "error",
        ),
        ("@unittest.skip('')\n    def test_x(self): pass", "no_tests", "skipped"),
        ("def test_x(self): self.skipTest('')", "no_tests", "skipped"),
        (
            "@unittest.expectedFailure\n    def test_x(self): self.fail()",
            "no_tests",
            "xfailed",
        ),
        ("@unittest.expectedFailure\n    def test_x(self): pass", "failed", "xpassed"),
        ("def test_x(self): raise NotImplementedError", "failed", "failed"),
    ],
)
def test_unittest_outcomes(body: str, outcome: str, word: str, tree: Path) -> None:
    write(tree, {"test_u.py": f"import unittest\nclass T(unittest.TestCase):\n    {body}\n"})
    result = measure(tree, (*UNITTEST, "test_u"))
    assert (result.outcome.value, result.evidence.outcomes) == (outcome, {"test_u.T.test_x": word})


@pytest.mark.parametrize("attack", ["os._exit(0)", "sys.exit(0)", "raise unittest.SkipTest('')"])
def test_unittest_is_not_ended_by_the_code_under_test(attack: str, tree: Path) -> None:
    write(
        tree,
        {"tests/test_u.py": UNIT, "tests/__init__.py": "", "code_under.py": CODE},
    )
    argv = (*UNITTEST, "tests.test_u")
    pins = pins_of(measure(tree, argv).evidence)
    write(tree, {"code_under.py": f"import os, sys, unittest\ndef f(x):\n    {attack}\n"})
    assert measure(tree, argv, pins=pins).outcome is not RunOutcome.PASSED


def test_unittest_that_can_not_import_is_a_collection_error(tree: Path) -> None:
    write(tree, {"test_u.py": "import nothing_of_that_name\n"})
    assert measure(tree, (*UNITTEST, "test_u")).outcome is RunOutcome.COLLECTION_ERROR
    dry = measure(tree, (*UNITTEST, "test_u"), dry=True)
    assert dry.outcome is RunOutcome.COLLECTION_ERROR


def test_unittest_dry_runs_nothing(tree: Path) -> None:
    write(tree, {"tests/test_u.py": UNIT, "tests/__init__.py": "", "code_under.py": "f = None\n"})
    result = measure(tree, (*UNITTEST, "tests.test_u"), dry=True)
    assert (result.outcome, len(result.evidence.collected)) == (RunOutcome.PASSED, 2)


def test_progress_shows_the_last_line(tree: Path) -> None:
    write(
        tree,
        {
            "tests/test_f.py": "import time\ndef test_x():\n    print('at work', flush=True)\n"
            "    time.sleep(2.5)\n"
        },
    )
    seen: list[str] = []
    Run.start(spec(tree, (*PYTEST, "-s", "tests"))).wait(seen.append)
    assert "at work" in seen
