"""Finds the version of a ``java``, and the folders that it consists of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r'version "(\d+)')
_ASK_TIMEOUT_S: Final = 15.0
_TOP: Final = 2  # parts of a path such as /etc


def java_version(java: Path) -> int | None:
    """The major version that a ``java`` says it has, None when it does not run."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_in(said.stderr + said.stdout)


def version_in(said: str) -> int | None:
    """Find the major version in what ``java -version`` said; None: it says none."""
    match = _VERSION.search(said)
    return int(match[1]) if match else None


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
