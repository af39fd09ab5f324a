"""Random records over a small world, so that they often meet, and images made of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from node.metadata import schemas as s
from node.metadata.fold import apply_record
from node.metadata.image import ImageError, MetadataImage

TOPIC_IDS = [UUID(int=number << 64) for number in (1, 2, 3)]
NAMES = st.sampled_from(["a", "b"])
TOPICS = st.sampled_from(TOPIC_IDS)
BROKERS = st.integers(1, 3)
SMALL = st.integers(0, 2)
REPLICAS = st.lists(BROKERS, max_size=3, unique=True).map(tuple)
DIRECTORIES = st.sampled_from([None, UUID(int=1), UUID(int=7), UUID(int=8)])
PARTITIONS = st.sampled_from([0, 1, 1023, 1024, 5000])


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def _directories(replicas: tuple[int, ...]) -> st.SearchStrategy[Any]:
    size = len(replicas)
    return st.just(()) | st.lists(DIRECTORIES, min_size=size, max_size=size).map(tuple)


@st.composite
def _partitions(draw: st.DrawFn) -> s.PartitionRecord:
    replicas = draw(REPLICAS)
    return s.PartitionRecord(
        version=2,
        topic_id=draw(TOPICS),
        partition_id=draw(PARTITIONS),
        replicas=replicas,
        isr=draw(REPLICAS),
        adding_replicas=draw(REPLICAS),
        leader=draw(st.integers(-1, 3)),
        leader_epoch=draw(SMALL),
        partition_epoch=draw(SMALL),
        directories=draw(_directories(replicas)),
        eligible_leader_replicas=draw(_maybe(REPLICAS)),
    )


@st.composite
def _partition_changes(draw: st.DrawFn) -> s.PartitionChangeRecord:
    replicas = draw(_maybe(REPLICAS))
    return s.PartitionChangeRecord(
        version=2,
        topic_id=draw(TOPICS),
        partition_id=draw(PARTITIONS),
        replicas=replicas,
        directories=None if replicas is None else draw(_maybe(_directories(replicas))),
        isr=draw(_maybe(REPLICAS)),
        leader=draw(st.integers(-2, 3)),
        removing_replicas=draw(_maybe(REPLICAS)),
        eligible_leader_replicas=draw(_maybe(REPLICAS)),
        last_known_elr=draw(_maybe(REPLICAS)),
    )


_ENTITIES = st.sampled_from(
    [
        (s.EntityData(entity_type="user", entity_name=None),),
        (s.EntityData(entity_type="user", entity_name="u"),),
        (
            s.EntityData(entity_type="user", entity_name="u"),
            s.EntityData(entity_type="client-id", entity_name="c"),
        ),
    ]
)
_END_POINTS = st.just((s.BrokerEndpoint(name="P", host="h", port=1, security_protocol=0),))
_RANGES = st.just((s.BrokerFeature(name="f", min_supported_version=0, max_supported_version=1),))
_TEXT = st.sampled_from(["x", "y"])
_BLOB = st.sampled_from([b"", b"\1"])

RECORD: st.SearchStrategy[s.MetadataRecord] = st.one_of(
    st.builds(s.TopicRecord, name=NAMES, topic_id=TOPICS),
    _partitions(),
    _partition_changes(),
    st.builds(s.RemoveTopicRecord, topic_id=TOPICS),
    st.builds(s.ClearElrRecord, topic_name=st.sampled_from(["", "a"])),
    st.builds(
        s.ConfigRecord,
        resource_type=st.sampled_from([2, 4]),
        resource_name=NAMES,
        name=_TEXT,
        value=_maybe(_TEXT),
    ),
    st.builds(
        s.RegisterBrokerRecord,
        version=st.just(4),
        broker_id=BROKERS,
        incarnation_id=_maybe(TOPICS),
        broker_epoch=st.just(0),
        end_points=_END_POINTS,
        features=_RANGES,
        rack=_maybe(_TEXT),
        is_migrating_zk_broker=st.booleans(),
        log_dirs=st.lists(DIRECTORIES, max_size=2).map(tuple),
    ),
    st.builds(s.UnregisterBrokerRecord, broker_id=BROKERS, broker_epoch=st.just(0)),
    st.builds(
        s.BrokerRegistrationChangeRecord,
        version=st.just(3),
        broker_id=BROKERS,
        broker_epoch=st.just(0),
        fenced=st.integers(-1, 1),
        in_controlled_shutdown=st.integers(0, 1),
        cordoned_log_dirs=_maybe(st.lists(DIRECTORIES, max_size=2).map(tuple)),
    ),
    st.builds(
        s.RegisterControllerRecord,
        controller_id=BROKERS,
        incarnation_id=TOPICS,
        zk_migration_ready=st.booleans(),
        end_points=_END_POINTS,
        features=_RANGES,
    ),
    st.builds(
        s.FeatureLevelRecord,
        name=st.sampled_from(["metadata.version", "group.version"]),
        feature_level=st.sampled_from([0, 7, 17, 27]),
    ),
    st.builds(
        s.ClientQuotaRecord,
        entity=_ENTITIES,
        key=_TEXT,
        value=st.sampled_from([1.0, 0.5, -0.0, 0.0]),
        remove=st.booleans(),
    ),
    st.builds(s.ProducerIdsRecord, broker_id=BROKERS, next_producer_id=st.integers(1, 3)),
    st.builds(
        s.AccessControlEntryRecord,
        id=TOPICS,
        resource_type=SMALL,
        resource_name=NAMES,
        pattern_type=SMALL,
        principal=_TEXT,
        host=_TEXT,
        operation=SMALL,
        permission_type=SMALL,
    ),
    st.builds(s.RemoveAccessControlEntryRecord, id=TOPICS),
    st.builds(
        s.UserScramCredentialRecord,
        name=NAMES,
        mechanism=SMALL,
        salt=_BLOB,
        stored_key=_BLOB,
        server_key=_BLOB,
        iterations=SMALL,
    ),
    st.builds(s.RemoveUserScramCredentialRecord, name=NAMES, mechanism=SMALL),
    st.builds(
        s.DelegationTokenRecord,
        owner=_TEXT,
        requester=_TEXT,
        renewers=st.lists(_TEXT, max_size=2).map(tuple),
        issue_timestamp=SMALL,
        max_timestamp=SMALL,
        expiration_timestamp=SMALL,
        token_id=_TEXT,
    ),
    st.builds(s.RemoveDelegationTokenRecord, token_id=_TEXT),
    st.just(s.NoOpRecord()),
)
_FIRST: list[s.MetadataRecord] = [
    s.TopicRecord(name="a", topic_id=TOPIC_IDS[0]),
    s.TopicRecord(name="b", topic_id=TOPIC_IDS[1]),
]
_LIVE = st.sampled_from(TOPIC_IDS[:2])
_ALIVE = st.one_of(_partitions(), _partition_changes()).flatmap(
    lambda record: _LIVE.map(lambda topic_id: msgspec.structs.replace(record, topic_id=topic_id))
)
# Two topics that live and have partitions, most of the time; then whatever comes. What does not
# fit is left out by ``fold``.
STREAM: st.SearchStrategy[list[s.MetadataRecord]] = st.builds(
    lambda first, alive, others: [*first, *alive, *others],
    st.sampled_from([_FIRST, _FIRST, []]),
    st.lists(_ALIVE, min_size=2, max_size=12),
    st.lists(st.one_of(_ALIVE, RECORD), max_size=12),
)


def fold(image: MetadataImage, records: Iterable[s.MetadataRecord]) -> MetadataImage:
    """Apply those records that fit, and return the image."""
    for record in records:
        with contextlib.suppress(ImageError):
            apply_record(image, record, image.end_offset)
    return image
