"""Places the tables: a folder per table and batch, and a manifest that says which batches count.

::

    <out>/<table>/batch=<n>/part-*.parquet
    <out>/manifest/batch=<n>/             appears last, whole, by a rename
    <out>/manifest/batch=<n>/_from        of batches that were merged: the number of the first
    <out>/summary.json                    the answer of the last analysis

A batch without a manifest was cut short; the next analysis clears it away. An analysis numbers its
batch by tens: between two of them is room for what the first of them and those before it are merged
into (``pipeline.merging``). Of two batches with the same run the higher number counts.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UsageError
from pipeline.schemas import TABLES

MANIFEST = "manifest"
_BATCH = "batch="
_FROM = "_from"  # Spark takes no file for a part whose name begins so
_STEP = 10


class Layout:
    """The tables of one store."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def table(self, name: str, batch: int | None = None) -> Path:
        """The folder of a table, or of what one batch has of it."""
        folder = self.out / name
        return folder if batch is None else folder / f"{_BATCH}{batch}"

    @property
    def summary(self) -> Path:
        """The answer of the last analysis."""
        return self.out / "summary.json"

    def batches(self) -> list[int]:
        """The batches that count, oldest first."""
        found = self._numbers(MANIFEST)
        return [batch for batch in found if not any(self._is_merged(batch, n) for n in found)]

    def paths(self, name: str, batches: Iterable[int] | None = None) -> list[str]:
        """The folders of a table that count and are there: of these batches, or of all."""
        of = self.batches() if batches is None else batches
        folders = (self.table(name, batch).absolute() for batch in of)
        return [str(folder) for folder in folders if folder.is_dir()]

    def begin(self) -> int:
        """The number of a new batch; what counts no more, or never did, is cleared away."""
        self.table(MANIFEST).mkdir(parents=True, exist_ok=True)
        self.clear()
        return (max(self.batches(), default=0) // _STEP + 1) * _STEP

    def clear(self) -> None:
        """Remove what an analysis left that was cut short, and batches that were merged.

        The manifests of these go last: without them nobody would know that they were merged.
        """
        counted = set(self.batches())
        for name in sorted(TABLES, key=lambda table: table == MANIFEST):
            for batch in set(self._numbers(name)) - counted:
                shutil.rmtree(self.table(name, batch), ignore_errors=True)
        for folder in (self.draft, self.scratch):
            shutil.rmtree(folder, ignore_errors=True)

    def _numbers(self, table: str) -> list[int]:
        found = self.table(table).glob(f"{_BATCH}*")
        return sorted(int(path.name.removeprefix(_BATCH)) for path in found)

    def _is_merged(self, batch: int, into: int) -> bool:
        """Tell whether a batch is one of those that another one was merged of."""
        if batch >= into:
            return False
        try:
            first = (self.table(MANIFEST, into) / _FROM).read_text(encoding="ascii")
        except FileNotFoundError:
            return False
        return int(first) <= batch

    @property
    def scratch(self) -> Path:
        """Tell what an analysis needs only while it is at work."""
        return self.out / "scratch"

    @property
    def draft(self) -> Path:
        """Tell where a manifest is written before it counts."""
        return self.table(MANIFEST) / ".draft"

    @property
    def since_ns(self) -> int:
        """Give when the last analysis that counts began, by the file system's clock; 0 if none."""
        batches = self.batches()
        return self.table(MANIFEST, batches[-1]).stat().st_mtime_ns if batches else 0

    def commit(self, batch: int, began_ns: int) -> None:
        """Make the batch of the draft manifest count; its analysis began at that time."""
        os.utime(self.draft, ns=(began_ns, began_ns))
        os.replace(self.draft, self.table(MANIFEST, batch))  # noqa: PTH105 - atomic

    def commit_merged(self, batch: int, first: int) -> None:
        """Make the batch of the draft manifest count instead of all from ``first`` on to it."""
        last = max(each for each in self.batches() if first <= each < batch)
        (self.draft / _FROM).write_text(str(first), encoding="ascii")
        self.commit(batch, self.table(MANIFEST, last).stat().st_mtime_ns)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Keep other analyses out; gives the file system's time of now, in ns.

        Raises:
            UsageError: Another analysis of this store is at work, or the folder is not writable.
        """
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            file = (self.out / "lock").open("wb")
        except OSError as error:
            raise UsageError(f"{self.out}: cannot write tables here: {error}") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"{self.out}: another analysis is at work here; wait for its end"
                ) from None
            os.utime(file.fileno())
            yield os.fstat(file.fileno()).st_mtime_ns
