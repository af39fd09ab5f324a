"""What is about very many partitions is worked out in slices, and is one batch or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from node.controller.errors import ApiError, ControllerError, NotControllerError
from node.controller.long_operations import LongOperations
from node.controller.operations import (
    AlterResource,
    ConfigChange,
    ConfigOp,
    ControllerResult,
    NewTopic,
    TopicRef,
)
from node.controller.partition_operations import (
    AlterPartitionData,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    ElectionType,
    IsrMember,
    NewPartitions,
    Reassignment,
)
from node.controller.slices import STEPS_PER_SLICE, Pace, Slices, finish
from node.metadata.image import TOPIC
from tests.support.nodes.controllers import Cluster

MANY = 2 * STEPS_PER_SLICE + 100
FEW = STEPS_PER_SLICE // 10

Operate = Callable[[LongOperations], Slices[ControllerResult[Any]]]


def names(count: int) -> list[str]:
    return [f"s{n}" for n in range(count)]


def operations(count: int) -> dict[str, Operate]:
    """Each kind of long operation, about so many topics or partitions."""
    every = list(range(count))
    away = [Reassignment(index, (3, 2)) for index in every]
    change = [ConfigChange("retention.ms", ConfigOp.SET, "5")]
    resources = [AlterResource(TOPIC, name, change) for name in names(count)]
    return {
        "one topic": lambda long: long.create_topics([NewTopic("new", count, 2)]),
        "topics": lambda long: long.create_topics([NewTopic(f"n{i}", 1, 2) for i in every]),
        "only looked at": lambda long: long.create_topics(
            [NewTopic("new", count, 2)], validate_only=True
        ),
        "partitions": lambda long: long.create_partitions([NewPartitions("t", 2 * count)]),
        "deletions": lambda long: long.delete_topics([TopicRef(name) for name in names(count)]),
        "settings": lambda long: long.alter_configs(resources),
        "elections": lambda long: long.elect_leaders(ElectionType.PREFERRED, None),
        "named elections": lambda long: long.elect_leaders(ElectionType.PREFERRED, {"t": every}),
        "ISRs": lambda long: long.alter_partition(smaller_isrs(long, every)),
        "directories": lambda long: long.assign_replicas_to_dirs(one_directory(long, every)),
        "reassignments": lambda long: long.alter_partition_reassignments({"t": away}),
    }


def smaller_isrs(long: LongOperations, indexes: list[int]) -> AlterPartitionRequest:
    """The leader of ``t`` wants to be alone in its ISRs."""
    overlay = long._ctx.overlay
    topic_id, leader = overlay.topic_id("t"), overlay.broker(2)
    assert topic_id is not None
    assert leader is not None
    states = [overlay.partition(topic_id, index) for index in indexes]
    rows = [
        AlterPartitionData(
            index, state.leader_epoch, state.partition_epoch, (IsrMember(leader.id, leader.epoch),)
        )
        for index, state in enumerate(states)
        if state is not None and state.leader == leader.id
    ]
    assert len(rows) == len(indexes)
    return AlterPartitionRequest(leader.id, leader.epoch, {topic_id: rows})


def one_directory(long: LongOperations, indexes: list[int]) -> AssignReplicasToDirsRequest:
    """Broker 1 says where its replicas of ``t`` are."""
    topic_id = long._ctx.overlay.topic_id("t")
    assert topic_id is not None
    broker = long._ctx.overlay.broker(1)
    assert broker is not None
    directory = broker.log_dirs[0]
    assert directory is not None
    return AssignReplicasToDirsRequest(1, broker.epoch, {directory: {topic_id: indexes}})


KINDS = list(operations(0))


def cluster_of(count: int) -> Cluster:
    """Three brokers; a topic of so many partitions that another broker should lead; topics."""
    cluster = Cluster(3)
    rows = dict.fromkeys(range(count), (1, 2))
    made = cluster.controller.create_topics([NewTopic("t", assignments=rows)])
    assert not cluster.do(made)[0].error
    made = cluster.controller.create_topics([NewTopic(name, 1, 1) for name in names(count)])
    cluster.do(made)
    cluster.beat(1, want_fence=True)
    cluster.finish()
    cluster.beat(1)
    cluster.finish()
    return cluster


def counted(slices: Slices[Any], pauses: list[int]) -> Slices[Any]:
    """The same, and another entry of ``pauses`` for each."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value
        pauses.append(len(pauses))
        yield


@pytest.fixture(scope="module")
def made() -> Cluster:
    """A cluster that operations are tried on, none of them appended."""
    return cluster_of(MANY)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_one_pauses_and_comes_to_what_it_comes_to_at_once(kind: str) -> None:
    results, pauses = [], list[int]()
    for at_once in (True, False):
        cluster = cluster_of(MANY)
        slices = operations(MANY)[kind](cluster.controller.long)
        result = finish(slices if at_once else counted(slices, pauses))
        cluster.do(result)
        results.append((result.entries, result.reply, cluster.controller.image.digest))
    assert len(pauses) >= MANY // STEPS_PER_SLICE
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_one_never_pauses(kind: str) -> None:
    cluster = cluster_of(FEW)
    with pytest.raises(StopIteration):
        next(operations(FEW)[kind](cluster.controller.long))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slices", [1, 2])
def test_one_that_is_given_up_leaves_nothing(made: Cluster, kind: str, slices: int) -> None:
    under_way = operations(MANY)[kind](made.controller.long)
    for _ in range(slices):
        next(under_way)
    under_way.close()
    assert made.controller.speculative == 0
    assert made.controller.pending == 0
    assert not finish(made.controller.long.create_topics([NewTopic("t")])).entries


def test_meanwhile_there_is_no_other_write_and_earlier_ones_are_settled() -> None:
    cluster = cluster_of(FEW)
    reply = cluster.append(cluster.controller.create_topics([NewTopic("before", 1, 1)]))
    assert not reply[0].error
    slices = cluster.controller.long.create_topics([NewTopic("before"), NewTopic("new", MANY, 2)])
    next(slices)
    for write in (cluster.controller.no_op, cluster.controller.balance_leaders):
        with pytest.raises(ControllerError, match="has not ended"):
            write()
    assert "new" not in cluster.controller.image.topics
    cluster.commit()
    assert "before" in cluster.controller.image.topics
    rows = cluster.do(finish(slices))
    assert [row.error for row in rows] == [ApiError.TOPIC_ALREADY_EXISTS, ApiError.NONE]
    assert len(cluster.controller.image.topics["new"].partitions) == MANY
    assert cluster.controller.speculative == 0
    cluster.do(cluster.controller.no_op())


def test_elections_see_what_is_not_committed_yet_and_is_meanwhile() -> None:
    """Broker 3 is in sync again, and broker 4 has gone."""
    cluster = cluster_of(MANY)
    cluster.start(4)
    topic_id = cluster.topic("y", (3, 1))
    cluster.topic("z", (4, 1))
    for want_fence in (True, False):
        cluster.beat(3, want_fence=want_fence)
        cluster.finish()
    altered = cluster.append(cluster.controller.alter_partition(cluster.wants_isr((1, 3), "y")))
    assert altered.topics[topic_id][0].error == ApiError.NONE
    gone = cluster.heartbeat(4, want_fence=True)
    cluster.append(cluster.controller.heartbeat(gone))
    assert (cluster.partition("y").isr, cluster.partition("z").leader) == ((1,), 4)  # committed
    slices = cluster.controller.long.elect_leaders(ElectionType.PREFERRED, None)
    next(slices)
    cluster.commit()
    assert cluster.controller.speculative == 0
    reply = cluster.do(finish(slices))
    rows = {topic: [row.error for row in its] for topic, its in reply.topics.items() if its}
    assert rows == {
        "t": [ApiError.PREFERRED_LEADER_NOT_AVAILABLE] * MANY,
        "y": [ApiError.NONE],
        "z": [ApiError.PREFERRED_LEADER_NOT_AVAILABLE],
    }
    assert (cluster.partition("y").leader, cluster.partition("z").leader) == (3, 1)


def test_what_is_too_large_is_refused_as_a_whole_and_the_rest_is_done() -> None:
    cluster = cluster_of(FEW)
    wanted = [NewTopic("a", 6_000, 1), NewTopic("b", 6_000, 1), NewTopic("c", 10, 1)]
    rows = cluster.do(finish(cluster.controller.long.create_topics(wanted)))
    assert [row.error for row in rows] == [
        ApiError.NONE,
        ApiError.POLICY_VIOLATION,
        ApiError.NONE,
    ]
    assert "b" not in cluster.controller.image.topics


def test_a_reign_that_is_over_leaves_nothing_of_it_to_the_next() -> None:
    cluster = cluster_of(FEW)
    slices = cluster.controller.long.create_topics([NewTopic("new", MANY, 2)])
    next(slices)
    cluster.fail_over()
    slices.close()
    assert cluster.controller.speculative == 0
    cluster.do(cluster.controller.create_topics([NewTopic("new", 3, 2)]))
    assert len(cluster.controller.image.topics["new"].partitions) == 3
    cluster.controller.renounce()
    with pytest.raises(NotControllerError):
        next(cluster.controller.long.create_topics([NewTopic("late")]))


def calls_of_slices(slices: Slices[Any]) -> list[int]:
    """How many functions each slice calls, Python's own among them."""
    calls = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        calls[-1] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        while next(slices, slices) is None:
            calls.append(0)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", KINDS)
def test_no_slice_grows_with_what_is_asked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace.__init__, "__defaults__", (STEPS_PER_SLICE // 10,))
    longest = []
    for count in (MANY // 10, MANY // 2):
        cluster = cluster_of(count)
        longest.append(max(calls_of_slices(operations(count)[kind](cluster.controller.long))))
    assert longest[1] < 1.2 * longest[0]
