"""Tamper signs in Python, read from the syntax tree (spec 11).

The tree sees what a regex misses: full-width names (Python folds them), aliases, names put
together from pieces, payloads after a `;`.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from spike_mcp.core.flag_tables import (
    FINE_IN_TESTS,
    PYTHON_ATTRIBUTES,
    PYTHON_HOOKS,
    PYTHON_NAMES,
    PYTHON_STRINGS,
    Hit,
)

_SCALARS = frozenset(
    {"str", "int", "float", "bool", "bytes", "complex", "tuple", "list", "dict", "set", "frozenset"}
    | {"decimal.Decimal", "fractions.Fraction", "datetime.datetime", "datetime.date"}
)
_LOOKUPS = frozenset({"getattr", "setattr", "delattr", "hasattr", "__import__"})
_DATA_RUNNERS = {"exec": 3, "eval": 3, "compile": 1, "__import__": 2}
_CODE_OBJECTS = frozenset({"types.CodeType", "types.FunctionType"})
_MODULE_CHANGES = frozenset({"pop", "update", "clear", "setdefault", "items", "values", "popitem"})
_DECORATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)  # begin before their `lineno`
_LONGEST_STRING = 2000
_WRITE_MODES = frozenset("wax+")


def tree_hits(source: bytes, lines: range, tests: bool, program: bool) -> list[Hit] | None:
    """Signs on `lines` (1-based) of `source`; None when it is no Python that parses.

    `tests` says that the file is a test, where runner names mean nothing; `program` that it is
    run and not imported (`__main__.py`), so that leaving is ordinary.
    """
    try:
        module = _module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    finder = _Finder(module, lines, "main" if program else "module")
    return [
        Hit(name, line, weight)
        for name, line, weight in finder.hits()
        if not (tests and (name in FINE_IN_TESTS or name == "test_files"))
    ]


_Found = tuple[str, int, int]
_Module = tuple[ast.Module, dict[str, str], frozenset[int]]


@lru_cache(maxsize=1)
def _module(source: bytes) -> _Module:
    """Tree, aliases and docstrings of a file; kept while the file's regions are looked at."""
    tree = ast.parse(source)
    docstrings = frozenset(
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and _is_text(node.value)
    )
    return tree, _aliases(tree), docstrings


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Name -> what it was imported as, for the whole file; `x = module` counts too."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                bound = item.asname or item.name.partition(".")[0]
                names[bound] = item.name if item.asname else bound
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for item in node.names:
                names[item.asname or item.name] = f"{node.module}.{item.name}"
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            known = names.get(node.value.id)
            for target in node.targets if known else ():
                if isinstance(target, ast.Name):
                    names.setdefault(target.id, known or "")
    return names


def _lookup(dotted: str) -> tuple[str, int] | None:
    """The sign of the longest known beginning of `dotted`."""
    while dotted:
        if dotted in PYTHON_NAMES:
            return PYTHON_NAMES[dotted]
        dotted = dotted.rpartition(".")[0]
    return None


def _is_main_guard(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_assembled(node: ast.AST) -> bool:
    """A string made in a way that hides it: pieces added up, joined, reversed, from codes."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = node.left, node.right
        return (_is_text(left) or _is_assembled(left)) and (_is_text(right) or _is_assembled(right))
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _is_text(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        hiding = node.func.attr in ("join", "decode", "replace", "format", "fromhex")
        return hiding and _is_text(node.func.value)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "chr"


def _returns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr | None]:
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]


def _tests_a_foreign_type(value: ast.expr) -> bool:
    """`isinstance(other, str)`; a test for the object's own class is an honest equality."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return False
    inside = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return value.func.id in ("isinstance", "hasattr") and not inside & {"self", "__class__"}


def _says_equal(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """`__eq__` (or `__ne__`) that answers without looking at a value: a constant or a type test."""
    wanted = function.name == "__eq__"
    values = [value for value in _returns(function) if value is not None]
    plain = [
        value
        for value in values
        if (isinstance(value, ast.Constant) and value.value is wanted)
        or _tests_a_foreign_type(value)
    ]
    return bool(plain) and len(plain) == len(values)


class _Finder:
    """Walks one module and yields (sign, line, weight) for nodes that touch the wanted lines."""

    def __init__(self, module: _Module, lines: range, scope: str) -> None:
        self._tree, self._aliases, self._docstrings = module
        self._scope = scope
        self._lines = lines

    def hits(self) -> Iterator[_Found]:
        """Every sign, in no particular order."""
        stack: list[tuple[ast.AST, str]] = [(self._tree, self._scope)]
        while stack:
            node, scope = stack.pop()
            line = self._touched(node)
            if line == 0 and hasattr(node, "lineno") and not isinstance(node, _DECORATED):
                continue
            if line:
                yield from ((name, line, weight) for name, weight in self._signs(node, scope))
            inner = _scope_of(node, scope)
            stack.extend((child, inner) for child in ast.iter_child_nodes(node))

    def _touched(self, node: ast.AST) -> int:
        """The first wanted line that the node covers, 0 when there is none."""
        first = getattr(node, "lineno", None)
        if first is None:
            return 0
        last = getattr(node, "end_lineno", None) or first
        start = max(first, self._lines.start)
        return start if start < self._lines.stop and start <= last else 0

    def _dotted(self, node: ast.AST) -> str:
        """`a.b.c` of an attribute chain, its first name resolved; "" when it starts elsewhere."""
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        names.append(self._aliases.get(node.id, node.id))
        return ".".join(reversed(names))

    def _signs(self, node: ast.AST, scope: str) -> Iterable[tuple[str, int]]:
        match node:
            case ast.Import() | ast.ImportFrom():
                return self._import(node)
            case ast.Attribute() | ast.Name():
                return self._reference(node)
            case ast.Call():
                return self._call(node, scope)
            case ast.Raise():
                return self._raise(node, scope)
            case ast.Constant(value=str()) if id(node) not in self._docstrings:
                return self._string(str(node.value))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._function(node)
            case ast.ClassDef():
                return self._class(node)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete():
                return self._assignment(node, scope)
            case _:
                return ()

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, int]]:
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
        if isinstance(node, ast.ImportFrom) and node.level:
            return
        for item in node.names:
            found = _lookup(base + item.name)
            if found is not None:
                yield found

    def _reference(self, node: ast.Attribute | ast.Name) -> Iterator[tuple[str, int]]:
        dotted = self._dotted(node)
        root = dotted.partition(".")[0]
        imported = root in self._aliases.values() or "." in dotted or root in PYTHON_NAMES
        found = _lookup(dotted) if dotted and imported else None
        if found is not None:
            yield found
        if isinstance(node, ast.Attribute) and node.attr in PYTHON_ATTRIBUTES:
            yield PYTHON_ATTRIBUTES[node.attr]
        if dotted == "sys.modules":
            yield "modules_changed", 1

    def _call(self, node: ast.Call, scope: str) -> Iterator[tuple[str, int]]:
        dotted = self._dotted(node.func)
        if isinstance(node.func, ast.Attribute | ast.Name):
            yield from self._reference(node.func)  # only the arguments may stand on wanted lines
        if dotted in _DATA_RUNNERS:
            yield "code_from_data", _DATA_RUNNERS[dotted]
        if dotted in _CODE_OBJECTS:
            yield "code_from_data", 3
        if dotted in _LOOKUPS or dotted == "importlib.import_module":
            yield from self._name_lookup(node, dotted)
        if dotted in ("sys.exit", "exit", "quit"):
            yield "process_exit", _exit_weight(node.args, scope)
        if dotted == "open" or dotted.endswith((".write_text", ".write_bytes")):
            yield from _file_write(node, dotted, scope)
        head, _, method = dotted.rpartition(".")
        if head == "sys.modules" and method in _MODULE_CHANGES:
            yield "modules_changed", 3
        if head == "sys.path":
            yield "import_hook", 2

    def _name_lookup(self, node: ast.Call, dotted: str) -> Iterator[tuple[str, int]]:
        if any(_is_assembled(argument) for argument in node.args):
            yield "assembled_name", 4
        if dotted == "__import__" and node.args and not _is_text(node.args[0]):
            yield "code_from_data", 2
        if dotted == "setattr" and node.args and self._is_imported(node.args[0]):
            yield "patches_import", 3

    def _is_imported(self, node: ast.AST) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._aliases

    def _raise(self, node: ast.Raise, scope: str) -> Iterator[tuple[str, int]]:
        call = node.exc if isinstance(node.exc, ast.Call) else None
        raised = call.func if call else node.exc
        if raised is None:
            return
        dotted = self._dotted(raised)
        if dotted == "SystemExit":
            yield "process_exit", _exit_weight(call.args if call else [], scope)
        if dotted.rpartition(".")[2] in ("SkipTest", "Skipped", "XFailed", "OutcomeException"):
            yield "skipped_test", 3

    def _string(self, text: str) -> Iterator[tuple[str, int]]:
        for sign in PYTHON_STRINGS:
            if sign.regex.search(text[:_LONGEST_STRING]):
                yield sign.name, sign.weight

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, int]]:
        if PYTHON_HOOKS.fullmatch(node.name):
            yield "runner_internals", 3
        comparison = node.name in ("__eq__", "__ne__")
        if comparison and _says_equal(node):
            yield "always_equal", 4
        if node.name in ("__class__", "__instancecheck__"):
            yield "always_equal", 3 if node.name == "__class__" else 1

    def _class(self, node: ast.ClassDef) -> Iterator[tuple[str, int]]:
        bases = {self._dotted(base) for base in node.bases}
        own = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        if bases & _SCALARS and any(item.name in ("__eq__", "__ne__") for item in own):
            yield "always_equal", 3

    def _assignment(
        self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete, scope: str
    ) -> Iterator[tuple[str, int]]:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        value = None if isinstance(node, ast.Delete) else node.value
        for target in targets:
            if isinstance(target, ast.Name) and PYTHON_HOOKS.fullmatch(target.id):
                yield "runner_internals", 3
            if isinstance(target, ast.Name) and target.id == "__eq__" and scope == "class":
                yield "always_equal", 3 if isinstance(value, ast.Lambda) else 1
            if isinstance(target, ast.Subscript):
                yield from self._subscript_target(target)
            if isinstance(target, ast.Attribute) and self._is_imported(target):
                stream = self._dotted(target) in ("sys.stdout", "sys.stderr", "sys.stdin")
                yield "patches_import", 2 if stream else 3

    def _subscript_target(self, target: ast.Subscript) -> Iterator[tuple[str, int]]:
        dotted = self._dotted(target.value)
        if dotted == "sys.modules":
            yield "modules_changed", 3
        if dotted == "sys.path":
            yield "import_hook", 2
        if dotted.endswith(".__dict__") and not dotted.startswith(("self.", "cls.")):
            yield "patches_import", 2


def _scope_of(node: ast.AST, outer: str) -> str:
    """Where the children of `node` run: `module`, `class`, `function`, or `main`."""
    if _is_main_guard(node):
        return "main"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        name = getattr(node, "name", "").strip("_")
        return "main" if outer == "main" or name.startswith(("main", "cli", "run")) else "function"
    if isinstance(node, ast.ClassDef):
        return "class"
    return outer


def _exit_weight(arguments: list[ast.expr], scope: str) -> int:
    """Leaving with 0 is what a forger does; in `main`, or with a failure, it is ordinary."""
    if scope == "main":
        return 1
    if not arguments:
        return 3
    status = arguments[0]
    if isinstance(status, ast.Constant):
        return 1 if status.value else 3
    return 3 if scope == "module" else 1


def _file_write(node: ast.Call, dotted: str, scope: str) -> Iterator[tuple[str, int]]:
    modes = [argument for argument in node.args[1:2] if _is_text(argument)]
    modes += [word.value for word in node.keywords if word.arg == "mode" and _is_text(word.value)]
    writes = dotted != "open" or any(
        _WRITE_MODES & set(str(mode.value)) for mode in modes if isinstance(mode, ast.Constant)
    )
    if writes:
        yield "file_change", 3 if scope == "module" else 1
