"""Holds the shape of the house: ``check``, ``counts`` and ``draw`` (``python -m tools.house``).

``check`` exits 1 for circles of imports, arrows that run up (also in strings), names of modules in
strings, chains of more than two classes, families of files by prefix, and helpers among plug-ins.
``counts`` prints figures of any tree, which it runs for the last two (``tools.passage``), ``draw``
writes docs/house.svg. docs/architecture.md tells more.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.passage import figures
from tools.picture import picture
from tools.source import LEVEL, ROOTS, Module, Tree, circles, graph

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = "docs/house.svg"
CHAIN_MAX: Final = 2  # classes of ours from the first to the last heir
FAMILY_MIN: Final = 3  # files of one folder that share a prefix are a folder

# Who may import a module by a name that is worked out: it finds plug-ins, or files that are listed
# nowhere because each registers itself.
DISCOVERY: Final[Mapping[str, str]] = {
    "harness.registry": "plug-ins, and what lies beside them (`heal`)",
    "checkers.monitor.catalogue": "invariants, one file each",
    "reports.pictures": "pictures of anomalies, one file each",
    "pipeline.transforms": "transforms, one file each",
    "node.mutants": "seeded bugs, one file each",
    "harness.systems.kafka.bugs": "bugs of releases, one file each",
    "node.driver.apis.registry": "handlers of requests, one file each family",
    "krucible.app": "verbs, one file each, loaded when one is wanted",
}
# Who may name modules in strings: the folders in which plug-ins are looked for.
NAMES: Final = frozenset({"harness.registry"})
PLUGINS: Final = (
    "nemesis",
    "checkers",
    "checkers/models",
    "workloads",
    "harness/systems",
    "harness/envs",
    "node/mutants",
)
# What is not so yet. A line that is no longer true is told, too: take it out.
KNOWN: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a tree breaks: ``key`` stays the same while it does, ``text`` tells where."""

    key: str
    text: str


def broken(tree: Tree) -> Iterator[Broken]:
    """Every way in which a tree breaks the rules."""
    yield from _arrows(tree)
    yield from _names(tree)
    yield from _shapes(tree)


def _arrows(tree: Tree) -> Iterator[Broken]:
    for circle in file_circles(tree):
        yield Broken(f"circle: {' '.join(circle)}", f"files import each other: {', '.join(circle)}")
    for root in ROOTS:
        for circle in folder_circles(tree, root):
            yield Broken(
                f"folders: {' '.join(circle)}",
                f"folders of {root} import each other: {', '.join(circle)}",
            )
    for way, arrows in (("imports", upward(tree)), ("names", upward_names(tree))):
        for source, target, line in arrows:
            text = f"{_at(tree, source, line)}: {way} {target}, which stands above it"
            yield Broken(f"up: {source} {target}", text)


def _names(tree: Tree) -> Iterator[Broken]:
    for named in tree.names:
        if named.source not in NAMES:
            text = f"{_at(tree, named.source, named.line)}: names {named.target} in a string"
            yield Broken(f"name: {named.source} {named.target}", f"{text}; import it")
    for module in tree.modules.values():
        if module.name not in DISCOVERY:
            for line in module.loads:
                text = f"{module.path}:{line}: imports by a name that is worked out"
                yield Broken(f"load: {module.name}", text)


def _shapes(tree: Tree) -> Iterator[Broken]:
    for heirs in long_chains(tree):
        text = f"classes one upon the other: {' < '.join(heirs[0][:-1])} < {_these(heirs)}"
        yield Broken(f"chain: {heirs[0][-2]}", text)
    for module in besides(tree):
        text = f"{module.path}: is no plug-in; what helps them is in a folder of its own"
        yield Broken(f"beside: {module.path}", text)
    for folder in unnamed(tree):
        yield Broken(f"folder: {folder}", f"{folder}: there is no __init__.py in it")
    for folder, prefix, files in families(tree):
        text = f"{folder}: {', '.join(files)} are a family: make a folder {prefix}/"
        yield Broken(f"family: {folder}/{prefix}", text)


def _these(heirs: list[tuple[str, ...]]) -> str:
    more = f" and {len(heirs) - 1} more" if len(heirs) > 1 else ""
    return f"{heirs[0][-1]}{more}"


def _at(tree: Tree, module: str, line: int) -> str:
    return f"{tree.modules[module].path}:{line}"


# --------------------------------------------------------------------------- arrows


def file_circles(tree: Tree) -> list[tuple[str, ...]]:
    """Files that import each other, by whatever way round."""
    arrows = graph(tree.modules, ((each.source, each.target) for each in tree.imports))
    return circles(arrows)


def folder_circles(tree: Tree, root: str) -> list[tuple[str, ...]]:
    """Folders within one that import each other; a file beside them counts as a folder."""
    inside = [
        (room(each.source), room(each.target))
        for each in tree.imports
        if each.source.startswith(f"{root}.") and each.target.startswith(f"{root}.")
    ]
    return circles(graph({name for pair in inside for name in pair}, inside))


def room(module: str) -> str:
    """The folder of a module just below the top-level one, or its own name if it is in none."""
    return ".".join(module.split(".")[:2])


def upward(tree: Tree) -> Iterator[tuple[str, str, int]]:
    """Imports of a higher floor, or of the other room on the same one."""
    for each in tree.imports:
        if _is_up(each.source, each.target):
            yield each.source, each.target, each.line


def upward_names(tree: Tree) -> Iterator[tuple[str, str, int]]:
    """Strings that name a module of a higher floor, where plug-ins are not looked for."""
    for each in tree.names:
        if each.source not in NAMES and _is_up(each.source, each.target):
            yield each.source, each.target, each.line


def _is_up(source: str, target: str) -> bool:
    here, there = source.partition(".")[0], target.partition(".")[0]
    return here != there and LEVEL[there] >= LEVEL[here]


# --------------------------------------------------------------------------- classes


def chains(tree: Tree) -> list[tuple[str, ...]]:
    """List for every class the longest chain of heirs that ends in it, the first heir first.

    Exceptions, protocols, enumerations and named tuples are no links of a chain, nor are classes
    of others.
    """
    found = {name: _chain(tree, name) for name in tree.classes}
    parents = {base for chain in found.values() for base in chain[:-1]}
    return sorted(chain for name, chain in found.items() if chain and name not in parents)


def long_chains(tree: Tree) -> list[list[tuple[str, ...]]]:
    """The chains that are too long, those of one parent together."""
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for chain in chains(tree):
        if len(chain) > CHAIN_MAX:
            found[chain[:-1]].append(chain)
    return [found[parents] for parents in sorted(found)]


_FREE: Final = frozenset(
    {"Protocol", "NamedTuple", "TypedDict", "Exception", "BaseException", "Generic"}
)
_FREE_ENDS: Final = ("Error", "Enum", "Flag", "Warning", "Interrupt")


def _is_free(tree: Tree, name: str) -> bool:
    """Tell whether a class is no link of a chain; ``name`` may be a class of other software."""
    site = tree.classes.get(name)
    if site is None:
        last = name.rpartition(".")[2]
        return last in _FREE or last.endswith(_FREE_ENDS)
    if any(base.rpartition(".")[2] == "Protocol" for base in site.bases):
        return True
    return any(_is_free(tree, base) for base in site.bases if not _is_protocol(tree, base))


def _is_protocol(tree: Tree, name: str) -> bool:
    site = tree.classes.get(name)
    bases = () if site is None else site.bases
    return name.rpartition(".")[2] in ("Protocol", "Generic") or any(
        base.rpartition(".")[2] == "Protocol" for base in bases
    )


def _chain(tree: Tree, name: str) -> tuple[str, ...]:
    if name not in tree.classes or _is_free(tree, name):
        return ()
    longest = max((_chain(tree, base) for base in tree.classes[name].bases), key=len, default=())
    return (*longest, name)


# --------------------------------------------------------------------------- folders


def families(tree: Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Files of one folder with one prefix: (folder, prefix, names). Plug-ins are called as such."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in tree.modules.values():
        prefix, underscore, _ = module.path.stem.partition("_")
        if underscore and prefix and not module.package and not is_plugin(module):
            groups[str(module.path.parent), prefix].append(module.path.stem)
    for (folder, prefix), names in sorted(groups.items()):
        beside = tree.folder / folder / f"{prefix}.py"
        if len(names) + beside.exists() >= FAMILY_MIN:
            yield folder, prefix, names


def besides(tree: Tree) -> list[Module]:
    """Files at the top of plug-in folders that are no plug-ins."""
    return [
        module
        for module in tree.modules.values()
        if str(module.path.parent) in PLUGINS and not module.package and not is_plugin(module)
    ]


def unnamed(tree: Tree) -> list[str]:
    """Folders of Python files that are no packages: tools that look for packages miss them."""
    folders = {str(module.path.parent) for module in tree.modules.values()}
    return sorted(f for f in folders if f.replace("/", ".") not in tree.modules)


def is_plugin(module: Module) -> bool:
    """Tell whether a module registers a plug-in, or a seeded bug."""
    for node in module.tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for each in node.decorator_list:
            call = each.func if isinstance(each, ast.Call) else each
            if isinstance(call, ast.Attribute) and call.attr == "register":
                return True
            if isinstance(call, ast.Name) and call.id == "mutant":
                return True
    return any(
        isinstance(node, ast.Expr)
        and any(isinstance(n, ast.Attribute) and n.attr == "register" for n in ast.walk(node))
        for node in module.tree.body
    )


# --------------------------------------------------------------------------- figures


def counts(tree: Tree, tests: Tree) -> list[tuple[str, str]]:
    """The figures of a tree, each with what it is of."""
    rows: list[tuple[str, str]] = []
    for folder in PLUGINS:
        inside = [m for m in tree.modules.values() if str(m.path.parent) == folder]
        files = [m for m in inside if not m.package]
        plugins = sum(map(is_plugin, files))
        more = sum(
            m.path.name == "plugin.py" and str(m.path.parent.parent) == folder
            for m in tree.modules.values()
        )
        beside = f", and {more} plug-ins in folders" if more else ""
        rows.append((f"{folder}: files at its top", f"{len(files)}, {plugins} plug-ins{beside}"))
    deepest = max(chains(tree), key=len, default=())
    rows += [
        ("deepest class chain", f"{len(deepest)}: {' < '.join(_last(c) for c in deepest)}"),
        ("class chains deeper than two", str(sum(len(c) > CHAIN_MAX for c in chains(tree)))),
        ("circles of files", _sizes(file_circles(tree))),
        *((f"circles of folders in {root}", _sizes(folder_circles(tree, root))) for root in ROOTS),
        ("upward arrows, static", str(len(list(upward(tree))))),
        ("upward arrows in strings", str(len(list(upward_names(tree))))),
        ("module names in strings", str(sum(n.source not in NAMES for n in tree.names))),
        ("families by prefix", str(len(list(families(tree))))),
        ("lines of the product", f"{sum(m.lines for m in tree.modules.values()):,}"),
        ("lines of the tests", f"{sum(m.lines for m in tests.modules.values()):,}"),
        ("files of the product", str(len(tree.modules))),
        ("files of the tests", str(len(tests.modules))),
    ]
    return rows


def _sizes(found: list[tuple[str, ...]]) -> str:
    sizes = ", ".join(str(len(group)) for group in found)
    return f"{len(found)} (of {sizes})" if found else "0"


def _last(name: str) -> str:
    return name.rpartition(".")[2]


# --------------------------------------------------------------------------- commands


def check(tree: Tree) -> list[str]:
    """List what is wrong with a tree, a line each; nothing when it is as it should be."""
    found = list(broken(tree))
    stale = KNOWN.keys() - {each.key for each in found}
    return [each.text for each in found if each.key not in KNOWN] + [
        f"tools/house.py: {key!r} is no longer so: take it out of KNOWN" for key in sorted(stale)
    ]


def main(argv: Iterable[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="tools.house", description=__doc__)
    parser.add_argument("command", choices=("check", "counts", "draw"))
    parser.add_argument("--root", type=Path, default=ROOT, help="another tree of this project")
    asked = parser.parse_args(None if argv is None else list(argv))
    tree = Tree(asked.root)
    if asked.command == "counts":
        rows = counts(tree, Tree(asked.root, ("tests",))) + figures(asked.root.resolve())
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            print(f"{name:{width}}  {value}")
        return 0
    if asked.command == "draw":
        (asked.root / PICTURE).write_text(picture(tree), encoding="utf-8")
        return 0
    wrong = check(tree)
    for line in wrong:
        print(line)
    print(f"{len(wrong)} wrong" if wrong else f"{len(tree.modules)} files: all as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
