"""The table of histories has a row for each seed of a batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from harness.batch.trial import Trial
from harness.errors import UsageError
from harness.store.folder import Store
from pipeline.histories import write


def test_each_seed_is_a_row(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    sound = Trial(1, {"time_limit_s": 1.0}, False, False, store).do()
    broken = Trial(
        2, {"time_limit_s": 1.0, "mutant": "commit-without-majority"}, False, False, store
    ).do()

    write([sound, broken], tmp_path / "new" / "histories.parquet")

    first, second = pq.read_table(tmp_path / "new" / "histories.parquet").to_pylist()
    assert (first["seed"], first["verdict"], first["invariants"], first["way"]) == (
        1,
        "valid",
        [],
        None,
    )
    assert first["sha256"] == sound["trace_sha256"]
    assert dict(first["reached"]) == sound["reached"]
    assert first["cpu_s"] > 0
    assert (second["verdict"], second["invariants"]) == ("invalid", ["S13"])
    assert second["way"].startswith("S13: ")
    assert second["store"] == broken["store"]


def test_a_batch_without_results_is_a_table_without_rows(tmp_path: Path) -> None:
    write([], tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write the table"):
        write([], tmp_path / "file" / "histories.parquet")
