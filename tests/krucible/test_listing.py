"""Whether a store is so little that Spark had better compile nothing for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import listing
from pipeline.layout import Layout
from pipeline.listing import LITTLE_BYTES, is_little, runs_of


def events_file(store: Path, run: str, size_bytes: int) -> None:
    folder = store / "kraft-register" / run / "events"
    folder.mkdir(parents=True)
    with (folder / "n1.jsonl").open("wb") as file:
        os.truncate(file.fileno(), size_bytes)  # takes no space


def test_a_store_is_little_up_to_so_many_bytes_of_events(tmp_path: Path) -> None:
    assert is_little(tmp_path)
    events_file(tmp_path, "a", LITTLE_BYTES)
    assert is_little(tmp_path)
    events_file(tmp_path, "b", 1)
    assert not is_little(tmp_path)


def test_a_store_of_many_files_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        events_file(tmp_path, str(number), 1)
    monkeypatch.setattr(listing, "FILES_LOOKED_AT_MAX", 3)
    assert is_little(tmp_path)
    monkeypatch.setattr(listing, "FILES_LOOKED_AT_MAX", 2)
    assert not is_little(tmp_path)


def test_only_what_is_new_since_the_last_analysis_counts(tmp_path: Path) -> None:
    store, layout = tmp_path / "store", Layout(tmp_path / "tables")
    events_file(store, "a", LITTLE_BYTES + 1)
    with layout.locked() as began_ns:
        batch = layout.begin()
        events_file(store, "b", 1)  # while it is at work
        assert not is_little(store, layout.since_ns)
        layout.draft.mkdir()
        layout.commit(batch, began_ns)
    assert is_little(store, layout.since_ns)
    os.truncate(store / "kraft-register" / "b" / "events" / "n1.jsonl", LITTLE_BYTES + 1)
    assert not is_little(store, layout.since_ns), "b was not seen by that analysis"


def test_when_an_analysis_began_is_kept_to_the_nanosecond(tmp_path: Path) -> None:
    """A run may come in the same tick of the file system's clock, and is new then."""
    layout = Layout(tmp_path)
    began_ns = 1_795_380_260_758_600_831  # 120 ns are lost in a float of seconds
    layout.draft.mkdir(parents=True)
    layout.commit(1, began_ns)
    assert layout.since_ns == began_ns
    with layout.locked() as now_ns:
        assert now_ns == (tmp_path / "lock").stat().st_mtime_ns


def test_what_a_run_is_judged_by_is_in_its_fingerprint(tmp_path: Path) -> None:
    run = tmp_path / "kraft-register" / "a"
    events_file(tmp_path, "a", 5)
    (run / "spec.json").write_text("{}")
    (run / "report.html").write_text("<p>")
    (run / "events" / ".n2.jsonl.tmp").write_text("unfinished")

    def look() -> dict[str, object]:
        (row,) = runs_of(tmp_path, "kraft-register", 0, 1)
        return row

    first = look()
    assert (first["size_bytes"], first["judged"]) == (7, False)
    (run / "report.html").write_text("<p>rendered again")
    assert look() == first
    (run / "results.json").write_text("{}")
    second = look()
    assert second["judged"]
    assert second["fingerprint"] != first["fingerprint"]
    os.utime(run / "events" / "n1.jsonl", (1, 1))
    assert look()["fingerprint"] not in (first["fingerprint"], second["fingerprint"])
