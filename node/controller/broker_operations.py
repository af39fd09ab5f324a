"""The requests of brokers and other controllers, and the controller's answers, as plain data.

Names are those of Kafka's BrokerRegistration (62), BrokerHeartbeat (63), UnregisterBroker (64),
AllocateProducerIds (67), ControllerRegistration (70) and DescribeCluster (60).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from node.controller.errors import ApiError
from node.controller.operations import PendingWrite
from node.metadata.schemas import BrokerEndpoint, BrokerFeature


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationRequest:
    """A broker process has started. ``previous_broker_epoch`` is -1 after an unclean stop."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[UUID | None, ...] = ()
    previous_broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class BrokerRegistrationReply:
    """``broker_epoch`` is the offset of the registration record, known once that is appended."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    write: PendingWrite | None = None  # the registration is its last record
    kept_epoch: PendingWrite | int = -1  # of a registration repeated by the same incarnation

    @property
    def broker_epoch(self) -> int:
        """The broker's epoch, -1 on error. Read it after ``appended``, so at the answer."""
        return known_epoch(self.kept_epoch if self.write is None else self.write)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest:
    """A broker lives, and says how far its metadata has come and which state it wants.

    ``cordoned_log_dirs`` are those that get no new replicas (KIP-1066); None: it has not said yet.
    """

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatReply:
    """The state that the controller sees the broker in; on error it is told to stay fenced."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    in_controlled_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a request that succeeds or fails as a whole and carries nothing else."""

    error: ApiError = ApiError.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdsReply:
    """A block of producer ids that nobody else ever gets; start -1 and length 0 on error."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    producer_id_start: int = -1
    producer_id_len: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistrationRequest:
    """A controller process says where it listens and which features it supports (KIP-919)."""

    controller_id: int
    incarnation_id: UUID | None
    zk_migration_ready: bool = False
    listeners: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    """One row of DescribeCluster: the listener of that name of a broker or controller."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


def known_epoch(epoch: PendingWrite | int) -> int:
    """A broker's epoch, -1 while the offset of its registration is not known."""
    if isinstance(epoch, int):
        return epoch
    return -1 if epoch.last_offset is None else epoch.last_offset
