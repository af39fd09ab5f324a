"""The table of histories: a row for each seed of a batch, as a Parquet file.

Columns: ``seed``; ``name`` (the seed, and where its power failed); ``verdict``; ``invariants`` that
were broken; ``way`` to fail, as nights name it; ``sha256`` of its trace; ``reached`` (what happened
in it, and how often); ``premises`` (how often each invariant had something to judge); ``events``;
``simulated_s``; ``cpu_s``; ``store``, the folder of its run, where it was stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from harness.batch.trial import way_to_fail
from harness.errors import UsageError

SCHEMA = pa.schema(
    [
        ("seed", pa.int64()),
        ("name", pa.string()),
        ("verdict", pa.string()),
        ("invariants", pa.list_(pa.string())),
        ("way", pa.string()),
        ("sha256", pa.string()),
        ("reached", pa.map_(pa.string(), pa.int64())),
        ("premises", pa.map_(pa.string(), pa.int64())),
        ("events", pa.int64()),
        ("simulated_s", pa.float64()),
        ("cpu_s", pa.float64()),
        ("store", pa.string()),
    ]
)


def write(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the results of ``harness.batch.trial``; the file appears whole or not at all.

    Raises:
        UsageError: The file cannot be written.
    """
    draft = path.with_name(f".{path.name}.tmp")
    table = pa.Table.from_pylist([_row(result) for result in results], schema=SCHEMA)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
        draft.replace(path)
    except OSError as error:
        if draft.is_file():
            draft.unlink()
        raise UsageError(f"{path}: cannot write the table of histories: {error}") from error


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
    columns = ("seed", "name", "verdict", "events", "simulated_s", "cpu_s", "store")
    return {
        **{name: result[name] for name in columns},
        "invariants": sorted({anomaly["invariant"] for anomaly in result["anomalies"]}),
        "way": way_to_fail(result),
        "sha256": result.get("trace_sha256"),
        "reached": sorted(result["reached"].items()),
        "premises": sorted(result["premises"].items()),
    }
