"""Forgetting all eligible leaders may change very many partitions: nobody stalls, and all agree."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.controller.operations import AlterResource, ConfigChange, ConfigOp
from node.driver.state_machine import RECORDS_PER_SLICE, StateMachine
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.batch import encode_batch
from node.log.file_log import FileLog
from node.log.memory_disk import MemoryDisk
from node.metadata.fold import apply_record
from node.metadata.image import BROKER, TOPIC, MetadataImage
from node.metadata.records import encode_record
from node.metadata.schemas import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from tests.support.nodes.controllers import Cluster

MANY = 3 * RECORDS_PER_SLICE
MIN_ISR = "min.insync.replicas"


def topic(name: str, id_: int, partitions: int) -> list[MetadataRecord]:
    """A topic whose partitions all have an eligible leader that is not in sync."""
    return [
        TopicRecord(name=name, topic_id=UUID(int=id_)),
        *[
            PartitionRecord(
                version=2,
                topic_id=UUID(int=id_),
                partition_id=index,
                replicas=(1, 2),
                isr=(1,),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                eligible_leader_replicas=(2,),
            )
            for index in range(partitions)
        ],
    ]


def eligible(image: MetadataImage, name: str) -> int:
    return sum(bool(p.eligible_leaders) for p in image.topics[name].partitions.values())


@pytest.mark.parametrize("before", [0, 2])
def test_it_is_applied_in_slices_and_shows_as_a_whole(before: int) -> None:
    log = FileLog(MemoryDisk(), Path("/log"))
    records = [*topic("t", 1, MANY), *topic("u", 2, 5)]
    setting = ConfigRecord(resource_type=2, resource_name="t", name=MIN_ISR, value="2")
    clear: list[MetadataRecord] = [ClearElrRecord(topic_name="t")]
    small: list[MetadataRecord] = [setting]
    batches = [records, *[small] * before, clear, small]
    for batch in batches:
        values = [(None, encode_record(record)) for record in batch]
        base = log.end_offset
        log.append_as_leader(encode_batch(base, 1, values, control=False, timestamp_ms=1))
    machine = StateMachine(log, SnapshotPolicy(), trace=lambda *_: None, publish=lambda *_: None)
    machine.commit(len(records))
    while machine.is_behind:
        list(machine.advance(0))
    machine.commit(log.end_offset)
    if before:
        assert len(list(machine.advance(0))) == before
    turns = 0
    while not (told := list(machine.advance(0))):
        turns += 1
        assert eligible(machine.image, "t") == MANY
        assert machine.image.eligible_count == MANY + 5
    assert turns >= MANY // RECORDS_PER_SLICE
    assert [record for _, record in told] == [ClearElrRecord(topic_name="t")]
    assert (eligible(machine.image, "t"), eligible(machine.image, "u")) == (0, 5)
    at_once = MetadataImage()
    whole = [*records, *[setting] * before, ClearElrRecord(topic_name="t")]
    for offset, record in enumerate(whole):
        apply_record(at_once, record, offset)
    assert (machine.image, machine.image.digest) == (at_once, at_once.digest)
    log.close()


def test_of_few_partitions_it_is_applied_with_what_is_beside_it() -> None:
    log = FileLog(MemoryDisk(), Path("/log"))
    for record in (*topic("t", 1, 3), ClearElrRecord(topic_name="")):
        base = log.end_offset
        values = [(None, encode_record(record))]
        log.append_as_leader(encode_batch(base, 1, values, control=False, timestamp_ms=1))
    machine = StateMachine(log, SnapshotPolicy(), trace=lambda *_: None, publish=lambda *_: None)
    machine.commit(log.end_offset)
    assert len(list(machine.advance(0))) == 5
    assert eligible(machine.image, "t") == 0
    log.close()


WHATS = st.lists(
    st.sampled_from(["clear all", "clear t", "clear u", "leave", "return", "commit", "lose"]),
    max_size=14,
)


@settings(deadline=None, max_examples=60)
@given(WHATS)
def test_what_a_controller_believes_before_the_commit_is_what_comes_of_it(whats: list[str]) -> None:
    """At each step the overlay over the image is what the image is after all of the log."""
    cluster = Cluster(3)
    controller = cluster.controller
    rows = [(1, 2, 3), (2, 1, 3), (3, 1, 2)]
    for name in ("t", "u"):
        cluster.topic(name, *rows)
        level = [ConfigChange(MIN_ISR, ConfigOp.SET, "3")]
        cluster.do(controller.alter_configs([AlterResource(TOPIC, name, level)]))
    epoch = 1
    for at, what in enumerate(whats):
        kind, _, name = what.partition(" ")
        level = [ConfigChange(MIN_ISR, ConfigOp.SET, str(2 + at % 2))]
        if kind == "clear":
            resource = (BROKER, "") if name == "all" else (TOPIC, name)
            cluster.append(controller.alter_configs([AlterResource(*resource, level)]))
        elif kind == "commit":
            cluster.commit()
        elif kind == "lose":
            epoch += 1
            cluster.fail_over(epoch)
        else:
            cluster.append(controller.heartbeat(cluster.heartbeat(3, want_fence=kind == "leave")))
        whole = MetadataImage()
        for offset, record in enumerate(cluster.log):
            apply_record(whole, record, offset)
        for topic_ in whole.topics.values():
            for index, state in topic_.partitions.items():
                assert controller._overlay.partition(topic_.id, index) == state
    cluster.commit()
    assert controller.speculative == 0
