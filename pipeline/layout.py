"""Places the tables: a folder per table and batch, and a manifest that says which batches count.

::

    <out>/<table>/batch=<n>/part-*.parquet
    <out>/manifest/batch=<n>/             appears last, whole, by a rename
    <out>/summary.json                    the answer of the last analysis

A batch without a manifest was cut short; the next analysis takes its number and its place.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UsageError
from pipeline.schemas import TABLES

MANIFEST = "manifest"
_BATCH = "batch="


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
        found = self.table(MANIFEST).glob(f"{_BATCH}*")
        return sorted(int(path.name.removeprefix(_BATCH)) for path in found)

    def begin(self) -> int:
        """The number of a new batch, with what an analysis that was cut short left cleared away."""
        self.table(MANIFEST).mkdir(parents=True, exist_ok=True)
        batch = max(self.batches(), default=0) + 1
        for name in TABLES:
            shutil.rmtree(self.table(name, batch), ignore_errors=True)
        for folder in (self.draft, self.scratch):
            shutil.rmtree(folder, ignore_errors=True)
        return batch

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
