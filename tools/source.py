"""Reads a tree of Python source: its modules, their imports, the module names in their strings.

Nothing is imported or run: all is read from the syntax trees.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

# The floors of the product, the highest first; those of one row know nothing of each other.
FLOORS: Final = (
    ("krucible",),
    ("pipeline",),
    ("reports",),
    ("workloads",),
    ("checkers", "nemesis"),
    ("harness",),
    ("node",),
)
ROOTS: Final = tuple(root for row in FLOORS for root in row)
LEVEL: Final[Mapping[str, int]] = {
    root: len(FLOORS) - n for n, row in enumerate(FLOORS) for root in row
}
FILES: Final = frozenset({"node.log", "node.properties"})  # of a node, called as modules are
_CODE: Final = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*(?:\.\w+)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Import:
    """One module of ours imports another, at a line; ``typing``: for the type checker only."""

    source: str
    target: str
    line: int
    typing: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A string in one module names another module of ours."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class ClassSite:
    """A class: where it is, and its bases as ``module.Class``, or as written if not ours."""

    name: str  # module.Class
    line: int
    bases: tuple[str, ...]


@dataclass(slots=True)
class Module:
    """A file of Python."""

    name: str
    path: Path  # from the root of the tree
    tree: ast.Module
    lines: int
    package: bool
    loads: list[int] = field(default_factory=list)  # lines that import by a name worked out there

    @property
    def root(self) -> str:
        """The top-level folder."""
        return self.name.partition(".")[0]


class Tree:
    """All Python files of the product below a folder, or of other top-level folders of it."""

    def __init__(self, folder: Path, roots: Iterable[str] = ROOTS) -> None:
        """Read the files; raises SyntaxError for one that is no Python."""
        self.folder = folder
        self.modules: dict[str, Module] = {}
        for root in roots:
            for path in sorted((folder / root).rglob("*.py")):
                module = _read(folder, path)
                self.modules[module.name] = module

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every import between modules of ours, also in functions and for the type checker."""
        found: list[Import] = []
        for module in self.modules.values():
            typing = _typing_lines(module.tree)
            for node in ast.walk(module.tree):
                for target in self._targets(node):
                    if target != module.name:
                        site = node.lineno if isinstance(node, ast.stmt) else 0
                        found.append(Import(module.name, target, site, site in typing))
        return tuple(found)

    def _targets(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._known(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from self._known(inner if inner in self.modules else node.module)

    def _known(self, name: str) -> Iterator[str]:
        if name in self.modules:
            yield name

    @cached_property
    def names(self) -> tuple[Named, ...]:
        """Every string (no docstring) that names a module of ours, or is source that imports one.

        A name without a dot is one of a module only after ``"-m"``.
        """
        found: list[Named] = []
        for module in self.modules.values():
            skip = set(_docstrings(module.tree))
            for node in ast.walk(module.tree):
                if isinstance(node, ast.JoinedStr):
                    found += self._begun(module.name, node)
                if isinstance(node, ast.List | ast.Tuple):
                    found += self._commands(module.name, node.elts)
                if isinstance(node, ast.Call):
                    found += self._commands(module.name, node.args)
                if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                    continue
                if id(node) not in skip:
                    found += (
                        Named(module.name, target, node.lineno)
                        for target in self._named(node.value)
                    )
        return tuple(dict.fromkeys(found))

    def _commands(self, module: str, parts: list[ast.expr]) -> Iterator[Named]:
        """``-m`` and a top-level folder."""
        for flag, name in pairwise(parts):
            if (
                isinstance(flag, ast.Constant)
                and flag.value == "-m"
                and isinstance(name, ast.Constant)
                and name.value in self.modules
            ):
                yield Named(module, name.value, name.lineno)

    def _begun(self, module: str, text: ast.JoinedStr) -> Iterator[Named]:
        """An f-string that begins with a module and a dot."""
        first = text.values[0] if text.values else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            name = first.value.rstrip(".")
            if name != first.value and name in self.modules:
                yield Named(module, name, text.lineno)

    def _named(self, text: str) -> Iterator[str]:
        name = text.partition(":")[0]
        if "." in name and name in self.modules and name not in FILES:
            yield name
        for match in _CODE.finditer(text):
            root = match[1].partition(".")[0]
            if root in ROOTS and (root in self.modules or "." in match[1]):
                yield match[1]

    @cached_property
    def classes(self) -> dict[str, ClassSite]:
        """All classes at the top of modules, by ``module.Class``."""
        sites: dict[str, ClassSite] = {}
        for module in self.modules.values():
            meaning = self._meaning(module)
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    bases = tuple(_resolved(base, module.name, meaning) for base in node.bases)
                    name = f"{module.name}.{node.name}"
                    sites[name] = ClassSite(name, node.lineno, bases)
        return sites

    def _meaning(self, module: Module) -> dict[str, str]:
        """Map the imported names of a module to what they stand for."""
        meaning: dict[str, str] = {}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    meaning[alias.asname or alias.name] = alias.name
        return meaning


def _read(folder: Path, path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    inside = path.relative_to(folder)
    package = inside.name == "__init__.py"
    parts = inside.parent.parts if package else inside.with_suffix("").parts
    tree = ast.parse(text, filename=str(inside))
    module = Module(".".join(parts), inside, tree, text.count("\n"), package)
    module.loads = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr == "import_module")
            or (isinstance(node.func, ast.Name) and node.func.id in ("import_module", "__import__"))
        )
    ]
    return module


def _typing_lines(tree: ast.Module) -> set[int]:
    """The lines of imports that are there for the type checker only."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _is_typing(node.test):
            inner = (each for child in node.body for each in ast.walk(child))
            lines |= {n.lineno for n in inner if isinstance(n, ast.Import | ast.ImportFrom)}
    return lines


def _is_typing(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def _docstrings(tree: ast.Module) -> Iterator[int]:
    """The ids of the nodes that are docstrings, or stand alone as comments do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


def _resolved(base: ast.expr, module: str, meaning: Mapping[str, str]) -> str:
    if isinstance(base, ast.Subscript):
        return _resolved(base.value, module, meaning)
    if isinstance(base, ast.Name):
        return meaning.get(base.id, f"{module}.{base.id}")
    if isinstance(base, ast.Attribute):
        inner = _resolved(base.value, module, meaning)
        return f"{inner}.{base.attr}"
    return ast.unparse(base)


# --------------------------------------------------------------------------- graphs

Graph = Mapping[str, Collection[str]]


def graph(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The successors of every node; edges to themselves are left out."""
    found: dict[str, set[str]] = {node: set() for node in nodes}
    for source, target in edges:
        if source != target:
            found[source].add(target)
    return found


def circles(arrows: Graph) -> list[tuple[str, ...]]:
    """The strongly connected components of more than one node, sorted (Tarjan 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on: set[str] = set()
    found: list[tuple[str, ...]] = []
    for start in sorted(arrows):
        if start in number:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(node: str, work: list[tuple[str, Iterator[str]]] = work) -> None:
            number[node] = low[node] = len(number)
            stack.append(node)
            on.add(node)
            work.append((node, iter(sorted(arrows[node]))))

        enter(start)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in number:
                    enter(target)
                    break
                if target in on:
                    low[node] = min(low[node], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    cut = stack.index(node)
                    group = stack[cut:]
                    del stack[cut:]
                    on.difference_update(group)
                    if len(group) > 1:
                        found.append(tuple(sorted(group)))
    return sorted(found)


def reduced(arrows: Graph) -> dict[str, set[str]]:
    """Remove arrows that a longer way along others replaces; circles keep all of theirs."""
    ring = {node: n for n, group in enumerate(circles(arrows)) for node in group}

    def beyond(node: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(arrows[node])
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += arrows[each]
        return seen

    reach = {node: beyond(node) for node in arrows}
    kept: dict[str, set[str]] = {}
    for node, targets in arrows.items():
        kept[node] = {
            target
            for target in targets
            if (node in ring and ring.get(target) == ring[node])
            or not any(
                target in reach[other] and node not in reach[other] and other not in reach[target]
                for other in targets
                if other != target
            )
        }
    return kept
