"""The metadata records that kio lacks, in kio's style so that its serialiser writes and reads them.

Field names, types, order and tags are Kafka's (``metadata/src/main/resources/common/metadata``);
all versions here are flexible. No future annotations: the serialiser reads the types at run time.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

_INT8 = {"kafka_type": "int8"}
_INT16 = {"kafka_type": "int16"}
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_UINT16 = {"kafka_type": "uint16"}
_STRING = {"kafka_type": "string"}
_BOOL = {"kafka_type": "bool"}
_UUID = {"kafka_type": "uuid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRecord:
    """Base of all metadata records: version 0 and flexible unless said otherwise."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """One listener of a broker."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    host: str = field(metadata=_STRING)
    port: int = field(metadata=_UINT16)
    security_protocol: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    """A range of feature levels that a broker supports."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    min_supported_version: int = field(metadata=_INT16)
    max_supported_version: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord(MetadataRecord):
    """A broker process has registered; its epoch is the offset of this record."""

    __version__: ClassVar[i16] = i16(1)
    __api_key__: ClassVar[i16] = i16(0)
    broker_id: int = field(metadata=_INT32)
    incarnation_id: uuid.UUID | None = field(metadata=_UUID)
    broker_epoch: int = field(metadata=_INT64)
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None = field(metadata=_STRING)
    fenced: bool = field(metadata=_BOOL, default=True)
    in_controlled_shutdown: bool = field(metadata=_BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecordV3(MetadataRecord):
    """Registration with the broker's log directories (KIP-858)."""

    __version__: ClassVar[i16] = i16(3)
    __api_key__: ClassVar[i16] = i16(0)
    broker_id: int = field(metadata=_INT32)
    is_migrating_zk_broker: bool = field(metadata=_BOOL, default=False)
    incarnation_id: uuid.UUID | None = field(metadata=_UUID)
    broker_epoch: int = field(metadata=_INT64)
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None = field(metadata=_STRING)
    fenced: bool = field(metadata=_BOOL, default=True)
    in_controlled_shutdown: bool = field(metadata=_BOOL, default=False)
    log_dirs: tuple[uuid.UUID | None, ...] = field(metadata=_UUID | {"tag": 0}, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord(MetadataRecord):
    """A broker is forgotten."""

    __api_key__: ClassVar[i16] = i16(1)
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(MetadataRecord):
    """A topic exists from here on; its partitions follow in the same batch."""

    __api_key__: ClassVar[i16] = i16(2)
    name: str = field(metadata=_STRING)
    topic_id: uuid.UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(MetadataRecord):
    """The full state of one partition."""

    __api_key__: ClassVar[i16] = i16(3)
    partition_id: int = field(metadata=_INT32, default=-1)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    replicas: tuple[int, ...] = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    removing_replicas: tuple[int, ...] = field(metadata=_INT32, default=())
    adding_replicas: tuple[int, ...] = field(metadata=_INT32, default=())
    leader: int = field(metadata=_INT32, default=-1)
    leader_recovery_state: int = field(metadata=_INT8 | {"tag": 0}, default=0)
    leader_epoch: int = field(metadata=_INT32, default=-1)
    partition_epoch: int = field(metadata=_INT32, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecordV1(PartitionRecord):
    """With the log directory of each replica (KIP-858)."""

    __version__: ClassVar[i16] = i16(1)
    __api_key__: ClassVar[i16] = i16(3)
    directories: tuple[uuid.UUID | None, ...] = field(metadata=_UUID, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecordV2(PartitionRecordV1):
    """With eligible leader replicas (KIP-966)."""

    __version__: ClassVar[i16] = i16(2)
    __api_key__: ClassVar[i16] = i16(3)
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata=_INT32 | {"tag": 1}, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(metadata=_INT32 | {"tag": 2}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(MetadataRecord):
    """One setting of one resource; a null value removes it."""

    __api_key__: ClassVar[i16] = i16(4)
    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    name: str = field(metadata=_STRING)
    value: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord(MetadataRecord):
    """What changed in one partition: absent fields (None, leader -2, state -1) stay as they are."""

    __api_key__: ClassVar[i16] = i16(5)
    partition_id: int = field(metadata=_INT32, default=-1)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    isr: tuple[int, ...] | None = field(metadata=_INT32 | {"tag": 0}, default=None)
    leader: int = field(metadata=_INT32 | {"tag": 1}, default=-2)
    replicas: tuple[int, ...] | None = field(metadata=_INT32 | {"tag": 2}, default=None)
    removing_replicas: tuple[int, ...] | None = field(metadata=_INT32 | {"tag": 3}, default=None)
    adding_replicas: tuple[int, ...] | None = field(metadata=_INT32 | {"tag": 4}, default=None)
    leader_recovery_state: int = field(metadata=_INT8 | {"tag": 5}, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecordV1(PartitionChangeRecord):
    """With the log directory of each replica (KIP-858)."""

    __version__: ClassVar[i16] = i16(1)
    __api_key__: ClassVar[i16] = i16(5)
    directories: tuple[uuid.UUID | None, ...] | None = field(
        metadata=_UUID | {"tag": 8}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecordV2(PartitionChangeRecordV1):
    """With eligible leader replicas (KIP-966)."""

    __version__: ClassVar[i16] = i16(2)
    __api_key__: ClassVar[i16] = i16(5)
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata=_INT32 | {"tag": 6}, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(metadata=_INT32 | {"tag": 7}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord(MetadataRecord):
    """A broker is fenced."""

    __api_key__: ClassVar[i16] = i16(7)
    id: int = field(metadata=_INT32)
    epoch: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord(MetadataRecord):
    """A broker is in service."""

    __api_key__: ClassVar[i16] = i16(8)
    id: int = field(metadata=_INT32)
    epoch: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord(MetadataRecord):
    """A topic is gone, with its partitions and its settings."""

    __api_key__: ClassVar[i16] = i16(9)
    topic_id: uuid.UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord(MetadataRecord):
    """The finalised level of a feature; 0 removes it."""

    __api_key__: ClassVar[i16] = i16(12)
    name: str = field(metadata=_STRING)
    feature_level: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """What changed in a registration. ``fenced``: -1 unfence, 1 fence, 0 as it was."""

    __api_key__: ClassVar[i16] = i16(17)
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)
    fenced: int = field(metadata=_INT8 | {"tag": 0}, default=0)
    in_controlled_shutdown: int = field(metadata=_INT8 | {"tag": 1}, default=0)
    log_dirs: tuple[uuid.UUID | None, ...] = field(metadata=_UUID | {"tag": 2}, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecordV1(BrokerRegistrationChangeRecord):
    """The version from which ``in_controlled_shutdown`` may be set."""

    __version__: ClassVar[i16] = i16(1)
    __api_key__: ClassVar[i16] = i16(17)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecordV2(BrokerRegistrationChangeRecord):
    """The version from which ``log_dirs`` may be set."""

    __version__: ClassVar[i16] = i16(2)
    __api_key__: ClassVar[i16] = i16(17)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord(MetadataRecord):
    """Nothing; it keeps the high watermark moving on an idle quorum."""

    __api_key__: ClassVar[i16] = i16(20)


ALL_RECORDS: tuple[type[MetadataRecord], ...] = (
    RegisterBrokerRecord,
    RegisterBrokerRecordV3,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    PartitionRecordV1,
    PartitionRecordV2,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionChangeRecordV1,
    PartitionChangeRecordV2,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RemoveTopicRecord,
    FeatureLevelRecord,
    BrokerRegistrationChangeRecord,
    BrokerRegistrationChangeRecordV1,
    BrokerRegistrationChangeRecordV2,
    NoOpRecord,
)
