"""The requests about partitions, and the controller's answers, as plain data.

Names are those of Kafka's AlterPartition (56), CreatePartitions (37), ElectLeaders (43),
AlterPartitionReassignments (45), ListPartitionReassignments (46) and AssignReplicasToDirs (73).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from node.controller.errors import ApiError

TopicPartition = tuple[str, int]

# --------------------------------------------------------------------------- AlterPartition


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A member of the ISR that a leader wants; epoch -1 = not to be checked (version 2)."""

    broker_id: int
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class AlterPartitionData:
    """The ISR that the leader of one partition wants, and the state it has seen last."""

    partition_index: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class AlterPartitionRequest:
    """A leader wants other ISRs. ``topics`` is by topic id."""

    broker_id: int
    broker_epoch: int
    topics: Mapping[UUID, Sequence[AlterPartitionData]]


@dataclass(frozen=True, slots=True)
class AlterPartitionResult:
    """One partition after AlterPartition; only index and error count on error."""

    partition_index: int
    error: ApiError = ApiError.NONE
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class AlterPartitionReply:
    """Per topic id the results in the order of the request; none if the whole was refused."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    topics: Mapping[UUID, Sequence[AlterPartitionResult]] = field(default_factory=dict)


# --------------------------------------------------------------------------- CreatePartitions


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic is to have ``count`` partitions in all; ``assignments`` has one row per new one."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class NewPartitionsResult:
    """The outcome of one topic of CreatePartitions."""

    name: str
    error: ApiError = ApiError.NONE
    message: str | None = None


# --------------------------------------------------------------------------- ElectLeaders


class ElectionType(IntEnum):
    """The kinds of election (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionResult(NamedTuple):
    """The outcome of one partition of ElectLeaders, reassignment or directory assignment.

    A tuple, not a dataclass: there may be hundreds of thousands in one answer.
    """

    partition: int
    error: ApiError = ApiError.NONE
    message: str | None = None


def all_refused(
    topics: Mapping[str, Sequence[int]], error: ApiError, message: str | None
) -> dict[str, Sequence[PartitionResult]]:
    """Give each partition of a request the error that it is refused with as a whole."""
    return {
        name: [PartitionResult(index, error, message) for index in indexes]
        for name, indexes in topics.items()
    }


@dataclass(frozen=True, slots=True)
class ElectLeadersReply:
    """Results by topic name."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    topics: Mapping[str, Sequence[PartitionResult]] = field(default_factory=dict)


# --------------------------------------------------------------------------- reassignments


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The replicas that a partition is to have; None cancels a reassignment under way."""

    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentsReply:
    """Results by topic name."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    topics: Mapping[str, Sequence[PartitionResult]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """A partition whose replicas are being replaced."""

    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


# --------------------------------------------------------------------------- directories


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsRequest:
    """A broker says in which log directory its replicas are: directory -> topic -> partitions."""

    broker_id: int
    broker_epoch: int
    directories: Mapping[UUID, Mapping[UUID, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsReply:
    """Results as asked: directory -> topic -> partitions."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    directories: Mapping[UUID, Mapping[UUID, Sequence[PartitionResult]]] = field(
        default_factory=dict
    )
