"""Whether a store is so little that Spark had better compile nothing for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import listing
from pipeline.listing import LITTLE_BYTES, is_little


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
