"""Turns an image into the records of a snapshot, and back: equal images give equal records.

Records are written in the version of the image's metadata.version; a higher one is taken only for
state that this could not hold, so that nothing is lost. Source: Kafka's MetadataImage.write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from node.metadata import schemas as s
from node.metadata.features import METADATA_VERSION, partition_version, register_broker_version
from node.metadata.fold import load_records
from node.metadata.image import MetadataImage
from node.metadata.partition_values import PartitionValues, partition_record
from node.metadata.records import encode_record
from node.metadata.state import (
    BrokerState,
    ControllerState,
    Listener,
    TopicState,
)

Records = Iterator[s.MetadataRecord]
_AT_ONCE = 100  # partitions that are written ahead of who takes their bytes


def image_records(image: MetadataImage) -> Records:
    """Give all of an image's state, in the one order that equal images have.

    The image must not change while the records are taken: ``image_records(image.copy())``.
    """
    yield from _before_topics(image)
    version = partition_version(image.metadata_version)
    for _, topic in sorted(image.topics.items()):
        yield from topic_records(topic, version)
    yield from _after_topics(image)


def image_values(image: MetadataImage) -> Iterator[bytes]:
    """Give the bytes of ``image_records``, several times as fast as one record after another.

    As with those, the image must not change meanwhile. Raises RecordError.
    """
    return chain.from_iterable(_values(image))


def image_of_records(records: Iterable[s.MetadataRecord], end_offset: int) -> MetadataImage:
    """Make the image that a snapshot of the log below ``end_offset`` holds.

    Raises:
        ImageError: A record does not fit, or marks a transaction, which no snapshot may cut.
    """
    image = MetadataImage()
    load_records(image, records)
    image.end_offset = end_offset
    return image


def _values(image: MetadataImage) -> Iterator[Iterable[bytes]]:
    """Give the bytes of an image's records, of few partitions at a time."""
    yield map(encode_record, _before_topics(image))
    writer = PartitionValues(partition_version(image.metadata_version))
    for _, topic in sorted(image.topics.items()):
        yield (encode_record(_topic_record(topic)),)
        indexes = sorted(topic.partitions)
        for first in range(0, len(indexes), _AT_ONCE):
            yield writer.values(topic, indexes[first : first + _AT_ONCE])
    yield map(encode_record, _after_topics(image))


def topic_records(topic: TopicState, version: int) -> Records:
    """A topic and its partitions; ``version`` is that of PartitionRecord."""
    yield _topic_record(topic)
    for index, state in sorted(topic.partitions.items()):
        yield partition_record(topic.id, index, state, version)


def broker_record(broker: BrokerState, version: int) -> s.RegisterBrokerRecord:
    """A registration in full, in that version or in the one that its state needs."""
    needs = (
        (4, broker.cordoned_log_dirs is not None),
        (3, bool(broker.log_dirs)),
        (2, broker.is_migrating_zk_broker),
        (1, broker.in_controlled_shutdown),
    )
    return s.RegisterBrokerRecord(
        version=max([version, *[needed for needed, wanted in needs if wanted]]),
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=_end_points(broker.listeners),
        features=_ranges(broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs,
    )


def controller_record(controller: ControllerState) -> s.RegisterControllerRecord:
    """A controller's registration in full."""
    return s.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_end_points(controller.listeners),
        features=_ranges(controller.features),
    )


def _end_points(listeners: tuple[Listener, ...]) -> tuple[s.BrokerEndpoint, ...]:
    return tuple([s.BrokerEndpoint(**each._asdict()) for each in listeners])


def _ranges(features: Mapping[str, tuple[int, int]]) -> tuple[s.BrokerFeature, ...]:
    return tuple(
        [
            s.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(features.items())
        ]
    )


def _topic_record(topic: TopicState) -> s.TopicRecord:
    return s.TopicRecord(name=topic.name, topic_id=topic.id)


def _before_topics(image: MetadataImage) -> Records:
    yield from _features(image)
    version = register_broker_version(image.metadata_version)
    for _, broker in sorted(image.brokers.items()):
        yield broker_record(broker, version)
    for _, controller in sorted(image.controllers.items()):
        yield controller_record(controller)


def _after_topics(image: MetadataImage) -> Records:
    yield from _settings(image)
    yield from _security(image)


def _features(image: MetadataImage) -> Records:
    # metadata.version comes first: it says how to read what follows
    for name, level in sorted(
        image.features.items(), key=lambda item: (item[0] != METADATA_VERSION, item[0])
    ):
        yield s.FeatureLevelRecord(name=name, feature_level=level)


def _settings(image: MetadataImage) -> Records:
    for (kind, resource), values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield s.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    for entity, quotas in sorted(image.client_quotas.items(), key=lambda item: str(item[0])):
        parts = tuple([s.EntityData(entity_type=kind, entity_name=name) for kind, name in entity])
        for key, amount in sorted(quotas.items()):
            yield s.ClientQuotaRecord(entity=parts, key=key, value=amount, remove=False)
    if image.next_producer_id:
        yield s.ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)


def _security(image: MetadataImage) -> Records:
    for acl_id, acl in sorted(image.acls.items(), key=lambda item: item[0].int):
        yield s.AccessControlEntryRecord(
            id=acl_id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
    for (user, mechanism), scram in sorted(image.scram.items()):
        yield s.UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=scram.salt,
            stored_key=scram.stored_key,
            server_key=scram.server_key,
            iterations=scram.iterations,
        )
    for token_id, token in sorted(image.delegation_tokens.items()):
        yield s.DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=token.expiration_timestamp,
            token_id=token_id,
        )
