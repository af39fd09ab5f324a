"""Settings that were never set: their defaults, types, and the broker's settings behind a topic's.

Source: Kafka's TopicConfig, LogConfig, ServerTopicConfigSynonyms and AbstractKafkaConfig.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class ConfigType(IntEnum):
    """The type of a setting in DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Default(NamedTuple):
    """A setting: its type, its default, and the broker's setting that is a topic's default."""

    type: ConfigType
    value: str | None
    synonym: str | None = None


_LONG_MAX = str(2**63 - 1)
_INT_MAX = str(2**31 - 1)
_WEEK_MS = str(7 * 24 * 3_600_000)
_B, _S, _I, _L, _D, _X = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)

TOPIC_DEFAULTS: Final = {
    "cleanup.policy": Default(_X, "delete", "log.cleanup.policy"),
    "compression.gzip.level": Default(_I, "-1", "compression.gzip.level"),
    "compression.lz4.level": Default(_I, "9", "compression.lz4.level"),
    "compression.type": Default(_S, "producer", "compression.type"),
    "compression.zstd.level": Default(_I, "3", "compression.zstd.level"),
    "delete.retention.ms": Default(_L, "86400000", "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": Default(_L, "60000", "log.segment.delete.delay.ms"),
    "flush.messages": Default(_L, _LONG_MAX, "log.flush.interval.messages"),
    "flush.ms": Default(_L, _LONG_MAX, "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": Default(_X, ""),
    "index.interval.bytes": Default(_I, "4096", "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": Default(_X, ""),
    "local.retention.bytes": Default(_L, "-2", "log.local.retention.bytes"),
    "local.retention.ms": Default(_L, "-2", "log.local.retention.ms"),
    "max.compaction.lag.ms": Default(_L, _LONG_MAX, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": Default(_I, "1048588", "message.max.bytes"),
    "message.timestamp.after.max.ms": Default(_L, "3600000", "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": Default(
        _L, _LONG_MAX, "log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.type": Default(_S, "CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": Default(_D, "0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": Default(_L, "0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": Default(_I, "1", "min.insync.replicas"),
    "preallocate": Default(_B, "false", "log.preallocate"),
    "remote.log.copy.disable": Default(_B, "false"),
    "remote.log.delete.on.disable": Default(_B, "false"),
    "remote.storage.enable": Default(_B, "false"),
    "retention.bytes": Default(_L, "-1", "log.retention.bytes"),
    "retention.ms": Default(_L, _WEEK_MS, "log.retention.ms"),
    "segment.bytes": Default(_I, "1073741824", "log.segment.bytes"),
    "segment.index.bytes": Default(_I, "10485760", "log.index.size.max.bytes"),
    "segment.jitter.ms": Default(_L, "0", "log.roll.jitter.ms"),
    "segment.ms": Default(_L, _WEEK_MS, "log.roll.ms"),
    "unclean.leader.election.enable": Default(_B, "false", "unclean.leader.election.enable"),
}

_OTHER_BROKER_DEFAULTS: Final = {
    "background.threads": Default(_I, "10"),
    "follower.replication.throttled.rate": Default(_L, _LONG_MAX),
    "leader.replication.throttled.rate": Default(_L, _LONG_MAX),
    "log.cleaner.threads": Default(_I, "1"),
    "max.connections": Default(_I, _INT_MAX),
    "num.io.threads": Default(_I, "8"),
    "num.network.threads": Default(_I, "3"),
}
BROKER_DEFAULTS: Final = _OTHER_BROKER_DEFAULTS | {
    default.synonym: Default(default.type, default.value)
    for default in TOPIC_DEFAULTS.values()
    if default.synonym is not None
}

_SENSITIVE: Final = ("password", "secret", "sasl.jaas.config", "keystore.key")


def is_sensitive(name: str) -> bool:
    """Tell whether a setting's value is secret and so never shown."""
    return name not in BROKER_DEFAULTS and name.endswith(_SENSITIVE)
