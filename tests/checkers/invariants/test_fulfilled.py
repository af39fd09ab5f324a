"""C17: what a controller grants is so in the metadata after the records of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta
from msgspec.structs import replace

from checkers.invariants.fulfilled import RULES, Before, unfulfilled
from node.controller.context import ControllerConfig
from node.driver.answering import Answering
from node.metadata.features import METADATA_VERSION
from node.metadata.fold import apply_record
from node.metadata.image import MetadataImage
from node.metadata.records import decode_record
from node.metadata.schemas import (
    BrokerFeature,
    FeatureLevelRecord,
    MetadataRecord,
    RegisterBrokerRecord,
)
from node.wire.payloads import api_schema, decode, encode
from node.wire.structs import build
from tests.support.traces.brokers import BEGIN, ONE, TOPIC_ID, TWO, change, config, register

WAIT = i32Timedelta.parse(timedelta(seconds=1))
LATEST = {19: 7, 20: 6, 33: 2, 37: 3, 43: 2, 44: 1, 45: 0, 56: 3, 57: 1, 62: 4, 64: 0, 67: 0}
LATEST |= {70: 0, 73: 0}
KINDS = {METADATA_VERSION: (1, 29)}
FEATURE = BrokerFeature(name=METADATA_VERSION, min_supported_version=1, max_supported_version=29)
DIRECTORY = UUID(int=500)
LIST, PLACES = "cleanup.policy", "leader.replication.throttled.replicas"
# Broker 1 leads partition t-0 of the brokers 2 and 1; 3 is registered and fenced.
BEFORE: list[MetadataRecord] = [
    FeatureLevelRecord(version=0, name=METADATA_VERSION, feature_level=20),
    *[
        replace(record, features=(FEATURE,)) if isinstance(record, RegisterBrokerRecord) else record
        for batch in BEGIN
        for record in batch
    ],
    register(3, 7, TWO, version=3, features=(FEATURE,), log_dirs=(DIRECTORY,)),
    *change(replicas=(2, 1)),
    config(PLACES, "0:1,0:2"),
    config(LIST, "delete"),
]
Asked = tuple[int, Any]


def metadata(records: Sequence[MetadataRecord] = BEFORE) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records):
        apply_record(image, record, offset)
    return image


def request(key: int, **given: Any) -> Asked:
    schema = api_schema(key, LATEST[key]).request
    wait: dict[str, Any] = (
        {"timeout": WAIT} if "timeout" in {each.name for each in fields(schema)} else {}
    )
    return key, build(schema, **wait, **given)


def part(key: int, struct: str, /, **given: Any) -> Any:
    return build(api_schema(key, LATEST[key]).request, struct, **given)


def creation(**given: Any) -> Asked:
    of_it = {"num_partitions": 2, "replication_factor": 2, "assignments": (), "configs": ()}
    topic = part(19, "CreatableTopic", name="new", **(of_it | given))
    return request(19, topics=(topic,), validate_only=False)


def by_hand(*replicas: int) -> Asked:
    hand = part(19, "CreatableReplicaAssignment", partition_index=0, broker_ids=replicas)
    return creation(num_partitions=-1, replication_factor=-1, assignments=(hand,))


def with_setting() -> Asked:
    return creation(configs=(part(19, "CreatableTopicConfig", name="retention.ms", value="5"),))


def deletion(name: str | None, id_: UUID | None = None) -> Asked:
    return request(20, topics=(part(20, "DeleteTopicState", name=name, topic_id=id_),))


def growth() -> Asked:
    topic = part(37, "CreatePartitionsTopic", name="t", count=3, assignments=None)
    return request(37, topics=(topic,), validate_only=False)


def setting(operation: int, value: str | None, name: str = LIST) -> Asked:
    row = part(44, "AlterableConfig", name=name, config_operation=operation, value=value)
    resource = part(44, "AlterConfigsResource", resource_type=2, resource_name="t", configs=(row,))
    return request(44, resources=(resource,), validate_only=False)


def replacement() -> Asked:
    row = part(33, "AlterableConfig", name="retention.ms", value="5")
    resource = part(33, "AlterConfigsResource", resource_type=2, resource_name="t", configs=(row,))
    return request(33, resources=(resource,), validate_only=False)


def election() -> Asked:
    topic = part(43, "TopicPartitions", topic="t", partitions=(0,))
    return request(43, election_type=0, topic_partitions=(topic,))


def move(replicas: tuple[int, ...] | None) -> Asked:
    row = part(45, "ReassignablePartition", partition_index=0, replicas=replicas)
    return request(45, topics=(part(45, "ReassignableTopic", name="t", partitions=(row,)),))


def new_isr() -> Asked:
    row = part(
        *(56, "PartitionData"),
        partition_index=0,
        leader_epoch=0,
        new_isr_with_epochs=(part(56, "BrokerState", broker_id=1, broker_epoch=0),),
        leader_recovery_state=0,
        partition_epoch=1,
    )
    topic = part(56, "TopicData", topic_id=TOPIC_ID, partitions=(row,))
    return request(56, broker_id=1, broker_epoch=0, topics=(topic,))


def level() -> Asked:
    row = part(
        57, "FeatureUpdateKey", feature=METADATA_VERSION, max_version_level=21, upgrade_type=1
    )
    return request(57, feature_updates=(row,), validate_only=False)


def node(key: int, **given: Any) -> Asked:
    listener = part(key, "Listener", name="L", host="h", port=9, security_protocol=0)
    feature = part(
        *(key, "Feature"),
        name=METADATA_VERSION,
        min_supported_version=1,
        max_supported_version=29,
    )
    return request(key, incarnation_id=ONE, listeners=(listener,), features=(feature,), **given)


def broker() -> Asked:
    of_it = {"broker_id": 4, "cluster_id": "c", "rack": "r", "is_migrating_zk_broker": False}
    return node(62, **of_it, log_dirs=(UUID(int=600),), previous_broker_epoch=-1)


def directory() -> Asked:
    row = part(73, "PartitionData", partition_index=0)
    topic = part(73, "TopicData", topic_id=TOPIC_ID, partitions=(row,))
    there = part(73, "DirectoryData", id_=DIRECTORY, topics=(topic,))
    return request(73, broker_id=1, broker_epoch=0, directories=(there,))


GRANTED = {
    "a topic": creation(),
    "a topic by hand": by_hand(1, 2),
    "a topic with a setting": with_setting(),
    "no topic": deletion("t"),
    "no topic of an id": deletion(None, TOPIC_ID),
    "more partitions": growth(),
    "a setting": setting(0, "5", "retention.ms"),
    "no setting": setting(1, None),
    "more in a list": setting(2, "delete,compact"),
    "less in a list": setting(3, "0:1", PLACES),
    "other settings": replacement(),
    "a leader": election(),
    "a reassignment": move((3, 1)),
    "an ISR": new_isr(),
    "producer ids": request(67, broker_id=1, broker_epoch=0),
    "a broker": broker(),
    "a controller": node(70, controller_id=9, zk_migration_ready=False),
    "no broker": request(64, broker_id=1),
    "a level": level(),
    "a directory": directory(),
}


def answered(asked: Asked, image: MetadataImage) -> tuple[Any, list[MetadataRecord]]:
    """Ask a controller of ours; give its answer, which must grant it, and its records."""
    key, body = asked
    ours = ControllerConfig(cluster_id="c", node_id=9, supported_features=KINDS)
    outcome = Answering(image, ours).answer(key, LATEST[key], encode(body), image.end_offset)
    return outcome.response, list(map(decode_record, outcome.records))


def complaints(
    asked: Asked, response: Any, records: Sequence[MetadataRecord], before: MetadataImage
) -> list[str]:
    key, body = asked
    read = decode(api_schema(key, LATEST[key]).request, encode(body))
    kept = Before.of(key, read, before)
    for record in records:
        apply_record(before, record, before.end_offset)
    return unfulfilled(key, read, response, kept, before)


@pytest.mark.parametrize("name", GRANTED)
def test_what_is_granted_is_so_with_its_records_and_not_without(name: str) -> None:
    asked = GRANTED[name]
    response, records = answered(asked, metadata())
    assert records
    assert complaints(asked, response, records, metadata()) == []
    assert complaints(asked, response, [], metadata())


def test_each_rule_has_a_request_that_is_granted() -> None:
    assert {key for key, _ in GRANTED.values()} == set(RULES)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a topic", {"partition_id": 5}),
        ("a topic with a setting", {"value": "6"}),
        ("less in a list", {"value": "0:1"}),
        ("more in a list", {"value": "delete,delete,compact"}),
        ("an ISR", {"isr": (1, 2)}),
        ("a broker", {"rack": "s"}),
        ("a level", {"feature_level": 19}),
    ],
)
def test_records_that_do_something_else_are_told(name: str, wrong: dict[str, Any]) -> None:
    asked = GRANTED[name]
    response, records = answered(asked, metadata())
    changed = [
        replace(each, **wrong) if hasattr(each, next(iter(wrong))) else each for each in records
    ]
    assert changed != records
    assert complaints(asked, response, changed, metadata())


def test_a_reassignment_is_given_up() -> None:
    moving = [*BEFORE, *change(replicas=(2, 1, 3), adding_replicas=(3,), removing_replicas=(1,))]
    response, records = answered(move(None), metadata(moving))
    assert complaints(move(None), response, records, metadata(moving)) == []
    assert complaints(move(None), response, [], metadata(moving)) == [
        "t-0 adds [3] and removes [1] after it"
    ]


def test_a_reassignment_that_ends_with_an_isr_leaves_others_in_sync() -> None:
    """The ISR asked for is then not the one that is there."""
    moving = [
        *BEFORE[:-3],
        *change(replicas=(1, 2), removing_replicas=(2,), isr=(1, 2)),
    ]
    response, records = answered(new_isr(), metadata(moving))
    assert complaints(new_isr(), response, records, metadata(moving)) == []


@pytest.mark.parametrize("operation", [2, 3])
def test_a_list_that_was_not_set_has_its_default(operation: int) -> None:
    """A change of our node by machine, which kept what was to be taken away, had survived."""
    asked, bare = setting(operation, "compact"), metadata(BEFORE[:-1])
    response, (record,) = answered(asked, bare)
    assert complaints(asked, response, [record], metadata(BEFORE[:-1])) == []
    wrong = [replace(record, value="")]
    assert complaints(asked, response, wrong, metadata(BEFORE[:-1]))


def test_what_is_only_validated_changes_nothing() -> None:
    key, body = creation()
    asked = key, build(type(body), **{**vars_of(body), "validate_only": True})
    response, records = answered(asked, metadata())
    assert records == []
    assert complaints(asked, response, [], metadata()) == []


def vars_of(struct: Any) -> dict[str, Any]:
    return {each.name: getattr(struct, each.name) for each in fields(struct)}


def test_what_is_refused_promises_nothing() -> None:
    response, records = answered(deletion("x"), metadata())
    assert (records, complaints(deletion("x"), response, [], metadata())) == ([], [])


@pytest.mark.parametrize(("previous", "stays"), [(7, True), (-1, False), (6, False)])
def test_who_has_stopped_cleanly_stays_eligible(previous: int, stays: bool) -> None:
    """KIP-966: it has lost nothing. A change of our node by machine that forgot it had survived."""
    eligible = [*BEFORE, *change(replicas=(2, 1, 3), eligible_leader_replicas=(3,))]
    key, body = broker()
    again = {**vars_of(body), "broker_id": 3, "previous_broker_epoch": previous}
    asked = key, build(type(body), **again)
    response, records = answered(asked, metadata(eligible))
    assert response.error_code == ErrorCode.none
    assert complaints(asked, response, records, metadata(eligible)) == []
    forgets = [*records, *change(eligible_leader_replicas=())]
    expected = ["broker 3 stopped cleanly, and may not lead t-0 any more after it"] * stays
    assert complaints(asked, response, forgets, metadata(eligible)) == expected
