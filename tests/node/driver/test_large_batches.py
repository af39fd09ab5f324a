"""A committed batch of thousands of records is applied a slice at a time, and shows as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from node.driver.state_machine import RECORDS_PER_SLICE, StateMachine
from node.loading.committed import Provenance
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.batch import encode_batch
from node.log.file_log import FileLog
from node.log.memory_disk import MemoryDisk
from node.metadata.records import encode_record
from node.metadata.schemas import MetadataRecord, TopicRecord

SLICES = 3
LARGE = SLICES * RECORDS_PER_SLICE


def topics(first: int, count: int) -> list[MetadataRecord]:
    numbers = range(first, first + count)
    return [TopicRecord(name=f"t{n}", topic_id=UUID(int=n + 1)) for n in numbers]


@pytest.fixture
def log() -> Iterator[FileLog]:
    log = FileLog(MemoryDisk(), Path("/log"))
    yield log
    log.close()


def machine_of(log: FileLog) -> StateMachine:
    return StateMachine(log, SnapshotPolicy(), trace=lambda *_: None, publish=lambda *_: None)


def append(log: FileLog, *sizes: int) -> None:
    """Batches of so many topics each."""
    for size in sizes:
        base = log.end_offset
        values = [(None, encode_record(record)) for record in topics(base, size)]
        log.append_as_leader(encode_batch(base, 1, values, control=False, timestamp_ms=1))


def test_only_the_last_slice_shows_it_and_tells_of_its_records(log: FileLog) -> None:
    append(log, 2, LARGE, 2)
    machine = machine_of(log)
    machine.commit(log.end_offset)
    assert len(list(machine.advance(0))) == 2  # a large one begins a slice of its own
    turns = 0
    while not (told := list(machine.advance(0))):
        turns += 1
        assert machine.is_behind
        assert (machine.applied, machine.image.end_offset, len(machine.image.topics)) == (2, 2, 2)
    assert turns == SLICES
    assert [offset for offset, _ in told] == list(range(2, LARGE + 2))
    assert [record for _, record in told] == topics(2, LARGE)
    assert (machine.applied, len(machine.image.topics)) == (LARGE + 2, LARGE + 2)
    list(machine.advance(0))
    assert not machine.is_behind
    assert len(machine.image.topics) == LARGE + 4


def test_a_snapshot_that_comes_meanwhile_takes_its_place(log: FileLog) -> None:
    append(log, LARGE)
    machine = machine_of(log)
    machine.commit(log.end_offset)
    list(machine.advance(0))
    machine.restore(topics(0, 7), Provenance(LARGE + 5, 2, 0))
    assert not machine.is_behind
    assert (machine.applied, len(machine.image.topics)) == (LARGE + 6, 7)


def test_one_that_is_not_committed_as_a_whole_waits(log: FileLog) -> None:
    append(log, LARGE)
    machine = machine_of(log)
    machine.commit(LARGE - 1)
    assert list(machine.advance(0)) == []
    assert not machine.is_behind
    machine.commit(LARGE)
    assert machine.is_behind
