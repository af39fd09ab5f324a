"""The requests to the controller and its answers, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Generic, TypeVar
from uuid import UUID

from node.controller.errors import ApiError
from node.core.messages import Records
from node.metadata.image import PartitionState

T = TypeVar("T")


class ConfigOp(IntEnum):
    """The operations on a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One operation on one setting; ``op`` is a number as it came, ``value`` None for DELETE."""

    name: str
    op: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class AlterResource:
    """The changes of one resource: all or none of them happen."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]


@dataclass(frozen=True, slots=True)
class ReplaceResource:
    """AlterConfigs (33): the settings a resource is to have; others that it has are removed."""

    resource_type: int
    resource_name: str
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class AlterResult:
    """The outcome of one resource of an alter request."""

    resource_type: int
    resource_name: str
    error: ApiError = ApiError.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 = the default of one partition, one replica.

    ``assignments`` (partition index -> replicas, preferred first) excludes both numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateResult:
    """The outcome of one topic of a create request; the numbers are -1 on error."""

    name: str
    topic_id: UUID | None = None
    error: ApiError = ApiError.NONE
    message: str | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic by name or by id: exactly one of them."""

    name: str | None = None
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The outcome of one topic of a delete request; name and id as far as they are known."""

    name: str | None
    topic_id: UUID | None
    error: ApiError = ApiError.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigDescription:
    """The settings of one resource that were set by somebody; no defaults."""

    resource_type: int
    resource_name: str
    error: ApiError = ApiError.NONE
    message: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as committed."""

    name: str | None
    topic_id: UUID | None
    error: ApiError = ApiError.NONE
    message: str | None = None
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A write not known to be committed; ``appended`` fills in the offset of its last record."""

    records: int
    last_offset: int | None = None


@dataclass(frozen=True, slots=True)
class AtOffset:
    """A record that says at which offset it, or a record before it, is: encoded when appended."""

    encode: Callable[[int], bytes]


Payload = tuple[bytes | AtOffset, ...]
Note = tuple[str, Mapping[str, Any]]  # a decision for the event trace: its type and fields


def payload_values(payload: Payload, base_offset: int) -> list[bytes]:
    """The record values of a batch whose first record gets ``base_offset``."""
    return [
        value if isinstance(value, bytes) else value.encode(base_offset + index)
        for index, value in enumerate(payload)
    ]


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[T]):
    """The records of an operation (each entry one atomic batch), and the answer to be held back.

    ``wait_for`` is the newest write that the answer may have seen, this operation's own if it has
    records: answer once its ``last_offset`` is known and below the high watermark. None: answer
    at once, everything seen is committed. When leadership is lost first, the outcome of an
    operation with records is unknown. ``notes`` are to be traced when the answer is due.
    """

    entries: tuple[Records, ...]
    reply: T
    wait_for: PendingWrite | None
    notes: tuple[Note, ...] = ()
