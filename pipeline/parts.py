"""Table parts written by a task of an executor: a file per task and table, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pipeline.layout import Layout
from pipeline.schemas import TABLES

ROWS_HELD_MAX = 100_000  # of one table, before they are written


class Parts:
    """The parts of one task; they appear when the ``with`` block ends well.

    A task that is tried again, or twice at once, writes the same rows to the same place.
    """

    def __init__(self, out: Path, batch: int, task: int, attempt: int) -> None:
        self._layout = Layout(out)
        self._batch = batch
        self._name = f"part-{task:05d}_{task:05d}.parquet"  # the last number is Spark's bucket
        self._draft = f".{self._name}.{attempt}.tmp"
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Take rows of a table; columns that they lack are null."""
        held = self._held.setdefault(table, [])
        held.append(rows)
        if sum(each.num_rows for each in held) >= ROWS_HELD_MAX:
            self._write(table)

    def _write(self, table: str) -> None:
        held = self._held.pop(table, [])
        if not held:
            return
        schema = TABLES[table]
        if table not in self._writers:
            folder = self._layout.table(table, self._batch)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / self._draft
            self._writers[table] = pq.ParquetWriter(path, schema, compression="zstd")
        tables = [schema.empty_table(), *(pa.Table.from_batches([each]) for each in held)]
        whole = pa.concat_tables(tables, promote_options="default")
        self._writers[table].write_table(whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            for table in list(self._held):
                self._write(table)
        for table, writer in self._writers.items():
            writer.close()
            folder = self._layout.table(table, self._batch)
            if kind is None:
                os.replace(folder / self._draft, folder / self._name)  # noqa: PTH105 - atomic
            else:
                (folder / self._draft).unlink(missing_ok=True)
