"""C17: what an answer says of topics, partitions and brokers is so in the metadata before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from checkers.invariants.reasons import RULES, unfounded
from node.controller.errors import ApiError
from node.metadata.image import MetadataImage
from node.metadata.state import BrokerState, PartitionState
from node.wire.api import ApiKey
from node.wire.payloads import api_schema
from node.wire.structs import build

TOPIC = UUID(int=7)
STATE = PartitionState(replicas=(2, 3, 1), isr=(1, 3), leader=1, leader_epoch=5, partition_epoch=9)
LATEST = {43: 2, 19: 5, 20: 6, 37: 3, 45: 0, 56: 3, 67: 0, 64: 0}
NO_WAIT: dict[str, Any] = {"timeout": i32Timedelta.parse(timedelta(0))}
NO_THROTTLE: dict[str, Any] = {"throttle_time": i32Timedelta.parse(timedelta(0))}


def image(**changes: Any) -> MetadataImage:
    """Topic t, whose partition 0 is led by 1 instead of 2; broker 1 is registered with epoch 4."""
    found = MetadataImage()
    topic = found.put_topic("t", TOPIC)
    found.put_partition(topic, 0, msgspec.structs.replace(STATE, **changes))
    found.put("brokers", 1, BrokerState(1, UUID(int=1), 4, (), None, False, False))
    return found


def part(key: int, side: str, struct: str, **given: Any) -> Any:
    return build(getattr(api_schema(key, LATEST[key]), side), struct, **given)


def request(key: int, **given: Any) -> Any:
    schema = api_schema(key, LATEST[key]).request
    wait = NO_WAIT if "timeout" in {field.name for field in fields(schema)} else {}
    return build(schema, **wait, **given)


def response(key: int, **given: Any) -> Any:
    return build(api_schema(key, LATEST[key]).response, **NO_THROTTLE, **given)


def code(error: int) -> dict[str, Any]:
    return {"error_code": ErrorCode(int(error)), "error_message": None}


def election(error: int, kind: int = 0, name: str = "t", times: int = 1) -> tuple[int, Any, Any]:
    row = part(43, "response", "PartitionResult", partition_id=0, **code(error))
    topic = part(
        43, "response", "ReplicaElectionResult", topic=name, partition_result=(row,) * times
    )
    asked = request(43, election_type=kind, topic_partitions=None)
    told = response(43, error_code=ErrorCode.none, replica_election_results=(topic,))
    return ApiKey.ELECT_LEADERS, asked, told


def creation(error: int, name: str = "t") -> tuple[int, Any, Any]:
    row = part(
        *(19, "response", "CreatableTopicResult"),
        **code(error),
        name=name,
        topic_config_error_code=ErrorCode.none,
        num_partitions=1,
        replication_factor=1,
        configs=None,
    )
    told = response(19, topics=(row,))
    return ApiKey.CREATE_TOPICS, request(19, topics=(), validate_only=False), told


def deletion(error: int, name: str | None = "t", id_: UUID | None = None) -> tuple[int, Any, Any]:
    row = part(20, "response", "DeletableTopicResult", **code(error), name=name, topic_id=id_)
    return ApiKey.DELETE_TOPICS, request(20, topics=()), response(20, responses=(row,))


def growth(error: int, count: int, name: str = "t") -> tuple[int, Any, Any]:
    wanted = part(37, "request", "CreatePartitionsTopic", name=name, count=count, assignments=None)
    row = part(37, "response", "CreatePartitionsTopicResult", **code(error), name=name)
    asked = request(37, topics=(wanted,), validate_only=False)
    return ApiKey.CREATE_PARTITIONS, asked, response(37, results=(row,))


def reassignment(error: int, replicas: tuple[int, ...] | None = None) -> tuple[int, Any, Any]:
    wanted = part(45, "request", "ReassignablePartition", partition_index=0, replicas=replicas)
    topic = part(45, "request", "ReassignableTopic", name="t", partitions=(wanted,))
    row = part(45, "response", "ReassignablePartitionResponse", partition_index=0, **code(error))
    rows = part(45, "response", "ReassignableTopicResponse", name="t", partitions=(row,))
    told = response(45, error_code=ErrorCode.none, error_message=None, responses=(rows,))
    return ApiKey.ALTER_PARTITION_REASSIGNMENTS, request(45, topics=(topic,)), told


def new_isr(error: int, broker: int = 1, epochs: tuple[int, int] = (5, 9)) -> tuple[int, Any, Any]:
    wanted = part(
        *(56, "request", "PartitionData"),
        partition_index=0,
        leader_epoch=epochs[0],
        new_isr_with_epochs=(),
        leader_recovery_state=0,
        partition_epoch=epochs[1],
    )
    row = part(
        *(56, "response", "PartitionData"),
        partition_index=0,
        error_code=ErrorCode(int(error)),
        leader_id=1,
        leader_epoch=5,
        isr=(),
        leader_recovery_state=0,
        partition_epoch=10,
    )
    asked = part(56, "request", "TopicData", topic_id=TOPIC, partitions=(wanted,))
    told = part(56, "response", "TopicData", topic_id=TOPIC, partitions=(row,))
    return (
        ApiKey.ALTER_PARTITION,
        request(56, broker_id=broker, broker_epoch=4, topics=(asked,)),
        response(56, error_code=ErrorCode.none, topics=(told,)),
    )


def stale(error: int, epoch: int, broker: int = 1) -> tuple[int, Any, Any]:
    told = response(56, error_code=ErrorCode(int(error)), topics=())
    asked = request(56, broker_id=broker, broker_epoch=epoch, topics=())
    return ApiKey.ALTER_PARTITION, asked, told


def producer_ids(error: int, epoch: int, broker: int = 1) -> tuple[int, Any, Any]:
    told = response(67, error_code=ErrorCode(int(error)), producer_id_start=0, producer_id_len=0)
    return ApiKey.ALLOCATE_PRODUCER_IDS, request(67, broker_id=broker, broker_epoch=epoch), told


def departure(error: int, broker: int) -> tuple[int, Any, Any]:
    return ApiKey.UNREGISTER_BROKER, request(64, broker_id=broker), response(64, **code(error))


E = ApiError
RIGHT = [
    election(E.NONE),
    election(E.ELECTION_NOT_NEEDED, kind=1),
    election(E.UNKNOWN_TOPIC_OR_PARTITION, name="u"),
    election(E.ELECTION_NOT_NEEDED, times=2),  # the second time it is as the first one made it
    creation(E.TOPIC_ALREADY_EXISTS),
    creation(E.NONE, "u"),
    deletion(E.NONE),
    deletion(E.NONE, None, TOPIC),
    deletion(E.UNKNOWN_TOPIC_ID),  # it was another one of that name when Kafka looked for it
    growth(E.NONE, 2),
    growth(E.INVALID_PARTITIONS, 1),
    growth(E.INVALID_PARTITIONS, 100_000),
    growth(E.UNKNOWN_TOPIC_OR_PARTITION, 2, "u"),
    reassignment(E.NO_REASSIGNMENT_IN_PROGRESS),
    reassignment(E.NONE, (1, 2)),
    new_isr(E.NONE),
    new_isr(E.FENCED_LEADER_EPOCH, epochs=(4, 9)),
    new_isr(E.INVALID_UPDATE_VERSION, epochs=(5, 8)),
    stale(E.STALE_BROKER_EPOCH, 3),
    stale(E.STALE_BROKER_EPOCH, 4, broker=2),
    producer_ids(E.NONE, 4),
    producer_ids(E.STALE_BROKER_EPOCH, 3),
    departure(E.NONE, 1),
    departure(E.BROKER_ID_NOT_REGISTERED, 2),
]
WRONG = [
    election(E.ELECTION_NOT_NEEDED),
    election(E.NONE, kind=1),
    election(E.UNKNOWN_TOPIC_OR_PARTITION),
    creation(E.TOPIC_ALREADY_EXISTS, "u"),
    creation(E.NONE),
    deletion(E.NONE, "u"),
    deletion(E.NONE, None, UUID(int=8)),
    growth(E.NONE, 1),
    growth(E.INVALID_PARTITIONS, 2),
    growth(E.UNKNOWN_TOPIC_OR_PARTITION, 2),
    reassignment(E.NONE),
    reassignment(E.NO_REASSIGNMENT_IN_PROGRESS, (1, 2)),
    reassignment(E.UNKNOWN_TOPIC_OR_PARTITION),
    new_isr(E.NONE, broker=3),
    new_isr(E.NONE, epochs=(4, 9)),
    new_isr(E.NONE, epochs=(5, 8)),
    new_isr(E.FENCED_LEADER_EPOCH),
    new_isr(E.INVALID_UPDATE_VERSION),
    stale(E.STALE_BROKER_EPOCH, 4),
    producer_ids(E.NONE, 3),
    producer_ids(E.NONE, 4, broker=2),
    producer_ids(E.STALE_BROKER_EPOCH, 4),
    departure(E.NONE, 2),
    departure(E.BROKER_ID_NOT_REGISTERED, 1),
]


def names(cases: list[tuple[int, Any, Any]]) -> Iterator[str]:
    return (f"{n} {ApiKey(key).name}" for n, (key, _, _) in enumerate(cases))


@pytest.mark.parametrize("case", RIGHT, ids=names(RIGHT))
def test_what_is_so_may_be_said(case: tuple[int, Any, Any]) -> None:
    assert unfounded(*case, image()) == []


@pytest.mark.parametrize("case", WRONG, ids=names(WRONG))
def test_what_is_not_so_is_told(case: tuple[int, Any, Any]) -> None:
    assert len(unfounded(*case, image())) == 1


def test_only_what_moves_is_given_up() -> None:
    moving = image(adding=(4,), replicas=(2, 3, 1, 4))
    assert unfounded(*reassignment(E.NONE), moving) == []
    assert unfounded(*reassignment(E.NO_REASSIGNMENT_IN_PROGRESS), moving) != []


def test_each_rule_has_an_answer_that_breaks_it() -> None:
    assert {key for key, _, _ in WRONG} == {key for key, _, _ in RIGHT} == set(RULES)
