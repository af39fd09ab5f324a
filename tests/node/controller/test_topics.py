"""CreateTopics and DeleteTopics: records, refusals, and what later writes see."""

from __future__ import annotations

from uuid import UUID

import pytest

from node.controller.errors import ApiError
from node.controller.operations import NewTopic, TopicRef
from node.metadata.schemas import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.nodes.controllers import Cluster, Quorum


def test_a_topic_is_one_atomic_batch_in_kafkas_order() -> None:
    quorum = Quorum(broker_ids=(1, 2, 3))
    topic = NewTopic("t", 2, 3, configs={"retention.ms": "5", "cleanup.policy": "compact"})
    result = quorum.controller.create_topics([topic])
    assert len(result.entries) == 1
    (reply,) = quorum.do(result)
    assert (reply.error, reply.partitions, reply.replication_factor) == (ApiError.NONE, 2, 3)
    assert reply.configs == topic.configs
    kinds = [type(record) for record in quorum.log]
    assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    state = quorum.controller.image.topics["t"]
    assert state.id == reply.topic_id
    for partition in state.partitions.values():
        assert sorted(partition.replicas) == [1, 2, 3]
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert {p.leader for p in state.partitions.values()} != {state.partitions[0].leader}


def test_without_brokers_a_partition_has_neither_replicas_nor_leader() -> None:
    quorum = Quorum()
    quorum.do(quorum.controller.create_topics([NewTopic("t", 1, 3)]))
    partition = quorum.controller.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.leader) == ((), -1)


def test_where_no_broker_must_be_there_one_counts_once_it_is_unfenced() -> None:
    cluster = Cluster(broker_ids=())
    cluster.register(1)
    (reply,) = cluster.do(cluster.controller.create_topics([NewTopic("early")]))
    assert reply.error == ApiError.NONE
    assert cluster.controller.image.topics["early"].partitions[0].replicas == ()
    cluster.beat(1)
    (reply,) = cluster.do(cluster.controller.create_topics([NewTopic("late")]))
    assert cluster.controller.image.topics["late"].partitions[0].replicas == (1,)


def test_defaults_are_one_partition_with_one_replica() -> None:
    quorum = Quorum(broker_ids=(7,))
    (reply,) = quorum.do(quorum.controller.create_topics([NewTopic("t")]))
    assert (reply.partitions, reply.replication_factor) == (1, 1)
    assert quorum.controller.image.topics["t"].partitions[0].replicas == (7,)


def test_replicas_are_placed_as_assigned() -> None:
    quorum = Quorum(broker_ids=(1, 2, 3))
    topic = NewTopic("t", assignments={1: (2, 3), 0: (3, 1)})
    quorum.do(quorum.controller.create_topics([topic]))
    partitions = quorum.controller.image.topics["t"].partitions
    assert {index: p.replicas for index, p in partitions.items()} == {0: (3, 1), 1: (2, 3)}


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (NewTopic(""), ApiError.INVALID_TOPIC_EXCEPTION, "empty string"),
        (NewTopic(".."), ApiError.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
        (NewTopic("a b"), ApiError.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
        (NewTopic("é"), ApiError.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
        (NewTopic("x" * 250), ApiError.INVALID_TOPIC_EXCEPTION, "longer than the max"),
        (NewTopic("old"), ApiError.TOPIC_ALREADY_EXISTS, "'old' already exists"),
        (NewTopic("t", 0), ApiError.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("t", -2), ApiError.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("t", 1, 0), ApiError.INVALID_REPLICATION_FACTOR, "non-positive"),
        (NewTopic("t", 1, 4), ApiError.INVALID_REPLICATION_FACTOR, "only 3 broker"),
        (NewTopic("t", 10_000, 1), ApiError.POLICY_VIOLATION, "excessively large"),
        (NewTopic("t", 2**31 - 1, 1), ApiError.POLICY_VIOLATION, "excessively large"),
        (NewTopic("t", configs={"no.such": "1"}), ApiError.INVALID_CONFIG, "no.such"),
        (NewTopic("t", configs={"retention.ms": None}), ApiError.INVALID_CONFIG, "Null value"),
        (NewTopic("t", configs={"retention.ms": "x"}), ApiError.INVALID_CONFIG, "Not a number"),
        (NewTopic("t", 1, assignments={0: (1,)}), ApiError.INVALID_REQUEST, "numPartitions"),
        (NewTopic("t", -1, 1, {0: (1,)}), ApiError.INVALID_REQUEST, "replicationFactor"),
        (NewTopic("t", assignments={1: (1,)}), ApiError.INVALID_REPLICA_ASSIGNMENT, "0-based"),
        (NewTopic("t", assignments={0: ()}), ApiError.INVALID_REPLICA_ASSIGNMENT, "empty"),
        (
            NewTopic("t", assignments={0: (1, 1)}),
            ApiError.INVALID_REPLICA_ASSIGNMENT,
            "more than once",
        ),
        (NewTopic("t", assignments={0: (9,)}), ApiError.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
        (
            NewTopic("t", assignments={0: (1,), 1: (1, 2)}),
            ApiError.INVALID_REPLICA_ASSIGNMENT,
            "a partition with 2 replica(s)",
        ),
    ],
)
def test_refusals_leave_no_record_and_spare_the_others(
    topic: NewTopic, error: ApiError, message: str
) -> None:
    quorum = Quorum(broker_ids=(1, 2, 3))
    quorum.do(quorum.controller.create_topics([NewTopic("old")]))
    result = quorum.controller.create_topics([topic, NewTopic("good")])
    refused, good = quorum.do(result)
    assert refused.error == error
    assert message in (refused.message or "")
    assert refused.topic_id is None
    assert good.error == ApiError.NONE
    assert sorted(quorum.controller.image.topics) == ["good", "old"]


def test_of_two_creates_of_one_name_one_wins_before_anything_is_committed() -> None:
    quorum = Quorum()
    (first,) = quorum.append(quorum.controller.create_topics([NewTopic("t")]))
    second = quorum.controller.create_topics([NewTopic("t")])
    assert first.error == ApiError.NONE
    assert second.reply[0].error == ApiError.TOPIC_ALREADY_EXISTS
    assert second.entries == ()
    assert second.wait_for is not None, "the refusal tells of an uncommitted topic: hold it"
    assert second.wait_for.last_offset == 1
    quorum.commit()
    assert quorum.controller.create_topics([NewTopic("t")]).wait_for is None


def test_a_name_twice_in_one_request_is_refused_both_times() -> None:
    quorum = Quorum()
    result = quorum.controller.create_topics([NewTopic("t"), NewTopic("t", 2)])
    assert [r.error for r in result.reply] == [ApiError.INVALID_REQUEST] * 2
    assert result.entries == ()


def test_validate_only_writes_nothing_and_is_seen_by_nobody() -> None:
    quorum = Quorum()
    topics = [NewTopic("t"), NewTopic("t2", 0)]
    result = quorum.controller.create_topics(topics, validate_only=True)
    assert [r.error for r in result.reply] == [ApiError.NONE, ApiError.INVALID_PARTITIONS]
    assert (result.entries, result.reply[0].topic_id) == ((), None)
    assert quorum.do(quorum.controller.create_topics([NewTopic("t")]))[0].error == ApiError.NONE


@pytest.mark.parametrize("committed", [False, True])
def test_topics_are_deleted_by_name_or_id(committed: bool) -> None:
    quorum = Quorum()
    created = quorum.append(quorum.controller.create_topics([NewTopic("a"), NewTopic("b")]))
    if committed:
        quorum.commit()
    refs = [TopicRef(name="a"), TopicRef(id=created[1].topic_id)]
    deleted = quorum.append(quorum.controller.delete_topics(refs))
    assert [(r.name, r.topic_id, r.error) for r in deleted] == [
        ("a", created[0].topic_id, ApiError.NONE),
        ("b", created[1].topic_id, ApiError.NONE),
    ]
    assert [type(r) for r in quorum.log[-2:]] == [RemoveTopicRecord] * 2
    again = quorum.controller.delete_topics(refs)
    assert [r.error for r in again.reply] == [
        ApiError.UNKNOWN_TOPIC_OR_PARTITION,
        ApiError.UNKNOWN_TOPIC_ID,
    ]
    quorum.commit()
    assert quorum.controller.image.topics == {}
    assert quorum.controller.pending == 0


def test_a_recreated_topic_has_another_id_and_none_of_the_old_settings() -> None:
    quorum = Quorum()
    create = [NewTopic("t", configs={"retention.ms": "5"})]
    (old,) = quorum.append(quorum.controller.create_topics(create))
    quorum.append(quorum.controller.delete_topics([TopicRef(name="t")]))
    (new,) = quorum.append(quorum.controller.create_topics([NewTopic("t")]))
    assert new.error == ApiError.NONE
    assert new.topic_id != old.topic_id
    quorum.commit()
    assert quorum.controller.image.configs == {}
    assert quorum.controller.image.topics["t"].id == new.topic_id


@pytest.mark.parametrize(
    ("refs", "error"),
    [
        ([TopicRef()], ApiError.INVALID_REQUEST),
        ([TopicRef("t", UUID(int=5))], ApiError.INVALID_REQUEST),
        ([TopicRef("none")], ApiError.UNKNOWN_TOPIC_OR_PARTITION),
        ([TopicRef(id=UUID(int=5))], ApiError.UNKNOWN_TOPIC_ID),
        ([TopicRef("t"), TopicRef("t")], ApiError.INVALID_REQUEST),
    ],
)
def test_deletes_of_nothing_in_particular_are_refused(
    refs: list[TopicRef], error: ApiError
) -> None:
    quorum = Quorum()
    quorum.do(quorum.controller.create_topics([NewTopic("t")]))
    result = quorum.controller.delete_topics(refs)
    assert {r.error for r in result.reply} == {error}
    assert result.entries == ()


def test_topics_are_described_as_committed() -> None:
    quorum = Quorum()
    (made,) = quorum.append(
        quorum.controller.create_topics([NewTopic("t", 2, configs={"retention.ms": "5"})])
    )
    assert quorum.controller.describe_topics() == ()
    (unknown,) = quorum.controller.describe_topics([TopicRef("t")])
    assert unknown.error == ApiError.UNKNOWN_TOPIC_OR_PARTITION
    quorum.commit()
    by_id, *missing = quorum.controller.describe_topics(
        [TopicRef(id=made.topic_id), TopicRef(id=UUID(int=1)), TopicRef()]
    )
    assert (by_id.name, len(by_id.partitions), by_id.configs) == ("t", 2, {"retention.ms": "5"})
    assert [m.error for m in missing] == [ApiError.UNKNOWN_TOPIC_ID, ApiError.INVALID_REQUEST]
    assert [t.name for t in quorum.controller.describe_topics()] == ["t"]


def test_the_same_seed_draws_the_same_ids() -> None:
    ids = [
        [r.topic_id for r in Quorum(seed=seed).controller.create_topics([NewTopic("t")]).reply]
        for seed in (1, 1, 2)
    ]
    assert ids[0] == ids[1] != ids[2]
