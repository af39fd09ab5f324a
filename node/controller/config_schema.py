"""The settings that a resource may have, and the values that they take.

Topic settings are Kafka's: another name is refused. A broker may have settings of any name, as in
Kafka, where plug-ins bring their own; those known here are checked for their type.
Source: Kafka's TopicConfig, LogConfig and DynamicBrokerConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from node.controller.errors import ApiError, OperationError
from node.metadata.image import TOPIC

_THROTTLED_REPLICAS = re.compile(r"\*|\d+:\d+")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

Check = Callable[[str], str | None]  # a text that says what is wrong, or None


def _integer(minimum: int, bits: int) -> Check:
    maximum = (1 << (bits - 1)) - 1

    def check(value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return f"Not a number of type {'INT' if bits == 32 else 'LONG'}"  # noqa: PLR2004
        if not minimum <= number <= maximum:
            return f"Value must be between {minimum} and {maximum}"
        return None

    return check


def _ratio(value: str) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return "Not a number of type DOUBLE"
    return None if 0 <= number <= 1 else "Value must be between 0 and 1"


def _one_of(*allowed: str) -> Check:
    def check(value: str) -> str | None:
        return None if value in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def _list_of(item: Check) -> Check:
    def check(value: str) -> str | None:
        problems = (item(part) for part in split_list(value))
        return next((p for p in problems if p is not None), None)

    return check


def _throttled(value: str) -> str | None:
    if _THROTTLED_REPLICAS.fullmatch(value):
        return None
    return "Want * or a list of partition:broker pairs"


_LONG = _integer(-(1 << 63), 64)
_NATURAL = _integer(0, 64)
_POSITIVE = _integer(1, 64)
_UNLIMITED = _integer(-1, 64)
_BOOLEAN = _one_of("true", "false")
_COMPRESSION = _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_THROTTLES = _list_of(_throttled)

_TOPIC: Mapping[str, Check] = {
    "cleanup.policy": _list_of(_one_of("compact", "delete")),
    "compression.gzip.level": _integer(-1, 32),
    "compression.lz4.level": _integer(1, 32),
    "compression.type": _COMPRESSION,
    "compression.zstd.level": _integer(-131072, 32),
    "delete.retention.ms": _NATURAL,
    "file.delete.delay.ms": _NATURAL,
    "flush.messages": _POSITIVE,
    "flush.ms": _NATURAL,
    "follower.replication.throttled.replicas": _THROTTLES,
    "index.interval.bytes": _integer(0, 32),
    "leader.replication.throttled.replicas": _THROTTLES,
    "local.retention.bytes": _integer(-2, 64),
    "local.retention.ms": _integer(-2, 64),
    "max.compaction.lag.ms": _POSITIVE,
    "max.message.bytes": _integer(0, 32),
    "message.timestamp.after.max.ms": _NATURAL,
    "message.timestamp.before.max.ms": _NATURAL,
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _NATURAL,
    "min.insync.replicas": _integer(1, 32),
    "preallocate": _BOOLEAN,
    "remote.log.copy.disable": _BOOLEAN,
    "remote.log.delete.on.disable": _BOOLEAN,
    "remote.storage.enable": _BOOLEAN,
    "retention.bytes": _LONG,
    "retention.ms": _UNLIMITED,
    "segment.bytes": _integer(14, 32),
    "segment.index.bytes": _integer(4, 32),
    "segment.jitter.ms": _NATURAL,
    "segment.ms": _POSITIVE,
    "unclean.leader.election.enable": _BOOLEAN,
}
_BROKER: Mapping[str, Check] = {
    "background.threads": _integer(1, 32),
    "compression.type": _COMPRESSION,
    "follower.replication.throttled.rate": _NATURAL,
    "leader.replication.throttled.rate": _NATURAL,
    "log.cleaner.threads": _integer(0, 32),
    "log.cleanup.policy": _list_of(_one_of("compact", "delete")),
    "log.flush.interval.ms": _NATURAL,
    "log.retention.ms": _UNLIMITED,
    "log.segment.bytes": _integer(14, 32),
    "max.connections": _integer(0, 32),
    "message.max.bytes": _integer(0, 32),
    "min.insync.replicas": _integer(1, 32),
    "num.io.threads": _integer(1, 32),
    "num.network.threads": _integer(1, 32),
    "unclean.leader.election.enable": _BOOLEAN,
}
_LISTS = frozenset(
    {
        "cleanup.policy",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "log.cleanup.policy",
        "metric.reporters",
    }
)
_LIST_DEFAULTS: Mapping[str, str] = {"cleanup.policy": "delete", "log.cleanup.policy": "delete"}


def is_list(resource_type: int, name: str) -> bool:
    """Tell whether a resource's setting is a list, so that APPEND and SUBTRACT make sense."""
    return name in _LISTS and name in (_TOPIC if resource_type == TOPIC else _BROKER)


def list_default(name: str) -> str:
    """The value that APPEND and SUBTRACT start from when a list was never set."""
    return _LIST_DEFAULTS.get(name, "")


def split_list(value: str) -> list[str]:
    """The elements of a list setting: no blanks around them, no empty ones."""
    return [part for part in (piece.strip() for piece in value.split(",")) if part]


def check_setting(resource_type: int, name: str, value: str | None) -> None:
    """Check the new value of a setting; None = removed, which any known setting may be.

    Raises:
        OperationError: INVALID_CONFIG, for an unknown name or a value that it does not take.
    """
    known = _TOPIC if resource_type == TOPIC else _BROKER
    check = known.get(name)
    if check is None and resource_type == TOPIC:
        raise OperationError(ApiError.INVALID_CONFIG, f"Unknown topic config name: {name}")
    if check is None and not _NAME.fullmatch(name):
        raise OperationError(ApiError.INVALID_CONFIG, f"Malformed config name: {name!r}")
    problem = None if check is None or value is None else check(value)
    if problem is not None:
        raise OperationError(
            ApiError.INVALID_CONFIG,
            f"Invalid value {value} for configuration {name}: {problem}",
        )
