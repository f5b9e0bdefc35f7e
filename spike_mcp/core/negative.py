"""Generated negative controls: the oracle with one expected literal changed (spec 11, judge.md).

Where an honest implementation must fail and says "green", the judge was fooled. That only holds if
the change is sure to matter, so this takes far fewer assertions than it could:

* `assert A == B`, `self.assertEqual(A, B)` and its kin, at the top level of a test function's body
  that has no earlier `return`: such a statement runs whenever its test passes, so a test that
  passed in the clean run is an assertion that was seen to pass there;
* exactly one side is made of literals alone (displays, signs, `Decimal("1.00")` of the standard
  library), and the other names something that came from the tree, or may have;
* the literal changed is one whose change changes that side's value for certain.

Pure: source bytes in, source bytes out, line numbers and all other bytes kept. The caller chooses.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

MOST = 5
"""Controls a verdict runs at most."""

_EQUAL = frozenset(
    {
        *("assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual"),
        *("assertDictEqual", "assertSetEqual", "assertMultiLineEqual", "assertSequenceEqual"),
    }
)
# Constructors of the standard library whose value follows their one literal argument.
_EXACT = {"Decimal": "decimal", "Fraction": "fractions"}
_DECORATORS = re.compile(
    r"(pytest\.)?mark\.|(mock\.|unittest\.mock\.)?patch\b|(hypothesis\.)?(given|settings|example)\b"
)
_COOKIE = re.compile(rb"(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Control:
    """One changed oracle.

    `function`: qualified name inside the file (`TestA.test_b`). `line` to `end_line`: the changed
    assertion, 1-based. `source`: the whole new file. `before`, `after`: the literal as written.
    """

    path: str
    function: str
    line: int
    end_line: int
    before: str
    after: str
    source: bytes


@dataclass(frozen=True, slots=True)
class _Spot:
    """One assertion and the changes that can be made to it: (literal, new text)."""

    function: str
    statement: ast.stmt
    changes: tuple[tuple[ast.Constant, str], ...]


def controls(
    path: str,
    source: bytes,
    loaded: Collection[str],
    functions: Collection[str],
    pick: Callable[[int, int], Sequence[int]],
) -> tuple[Control, ...]:
    """At most five controls for one oracle file, each for another assertion.

    `loaded`: repository paths that the clean run loaded from the tree. `functions`: qualified names
    of the test functions that passed in the clean run, every parameter set of them. `pick(n, k)`
    returns k different numbers below n, at random. A file that is no UTF-8 Python gives none.
    """
    tree = _parse(source)
    if tree is None:
        return ()
    wanted = frozenset(functions)
    spots = [spot for spot in _spots(tree, frozenset(loaded)) if spot.function in wanted]
    chosen = sorted(set(pick(len(spots), min(MOST, len(spots)))))
    made = []
    for index in chosen:
        spot = spots[index]
        literal, text = spot.changes[pick(len(spot.changes), 1)[0]]
        made.append(_control(path, source, spot, literal, text))
    return tuple(made)


def _parse(source: bytes) -> ast.Module | None:
    if b"\r" in source.replace(b"\r\n", b""):
        return None  # a lone CR ends a line for Python and none for us
    cookie = _COOKIE.match(source)
    if cookie and cookie[1].lower().replace(b"_", b"-") not in (b"utf-8", b"utf8", b"utf-8-sig"):
        return None
    try:
        return ast.parse(source.decode("utf-8-sig"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _control(path: str, source: bytes, spot: _Spot, literal: ast.Constant, text: str) -> Control:
    lines = source.split(b"\n")
    line = lines[literal.lineno - 1]
    begin, end = literal.col_offset, literal.end_col_offset
    before = line[begin:end]
    lines[literal.lineno - 1] = line[:begin] + text.encode("utf-8") + line[end:]
    return Control(
        path=path,
        function=spot.function,
        line=spot.statement.lineno,
        end_line=spot.statement.end_lineno or spot.statement.lineno,
        before=before.decode("utf-8"),
        after=text,
        source=b"\n".join(lines),
    )


def _spots(tree: ast.Module, loaded: frozenset[str]) -> Iterator[_Spot]:
    """Every assertion that may be changed, in order of the file."""
    outside = _outside_names(tree, loaded)
    for name, function in _test_functions(tree):
        for statement in _certain(function.body):
            literal = _literal_side(statement, outside)
            if literal is None:
                continue
            changes = tuple(
                (constant, text)
                for constant in _changeable(literal)
                if constant.lineno == constant.end_lineno
                and (text := _changed(constant, literal)) is not None
            )
            if changes:
                yield _Spot(name, statement, changes)


def _test_functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions that surely are the ones the runner calls by that name, and runs to their end."""
    for node in _once(tree.body):
        if isinstance(node, ast.ClassDef) and not node.decorator_list:
            for inner in _once(node.body):
                # An `async def` in a plain TestCase passes without having run.
                if isinstance(inner, ast.FunctionDef) and _is_plain(inner):
                    yield f"{node.name}.{inner.name}", inner
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_plain(node):
            yield node.name, node  # type: ignore[misc]  # both have the fields that are used


def _once(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Definitions whose name is bound exactly once in this body, and by no later `import *`."""
    names: dict[str, int] = {}
    last_star = -1
    for index, statement in enumerate(body):
        for node in _own(statement):
            for name in _bound(node):
                names[name] = names.get(name, 0) + 1
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    last_star = index if alias.name == "*" else last_star
                    name = alias.asname or alias.name.partition(".")[0]
                    names[name] = names.get(name, 0) + 1
    for index, statement in enumerate(body):
        name = getattr(statement, "name", "")
        if index > last_star and names.get(name) == 1:
            yield statement


def _is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """No generator (unittest passes one without running it), no decorator that may swallow."""
    if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node)):
        return False
    return all(_DECORATORS.match(ast.unparse(item)) for item in node.decorator_list)


def _certain(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whenever the function ends without an exception."""
    for statement in body:
        yield statement
        if any(
            isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in _own(statement)
        ):
            return


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """Nodes of a statement, without those of functions and classes defined in it."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _SCOPES):
            todo.extend(ast.iter_child_nodes(node))


def _sides(statement: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """(A, B) of `assert A == B` or `self.assertEqual(A, B)`."""
    if isinstance(statement, ast.Assert):
        test = statement.test
        single = isinstance(test, ast.Compare) and len(test.ops) == 1
        if single and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            return test.left, test.comparators[0]
        return None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        named = isinstance(call.func, ast.Attribute) and call.func.attr in _EQUAL
        plain = not any(isinstance(item, ast.Starred) for item in call.args)
        own = named and isinstance(call.func, ast.Attribute) and _is_self(call.func.value)
        if own and plain and len(call.args) >= 2:
            return call.args[0], call.args[1]
    return None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _literal_side(statement: ast.stmt, outside: frozenset[str]) -> ast.expr | None:
    """The side of literals alone of an equality assertion, if the other side is not."""
    sides = _sides(statement)
    if sides is None:
        return None
    left, right = sides
    left_fixed, right_fixed = _is_fixed(left, outside), _is_fixed(right, outside)
    if left_fixed == right_fixed:
        return None
    literal, other = (left, right) if left_fixed else (right, left)
    if _is_tolerant(other):
        return None
    names = {node.id for node in ast.walk(other) if isinstance(node, ast.Name)}
    return literal if names - outside - _HARMLESS else None


# A side that names nothing else computes its value without the tree: changing it proves nothing.
_HARMLESS = frozenset({"len", "sorted", "list", "tuple", "dict", "set", "str", "int", "repr"})


def _is_tolerant(node: ast.expr) -> bool:
    """Things made to equal more than one value."""
    for part in ast.walk(node):
        name = part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
        if name in ("approx", "ANY", "raises", "Approx"):
            return True
    return False


def _is_fixed(node: ast.expr, outside: frozenset[str]) -> bool:
    """Made of literals alone, so that its value is known without running anything of the tree."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, type(Ellipsis))
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return bool(node.elts) and all(_is_fixed(item, outside) for item in node.elts)
    if isinstance(node, ast.Dict):
        keys = [key for key in node.keys if key is not None]
        fixed = all(_is_fixed(item, outside) for item in (*keys, *node.values))
        return bool(keys) and len(keys) == len(node.keys) and fixed
    if isinstance(node, ast.UnaryOp):
        number = isinstance(node.op, ast.USub | ast.UAdd) and isinstance(node.operand, ast.Constant)
        return number and isinstance(getattr(node.operand, "value", None), int | float)
    if isinstance(node, ast.Call):
        return _is_exact_call(node, outside)
    return False


def _is_exact_call(node: ast.Call, outside: frozenset[str]) -> bool:
    if isinstance(node.func, ast.Name):
        name, known = node.func.id, node.func.id in outside
    elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        module = node.func.value.id
        name, known = node.func.attr, module in outside and module in _EXACT.values()
    else:
        return False
    single = len(node.args) == 1 and not node.keywords
    return name in _EXACT and known and single and isinstance(node.args[0], ast.Constant)


def _changeable(node: ast.expr) -> Iterator[ast.Constant]:
    """Literals of a fixed side whose change is sure to change it (no dict keys)."""
    if isinstance(node, ast.Constant):
        yield node
    elif isinstance(node, ast.List | ast.Tuple):
        for item in node.elts:
            yield from _changeable(item)
    elif isinstance(node, ast.Dict):
        for item in node.values:
            yield from _changeable(item)
    elif isinstance(node, ast.UnaryOp):
        yield from _changeable(node.operand)
    elif isinstance(node, ast.Call):
        yield from _changeable(node.args[0])


def _changed(node: ast.Constant, side: ast.expr) -> str | None:
    """New text for a literal; None where no change is certain to be seen."""
    value = node.value
    if isinstance(value, bool):
        return str(not value)
    if value is None:
        return "'spike'"
    if isinstance(value, int):
        return str(value + 1)
    if isinstance(value, float):
        changed = value * 2 + 1
        return repr(changed) if changed != value and abs(changed) < 1e300 else None
    if isinstance(value, str):
        return repr(_other_text(value, _in_call(node, side)))
    if isinstance(value, bytes):
        return repr(bytes([value[0] ^ 1]) + value[1:] if value else b"x")
    return None


def _in_call(node: ast.Constant, side: ast.expr) -> bool:
    return any(isinstance(part, ast.Call) and node in part.args for part in ast.walk(side))


def _other_text(text: str, number: bool) -> str:
    """Another text of the same look: the last digit differs, else the last letter."""
    for index in range(len(text) - 1, -1, -1):
        if text[index] in "0123456789":
            digit = "8" if text[index] == "9" else str(int(text[index]) + 1)  # never a new 0
            return text[:index] + digit + text[index + 1 :]
    if number or not text:
        return text + "1"
    last = text[-1]
    return text[:-1] + ("x" if last.lower() != "x" else "y")


def _outside_names(tree: ast.Module, loaded: frozenset[str]) -> frozenset[str]:
    """Names bound only by module-level imports from outside the tree, so surely not the tree's."""
    outside: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                (other if is_tree_module(alias.name, loaded) else outside).add(name)
        elif isinstance(node, ast.ImportFrom):
            inner = node.level > 0 or is_tree_module(node.module or "", loaded)
            (other if inner else outside).update(a.asname or a.name for a in node.names)
        else:
            other.update(_bound(node))
    return frozenset(outside - other - {"*"})


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a node binds other than by import."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name


def is_tree_module(name: str, loaded: Collection[str]) -> bool:
    """Does a module name (or its first package) belong to a file that was loaded from the tree?"""
    if not name:
        return False
    first, whole = name.partition(".")[0], name.replace(".", "/")
    for path in loaded:
        padded = f"/{path}"
        if padded.endswith((f"/{whole}.py", f"/{whole}/__init__.py", f"/{first}.py")):
            return True
        if f"/{first}/" in padded:
            return True
    return False
