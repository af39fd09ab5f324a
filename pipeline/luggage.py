"""Packs what a job needs on a machine that has nothing of ours: our code, and what it imports.

Two archives: our packages, and the distributions that krucible depends on (without its extras),
with theirs. An executor unpacks them once. It needs a Python of the driver's version on the same
kind of machine, for some distributions are compiled.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

OURS = "krucible"
CODE, NEEDED = "krucible-ours.zip", "krucible-needed.zip"
PACKAGES = ("harness", "node", "nemesis", "checkers", "workloads", "pipeline")
# Compiled code, tests, scripts outside of the packages, and what points at a checkout.
_LEFT_OUT = re.compile(r"(^|/)(__pycache__|tests?)/|\.py[co]$|^\.\./|^_editable")
_INFO = re.compile(r"[^/]+\.dist-info/")


def pack_code(folder: Path) -> Path:
    """Pack our packages, with every file that is in them."""
    path = folder / CODE
    root = Path(__file__).parents[1]
    with zipfile.ZipFile(path, "w") as archive:
        for package in PACKAGES:
            for file in sorted((root / package).rglob("*")):
                name = str(file.relative_to(root))
                if file.is_file() and not _LEFT_OUT.search(name):
                    archive.write(file, name)
        _add(archive, distribution(OURS), lambda name: bool(_INFO.match(name)))
    return path


def pack_needed(cache: Path) -> Path:
    """Pack what our packages import, or find it packed already in ``cache``, by its versions."""
    found = sorted(_closure(OURS).values(), key=lambda each: each.metadata["Name"])
    names = [f"{each.metadata['Name']} {each.version}" for each in found]
    kind = (sys.implementation.cache_tag, sysconfig.get_platform(), platform.libc_ver())
    digest = hashlib.sha256(repr((names, kind)).encode()).hexdigest()[:12]
    folder = cache / f"luggage-{digest}"
    path = folder / NEEDED
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{NEEDED}.{id(found)}.tmp"
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for each in found:
            _add(archive, each, lambda name: not _LEFT_OUT.search(name))
    return draft.replace(path)


def _add(archive: zipfile.ZipFile, found: Distribution, wanted: Callable[[str], bool]) -> None:
    """Add the files of a distribution whose names are wanted."""
    for file in found.files or ():
        place = Path(str(file.locate()))
        if wanted(str(file)) and place.is_file():
            archive.write(place, str(file))


def _closure(name: str) -> dict[str, Distribution]:
    """The distributions that one needs, but not itself; by their names."""
    found: dict[str, Distribution] = {}
    todo = list(_required(distribution(name), ()))
    while todo:
        requirement = todo.pop()
        key = requirement.name.lower().replace("_", "-")
        if key not in found:
            found[key] = distribution(requirement.name)
            todo += _required(found[key], requirement.extras)
    return found


def _required(of: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """List the requirements of a distribution on this machine, with some of its extras."""
    for text in of.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield requirement
