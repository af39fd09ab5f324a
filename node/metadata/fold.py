"""Folds records into the image, each kind by its rule. A record that does not fit changes nothing.

Source: Kafka's PartitionRegistration, BrokerRegistration and the deltas of its images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from node.metadata import schemas as s
from node.metadata.image import MetadataImage
from node.metadata.state import (
    TOPIC,
    UNASSIGNED_DIR,
    AclState,
    BrokerState,
    ControllerState,
    ImageError,
    Listener,
    PartitionState,
    QuotaEntity,
    ScramState,
    TokenState,
    TopicState,
    sorted_ids,
)

TRANSACTION_MARKS = (s.BeginTransactionRecord, s.EndTransactionRecord, s.AbortTransactionRecord)
_NO_CHANGE = -2  # of a leader


def apply_record(image: MetadataImage, record: s.MetadataRecord, offset: int) -> None:
    """Fold in the record at ``offset``; offsets must rise. O(1).

    A removed topic costs a little more the more partitions it has: 2 ms for 100,000.

    Raises:
        ImageError: The record is out of order or does not fit; the image is unchanged.
    """
    if offset < image.end_offset:
        raise ImageError(f"record at {offset} comes after all below {image.end_offset}")
    handler = HANDLERS.get(type(record))
    if handler is None:
        raise ImageError(f"no rule for a {type(record).__name__} at {offset}")
    handler(image, record, offset)
    image.end_offset = offset + 1


def apply_slices(
    image: MetadataImage, record: s.MetadataRecord, offset: int, size: int
) -> Iterator[None]:
    """Do as ``apply_record``, with a pause after every ``size`` partitions that a record changes.

    Until the iteration ends only a part of the record is in the image.
    """
    if not isinstance(record, s.ClearElrRecord) or offset < image.end_offset:
        apply_record(image, record, offset)
        return
    for at, key in enumerate(list(eligible_of(image, record, offset)), 1):
        clear_elr_of(image, *key)
        if at % size == 0:
            yield
    image.end_offset = offset + 1


def load_records(image: MetadataImage, records: Iterable[s.MetadataRecord]) -> int:
    """Fold in the next records of a snapshot, of which the image holds all before.

    Returns how many; ``end_offset`` counts them meanwhile.

    Raises:
        ImageError: A record does not fit, or marks a transaction, which no snapshot may cut.
    """
    before = image.end_offset
    for record in records:
        if isinstance(record, TRANSACTION_MARKS):
            place = image.end_offset
            raise ImageError(f"{type(record).__name__} in a snapshot, its record {place}")
        apply_record(image, record, image.end_offset)
    return image.end_offset - before


# --------------------------------------------------------------------------- topics


def _topic(image: MetadataImage, record: s.TopicRecord, offset: int) -> None:
    if record.topic_id is None:
        raise ImageError(f"topic {record.name!r} at {offset} has no id")
    if record.name in image.topics or image.topic_by_id(record.topic_id) is not None:
        raise ImageError(f"topic {record.name!r} {record.topic_id} at {offset} exists already")
    image.put_topic(record.name, record.topic_id)


def _partition(image: MetadataImage, record: s.PartitionRecord, offset: int) -> None:
    topic = _required(image, record.topic_id, offset)
    if record.partition_id < 0:
        raise ImageError(f"record at {offset} names {topic.name}-{record.partition_id}")
    _check_directories(record.replicas, record.directories, offset)
    image.put_partition(topic, record.partition_id, partition_state(record))


def _partition_change(image: MetadataImage, record: s.PartitionChangeRecord, offset: int) -> None:
    topic = _required(image, record.topic_id, offset)
    old = topic.partitions.get(record.partition_id)
    if old is None:
        raise ImageError(
            f"change at {offset} of {topic.name}-{record.partition_id}, which does not exist"
        )
    new = changed(old, record)
    _check_directories(new.replicas, new.directories, offset)
    image.put_partition(topic, record.partition_id, new)


def _remove_topic(image: MetadataImage, record: s.RemoveTopicRecord, offset: int) -> None:
    topic = _required(image, record.topic_id, offset)
    resource = (TOPIC, topic.name)
    for name in list(image.config(resource)):
        image.put_setting("configs", resource, name, None)
    image.drop_topic(topic)


def _clear_elr(image: MetadataImage, record: s.ClearElrRecord, offset: int) -> None:
    for topic_id, index in list(eligible_of(image, record, offset)):
        clear_elr_of(image, topic_id, index)


def eligible_of(
    image: MetadataImage, record: s.ClearElrRecord, offset: int
) -> Iterator[tuple[UUID, int]]:
    """The partitions that a ClearElrRecord changes; raises ImageError."""
    only = None
    if record.topic_name:
        if record.topic_name not in image.topics:
            raise ImageError(f"record at {offset} names topic {record.topic_name!r}, not there")
        only = image.topics[record.topic_name].id
    return (key for key in image.eligible_partitions() if only in (None, key[0]))


def clear_elr_of(image: MetadataImage, topic_id: UUID, index: int) -> None:
    """Forget the eligible leaders of one partition."""
    topic = _required(image, topic_id, image.end_offset)
    image.put_partition(topic, index, without_elr(topic.partitions[index]))


def without_elr(state: PartitionState) -> PartitionState:
    """A partition after its eligible leaders, if it has any, were forgotten."""
    if not state.eligible_leaders and not state.last_known_leaders:
        return state
    return changed(state, _WITHOUT_ELR)


_WITHOUT_ELR = s.PartitionChangeRecord(
    version=2, topic_id=None, eligible_leader_replicas=(), last_known_elr=()
)


def _required(image: MetadataImage, topic_id: UUID | None, offset: int) -> TopicState:
    topic = None if topic_id is None else image.topic_by_id(topic_id)
    if topic is None:
        raise ImageError(f"record at {offset} names topic id {topic_id}, which does not exist")
    return topic


def _check_directories(
    replicas: tuple[int, ...], directories: tuple[UUID | None, ...], offset: int
) -> None:
    if directories and len(directories) != len(replicas):
        raise ImageError(f"record at {offset} has {directories} for the replicas {replicas}")


def partition_state(record: s.PartitionRecord) -> PartitionState:
    """The partition that a record tells in full."""
    return PartitionState(
        record.replicas,
        record.isr,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.removing_replicas,
        record.adding_replicas,
        record.leader_recovery_state,
        _known(record.directories),
        record.eligible_leader_replicas or (),
        record.last_known_elr or (),
    )


def changed(old: PartitionState, record: s.PartitionChangeRecord) -> PartitionState:
    """A partition after a change record: what the record leaves out stays as it was.

    Every change raises the partition epoch, and any leader field, even the same leader, the
    leader epoch. Source: Kafka's PartitionRegistration.merge.
    """
    elects = record.leader != _NO_CHANGE
    directories = old.directories
    if record.directories:
        directories = _known(record.directories)
    elif record.replicas is not None:
        directories = _moved(old, record.replicas)
    recovery = record.leader_recovery_state
    return PartitionState(
        _or(record.replicas, old.replicas),
        _or(record.isr, old.isr),
        record.leader if elects else old.leader,
        old.leader_epoch + elects,
        old.partition_epoch + 1,
        _or(record.removing_replicas, old.removing),
        _or(record.adding_replicas, old.adding),
        recovery if recovery >= 0 else old.recovery,
        directories,
        _or(record.eligible_leader_replicas, old.eligible_leaders),
        _or(record.last_known_elr, old.last_known_leaders),
    )


def _or(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else new


def _known(directories: tuple[UUID | None, ...]) -> tuple[UUID | None, ...]:
    """Directories in the one form that means it: empty when none of them was ever told."""
    return directories if any(directories) else ()


def _moved(old: PartitionState, replicas: tuple[int, ...]) -> tuple[UUID | None, ...]:
    """Directories after the replicas have changed: a new replica's is not known yet.

    Where none was ever told, no level of the cluster's has them.
    """
    if not old.directories:
        return ()
    at = dict(zip(old.replicas, old.directories, strict=True))
    return _known(tuple([at.get(replica, UNASSIGNED_DIR) for replica in replicas]))


# --------------------------------------------------------------------------- brokers, controllers


def _register(image: MetadataImage, record: s.RegisterBrokerRecord, _: int) -> None:
    cordoned = record.cordoned_log_dirs
    state = BrokerState(
        id=record.broker_id,
        incarnation=record.incarnation_id,
        epoch=record.broker_epoch,
        listeners=_listeners(record.end_points),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        features=_features(record.features),
        log_dirs=sorted_ids(record.log_dirs),
        cordoned_log_dirs=None if cordoned is None else sorted_ids(cordoned),
        is_migrating_zk_broker=record.is_migrating_zk_broker,
    )
    image.put("brokers", state.id, state)


def _unregister(image: MetadataImage, record: s.UnregisterBrokerRecord, offset: int) -> None:
    image.put("brokers", _registered(image, record.broker_id, record.broker_epoch, offset).id, None)


def _fence(
    image: MetadataImage, record: s.FenceBrokerRecord | s.UnfenceBrokerRecord, offset: int
) -> None:
    broker = _registered(image, record.id, record.epoch, offset)
    fenced = isinstance(record, s.FenceBrokerRecord)
    image.put("brokers", broker.id, replace(broker, fenced=fenced))


def _change_broker(
    image: MetadataImage, record: s.BrokerRegistrationChangeRecord, offset: int
) -> None:
    broker = _registered(image, record.broker_id, record.broker_epoch, offset)
    if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
        raise ImageError(f"record at {offset} has a change that Kafka does not have: {record}")
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = True
    if record.log_dirs:
        changes["log_dirs"] = sorted_ids(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = sorted_ids(record.cordoned_log_dirs)
    image.put("brokers", broker.id, replace(broker, **changes))


def _registered(image: MetadataImage, broker_id: int, epoch: int, offset: int) -> BrokerState:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise ImageError(
            f"record at {offset} names broker {broker_id} epoch {epoch}, registered is {broker}"
        )
    return broker


def _controller(image: MetadataImage, record: s.RegisterControllerRecord, _: int) -> None:
    state = ControllerState(
        id=record.controller_id,
        incarnation=record.incarnation_id,
        zk_migration_ready=record.zk_migration_ready,
        listeners=_listeners(record.end_points),
        features=_features(record.features),
    )
    image.put("controllers", state.id, state)


def _no_controller(image: MetadataImage, record: s.UnregisterControllerRecord, _: int) -> None:
    image.put("controllers", record.controller_id, None)


def _listeners(end_points: Iterable[s.BrokerEndpoint]) -> tuple[Listener, ...]:
    return tuple([Listener(e.name, e.host, e.port, e.security_protocol) for e in end_points])


def _features(features: Iterable[s.BrokerFeature]) -> dict[str, tuple[int, int]]:
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in features}
    return dict(sorted(ranges.items()))


# --------------------------------------------------------------------------- settings


def _config(image: MetadataImage, record: s.ConfigRecord, _: int) -> None:
    resource = (record.resource_type, record.resource_name)
    image.put_setting("configs", resource, record.name, record.value)


def _feature(image: MetadataImage, record: s.FeatureLevelRecord, _: int) -> None:
    image.put("features", record.name, record.feature_level or None)


def _quota(image: MetadataImage, record: s.ClientQuotaRecord, _: int) -> None:
    value = None if record.remove else record.value + 0.0  # -0.0 is 0.0, and has one digest
    image.put_setting("client_quotas", quota_entity(record), record.key, value)


def quota_entity(record: s.ClientQuotaRecord) -> QuotaEntity:
    """Give whom a quota is for, in the one order of its parts."""
    return tuple(sorted([(part.entity_type, part.entity_name) for part in record.entity], key=str))


def _producer_ids(image: MetadataImage, record: s.ProducerIdsRecord, _: int) -> None:
    image.put_next_producer_id(record.next_producer_id)


# --------------------------------------------------------------------------- security


def _acl(image: MetadataImage, record: s.AccessControlEntryRecord, offset: int) -> None:
    if record.id is None:
        raise ImageError(f"access control entry at {offset} has no id")
    image.put("acls", record.id, acl_of(record))


def acl_of(record: s.AccessControlEntryRecord) -> AclState:
    """Give the ACL of a record, without its id."""
    return AclState(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def _remove_acl(
    image: MetadataImage, record: s.RemoveAccessControlEntryRecord, offset: int
) -> None:
    if record.id is None or record.id not in image.acls:
        raise ImageError(f"record at {offset} removes access control entry {record.id}, not there")
    image.put("acls", record.id, None)


def _scram(image: MetadataImage, record: s.UserScramCredentialRecord, _: int) -> None:
    state = ScramState(record.salt, record.stored_key, record.server_key, record.iterations)
    image.put("scram", (record.name, record.mechanism), state)


def _remove_scram(
    image: MetadataImage, record: s.RemoveUserScramCredentialRecord, offset: int
) -> None:
    key = (record.name, record.mechanism)
    if key not in image.scram:
        raise ImageError(f"record at {offset} removes the SCRAM credential {key}, not there")
    image.put("scram", key, None)


def _token(image: MetadataImage, record: s.DelegationTokenRecord, _: int) -> None:
    state = TokenState(
        record.owner,
        record.requester,
        record.renewers,
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )
    image.put("delegation_tokens", record.token_id, state)


def _remove_token(image: MetadataImage, record: s.RemoveDelegationTokenRecord, _: int) -> None:
    image.put("delegation_tokens", record.token_id, None)  # Kafka takes it twice without a word


def _nothing(_: MetadataImage, record: s.MetadataRecord, offset: int) -> None:
    """The record changes no state that an image holds."""


HANDLERS: Mapping[type[s.MetadataRecord], Callable[[MetadataImage, Any, int], None]] = {
    s.TopicRecord: _topic,
    s.PartitionRecord: _partition,
    s.PartitionChangeRecord: _partition_change,
    s.RemoveTopicRecord: _remove_topic,
    s.ClearElrRecord: _clear_elr,
    s.RegisterBrokerRecord: _register,
    s.UnregisterBrokerRecord: _unregister,
    s.FenceBrokerRecord: _fence,
    s.UnfenceBrokerRecord: _fence,
    s.BrokerRegistrationChangeRecord: _change_broker,
    s.RegisterControllerRecord: _controller,
    s.UnregisterControllerRecord: _no_controller,
    s.ConfigRecord: _config,
    s.FeatureLevelRecord: _feature,
    s.ClientQuotaRecord: _quota,
    s.ProducerIdsRecord: _producer_ids,
    s.AccessControlEntryRecord: _acl,
    s.RemoveAccessControlEntryRecord: _remove_acl,
    s.UserScramCredentialRecord: _scram,
    s.RemoveUserScramCredentialRecord: _remove_scram,
    s.DelegationTokenRecord: _token,
    s.RemoveDelegationTokenRecord: _remove_token,
    s.NoOpRecord: _nothing,
    s.ZkMigrationStateRecord: _nothing,
    # A gate of transactions decides what comes this far; the marks themselves are no state.
    s.BeginTransactionRecord: _nothing,
    s.EndTransactionRecord: _nothing,
    s.AbortTransactionRecord: _nothing,
}
