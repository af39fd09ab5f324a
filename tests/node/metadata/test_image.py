"""The image: what records add up to, and a digest that tells states apart."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.metadata.fold import apply_record, load_records
from node.metadata.image import (
    BROKER,
    TOPIC,
    ImageError,
    Listener,
    MetadataImage,
    PartitionState,
)
from node.metadata.records import MetadataRecord
from node.metadata.schemas import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from node.metadata.state import UNASSIGNED_DIR

EMPTY = "0" * 16
A, B = UUID(int=0xA << 64), UUID(int=0xB << 64)


def folded(records: Iterable[MetadataRecord]) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records):
        apply_record(image, record, offset)
    return image


def topic(name: str, topic_id: UUID) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def partition(topic_id: UUID, index: int, *replicas: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0] if replicas else -1,
        leader_epoch=0,
        partition_epoch=0,
    )


def setting(
    name: str, value: str | None, *, resource: str = "a", kind: int = TOPIC
) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def broker(broker_id: int, epoch: int) -> RegisterBrokerRecord:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=A,
        broker_epoch=epoch,
        end_points=(endpoint,),
        features=(),
        rack=None,
    )


def test_topics_are_known_by_name_and_by_id() -> None:
    image = folded([topic("a", A), partition(A, 0, 1, 2), partition(A, 1, 2, 1), topic("b", B)])
    assert sorted(image.topics) == ["a", "b"]
    assert image.topic_by_id(B) is image.topics["b"]
    assert image.topics["a"].partitions[1] == PartitionState((2, 1), (2, 1), 2, 0, 0)
    assert image.end_offset == 4


def test_removing_a_topic_removes_its_partitions_and_settings() -> None:
    before = folded([topic("b", B), setting("k", "v", resource="b")])
    image = folded(
        [
            topic("b", B),
            setting("k", "v", resource="b"),
            topic("a", A),
            setting("x", "1"),
            setting("y", "2"),
            partition(A, 0, 1),
            RemoveTopicRecord(topic_id=A),
        ]
    )
    assert image == before
    assert image.digest == before.digest
    assert image.topic_by_id(A) is None


def test_settings_are_set_replaced_and_removed() -> None:
    image = folded(
        [setting("k", "1"), setting("k", "2"), setting("l", "", kind=BROKER, resource="")]
    )
    assert image.config((TOPIC, "a")) == {"k": "2"}
    assert image.config((BROKER, "")) == {"l": ""}
    apply_record(image, setting("k", None), 3)
    apply_record(image, setting("never", None), 4)
    assert image.configs == {(BROKER, ""): {"l": ""}}
    apply_record(image, setting("l", None, kind=BROKER, resource=""), 5)
    assert image.digest == EMPTY


def test_partition_changes_keep_what_they_do_not_name() -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=A, isr=(2,), leader=2)
    image = folded([topic("a", A), partition(A, 0, 1, 2), change])
    assert image.topics["a"].partitions[0] == PartitionState((1, 2), (2,), 2, 1, 1)
    apply_record(image, PartitionChangeRecord(partition_id=0, topic_id=A, isr=(2, 1)), 3)
    assert image.topics["a"].partitions[0] == PartitionState((1, 2), (2, 1), 2, 1, 2)
    apply_record(
        image,
        PartitionChangeRecord(
            version=2,
            partition_id=0,
            topic_id=A,
            leader=-1,
            isr=(),
            eligible_leader_replicas=(1,),
            last_known_elr=(2,),
            leader_recovery_state=1,
            directories=(A, B),
        ),
        4,
    )
    assert image.topics["a"].partitions[0] == PartitionState(
        (1, 2), (), -1, 2, 3,
        recovery=1, directories=(A, B), eligible_leaders=(1,), last_known_leaders=(2,),
    )  # fmt: skip


def test_a_partition_record_of_each_version_is_taken() -> None:
    record = PartitionRecord(version=2,
        partition_id=0, topic_id=A, replicas=(1,), isr=(), directories=(B,),
        eligible_leader_replicas=(1,), leader_epoch=3, partition_epoch=4,
    )  # fmt: skip
    image = folded([topic("a", A), record])
    state = image.topics["a"].partitions[0]
    assert (state.leader, state.leader_epoch, state.directories) == (-1, 3, (B,))
    assert state.eligible_leaders == (1,)


def test_brokers_register_fence_and_leave() -> None:
    image = folded([broker(1, 0), UnfenceBrokerRecord(id=1, epoch=0)])
    assert [b.fenced for b in image.brokers.values()] == [False]
    apply_record(image, FenceBrokerRecord(id=1, epoch=0), 2)
    assert [b.fenced for b in image.brokers.values()] == [True]
    apply_record(
        image,
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=0, fenced=-1, in_controlled_shutdown=1
        ),
        3,
    )
    states = [(b.fenced, b.in_controlled_shutdown) for b in image.brokers.values()]
    assert states == [(False, True)]
    apply_record(image, broker(1, 4), 4)
    assert [(b.fenced, b.epoch) for b in image.brokers.values()] == [(True, 4)]
    apply_record(image, UnregisterBrokerRecord(broker_id=1, broker_epoch=4), 5)
    assert image.digest == EMPTY


def test_features_and_records_without_state() -> None:
    image = folded([FeatureLevelRecord(name="metadata.version", feature_level=20), NoOpRecord()])
    assert image.features == {"metadata.version": 20}
    digest = image.digest
    apply_record(image, ZkMigrationStateRecord(zk_migration_state=3), 2)
    assert (image.digest, image.end_offset) == (digest, 3)
    apply_record(image, FeatureLevelRecord(name="metadata.version", feature_level=0), 3)
    assert image.digest == EMPTY


def test_a_registration_tells_all_of_a_broker() -> None:
    record = RegisterBrokerRecord(
        version=4,
        broker_id=1,
        incarnation_id=A,
        broker_epoch=7,
        end_points=(
            BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),
            BrokerEndpoint(name="SSL", host="h", port=9093, security_protocol=1),
        ),
        features=(
            BrokerFeature(name="z", min_supported_version=0, max_supported_version=1),
            BrokerFeature(name="a", min_supported_version=7, max_supported_version=27),
        ),
        rack="r",
        is_migrating_zk_broker=True,
        log_dirs=(B, A),
    )
    state = folded([record]).brokers[1]
    assert state.listeners[1] == Listener("SSL", "h", 9093, 1) == state.listener("SSL")
    assert state.listener("none") is None
    assert state.endpoints == (("PLAINTEXT", "h", 9092), ("SSL", "h", 9093))
    assert list(state.features.items()) == [("a", (7, 27)), ("z", (0, 1))]
    assert (state.log_dirs, state.cordoned_log_dirs) == ((A, B), None)
    assert (state.rack, state.fenced, state.is_migrating_zk_broker) == ("r", True, True)


def test_a_registration_change_keeps_what_it_does_not_name() -> None:
    image = folded([broker(1, 0)])
    apply_record(
        image,
        BrokerRegistrationChangeRecord(
            version=3, broker_id=1, broker_epoch=0, log_dirs=(B, A), cordoned_log_dirs=(B,)
        ),
        1,
    )
    state = image.brokers[1]
    assert (state.fenced, state.log_dirs, state.cordoned_log_dirs) == (True, (A, B), (B,))
    apply_record(
        image, BrokerRegistrationChangeRecord(version=3, broker_id=1, broker_epoch=0, fenced=-1), 2
    )
    state = image.brokers[1]
    assert (state.fenced, state.log_dirs, state.cordoned_log_dirs) == (False, (A, B), (B,))


def test_controllers_register() -> None:
    record = RegisterControllerRecord(
        controller_id=3,
        incarnation_id=A,
        zk_migration_ready=False,
        end_points=(BrokerEndpoint(name="C", host="h", port=1, security_protocol=0),),
        features=(BrokerFeature(name="f", min_supported_version=0, max_supported_version=1),),
    )
    image = folded([record])
    state = image.controllers[3]
    assert (state.incarnation, state.listeners, dict(state.features)) == (
        A,
        (Listener("C", "h", 1, 0),),
        {"f": (0, 1)},
    )
    again = msgspec.structs.replace(record, incarnation_id=B)
    apply_record(image, again, 1)
    assert (image, image.digest) == ((other := folded([again])), other.digest)
    apply_record(image, UnregisterControllerRecord(controller_id=3), 2)
    assert (image, image.digest) == ((other := folded([])), other.digest)


def test_new_replicas_have_no_directory_yet_and_those_that_stay_keep_theirs() -> None:
    record = PartitionRecord(
        version=1, partition_id=0, topic_id=A, replicas=(1, 2), isr=(1,), directories=(A, B)
    )
    image = folded([topic("a", A), record])
    apply_record(image, PartitionChangeRecord(partition_id=0, topic_id=A, replicas=(3, 2)), 2)
    assert image.topics["a"].partitions[0].directories == (UNASSIGNED_DIR, B)
    image = folded([topic("a", A), partition(A, 0, 1, 2)])
    apply_record(image, PartitionChangeRecord(partition_id=0, topic_id=A, replicas=(2, 1)), 2)
    assert not image.topics["a"].partitions[0].directories


def test_where_no_record_tells_of_directories_a_new_replica_has_none() -> None:
    """As Kafka's PartitionRegistration.merge: before 3.7-IV2 no record can tell of one."""
    image = folded([topic("a", A), partition(A, 0, 1, 2)])
    apply_record(image, PartitionChangeRecord(partition_id=0, topic_id=A, replicas=(2, 3)), 2)
    assert not image.topics["a"].partitions[0].directories


def test_clearing_eligible_leaders_of_one_topic_or_of_all() -> None:
    def eligible(topic_id: UUID) -> PartitionRecord:
        return msgspec.structs.replace(
            partition(topic_id, 0, 1, 2), version=2, eligible_leader_replicas=(2,)
        )

    image = folded([topic("a", A), eligible(A), topic("b", B), eligible(B), partition(B, 1, 1)])
    apply_record(image, ClearElrRecord(topic_name="a"), 5)
    a, b = image.topics["a"].partitions[0], image.topics["b"].partitions[0]
    assert (a.eligible_leaders, a.partition_epoch, b.eligible_leaders) == ((), 1, (2,))
    apply_record(image, ClearElrRecord(topic_name=""), 6)
    states = [*image.topics["a"].partitions.values(), *image.topics["b"].partitions.values()]
    assert [(s.eligible_leaders, s.partition_epoch) for s in states] == [((), 1), ((), 1), ((), 0)]
    assert not list(image.elr_partitions(2))


def test_quotas_are_of_entities_whatever_the_order_of_their_parts() -> None:
    parts = (
        EntityData(entity_type="user", entity_name=None),
        EntityData(entity_type="client-id", entity_name="c"),
    )
    quota = ClientQuotaRecord(entity=parts, key="k", value=1.5, remove=False)
    turned = msgspec.structs.replace(quota, entity=parts[::-1], value=2.0)
    image = folded([quota, turned])
    assert image.client_quotas == {(("client-id", "c"), ("user", None)): {"k": 2.0}}
    negative, zero = (msgspec.structs.replace(quota, value=value) for value in (-0.0, 0.0))
    assert folded([negative]).digest == folded([zero]).digest
    apply_record(image, msgspec.structs.replace(quota, remove=True), 2)
    assert (image.client_quotas, image.digest) == ({}, EMPTY)


def test_producer_ids_acls_credentials_and_tokens() -> None:
    acl = AccessControlEntryRecord(
        id=A, resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*",
        operation=4, permission_type=3,
    )  # fmt: skip
    scram = UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    token = DelegationTokenRecord(
        owner="User:a", requester="User:b", renewers=(), issue_timestamp=1, max_timestamp=2,
        expiration_timestamp=3, token_id="t",
    )  # fmt: skip
    ids = ProducerIdsRecord(broker_id=1, next_producer_id=1000)
    image = folded([acl, scram, token, ids])
    assert image.acls[A].principal == "User:a"
    assert image.scram["u", 1].iterations == 4096
    assert image.delegation_tokens["t"].expiration_timestamp == 3
    assert image.next_producer_id == 1000
    gone = (
        RemoveAccessControlEntryRecord(id=A),
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
        RemoveDelegationTokenRecord(token_id="t"),
    )
    for offset, record in enumerate(gone, start=4):
        apply_record(image, record, offset)
    assert image.digest == folded([ids]).digest != EMPTY


def test_a_partition_is_found_by_topic_id_and_index() -> None:
    image = folded([topic("a", A), partition(A, 0, 1)])
    assert image.partition(A, 0) is image.topics["a"].partitions[0]
    assert image.partition(A, 1) is None
    assert image.partition(B, 0) is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (topic("a", B), "exists already"),
        (topic("other", A), "exists already"),
        (TopicRecord(name="z", topic_id=None), "has no id"),
        (partition(B, 0, 1), "does not exist"),
        (RemoveTopicRecord(topic_id=B), "does not exist"),
        (RemoveTopicRecord(topic_id=None), "does not exist"),
        (PartitionChangeRecord(partition_id=9, topic_id=A, leader=1), "a-9, which does not exist"),
        (FenceBrokerRecord(id=1, epoch=77), "epoch 77"),
        (UnfenceBrokerRecord(id=2, epoch=0), "broker 2"),
        (MetadataRecord(), "no rule"),
        (partition(A, -1, 1), "names a--1"),
        (ClearElrRecord(topic_name="z"), "names topic 'z'"),
        (RemoveAccessControlEntryRecord(id=A), "not there"),
        (RemoveUserScramCredentialRecord(name="u", mechanism=1), "not there"),
        (
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=2),
            "a change that Kafka does not have",
        ),
        (
            PartitionRecord(
                version=1, partition_id=1, topic_id=A, replicas=(1, 2), isr=(), directories=(B,)
            ),
            "for the replicas",
        ),
    ],
)
def test_a_record_that_does_not_fit_changes_nothing(record: MetadataRecord, message: str) -> None:
    image = folded([topic("a", A), partition(A, 0, 1), broker(1, 2)])
    before = image.copy()
    with pytest.raises(ImageError, match=message):
        apply_record(image, record, 3)
    assert image == before
    assert (image.digest, image.end_offset) == (before.digest, 3)


def test_offsets_must_rise_but_may_skip_control_records() -> None:
    image = folded([NoOpRecord()])
    apply_record(image, NoOpRecord(), 5)
    with pytest.raises(ImageError, match="below 6"):
        apply_record(image, NoOpRecord(), 5)


def test_a_copy_is_independent() -> None:
    image = folded([topic("a", A), partition(A, 0, 1), setting("k", "v")])
    copy = image.copy()
    assert (copy, copy.digest, copy.end_offset) == (image, image.digest, 3)
    apply_record(copy, RemoveTopicRecord(topic_id=A), 3)
    assert copy != image
    assert image.topic_by_id(A) is not None
    assert copy.topic_by_id(A) is None
    assert image != "something else"


def test_a_copy_without_eligible_leaders_is_the_same_in_all_else() -> None:
    def eligible(index: int) -> PartitionRecord:
        return msgspec.structs.replace(
            partition(A, index, 1, 2), version=2, eligible_leader_replicas=(2,), last_known_elr=(1,)
        )

    image = folded([topic("a", A), eligible(0), eligible(1), partition(A, 2, 1)])
    before = image.digest
    bare = image.without_eligible()
    others = folded([topic("a", A), *(partition(A, index, 1, 2) for index in range(2))])
    apply_record(others, partition(A, 2, 1), 3)
    assert bare.digest == image.digest_without_eligible() == others.digest
    assert bare.eligible_count == 0
    assert (image.digest, image.eligible_count) == (before, 2)


SETTINGS = st.builds(
    setting,
    st.sampled_from("kl"),
    st.none() | st.sampled_from(["1", "2", ""]),
    resource=st.sampled_from(["a", "b", ""]),
    kind=st.sampled_from([TOPIC, BROKER]),
)


@given(st.lists(SETTINGS, max_size=30), st.lists(SETTINGS, max_size=30))
def test_digests_are_equal_exactly_when_states_are(
    some: list[ConfigRecord], others: list[ConfigRecord]
) -> None:
    one, other = folded(some), folded(others)
    assert (one.digest == other.digest) == (one == other)


@given(st.lists(SETTINGS, max_size=20))
def test_the_digest_does_not_depend_on_the_way(some: list[ConfigRecord]) -> None:
    image = folded(some)
    final = [
        setting(name, value, kind=kind, resource=resource)
        for (kind, resource), config in image.configs.items()
        for name, value in config.items()
    ]
    assert folded(reversed(final)).digest == image.digest
    assert folded(reversed(final)) == image


def test_entries_with_the_same_letters_have_different_digests() -> None:
    assert folded([setting("ab", "c")]).digest != folded([setting("a", "bc")]).digest
    assert folded([setting("k", "1")]).digest != folded([setting("k", "1", kind=BROKER)]).digest
    digest = folded([topic("é\n", A)]).digest
    assert digest == "2e90040731ccb12c", "digests are compared between nodes and runs: keep them"


def test_a_topic_of_very_many_partitions_leaves_nothing_behind() -> None:
    image = MetadataImage()
    records: list[MetadataRecord] = [TopicRecord(name="stays", topic_id=UUID(int=1))]
    load_records(image, records)
    before = image.copy()
    records = [TopicRecord(name="goes", topic_id=UUID(int=2))]
    records += [
        PartitionRecord(topic_id=UUID(int=2), partition_id=at, replicas=(1, 2), isr=(2,), leader=2)
        for at in range(3000)
    ]
    load_records(image, records)
    shared = image.copy()
    apply_record(image, RemoveTopicRecord(topic_id=UUID(int=2)), image.end_offset)
    assert (image.digest, image) == (before.digest, before)
    for of in (image.isr_partitions, image.led_partitions):
        assert list(of(2)) == []
    assert list(image.imbalanced_partitions()) == []
    assert len(list(shared.isr_partitions(2))) == shared.led_count(2) == 3000
