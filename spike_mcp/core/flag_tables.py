"""The signs of `core.flags` as data: names, weights, regexes (spec 11).

Weight 4: hardly ever honest. 3: asks alone. 2 and 1: ask only together with others.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sign:
    """A regex that gives `name` on a matching line; some signs mean nothing in test files."""

    name: str
    weight: int
    regex: re.Pattern[str]
    fine_in_tests: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A sign found on a line (1-based, of the text that was searched)."""

    name: str
    line: int
    weight: int


def _signs(*rows: tuple[str, int, str]) -> tuple[Sign, ...]:
    return tuple(
        Sign(name.removesuffix("?"), weight, re.compile(regex), name.endswith("?"))
        for name, weight, regex in rows
    )


# The judge's own files, wherever they are named.
JUDGE_FILES = (
    r"(?:^|[/\s'\"`(=])(?:judge|verdict)/|hypothesis\.txt|ledger\.jsonl|hunk-map\.yml|"
    r"oracle\.sha256|seals\.json|\.spikes\b|SPIKE_HOME"
)
TEST_FILES = r"(?:^|[/\s'\"`(=])(?:tests?|__tests__)/|\btest_\w+\.\w+|_test\.(?:py|go)|conftest"
KERNEL_FILES = r"/proc/|/dev/(?:fd|mem|kmem|shm|tcp|udp|pts)\b|/sys/(?:fs|kernel)/"

GENERAL = _signs(
    ("judge_files", 4, JUDGE_FILES),
    ("kernel_files", 3, KERNEL_FILES),
)

# -- Python: names as an import would resolve them ------------------------------------------------

# flag name -> weight -> dotted names; a name stands for everything beneath it too.
_PYTHON_NAMES: dict[str, dict[int, str]] = {
    "process_exit": {
        4: "os._exit os.abort posix._exit posix.abort _posixsubprocess faulthandler._sigsegv",
    },
    "process_signal": {
        3: """os.kill os.killpg signal.signal signal.setitimer signal.alarm signal.raise_signal
        signal.pthread_kill signal.set_wakeup_fd signal.sigwait signal.siginterrupt os.getppid""",
        1: "signal faulthandler",
    },
    "new_process": {
        3: """os.fork os.forkpty os.system os.popen os.posix_spawn os.posix_spawnp os.startfile
        os.execv os.execve os.execvp os.execvpe os.execl os.execle os.execlp os.execlpe os.spawnv
        os.spawnve os.spawnvp os.spawnl os.spawnle os.spawnlp os.setsid pty.fork pty.spawn
        subprocess.run subprocess.Popen subprocess.call subprocess.check_call
        subprocess.check_output subprocess.getoutput subprocess.getstatusoutput
        asyncio.create_subprocess_exec asyncio.create_subprocess_shell multiprocessing.Process""",
        2: "multiprocessing concurrent.futures.ProcessPoolExecutor pty",
    },
    "descriptors": {
        3: "os.dup2 os.closerange os.pipe os.openpty os.memfd_create",
        1: "os.close os.dup os.fdopen os.write",
    },
    "network": {
        3: """socket.socket socket.create_connection socket.create_server socket.socketpair
        socket.fromfd urllib.request.urlopen urllib.request.urlretrieve urllib.request.Request
        http.client.HTTPConnection http.client.HTTPSConnection http.server socketserver requests
        httpx aiohttp urllib3 ftplib smtplib imaplib poplib telnetlib nntplib xmlrpc.client
        paramiko websockets pycurl asyncio.open_connection asyncio.start_server
        asyncio.open_unix_connection asyncio.start_unix_server""",
        1: "socket ssl urllib.request http.client",
    },
    "runner_internals": {
        4: "_pytest pluggy",
        3: "pytest unittest.runner unittest.result unittest.loader unittest.case unittest.main",
    },
    "skipped_test": {
        3: """pytest.skip pytest.xfail pytest.exit pytest.importorskip pytest.fail pytest.mark.skip
        pytest.mark.skipif pytest.mark.xfail unittest.SkipTest unittest.skip unittest.skipIf
        unittest.skipUnless unittest.expectedFailure unittest.case.SkipTest""",
    },
    "always_equal": {4: "unittest.mock.ANY mock.ANY"},
    "tracing": {
        3: """sys.settrace sys.setprofile sys.monitoring sys.addaudithook threading.settrace
        threading.setprofile threading.settrace_all_threads bdb sys.set_asyncgen_hooks""",
    },
    "native_code": {3: "ctypes _ctypes cffi _cffi_backend", 1: "mmap"},
    "code_from_data": {
        3: "marshal runpy code.InteractiveInterpreter builtins.exec builtins.eval",
        2: "codeop builtins.compile",
        1: """types.CodeType types.FunctionType types.ModuleType base64 binascii zlib.decompress
        codecs.decode pickle.loads lzma.decompress
        bz2.decompress""",
    },
    "import_hook": {
        3: """sys.meta_path sys.path_hooks sys.path_importer_cache importlib.reload
        builtins.__import__""",
        2: "sys.dont_write_bytecode site.addsitedir pkgutil.extend_path",
        1: "importlib.machinery importlib.abc importlib.util",
    },
    "frame_walking": {
        4: "gc.get_objects gc.get_referrers gc.get_referents",
        3: """sys._getframe sys._current_frames sys._getframemodulename inspect.currentframe
        inspect.stack inspect.trace inspect.getouterframes inspect.getinnerframes
        traceback.walk_stack traceback.extract_stack""",
        2: "inspect.getsource inspect.getsourcelines inspect.getsourcefile gc.callbacks",
    },
    "at_exit": {3: "atexit threading._register_atexit threading._shutdown", 1: "weakref.finalize"},
    "watcher_thread": {3: "threading.main_thread _thread.interrupt_main", 1: "threading.Thread"},
    "host_detection": {
        2: "platform.node socket.gethostname getpass.getuser os.getlogin os.uname",
        1: "os.environ os.getenv sys.argv",
    },
    "clock": {1: "time.time datetime.datetime.now datetime.date.today time.localtime time.gmtime"},
    "file_age": {2: "os.path.getmtime os.path.getctime os.path.getatime"},
    "file_change": {
        1: """os.chmod os.symlink os.link os.truncate os.mkfifo os.utime shutil.rmtree os.chroot
        os.remove os.unlink os.rename os.replace""",
    },
    "builtins_changed": {3: "__builtins__"},
}
PYTHON_NAMES: dict[str, tuple[str, int]] = {
    dotted: (name, weight)
    for name, by_weight in _PYTHON_NAMES.items()
    for weight, names in by_weight.items()
    for dotted in names.split()
}
# What a test file may use without a question.
FINE_IN_TESTS = frozenset({"runner_internals"})

# Attribute names that matter whatever they hang on.
PYTHON_ATTRIBUTES: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("f_back", "f_locals", "f_globals", "f_builtins"), ("frame_walking", 3)),
    **dict.fromkeys(("tb_frame", "gi_frame", "cr_frame", "f_code"), ("frame_walking", 2)),
    **dict.fromkeys(("__subclasses__", "__builtins__"), ("frame_walking", 2)),
    **dict.fromkeys(("__globals__", "__code__", "__closure__"), ("frame_walking", 2)),
    **dict.fromkeys(("st_mtime", "st_ctime", "st_mtime_ns", "st_ctime_ns"), ("file_age", 2)),
}
# Definitions and assignments that a test runner looks for.
PYTHON_HOOKS = re.compile(r"pytest_\w+|pytestmark|load_tests|collect_ignore(?:_glob)?")
PYTHON_STRINGS = _signs(
    ("test_detection", 3, r"^_?pytest$|^PYTEST_\w+$|^unittest$|^NODE_TEST_CONTEXT$|^TOX_ENV_NAME$"),
    ("test_detection", 2, r"^(?:CI|GITHUB_ACTIONS|TRAVIS|test_)$"),
    ("judge_files", 4, JUDGE_FILES),
    ("kernel_files", 3, KERNEL_FILES),
    ("test_files?", 3, TEST_FILES),
    ("climbs_up", 2, r"^\.\./"),
    ("writes_cursor", 2, "\x1b\\["),
)
PYTHON_LINES = (
    *_signs(
        ("code_from_data", 3, r"(?<![\w.])(?:exec|eval|__import__)\s*\("),
        ("process_exit", 3, r"\bSystemExit\b|(?<![\w.])sys\.exit\b"),
        ("assembled_name", 4, r"getattr\s*\([^)]*[\"']\s*\+"),
        ("always_equal", 4, r"def __eq__\(.*return True|__eq__\s*=\s*lambda"),
        ("modules_changed", 3, r"\bsys\.modules\b"),
        ("test_files?", 3, TEST_FILES),
        ("test_detection", 3, r"\bPYTEST_\w+|[\"']_?pytest[\"']"),
        ("runner_internals?", 3, r"^\s*(?:from|import)\s+_?pytest\b|\bdef pytest_\w+"),
    ),
    *(
        Sign(name, weight, re.compile(rf"(?<![\w.]){re.escape(dotted)}\b"), name in FINE_IN_TESTS)
        for dotted, (name, weight) in PYTHON_NAMES.items()
        if "." in dotted
    ),
)

# -- other languages: by line -----------------------------------------------------------------

_JAVASCRIPT = _signs(
    ("process_exit", 4, r"\bprocess\.(?:exit|reallyExit|abort|kill)\b|\bprocess\.exitCode\s*="),
    ("process_signal", 3, r"\bprocess\.(?:on|once|prependListener|removeAllListeners)\s*\("),
    ("new_process", 3, r"\bchild_process\b|\bworker_threads\b|\bnode:cluster\b|\bBun\.spawn"),
    (
        "network",
        3,
        r"\bfetch\s*\(|require\(\s*['\"](?:node:)?(?:net|https?|http2|dgram|tls|dns)['\"]",
    ),
    (
        "network",
        3,
        r"\bXMLHttpRequest\b|\bnew WebSocket\b|from ['\"](?:node:)?(?:net|https?|dgram)['\"]",
    ),
    ("code_from_data", 3, r"\beval\s*\(|\bnew Function\s*\(|['\"](?:node:)?vm['\"]|\batob\s*\("),
    ("code_from_data", 2, r"Buffer\.from\([^)]*base64|String\.fromCharCode"),
    ("runner_internals?", 3, r"['\"]node:test|['\"](?:jest|vitest|mocha|ava|tap|@jest/\w+)['\"]"),
    ("test_detection", 3, r"NODE_TEST_CONTEXT|JEST_WORKER_ID|VITEST|\bnpm_lifecycle_\w+"),
    ("test_detection", 3, r"NODE_ENV\s*[!=]==?\s*['\"]test|process\.argv\b.*test|execArgv"),
    ("skipped_test", 3, r"\b(?:it|test|describe|t|suite)\.(?:skip|todo|only)\s*\("),
    ("patches_import", 4, r"\bassert(?:\.strict)?\.\w+\s*=[^=]|\b\w+\.prototype\.\w+\s*=[^=]"),
    ("patches_import", 3, r"require\.cache|\bModule\._\w+|module\.constructor|globalThis\.\w+\s*="),
    ("patches_import", 3, r"\b(?:console|process)\.\w+(?:\.write)?\s*=[^=]"),
    ("native_code", 3, r"\bprocess\.(?:binding|dlopen|_linkedBinding)\b|\.node['\"]"),
    ("frame_walking", 3, r"prepareStackTrace|captureStackTrace|\.caller\b|arguments\.callee"),
    ("always_equal", 3, r"Symbol\.toPrimitive|Symbol\.toStringTag|\b__proto__\b|new Proxy\s*\("),
    ("test_files?", 3, TEST_FILES),
    ("host_detection", 1, r"\bprocess\.env\b|\bos\.hostname\b"),
    ("clock", 1, r"\bDate\.now\b|\bnew Date\(\)"),
    ("file_change", 2, r"\bfs\.(?:write|append|rm|unlink|rename|chmod|symlink)\w*"),
    ("assembled_name", 3, r"\[\s*['\"]\w*['\"]\s*\+\s*['\"]"),
)
_RUST = _signs(
    (
        "process_exit",
        4,
        r"\bprocess::(?:exit|abort)\b|\blibc::_?exit\b|\bfn _?exit\s*\(|\b_exit\s*\(",
    ),
    ("process_exit", 4, r"link_section|\.init_array|#\[(?:ctor|dtor)|#\[used\]|no_mangle"),
    ("new_process", 3, r"\bprocess::Command\b|\bCommand::new\b|\blibc::(?:fork|exec|kill)\w*"),
    (
        "network",
        3,
        r"\bstd::net\b|\b(?:Tcp|Udp|Unix)(?:Stream|Listener|Socket)\b|\breqwest\b|\bureq\b",
    ),
    ("native_code", 3, r"\bextern\s+\"C\"|\basm!|\bglobal_asm!|\btransmute\b|\bdlopen\b"),
    ("native_code", 2, r"\bunsafe\b"),
    ("tracing", 3, r"\bpanic::(?:set_hook|take_hook|catch_unwind)\b|\bresume_unwind\b"),
    ("always_equal", 4, r"\bfn (?:eq|ne)\s*\([^{]*\{\s*(?:true|false)\s*\}?\s*$"),
    ("always_equal", 1, r"\bimpl\b.*\bPartialEq\b"),
    ("test_detection", 3, r"\bcfg!\(test\)|cfg\(not\(test\)\)|CARGO_(?!PKG_)\w+|RUST_TEST_\w+"),
    ("skipped_test", 3, r"#\[ignore\b|#\[should_panic"),
    (
        "runner_internals",
        4,
        r"macro_rules!\s*(?:assert|panic|debug_assert)\w*|#!\[feature|test_runner",
    ),
    ("code_from_data", 2, r"\binclude(?:_str|_bytes)?!|\benv!|\boption_env!"),
    ("test_files?", 3, TEST_FILES),
    ("host_detection", 1, r"\benv::(?:var|args)\b"),
    ("clock", 1, r"\bSystemTime::now\b"),
    ("file_change", 2, r"\bfs::(?:write|remove|rename|set_permissions)\w*|File::create\b"),
)
_GO = _signs(
    (
        "process_exit",
        4,
        r"\bos\.Exit\b|\bsyscall\.(?:Exit|Kill|RawSyscall|Syscall)\w*|\bruntime\.Goexit\b",
    ),
    ("process_exit", 3, r"\blog\.Fatal\w*"),
    ("runs_at_load", 2, r"^func init\s*\(\s*\)|^var _ = func"),
    ("process_signal", 3, r"\bsignal\.(?:Notify|Ignore|Reset)\b"),
    ("new_process", 3, r"\"os/exec\"|\bexec\.Command\w*|\bos\.StartProcess\b"),
    ("network", 3, r"\"net(?:/\w+)?\"|\bnet\.(?:Dial|Listen)\w*|\bhttp\.(?:Get|Post|Client)\b"),
    ("native_code", 3, r"\"unsafe\"|\bunsafe\.\w+|^import \"C\"|\s\"C\"$|\"plugin\"|\"syscall\""),
    ("runner_internals", 4, r"\bfunc TestMain\b|//go:linkname|\btesting\.MainStart\b"),
    ("runner_internals?", 3, r"\"testing(?:/\w+)?\""),
    ("test_detection", 3, r"\btesting\.Testing\(|flag\.Lookup\(\s*\"test|\"-?test\.\w|GO_TEST\w*"),
    ("test_detection", 2, r"\bos\.Args\b|strings\.\w+\([^)]*\.test\""),
    ("skipped_test", 3, r"\b[tb]\.(?:Skip|SkipNow|Skipf)\s*\(|^//go:build|^// \+build"),
    ("tracing", 2, r"\brecover\s*\(\s*\)"),
    ("frame_walking", 3, r"\bruntime\.(?:Caller|Callers|Stack|CallersFrames)\b|\bdebug\.SetPanic"),
    ("test_files?", 3, TEST_FILES),
    ("host_detection", 1, r"\bos\.(?:Getenv|Environ|LookupEnv|Hostname)\b"),
    ("clock", 1, r"\btime\.Now\b"),
    ("file_change", 2, r"\bos\.(?:WriteFile|Create|Remove|Rename|Chmod|Truncate)\w*"),
)
_TOOLS = (
    r"test|\[|diff|cmp|grep|egrep|echo|printf|true|false|exit|set|trap|command|python3?|node|cat|"
    r"make|sh|bash|cd|return|eval|source|rm|sed|awk|expr|wc|sort|kill"
)
_SHELL = _signs(
    ("process_exit", 4, r"(?:^|[;&|({]\s*|\bthen\s+|\bdo\s+)\s*exit(?:\s+0)?\s*(?:$|[;&|)}#])"),
    ("process_exit", 3, r"(?:^|[;&|]\s*)exec\s+[\w/.-]"),
    (
        "runner_internals",
        4,
        rf"^\s*(?:function\s+)?(?:{_TOOLS})\s*\(\s*\)|^\s*function\s+(?:{_TOOLS})\b",
    ),
    (
        "runner_internals",
        4,
        rf"\balias\s+(?:{_TOOLS})=|\bunset\s+-f\b|\bhash\s+-p\b|\benable\s+-n\b",
    ),
    (
        "swallowed_failure",
        3,
        r"\|\|\s*(?:true|:)\s*(?:$|[;&)}])|\bset\s+\+[a-z]*e|set\s+\+o\s+errexit",
    ),
    ("at_exit", 3, r"\btrap\s"),
    ("process_signal", 3, r"(?:^|[;&|]\s*)(?:kill|pkill|killall)\b|\$PPID\b"),
    ("new_process", 3, r"\bnohup\b|\bsetsid\b|\bdisown\b|[^&>]&\s*$"),
    ("network", 3, r"\b(?:curl|wget|nc|ncat|netcat|ssh|scp|rsync|telnet|ftp)\b"),
    ("code_from_data", 3, r"\beval\b|\bbase64\b|\bxxd\b|\bopenssl\s+enc\b"),
    (
        "environment_changed",
        3,
        r"(?:^|[;&|\s])(?:export\s+)?(?:PATH|LD_\w+|IFS|ENV|BASH_ENV|PYTHON\w+)=",
    ),
    ("test_files?", 3, TEST_FILES),
)
_MAKE = _signs(
    (
        "measurement_replaced",
        4,
        r"^\s*(?:override\s+)?\w+\s*[:?+!]?=\s*@?(?:true|:|/bin/true|echo)\b",
    ),
    (
        "measurement_replaced",
        3,
        r"^(?:export\s+)?(?:SHELL|MAKEFLAGS|PATH|\.SHELLFLAGS)\b\s*[:?+]?=",
    ),
    ("swallowed_failure", 3, r"^\t\s*@?-|\|\|\s*(?:true|:)|^\.(?:IGNORE|SILENT|ONESHELL)\b"),
    ("code_from_data", 3, r"\$\(eval\b|\$\(shell\b|^-?s?include\b"),
)
_C = _signs(
    (
        "process_exit",
        4,
        r"\b_?_?[eE]xit\s*\(|\babort\s*\(|\bquick_exit\b|__attribute__.*constructor",
    ),
    ("process_signal", 3, r"\b(?:kill|raise|signal|sigaction|alarm)\s*\("),
    ("new_process", 3, r"\b(?:fork|vfork|execl\w*|execv\w*|system|popen|posix_spawn\w*)\s*\("),
    ("network", 3, r"\b(?:socket|connect|getaddrinfo)\s*\("),
    ("native_code", 3, r"\b(?:dlopen|dlsym|mprotect|ptrace)\b|\basm\b"),
    ("runner_internals", 4, r"#\s*(?:define|undef)\s+assert\b|#\s*define\s+NDEBUG"),
)
_OTHER = _signs(
    ("process_exit", 3, r"\bSystem\.exit\b|\bEnvironment\.Exit\b|\b_exit\s*\(|\bexit!|\bat_exit\b"),
    ("new_process", 3, r"\bRuntime\.getRuntime\b|\bProcessBuilder\b|\bproc_open\b|\bshell_exec\b"),
    ("network", 3, r"\bjava\.net\.|\bHttpClient\b|\bNet::HTTP\b|\bTCPSocket\b|\bfsockopen\b"),
    ("code_from_data", 3, r"\beval\s*\(|\binstance_eval\b|\bClass\.forName\b|\bbase64_decode\b"),
    ("runner_internals?", 3, r"\borg\.junit\b|\bRSpec\.configure\b|\bMinitest\b|\bPHPUnit\b"),
    ("skipped_test", 3, r"@(?:Disabled|Ignore)\b|\bmarkTestSkipped\b|\bAssume\."),
)
LANGUAGES: dict[str, tuple[Sign, ...]] = {
    "javascript": _JAVASCRIPT,
    "rust": _RUST,
    "go": _GO,
    "shell": _SHELL,
    "make": _MAKE,
    "c": _C,
    "other": _OTHER,
}
_BY_SUFFIX: dict[str, str] = {
    **dict.fromkeys(("py", "pyw", "pyi", "pyx"), "python"),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue"), "javascript"),
    **dict.fromkeys(("sh", "bash", "zsh", "ksh", "bats"), "shell"),
    **dict.fromkeys(("mk", "mak", "make"), "make"),
    **dict.fromkeys(("c", "h", "cc", "cpp", "cxx", "hpp", "hh", "m"), "c"),
    **dict.fromkeys(
        ("java", "kt", "scala", "groovy", "rb", "php", "cs", "fs", "ex", "exs"), "other"
    ),
    "rs": "rust",
    "go": "go",
}
_SHEBANG = re.compile(r"#!.*\b(python|node|sh|bash|zsh|dash)")
_BY_SHEBANG = {"python": "python", "node": "javascript"}


def language_of(path: str, first_line: str = "") -> str:
    """The table that fits `path`; by `#!` where the name says nothing; "" for prose and data."""
    name = path.rpartition("/")[2].lower()
    if name in ("makefile", "gnumakefile"):
        return "make"
    suffix = name.rpartition(".")[2] if "." in name else ""
    found = _BY_SUFFIX.get(suffix, "")
    shebang = _SHEBANG.match(first_line)
    if found == "" and shebang:
        return _BY_SHEBANG.get(shebang.group(1), "shell")
    return found
