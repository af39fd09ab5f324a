"""The place where the runs of a store lie for good: a folder, or a bucket of objects.

Commands work with runs in a folder. Where runs lie elsewhere, that folder is a copy for the time
of a command (``harness.store.remote``), and a mark in it says what it is a copy of: processes
that are begun with the folder tell of the runs by their real names.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, Protocol

LATEST: Final = "latest"  # in a folder, the link to the run that was begun last
MARK: Final = ".home"  # in a copy, the file with the name of the store that it is a copy of


class Home(Protocol):
    """Where runs lie. A run is named by its path in the folder of the store."""

    def runs(self) -> list[Path]:
        """All runs, the one begun first at the head."""

    def latest(self) -> Path | None:
        """The run that was begun last."""

    def fetch(self, run: Path, *names: str) -> None:
        """Have the files of a run in the folder, all or those that are named; raises HarnessError.

        What the folder has already, maybe changed meanwhile, is left alone.
        """

    def size(self, run: Path) -> int:
        """Bytes of all files of a run."""

    def drop(self, run: Path) -> None:
        """Remove a run, at once for whoever lists the store; raises HarnessError."""

    def fetch_nights(self) -> None:
        """Have in the folder what is needed to continue a night; raises HarnessError."""

    def refresh(self) -> None:
        """Have in the folder what a page on all runs and nights is made of; raises HarnessError."""

    def keep(self) -> None:
        """Have all that is new or changed in the folder lie there; raises HarnessError.

        Nothing may be written to the folder meanwhile. Runs that lie there may leave the folder.
        """


class Folder:
    """A store that is a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def runs(self) -> list[Path]:
        """See ``Home``."""
        return in_order(found(self._root))

    def latest(self) -> Path | None:
        """See ``Home``."""
        link = self._root / LATEST
        return link.resolve() if (link / "spec.json").is_file() else None

    def fetch(self, run: Path, *names: str) -> None:
        """Do nothing: they are there."""

    def size(self, run: Path) -> int:
        """See ``Home``."""
        return size_of(run)

    def drop(self, run: Path) -> None:
        """Remove a run at once for whoever lists the store, then its files."""
        gone = run.with_name(f".dropped.{run.name}")
        run.rename(gone)
        shutil.rmtree(gone)

    def fetch_nights(self) -> None:
        """Do nothing: they are there."""

    def refresh(self) -> None:
        """Do nothing: it is there."""

    def keep(self) -> None:
        """Do nothing: it lies there."""


def found(root: Path) -> list[Path]:
    """The folders of the runs below ``root``, in no order."""
    files = [path for path in root.glob("*/*/spec.json") if path.parent.parent != root]
    return [path.parent for path in files if path.parent.parent.name != LATEST]


def in_order(runs: list[Path]) -> list[Path]:
    """The runs, the one begun first at the head: their names begin with that time."""
    return sorted(runs, key=lambda path: (path.name, path.parent.name))


def size_of(folder: Path) -> int:
    """Bytes in the files of a folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def home_of(root: Path) -> str | None:
    """The name of the store that a folder is a copy of; None for a store of its own."""
    try:
        return (root / MARK).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
