"""What the driver does when the leader makes its log begin anew, or cuts it."""

from __future__ import annotations

import pytest

from node.core.messages import (
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersion,
    LeaderChange,
    Voters,
)
from node.core.types import OffsetAndEpoch
from node.driver.pump import NodeFatalError
from node.log.memory_disk import MemoryDisk
from node.log.snapshots import SnapshotStore
from node.metadata.records import encode_record
from tests.support.nodes.crash_node import (
    PARTITION,
    HandNode,
    Promises,
    control_batch,
    formatted,
    topic_batch,
    topic_records,
)
from tests.support.nodes.driver import in_loop


def follower() -> tuple[HandNode, MemoryDisk]:
    """Follows 3 in epoch 2, with a log of six records: the opening, and three topics as one."""
    disk = formatted()
    node = HandNode(disk, Promises())
    node.follow(3, 2)
    change = LeaderChange(3, (1, 2, 3), (1, 3))
    opening = control_batch(0, 2, change, KRaftVersion(1), Voters(node.node.voters))
    node.fetched(opening, topic_batch(3, 2, "a", "b", "c"), hwm=3)
    return node, disk


def offer(node: HandNode, made: OffsetAndEpoch) -> SnapshotStore:
    """The leader sends its snapshot in place of records; gives what it is."""
    store = SnapshotStore(MemoryDisk(), PARTITION)
    writer = store.create(
        made, last_contained_log_timestamp_ms=7, kraft_version=1, voters=node.node.voters
    )
    writer.append([encode_record(record) for record in topic_records(["theirs"])])
    size = writer.freeze().size
    node.fetched(snapshot=made)
    data, _ = store.read_chunk(made, 0, size)
    epoch, leader = node.node.replica.epoch, node.node.replica.leader_id
    node.answer(
        FetchSnapshotRequest,
        FetchSnapshotResponse(
            Error.NONE, epoch, leader, snapshot=made, size=size, position=0, data=data
        ),
    )
    return store


@in_loop
async def test_an_install_is_traced_with_the_digest_that_the_leaders_file_has() -> None:
    """KRaft S22: same id, same bytes on all nodes."""
    node, _ = follower()
    made = OffsetAndEpoch(40, 2)
    store = offer(node, made)
    (installed,) = [fields for type_, _, fields in node.tracer.events if type_ == "snap"]
    assert (installed["op"], installed["id"]) == ("install", [40, 2])
    assert installed["sha"] == store.sha256(made) == node.log.snapshots.sha256(made)
    assert installed["size"] == store.infos[0].size


@in_loop
async def test_a_tail_that_nobody_copied_gives_way_to_a_snapshot_of_an_earlier_epoch() -> None:
    """Figure 8 of the Raft paper with a snapshot: leader 5 wrote to this node only; then leader 4
    came back as 6, committed what it had, and cleaned its log up to there. Kafka 4.1 dies.
    """
    node, disk = follower()
    node.follow(2, 5)
    node.fetched(control_batch(6, 5, LeaderChange(2, (1, 2, 3), (1, 2))))
    node.follow(3, 6)
    offer(node, OffsetAndEpoch(40, 4))
    assert (node.log.start_offset, node.log.end_offset, node.log.last_epoch) == (40, 40, 4)
    assert set(node.node.machine.image.topics) == {"theirs"}
    fetch = node.sends[-1].request
    assert isinstance(fetch, FetchRequest)
    assert (fetch.offset, fetch.last_fetched_epoch) == (40, 4)
    node.fetched(topic_batch(40, 6, "next"), hwm=41)
    assert set(node.node.machine.image.topics) == {"theirs", "next"}
    node.node.halt()
    disk.crash()
    again = HandNode(disk, Promises())
    assert (again.log.start_offset, again.log.end_offset) == (40, 41)


@in_loop
async def test_a_truncation_inside_of_a_batch_is_fatal() -> None:
    """The whole batch goes, and the next fetch would promise records that are no more (S16, S19).

    Leaders tell of ends of epochs, which are ends of batches.
    """
    node, _ = follower()
    assert node.log.end_offset == 6
    node.follow(2, 3)
    fetches = len(node.sends)
    with pytest.raises(NodeFatalError, match="inside of a batch"):
        node.fetched(diverging=OffsetAndEpoch(4, 2))
    assert len(node.sends) == fetches
