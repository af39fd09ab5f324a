"""The project's own files, for tests that read them."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.places import ROOT


def project() -> dict[str, Any]:
    """``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages() -> list[str]:
    """Our top-level packages."""
    found: list[str] = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return found


def tracked() -> list[Path]:
    """All files that are or will be under version control."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(path for line in done.stdout.splitlines() if (path := ROOT / line).is_file())


def modules() -> list[Path]:
    """The source files of our packages, as tracked."""
    tops = set(packages())
    return [p for p in tracked() if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in tops]


def uses(path: Path) -> set[str]:
    """Full names of what a module uses of other modules: ``time.monotonic``, ``random.Random()``.

    A call ends in ``()``, and in ``(...)`` when it has arguments.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    names = dict(_imports(nodes))
    found = set()
    called = {}
    for node in nodes:
        if isinstance(node, ast.Call):
            called[node.func] = "(...)" if node.args or node.keywords else "()"
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and (full := _full(node, names)):
            found.add(full + called.get(node, ""))
    return found


def _imports(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.asname or name.name.partition(".")[0], name.name
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield name.asname or name.name, f"{node.module}.{name.name}"


def _full(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _full(node.value, names)
        return None if base is None else f"{base}.{node.attr}"
    return None
