"""A large snapshot is loaded a slice at a time, and its node takes part in the quorum meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse, Response
from node.core.types import OffsetAndEpoch
from node.driver.state_machine import RECORDS_PER_SLICE, StateMachine
from node.loading.committed import Provenance
from node.loading.loader import LoaderError
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.disk import FileDisk
from node.log.file_log import FileLog
from node.log.layout import partition_dir
from node.log.memory_disk import MemoryDisk
from node.log.snapshot_files import Place, SnapshotWriter
from node.metadata.records import encode_record
from node.metadata.schemas import ConfigRecord, MetadataRecord, TopicRecord
from node.metadata.snapshot import image_of_records
from tests.support.nodes.driver import Running, formatted, free_port, in_loop, settings_of, until

SLICES = 3
TOPICS = SLICES * RECORDS_PER_SLICE
AT = Provenance(TOPICS - 1, 4, 0)


def topics(count: int) -> list[MetadataRecord]:
    return [TopicRecord(name=f"t{n}", topic_id=UUID(int=n + 1)) for n in range(count)]


@pytest.fixture
def machine() -> Iterator[StateMachine]:
    log = FileLog(MemoryDisk(), Path("/log"))
    yield StateMachine(log, SnapshotPolicy(), trace=lambda *_: None, publish=lambda *_: None)
    log.close()


def test_each_call_loads_one_slice_and_the_last_shows_all(machine: StateMachine) -> None:
    records = iter(topics(TOPICS))
    machine.restore(records, AT)
    for n in range(1, SLICES):
        assert machine.is_behind
        assert (machine.applied, machine.image.topics) == (0, {})
        assert next(records) == topics(n * RECORDS_PER_SLICE + n)[-1], f"{n} slices were read"
        assert list(machine.advance(0)) == []
    list(machine.advance(0))
    assert not machine.is_behind
    assert (machine.applied, machine.epoch, machine.committed) == (TOPICS, 4, TOPICS)
    assert len(machine.image.topics) == TOPICS - SLICES + 1  # less those that the test took away


def test_a_small_one_is_loaded_at_once(machine: StateMachine) -> None:
    machine.restore(topics(5), Provenance(9, 2, 0))
    assert not machine.is_behind
    assert machine.applied == 10
    assert machine.image == image_of_records(topics(5), 10)


def test_until_it_is_loaded_the_image_stays_what_it_was(machine: StateMachine) -> None:
    machine.restore(topics(5), Provenance(9, 2, 0))
    digest = machine.image.digest
    machine.restore(topics(TOPICS), AT)
    list(machine.advance(0))
    assert machine.is_behind
    assert (machine.applied, machine.image.digest) == (10, digest)
    assert machine.image.end_offset == 10


def test_a_newer_snapshot_takes_the_place_of_one_being_loaded(machine: StateMachine) -> None:
    machine.restore(topics(TOPICS), AT)
    machine.restore(topics(7), Provenance(TOPICS, 5, 0))
    assert not machine.is_behind
    assert (machine.applied, machine.epoch) == (TOPICS + 1, 5)
    assert len(machine.image.topics) == 7


def test_what_does_not_fit_in_a_later_slice_is_an_error(machine: StateMachine) -> None:
    machine.restore([*topics(RECORDS_PER_SLICE), *topics(1)], AT)
    with pytest.raises(LoaderError, match="exists already"):
        list(machine.advance(0))
    assert machine.image.topics == {}


def test_records_committed_meanwhile_wait(machine: StateMachine) -> None:
    machine.restore(topics(RECORDS_PER_SLICE), Provenance(9, 2, 0))
    machine.commit(20)
    assert list(machine.advance(0)) == []
    assert machine.applied == 10
    assert machine.is_behind


@in_loop
async def test_a_node_answers_while_it_loads_and_leads_when_it_has_loaded(tmp_path: Path) -> None:
    """It starts, and is elected, but is no active controller before its image is there."""
    config = formatted(settings_of(tmp_path, voters={1: free_port()}))
    writer = SnapshotWriter(
        Place(FileDisk(), partition_dir(config.log_dir)),
        OffsetAndEpoch(TOPICS, 4),
        last_contained_log_timestamp_ms=0,
    )
    writer.append(encode_record(record) for record in topics(TOPICS))
    setting = ConfigRecord(resource_type=2, resource_name="t0", name="retention.ms", value="5")
    writer.append([encode_record(setting)])
    writer.freeze()
    running = Running(config)
    try:
        answered: list[tuple[Response, bool, int]] = []
        node = running.node
        await running.start()
        running.ask(
            DescribeQuorumRequest(),
            lambda response: answered.append((response, running.active, node.machine.applied)),
        )
        await until(lambda: answered, "an answer")
        response, active, applied = answered[0]
        assert isinstance(response, DescribeQuorumResponse)
        assert (active, applied) == (False, 0)
        await running.lead()
        assert node.machine.applied > TOPICS
        assert len(node.machine.image.topics) == TOPICS
        assert node.machine.image.config((2, "t0")) == {"retention.ms": "5"}
        assert not running.errors
    finally:
        await running.stop()


@in_loop
async def test_a_node_that_stops_while_it_loads_leaves_no_file_open(tmp_path: Path) -> None:
    config = formatted(settings_of(tmp_path, voters={1: free_port()}))
    writer = SnapshotWriter(
        Place(FileDisk(), partition_dir(config.log_dir)),
        OffsetAndEpoch(TOPICS, 4),
        last_contained_log_timestamp_ms=0,
    )
    writer.append(encode_record(record) for record in topics(TOPICS))
    writer.freeze()
    running = Running(config)
    await running.start()
    await until(lambda: running.node.machine.is_behind, "loading has begun")
    await running.stop()
    opened = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [path for path in opened if path.suffix == ".checkpoint"]
