"""Kafka's own tools, used on a quorum of our controllers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_cluster import CLUSTER_ID, Quorum
from kafka_dist import KafkaDist
from kafka_quorums import static_quorum
from kafka_tools import KafkaTools

from node.log.layout import partition_dir, segment_name

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RECENT_MS = 60_000


@pytest.fixture(scope="module")
def ours(kafka: KafkaDist, folder: Path) -> Iterator[Quorum]:
    """Three controllers of ours, one of them leading."""
    with static_quorum(kafka, folder, {1: "ours", 2: "ours", 3: "ours"}) as quorum:
        for member in quorum.members.values():
            member.start()
        quorum.await_leader()
        quorum.await_replicated()
        yield quorum


def test_quorum_tool_tells_the_status_that_the_leader_tells(
    ours: Quorum, tools: KafkaTools
) -> None:
    before = ours.await_leader()
    status = tools.quorum_status(ours.addresses)
    after = ours.await_leader()
    assert status["ClusterId"] == CLUSTER_ID
    assert before.epoch == after.epoch, "the leader was to stay"
    assert int(status["LeaderId"]) == before.leader_id
    assert int(status["LeaderEpoch"]) == before.epoch
    assert before.high_watermark <= int(status["HighWatermark"]) <= after.high_watermark
    assert {f'"id": {i}' in status["CurrentVoters"] for i in (1, 2, 3)} == {True}
    assert status["CurrentObservers"] == "[]"


def test_quorum_tool_tells_the_replication_that_the_leader_tells(
    ours: Quorum, tools: KafkaTools
) -> None:
    before = ours.await_leader()
    began_ms = time.time_ns() // 1_000_000
    rows = tools.quorum_replication(ours.addresses)
    after = ours.await_leader()
    by_id = {int(row["NodeId"]): row for row in rows}
    assert by_id.keys() == before.ends.keys()
    for node_id, row in by_id.items():
        assert before.ends[node_id] <= int(row["LogEndOffset"]) <= after.ends[node_id]
        assert row["Status"] == ("Leader" if node_id == before.leader_id else "Follower")
        assert row["DirectoryId"] == "AAAAAAAAAAAAAAAAAAAAAA", "static voters have none"
        assert int(row["LastFetchTimestamp"]) > began_ms - RECENT_MS, "since 1970"


def test_dump_tool_reads_every_batch_of_our_log_as_we_do(ours: Quorum, tools: KafkaTools) -> None:
    ours.await_replicated()
    segments = [partition_dir(m.data) / segment_name(0) for m in ours.members.values()]
    for member, segment in zip(ours.members.values(), segments, strict=True):
        before = member.batches()
        dumped = {b.base_offset: b for b in tools.dump(segment)}
        assert before
        for batch in before:
            theirs = dumped[batch.base_offset]
            assert theirs.is_valid
            assert (theirs.last_offset, theirs.epoch, theirs.crc, theirs.is_control) == (
                batch.last_offset,
                batch.epoch,
                batch.crc,
                batch.is_control,
            )
            offsets = [record.offset for record in theirs.records]
            assert offsets == list(range(batch.base_offset, batch.last_offset + 1))
