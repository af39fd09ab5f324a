"""Java files for a release: those that all releases have in common, and the ones of its seams.

Each folder below ``java/release`` is a layer, and its name says of which releases it is:
``common``, or the first and the last of them, as in ``from-3.9-to-4.1``, ``from-4.2`` or
``to-3.8``. Where a seam of Kafka's changes, one class of ours is in several layers, once for each
form of the seam.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

COMMON: Final = "common"
_NAME: Final = re.compile(r"(?:from-(\d+\.\d+))?-?(?:to-(\d+\.\d+))?")

Line = tuple[int, int]  # major and minor version: seams change between lines alone


def line_of(version: str) -> Line:
    """Tell the line of a release: 4.1 of 4.1.2."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def takes_in(layer: str, line: Line) -> bool:
    """Whether a layer is of the releases of a line; raises ValueError for what names no layer."""
    if layer == COMMON:
        return True
    found = _NAME.fullmatch(layer)
    if found is None or found.group(1) is found.group(2) is None:
        raise ValueError(f"{layer}: want {COMMON}, or a name as in from-3.9-to-4.1")
    first, last = (None if each is None else line_of(each) for each in found.groups())
    return (first is None or first <= line) and (last is None or line <= last)


def sources_of(root: Path, version: str) -> list[Path]:
    """List the Java files for a release, sorted; raises ValueError when a class is there twice."""
    line = line_of(version)
    found: dict[Path, Path] = {}
    for layer in sorted(root.iterdir()):
        if takes_in(layer.name, line):
            for source in layer.rglob("*.java"):
                before = found.setdefault(source.relative_to(layer), source)
                if before != source:
                    raise ValueError(f"{before} and {source} are both for {version}")
    return sorted(found.values())
