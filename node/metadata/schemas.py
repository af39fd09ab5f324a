"""Kafka's metadata records: one declaration each, for all of its versions.

Field names, types, order, tags and version ranges are Kafka's (apache/kafka,
``metadata/src/main/resources/common/metadata``, releases 4.1 to 4.4). ``codec`` makes the bytes
from these declarations, so a field is declared once: its annotation says how it lies on the wire,
``Since`` from which version on it exists, ``Tag`` that it is a tagged field. All versions of all
records are flexible. An id of zeros reads as None.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar
from uuid import UUID

import msgspec


class Wire(Enum):
    """The types of values on the wire."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    NULLABLE_STRING = "nullable string"
    BYTES = "bytes"
    INT32S = "[]int32"
    NULLABLE_INT32S = "nullable []int32"
    UUIDS = "[]uuid"
    NULLABLE_UUIDS = "nullable []uuid"
    STRINGS = "[]string"
    STRUCTS = "[]struct"


@dataclass(frozen=True, slots=True)
class Since:
    """The first version of the record that has the field."""

    version: int


@dataclass(frozen=True, slots=True)
class Tag:
    """The field is tagged: absent from the bytes while it has its default."""

    number: int


Bool = Annotated[bool, Wire.BOOL]
Int8 = Annotated[int, Wire.INT8]
Int16 = Annotated[int, Wire.INT16]
Uint16 = Annotated[int, Wire.UINT16]
Int32 = Annotated[int, Wire.INT32]
Int64 = Annotated[int, Wire.INT64]
Float64 = Annotated[float, Wire.FLOAT64]
Id = Annotated[UUID | None, Wire.UUID]
String = Annotated[str, Wire.STRING]
NullableString = Annotated[str | None, Wire.NULLABLE_STRING]
Bytes = Annotated[bytes, Wire.BYTES]
Int32s = Annotated[tuple[int, ...], Wire.INT32S]
NullableInt32s = Annotated[tuple[int, ...] | None, Wire.NULLABLE_INT32S]
Ids = Annotated[tuple[UUID | None, ...], Wire.UUIDS]
NullableIds = Annotated[tuple[UUID | None, ...] | None, Wire.NULLABLE_UUIDS]
Strings = Annotated[tuple[str, ...], Wire.STRINGS]


class MetadataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all metadata records. ``version``: the one it was read as, or is written as.

    Versions 0 to ``HIGHEST`` exist; a field that a version lacks must have its default there.
    """

    KEY: ClassVar[int] = -1
    HIGHEST: ClassVar[int] = 0
    version: int = 0


class BrokerEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One listener of a broker or a controller; ``security_protocol`` is Kafka's number."""

    name: String
    host: String
    port: Uint16
    security_protocol: Int16


class BrokerFeature(msgspec.Struct, frozen=True, kw_only=True):
    """A range of feature levels that a broker or a controller supports."""

    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class EntityData(msgspec.Struct, frozen=True, kw_only=True):
    """One part of whom a quota is for; the name None is the default of its type."""

    entity_type: String
    entity_name: NullableString


class RegisterBrokerRecord(MetadataRecord, frozen=True, kw_only=True):
    """A broker process has registered; its epoch is the offset of this record."""

    KEY: ClassVar[int] = 0
    HIGHEST: ClassVar[int] = 4
    broker_id: Int32
    is_migrating_zk_broker: Annotated[Bool, Since(2)] = False
    incarnation_id: Id
    broker_epoch: Int64
    end_points: Annotated[tuple[BrokerEndpoint, ...], Wire.STRUCTS]
    features: Annotated[tuple[BrokerFeature, ...], Wire.STRUCTS]
    rack: NullableString
    fenced: Bool = True
    in_controlled_shutdown: Annotated[Bool, Since(1)] = False
    log_dirs: Annotated[Ids, Since(3), Tag(0)] = ()  # KIP-858
    cordoned_log_dirs: Annotated[NullableIds, Since(4), Tag(1)] = None  # KIP-1066


class UnregisterBrokerRecord(MetadataRecord, frozen=True, kw_only=True):
    """A broker is forgotten."""

    KEY: ClassVar[int] = 1
    broker_id: Int32
    broker_epoch: Int64


class TopicRecord(MetadataRecord, frozen=True, kw_only=True):
    """A topic exists from here on; its partitions follow in the same batch."""

    KEY: ClassVar[int] = 2
    name: String
    topic_id: Id


class PartitionRecord(MetadataRecord, frozen=True, kw_only=True):
    """The full state of one partition."""

    KEY: ClassVar[int] = 3
    HIGHEST: ClassVar[int] = 2
    partition_id: Int32 = -1
    topic_id: Id
    replicas: Int32s
    isr: Int32s
    removing_replicas: Int32s = ()
    adding_replicas: Int32s = ()
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, Tag(0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[Ids, Since(1)] = ()  # KIP-858
    eligible_leader_replicas: Annotated[NullableInt32s, Since(2), Tag(1)] = None  # KIP-966
    last_known_elr: Annotated[NullableInt32s, Since(2), Tag(2)] = None


class ConfigRecord(MetadataRecord, frozen=True, kw_only=True):
    """One setting of one resource; a null value removes it."""

    KEY: ClassVar[int] = 4
    resource_type: Int8
    resource_name: String
    name: String
    value: NullableString


class PartitionChangeRecord(MetadataRecord, frozen=True, kw_only=True):
    """The changes of one partition: absent fields (None, leader -2, state -1) stay as they are."""

    KEY: ClassVar[int] = 5
    HIGHEST: ClassVar[int] = 2
    partition_id: Int32 = -1
    topic_id: Id
    isr: Annotated[NullableInt32s, Tag(0)] = None
    leader: Annotated[Int32, Tag(1)] = -2
    replicas: Annotated[NullableInt32s, Tag(2)] = None
    removing_replicas: Annotated[NullableInt32s, Tag(3)] = None
    adding_replicas: Annotated[NullableInt32s, Tag(4)] = None
    leader_recovery_state: Annotated[Int8, Tag(5)] = -1
    directories: Annotated[NullableIds, Since(1), Tag(8)] = None  # KIP-858
    eligible_leader_replicas: Annotated[NullableInt32s, Since(2), Tag(6)] = None  # KIP-966
    last_known_elr: Annotated[NullableInt32s, Since(2), Tag(7)] = None


class FenceBrokerRecord(MetadataRecord, frozen=True, kw_only=True):
    """A broker is fenced; replaced by BrokerRegistrationChangeRecord."""

    KEY: ClassVar[int] = 7
    id: Int32
    epoch: Int64


class UnfenceBrokerRecord(MetadataRecord, frozen=True, kw_only=True):
    """A broker is in service; replaced by BrokerRegistrationChangeRecord."""

    KEY: ClassVar[int] = 8
    id: Int32
    epoch: Int64


class RemoveTopicRecord(MetadataRecord, frozen=True, kw_only=True):
    """A topic is gone, with its partitions and its settings."""

    KEY: ClassVar[int] = 9
    topic_id: Id


class DelegationTokenRecord(MetadataRecord, frozen=True, kw_only=True):
    """A delegation token exists or was renewed; times in ms since the epoch (KIP-900)."""

    KEY: ClassVar[int] = 10
    owner: String
    requester: String
    renewers: Strings
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


class UserScramCredentialRecord(MetadataRecord, frozen=True, kw_only=True):
    """A user's SCRAM credential; ``mechanism`` 1 is SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    KEY: ClassVar[int] = 11
    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


class FeatureLevelRecord(MetadataRecord, frozen=True, kw_only=True):
    """The finalised level of a feature; 0 removes it."""

    KEY: ClassVar[int] = 12
    name: String
    feature_level: Int16


class ClientQuotaRecord(MetadataRecord, frozen=True, kw_only=True):
    """One quota of one entity; with ``remove`` its value counts for nothing (KIP-546)."""

    KEY: ClassVar[int] = 14
    entity: Annotated[tuple[EntityData, ...], Wire.STRUCTS]
    key: String
    value: Float64
    remove: Bool


class ProducerIdsRecord(MetadataRecord, frozen=True, kw_only=True):
    """A block of producer ids was given to a broker; the next begins at ``next_producer_id``."""

    KEY: ClassVar[int] = 15
    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


class BrokerRegistrationChangeRecord(MetadataRecord, frozen=True, kw_only=True):
    """The changes of a registration. ``fenced``: -1 unfence, 1 fence, 0 as it was."""

    KEY: ClassVar[int] = 17
    HIGHEST: ClassVar[int] = 3
    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[Int8, Tag(0)] = 0
    in_controlled_shutdown: Annotated[Int8, Since(1), Tag(1)] = 0
    log_dirs: Annotated[Ids, Since(2), Tag(2)] = ()
    cordoned_log_dirs: Annotated[NullableIds, Since(3), Tag(3)] = None


class AccessControlEntryRecord(MetadataRecord, frozen=True, kw_only=True):
    """An access control entry exists; the numbers are Kafka's."""

    KEY: ClassVar[int] = 18
    id: Id
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntryRecord(MetadataRecord, frozen=True, kw_only=True):
    """An access control entry is gone."""

    KEY: ClassVar[int] = 19
    id: Id


class NoOpRecord(MetadataRecord, frozen=True, kw_only=True):
    """An empty record that keeps the high watermark moving on an idle quorum."""

    KEY: ClassVar[int] = 20


class ZkMigrationStateRecord(MetadataRecord, frozen=True, kw_only=True):
    """The progress of a migration from ZooKeeper; only read in 4.x, and of no effect."""

    KEY: ClassVar[int] = 21
    zk_migration_state: Int8


class RemoveUserScramCredentialRecord(MetadataRecord, frozen=True, kw_only=True):
    """A user's SCRAM credential of one mechanism is gone."""

    KEY: ClassVar[int] = 22
    name: String
    mechanism: Int8


class BeginTransactionRecord(MetadataRecord, frozen=True, kw_only=True):
    """A transaction begins: its records are in force at EndTransactionRecord (KIP-868)."""

    KEY: ClassVar[int] = 23
    name: Annotated[NullableString, Tag(0)] = None


class EndTransactionRecord(MetadataRecord, frozen=True, kw_only=True):
    """The records since BeginTransactionRecord are in force."""

    KEY: ClassVar[int] = 24


class AbortTransactionRecord(MetadataRecord, frozen=True, kw_only=True):
    """The records since BeginTransactionRecord have never been."""

    KEY: ClassVar[int] = 25
    reason: Annotated[NullableString, Tag(0)] = None


class RemoveDelegationTokenRecord(MetadataRecord, frozen=True, kw_only=True):
    """A delegation token is gone."""

    KEY: ClassVar[int] = 26
    token_id: String


class RegisterControllerRecord(MetadataRecord, frozen=True, kw_only=True):
    """A controller process has registered (KIP-919)."""

    KEY: ClassVar[int] = 27
    controller_id: Int32
    incarnation_id: Id
    zk_migration_ready: Bool
    end_points: Annotated[tuple[BrokerEndpoint, ...], Wire.STRUCTS]
    features: Annotated[tuple[BrokerFeature, ...], Wire.STRUCTS]


class ClearElrRecord(MetadataRecord, frozen=True, kw_only=True):
    """Forget the eligible leaders of a topic's partitions; of all topics, if the name is empty."""

    KEY: ClassVar[int] = 28
    topic_name: String


class UnregisterControllerRecord(MetadataRecord, frozen=True, kw_only=True):
    """A controller is forgotten; of Kafka 4.4 and newer."""

    KEY: ClassVar[int] = 29
    controller_id: Int32


ALL_RECORDS: tuple[type[MetadataRecord], ...] = tuple(MetadataRecord.__subclasses__())
