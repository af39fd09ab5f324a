"""Mutations of source code: small changes of a program, made by machine, each at one place.

The operators are those of the field (Offutt et al., "An experimental determination of sufficient
mutant operators", TOSEM 1996), and two for code that acts on the world: an effect is dropped, and
two effects change places. Text is left alone, and so is all that only tells of the program: traces,
logs, errors.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import groupby
from pathlib import Path
from random import Random
from types import CodeType, ModuleType
from typing import Any

from bench.support.hunts import one_by_one

TELLING = frozenset(("trace", "debug", "info", "warning", "error", "exception"))
UNTOUCHED = frozenset(("__init__", "__repr__", "__str__", "to_json"))
TEXT_MAX = 100  # characters of a place, where it is shown
_BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_EQUALITIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_MARK = "mark_as_reached__"  # two in front would mean another name in each class
_reached: list[bool] = []
_SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change: where it is, and what it makes of what."""

    file: str  # relative to the root of the source
    line: int
    operator: str
    number: int  # of the change, in its file
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.operator}: {self.before} -> {self.after}"

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object; ``Mutation(**it)`` is it again."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a tree that can be made."""

    operator: str
    line: int
    before: str
    after: str
    make: Callable[[], None]


def mutations(file: str, source: str) -> list[Mutation]:
    """Give all mutations of a file, in the order of their places."""
    return [
        Mutation(file, change.line, change.operator, number, change.before, change.after)
        for number, change in enumerate(_changes(ast.parse(source)))
    ]


def mutated(source: str, mutation: Mutation) -> ast.Module:
    """Give the tree of a file with the mutation in it.

    Raises:
        ValueError: The source is not the one that the mutation was found in.
    """
    tree = ast.parse(source)
    change = next((c for n, c in enumerate(_changes(tree)) if n == mutation.number), None)
    if change is None or (change.operator, change.line) != (mutation.operator, mutation.line):
        raise ValueError(f"{mutation.file} has no such place any more: {mutation}")
    change.make()
    return ast.fix_missing_locations(tree)


def reached() -> bool:
    """Tell whether the changed place of this process was ever reached."""
    return bool(_reached)


def draw(all_of: list[Mutation], rng: Random) -> Iterator[Mutation]:
    """Draw mutations, none twice: first an operator, each as likely as the others, then a place."""
    by_operator = sorted(all_of, key=lambda m: (m.operator, m.file, m.number))
    return one_by_one(
        {name: list(group) for name, group in groupby(by_operator, key=lambda m: m.operator)}, rng
    )


def plant(mutation: Mutation, root: Path) -> None:
    """Have the mutated module imported in the place of the real one, in this process.

    Raises:
        ValueError: The module is there already, unmutated, or the mutation is of another source.
    """
    module = mutation.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if module in sys.modules:
        raise ValueError(f"{module} was imported before it was mutated")
    tree = mutated((root / mutation.file).read_text(encoding="utf-8"), mutation)
    sys.meta_path.insert(0, _Finder(module, tree))


class _Finder:
    """This finder finds one module, and gives it another code."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self._module = module
        self._tree = tree

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin, self._tree)
        return spec


class _Loader(SourceFileLoader):
    """This loader takes the code from a tree, not from the file."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, _: str) -> CodeType:
        code: CodeType = compile(self._tree, self.path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_MARK] = _mark
        super().exec_module(module)


def _mark(value: Any = None) -> Any:
    """Give a value, and note that somebody asked for it."""
    if not _reached:
        _reached.append(True)
    return value


def _marked(*value: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(_MARK, ast.Load()), list(value), [])


def _changes(tree: ast.Module) -> Iterator[_Change]:
    """Give all changes of a tree. None is made, and they are of use until the first one is."""
    for function in _functions(tree):
        for body in _bodies(function):
            yield from _of_statements(body)
        yield from _of_expressions(function)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Give the outermost functions of a tree, methods included."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if child.name not in UNTOUCHED:
                yield child
        else:
            yield from _functions(child)


def _bodies(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in _walk(function):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Give a node and all below it, in the order of the source, without what only tells."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not _only_tells(child):
            yield from _walk(child)


def _only_tells(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Assert() | ast.arguments():
            return True
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            name = name.lstrip("_")
            return name in TELLING or name.startswith("trace_") or name.endswith("Error")
        case ast.AnnAssign(value=None):
            return True
        case _:
            return False


def _of_statements(body: list[ast.stmt]) -> Iterator[_Change]:
    """Give the changes of a block: dropped effects and guards, and effects in another order."""
    for at, statement in enumerate(body):
        following = body[at + 1] if at + 1 < len(body) else None
        if _is_effect(statement):
            yield _dropped(body, at, "dropped effect")
            if following is not None and _is_effect(following):
                yield _exchanged(body, at)
        elif _is_guard(statement):
            yield _dropped(body, at, "dropped guard")


def _is_effect(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Await(value=value)) | ast.Expr(value=value):
            return isinstance(value, ast.Call) and not _only_tells(value)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            return True
        case _:
            return False


def _is_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If) or statement.orelse or len(statement.body) != 1:
        return False
    return isinstance(statement.body[0], ast.Return | ast.Continue | ast.Break)


def _dropped(body: list[ast.stmt], at: int, operator: str) -> _Change:
    old = body[at]

    def make() -> None:
        body[at] = ast.copy_location(ast.Expr(_marked()), old)

    return _Change(operator, old.lineno, _text(old), "pass", make)


def _exchanged(body: list[ast.stmt], at: int) -> _Change:
    def make() -> None:
        mark = ast.copy_location(ast.Expr(_marked()), body[at])
        body[at : at + 2] = [mark, body[at + 1], body[at]]

    first, second = _text(body[at]), _text(body[at + 1])
    return _Change(
        "swapped order", body[at].lineno, f"{first}; {second}", f"{second}; {first}", make
    )


def _of_expressions(function: ast.AST) -> Iterator[_Change]:
    for node in _walk(function):
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            if isinstance(value, ast.expr):
                yield from _of_expression(node, name, None, value)
            elif isinstance(value, list):
                for at, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        yield from _of_expression(node, name, at, item)


def _of_expression(parent: ast.AST, name: str, at: int | None, old: ast.expr) -> Iterator[_Change]:
    if _only_tells(old):
        return
    is_condition = name == "test" and isinstance(parent, ast.If | ast.While | ast.IfExp)
    for operator, new in _instead(old, is_condition=is_condition):
        yield _Change(
            operator, old.lineno, _text(old), _text(new), _setter(parent, name, at, old, new)
        )


def _setter(
    parent: ast.AST, name: str, at: int | None, old: ast.expr, new: ast.expr
) -> Callable[[], None]:
    def make() -> None:
        placed = ast.copy_location(_marked(new), old)
        if at is None:
            setattr(parent, name, placed)
        else:
            getattr(parent, name)[at] = placed

    return make


def _instead(node: ast.expr, *, is_condition: bool) -> Iterator[tuple[str, ast.expr]]:
    """Give what may stand in the place of an expression, each with its operator's name."""
    match node:
        case ast.Compare(ops=[op]):
            for name, others in (("bound", _BOUNDS), ("equality", _EQUALITIES)):
                if type(op) in others:
                    yield name, ast.Compare(node.left, [others[type(op)]()], node.comparators)
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "connective", ast.BoolOp(other, values)
            for without in range(len(values)):
                kept = values[:without] + values[without + 1 :]
                yield "dropped condition", kept[0] if len(kept) == 1 else ast.BoolOp(op, kept)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation", operand
        case ast.BinOp(op=ast.Add(), left=left, right=right) if not _has_text(node):
            yield "arithmetic", ast.BinOp(left, ast.Sub(), right)
        case ast.BinOp(op=ast.Sub(), left=left, right=right):
            yield "arithmetic", ast.BinOp(left, ast.Add(), right)
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() as number):
            yield "constant", ast.Constant(number + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "branch", ast.IfExp(test, orelse, body)
        case ast.Call(func=ast.Name(id=name)) if name in _SWAPPED_CALLS:
            other_name = ast.Name(_SWAPPED_CALLS[name], ast.Load())
            yield "bound", ast.Call(other_name, node.args, node.keywords)
    if is_condition and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
        yield "negation", ast.UnaryOp(ast.Not(), node)


def _has_text(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.JoinedStr)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in ast.walk(node)
    )


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
