"""Java files for a release: those that all releases have in common, and the ones of its seams.

Each folder below ``java/told``, ``java/images``, ``java/release``, ``java/controller`` and
``java/agent`` is a layer, and its name says of which releases it is: ``common``, or the first and
the last of them, as in ``from-3.9-to-4.1``, ``from-4.2`` or ``to-3.8``. Where a seam of Kafka's
changes, one class of ours is in several layers, once for each form of the seam. Where classes of
Kafka's only lie elsewhere, a layer's ``moved.properties`` says where: old name = new name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.systems.kafka.releases import Line, line_of

COMMON: Final = "common"
MOVED: Final = "moved.properties"
_NAME: Final = re.compile(r"(?:from-(\d+\.\d+))?-?(?:to-(\d+\.\d+))?")
_IMPORT: Final = re.compile(r"^import ([\w.]+);$", re.MULTILINE)


def takes_in(layer: str, line: Line) -> bool:
    """Tell whether a layer is for the releases of a line; raises ValueError for no layer's name."""
    if layer == COMMON:
        return True
    found = _NAME.fullmatch(layer)
    if found is None or found.group(1) is found.group(2) is None:
        raise ValueError(f"{layer}: want {COMMON}, or a name as in from-3.9-to-4.1")
    first, last = (None if each is None else line_of(each) for each in found.groups())
    return (first is None or first <= line) and (last is None or line <= last)


def sources_of(version: str, *roots: Path) -> dict[Path, str]:
    """Read the Java files of some roots for a release, by their places in a tree of packages.

    Imports of what a layer's ``moved.properties`` names are of where it lies in this release.
    Raises ValueError when a class is there twice.
    """
    line = line_of(version)
    every = (layer for root in roots for layer in sorted(root.iterdir()))
    layers = [layer for layer in every if takes_in(layer.name, line)]
    found: dict[Path, Path] = {}
    for layer in layers:
        for source in layer.rglob("*.java"):
            before = found.setdefault(source.relative_to(layer), source)
            if before != source:
                raise ValueError(f"{before} and {source} are both for {version}")
    moved = {old: new for layer in layers for old, new in _moved(layer / MOVED)}
    return {
        place: _IMPORT.sub(
            lambda told: f"import {moved.get(told[1], told[1])};",
            found[place].read_text(encoding="utf-8"),
        )
        for place in sorted(found)
    }


def _moved(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                old, _, new = line.partition("=")
                yield old, new
