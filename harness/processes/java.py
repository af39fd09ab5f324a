"""Finds the folders that a ``java`` consists of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TOP: Final = 2  # parts of a path such as /etc


def java_folders(java: Path) -> tuple[Path, ...]:
    """List the folders that a ``java`` consists of: its home, and those that links in it lead to.

    Distributions keep its configuration elsewhere, as Debian does in ``/etc``. Folders at the top
    of the file system are left out: they are no Java's own.
    """
    home = java.resolve().parents[1]
    found = {home}
    for path in (*(home / "conf").rglob("*"), *(home / "lib").rglob("*")):
        if path.is_symlink():
            target = path.resolve()
            folder = target if target.is_dir() else target.parent
            if target.exists() and not target.is_relative_to(home) and len(folder.parts) > _TOP:
                found.add(folder)
    return tuple(sorted(each for each in found if not found & set(each.parents)))
