"""Kafka's own tools, used on a quorum of our controllers, static or dynamic, and through a broker.

Whomever the quorum tool asks, the leader answers: a follower names it, a broker forwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from harness.systems.kafka.distribution import KafkaDist
from node.core.messages import KRaftVersion, Voters
from node.log.layout import partition_dir, segment_base
from tests.support.kafka.cluster import CLUSTER_ID, Member, Quorum, View, running
from tests.support.kafka.quorum_files import snapshot_records
from tests.support.kafka.quorum_view import await_observer, voters
from tests.support.kafka.quorum_writes import remove_voter
from tests.support.kafka.quorums import dynamic_quorum, our_broker, static_quorum
from tests.support.kafka.tools import FEATURES, KafkaTools, Through

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RECENT_MS = 60_000
VOTERS = dict.fromkeys((1, 2, 3), "ours")
JOINING = {4: "ours"}
OFTEN = {"metadata_log_max_record_bytes_between_snapshots": "3000"}
NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"  # static voters have none
ASKED = ("leader", "follower", "all", "broker")
VALUES = map(str, count(1_000))


class Cluster:
    """Controllers of ours and a broker of ours; node 4, if any, is no voter yet."""

    def __init__(self, quorum: Quorum, broker: Member) -> None:
        self.quorum = quorum
        self.broker = broker

    @property
    def is_dynamic(self) -> bool:
        """Whether the voters are in the log."""
        return 4 in self.quorum.members

    def through(self, asked: str) -> Through:
        """The options that let a tool ask them."""
        if asked == "broker":
            return Through("--bootstrap-server", where(self.broker))
        if asked == "all":
            return Through("--bootstrap-controller", self.quorum.addresses)
        leader = self.quorum.await_leader().leader_id
        follower = next(i for i in VOTERS if i != leader)
        one = self.quorum[leader if asked == "leader" else follower]
        return Through("--bootstrap-controller", where(one))

    def directory_id(self, node_id: int) -> str:
        """As the quorum tool tells it."""
        is_told = self.is_dynamic or node_id not in VOTERS
        return self.quorum[node_id].directory_id if is_told else NO_DIRECTORY


def where(member: Member) -> str:
    return f"{member.endpoint.host}:{member.endpoint.port}"


@pytest.fixture(scope="module", params=["static", "dynamic"])
def cluster(
    request: pytest.FixtureRequest, kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three voters of ours, one of them leading, and a broker that is unfenced."""
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if request.param == "static":
            quorum = stack.enter_context(static_quorum(kafka, folder, VOTERS, **OFTEN))
        else:
            quorum = stack.enter_context(dynamic_quorum(kafka, folder, VOTERS, JOINING, **OFTEN))
        broker = our_broker(kafka, folder, 11, quorum)
        stack.enter_context(running([broker]))
        quorum.start_all(VOTERS)
        quorum.await_leader()
        broker.format()
        broker.start()
        quorum.wait_for(lambda: "is unfenced" in broker.said, "our broker is unfenced")
        quorum.await_replicated(VOTERS)
        yield Cluster(quorum, broker)


def steady(before: View, after: View) -> None:
    assert (before.leader_id, before.epoch) == (after.leader_id, after.epoch), "it was to stay"


@pytest.mark.parametrize("asked", ASKED)
def test_quorum_tool_tells_the_status_that_the_leader_tells(
    cluster: Cluster, tools: KafkaTools, asked: str
) -> None:
    quorum = cluster.quorum
    before = quorum.await_leader()
    status = tools.quorum_status(cluster.through(asked))
    after = quorum.await_leader()
    steady(before, after)
    assert status["ClusterId"] == CLUSTER_ID
    assert int(status["LeaderId"]) == before.leader_id
    assert int(status["LeaderEpoch"]) == before.epoch
    assert before.high_watermark <= int(status["HighWatermark"]) <= after.high_watermark
    told: list[dict[str, Any]] = json.loads(status["CurrentVoters"])
    if cluster.is_dynamic:
        assert {x["id"]: x["directoryId"] for x in told} == {
            i: quorum[i].directory_id for i in VOTERS
        }
    assert {x["id"]: x["endpoints"] for x in told} == {
        i: [f"CONTROLLER://{where(quorum[i])}"] for i in VOTERS
    }
    assert [x["id"] for x in json.loads(status["CurrentObservers"])] == [cluster.broker.node_id]


@pytest.mark.parametrize("asked", ASKED)
def test_quorum_tool_tells_the_replication_that_the_leader_tells(
    cluster: Cluster, tools: KafkaTools, asked: str
) -> None:
    quorum = cluster.quorum
    before = quorum.await_leader()
    began_ms = time.time_ns() // 1_000_000
    rows = tools.quorum_replication(cluster.through(asked))
    after = quorum.await_leader()
    steady(before, after)
    by_id = {int(row["NodeId"]): row for row in rows}
    observer = by_id.pop(cluster.broker.node_id)
    assert observer["Status"] == "Observer"
    assert observer["DirectoryId"] == cluster.broker.directory_id
    assert by_id.keys() == before.ends.keys()
    for node_id, row in by_id.items():
        assert before.ends[node_id] <= int(row["LogEndOffset"]) <= after.ends[node_id]
        assert row["Status"] == ("Leader" if node_id == before.leader_id else "Follower")
        assert row["DirectoryId"] == cluster.directory_id(node_id)
        assert int(row["LastFetchTimestamp"]) > began_ms - RECENT_MS, "since 1970"


@pytest.mark.parametrize("asked", ASKED)
def test_feature_tool_tells_the_levels(cluster: Cluster, tools: KafkaTools, asked: str) -> None:
    told = tools.run(FEATURES, *cluster.through(asked), "describe")
    levels = {line.split()[1]: line.split("FinalizedVersionLevel: ")[1] for line in feature(told)}
    assert levels["metadata.version"].split()[0] == "4.1-IV1"
    assert levels["kraft.version"].split()[0] == str(int(cluster.is_dynamic))


def feature(told: str) -> list[str]:
    return [line for line in told.splitlines() if line.startswith("Feature: ")]


@pytest.mark.parametrize("cluster", ["dynamic"], indirect=True)
@pytest.mark.parametrize("asked", ASKED)
def test_quorum_tool_adds_and_removes_a_controller(
    cluster: Cluster, tools: KafkaTools, asked: str
) -> None:
    quorum = cluster.quorum
    if not quorum[4].alive:
        quorum[4].start()
    await_observer(quorum, 4)
    tools.add_controller(cluster.through(asked), quorum[4].config)
    assert voters(quorum) == {1, 2, 3, 4}
    quorum.write(next(VALUES))
    remove_voter(quorum, tools, 4, cluster.through(asked))
    assert voters(quorum) == {1, 2, 3}
    quorum.write(next(VALUES))


def test_dump_tool_reads_every_batch_of_our_log_as_we_do(
    cluster: Cluster, tools: KafkaTools
) -> None:
    quorum = cluster.quorum
    quorum.await_replicated(VOTERS)
    for member in map(quorum.members.__getitem__, VOTERS):
        before = member.batches()
        segments = [
            path
            for path in partition_dir(member.data).iterdir()
            if segment_base(path.name) is not None
        ]
        dumped = {b.base_offset: b for b in tools.dump(*segments)}
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
        controls = [c for b in before for c in b.controls]
        kinds = {type(c) for c in controls}
        assert ({KRaftVersion, Voters} <= kinds) == cluster.is_dynamic


def test_dump_tool_and_shell_read_our_snapshots(cluster: Cluster, tools: KafkaTools) -> None:
    quorum = cluster.quorum
    newest = None
    for member in quorum.live:

        def snapshot(member: Member = member) -> bool:
            quorum.write(next(VALUES))
            return bool(member.snapshots)

        quorum.wait_for(snapshot, f"{member.node_id} takes a snapshot")
        newest = member.snapshots[-1]
        records = [r for batch in tools.dump(newest) for r in batch.records]
        controls = ["KRaftVersion", "KRaftVoters"] if cluster.is_dynamic else []
        head, tail = 1 + len(controls), 1
        assert [r.type for r in records[:head]] == ["SnapshotHeader", *controls]
        assert len(records) == head + len(snapshot_records(newest)) + tail
        assert records[-1].type == "SnapshotFooter"
    assert newest is not None
    with tools.shell(newest) as ask:
        assert "configs" in ask("ls /image").split()
