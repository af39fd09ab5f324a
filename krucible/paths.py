"""The histories and runs that the paths given to ``krucible check`` stand for."""

from __future__ import annotations

import glob
from collections.abc import Callable
from pathlib import Path

HISTORY_SUFFIXES = frozenset((".jsonl", ".edn", ".log", ".txt"))
RUN_FILE = "spec.json"
_MAGIC = frozenset("*?[")

Skip = Callable[[Path], object]  # is told of each hidden folder that was not looked into


def is_pattern(path: Path) -> bool:
    """Tell whether a path that is not there stands for those that it matches."""
    return bool(_MAGIC & set(str(path)))


def found(path: Path, skip: Skip) -> list[Path]:
    """List the histories and runs that a path stands for, sorted; itself if it stands for none.

    A pattern stands for what it matches (``**`` for folders within folders), a folder that is no
    run for all runs and histories within it, but for those in hidden folders (``.venv``, ``.git``).
    ``latest`` links lead to no run twice.
    """
    if not path.exists() and is_pattern(path):
        names = glob.glob(str(path), recursive=True)  # noqa: PTH207 - it may be absolute
        matches = sorted(map(Path, names))
        return [each for match in matches for each in found(match, skip)] or [path]
    if not path.is_dir() or (path / RUN_FILE).is_file():
        return [path]
    return _within(path, skip) or [path]


def _within(folder: Path, skip: Skip) -> list[Path]:
    """List all that lies in a folder, depth first; links to folders are not followed."""
    out: list[Path] = []
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        entries = sorted(here.iterdir(), reverse=True)
        if here != folder and (here / RUN_FILE).is_file():
            out.append(here)
            continue
        for each in entries:
            if not each.is_dir() or each.is_symlink():
                continue
            if each.name.startswith("."):
                skip(each)
            else:
                waiting.append(each)
        out += [
            each for each in reversed(entries) if each.is_file() and each.suffix in HISTORY_SUFFIXES
        ]
    return sorted(out)
