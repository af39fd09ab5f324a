"""The state that all operations of an active controller work on, and questions about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.controller.overlay.state import Overlay
from node.controller.partition_change import (
    Election,
    PartitionChange,
    Rules,
    is_online,
    is_reserved,
)
from node.controller.sessions import Sessions
from node.controller.sweeps import PARTITIONS_PER_SLICE, Sweeps
from node.metadata.features import ELR_VERSION, METADATA_VERSION, metadata_version
from node.metadata.image import BROKER, TOPIC, BrokerState, PartitionState
from node.metadata.schemas import PartitionChangeRecord
from node.metadata.state import UNASSIGNED_DIR

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
CLUSTER_DEFAULT = (BROKER, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The settings of a controller process; the defaults are Kafka's.

    ``static_broker_ids`` stand in for registrations while no broker has registered: None = there
    must be registered brokers, () = partitions made while no broker is unfenced get no replicas,
    for a quorum that is tested by itself.
    ``static`` are the settings of the process that topics fall back to.
    ``full_targets``: a reassignment waits for all its target replicas, as before Kafka 4.3.
    ``trusts_whom_it_goes_back_to``: where a reassignment is given up with nobody in sync, whoever
    is elected counts as in sync, as in Kafka.
    ``cordons_by_number_only``: an assignment by hand may name a cordoned broker, as in Kafka 4.3.1.
    """

    cluster_id: str = ""
    node_id: int = -1
    voter_ids: tuple[int, ...] = ()
    static_broker_ids: tuple[int, ...] | None = None
    session_timeout_ms: int = 9000
    num_partitions: int = 1
    default_replication_factor: int = 1
    elections_per_balance_max: int = 1000
    partitions_per_slice: int = PARTITIONS_PER_SLICE
    supported_features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)
    full_targets: bool = False
    cordons_by_number_only: bool = False
    trusts_whom_it_goes_back_to: bool = False


@dataclass(slots=True)
class Context:
    """The speculative state, the soft state, and the dice of an active controller."""

    overlay: Overlay
    config: ControllerConfig
    sessions: Sessions
    rng: Random
    sweeps: Sweeps

    @property
    def metadata_version(self) -> int:
        """The finalised metadata.version."""
        return metadata_version({METADATA_VERSION: level} if (level := self._level()) else {})

    @property
    def elr_enabled(self) -> bool:
        """Tell whether partitions have eligible leader replicas (KIP-966)."""
        return self.overlay.feature(ELR_VERSION) > 0

    def broker_at(self, broker_id: int, broker_epoch: int) -> BrokerState:
        """A registered broker that asks for something; raises OperationError."""
        broker = self.overlay.broker(broker_id)
        if broker is None:
            raise OperationError(
                ApiError.STALE_BROKER_EPOCH, f"No broker registration found for broker {broker_id}"
            )
        if broker.epoch != broker_epoch:
            raise OperationError(
                ApiError.STALE_BROKER_EPOCH,
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
            )
        return broker

    def topic_setting(self, topic: str, name: str, default: str) -> str:
        """A topic's setting in force: its own, the cluster's, this process's, Kafka's."""
        for value in (
            self.overlay.setting((TOPIC, topic), name),
            self.overlay.setting(CLUSTER_DEFAULT, name),
        ):
            if value is not None:
                return value
        return self.config.static.get(name, default)

    def allows_unclean(self, topic: str) -> bool:
        """Tell whether a topic prefers to lose data over staying without a leader."""
        return self.topic_setting(topic, UNCLEAN_ELECTION, "false") == "true"

    def min_isr(self, topic: str) -> int:
        """The ISR size that a partition of a topic needs, if it has that many replicas.

        The cluster's minimum may be no number: controllers of Kafka leave that to brokers to judge.
        """
        minimum = self.topic_setting(topic, MIN_ISR, "1")
        return int(minimum) if minimum.isdecimal() else 1

    def default_directory(self, broker_id: int) -> UUID | None:
        """Give the directory of a broker's new replica: its only one, or "not assigned yet"."""
        broker = self.overlay.broker(broker_id)
        if broker is not None and len(broker.log_dirs) == 1:
            return broker.log_dirs[0]
        return UNASSIGNED_DIR

    def change(
        self, key: tuple[UUID, int], state: PartitionState, *, election: Election = Election.ONLINE
    ) -> PartitionChange:
        """Begin to change a partition of a live topic; active brokers may lead it."""
        return PartitionChange(state, *key, self.rules(key[0], self.overlay.is_active, election))

    def rules(
        self,
        topic_id: UUID,
        alive: Callable[[int], bool],
        election: Election | None = None,
    ) -> Rules:
        """The rules for the partitions of a live topic, as long as no more than they change.

        A broker that is ``alive`` may lead those that it has in an online directory. ``election``
        says how to look for leaders; without it the topic does.
        """
        topic = self.overlay.topic_name(topic_id)
        assert topic is not None, topic_id  # noqa: S101
        return Rules(
            acceptable=lambda state, b: alive(b) and self.directory_online(state, b),
            default_directory=self.default_directory,
            min_isr=self.min_isr(topic),
            metadata_version=self.metadata_version,
            elr=self.elr_enabled,
            election=self.election_for(topic) if election is None else election,
            full_targets=self.config.full_targets,
        )

    def election_for(self, topic: str) -> Election:
        """Choose how to find a leader when a topic's partition has lost its own."""
        return Election.UNCLEAN if self.allows_unclean(topic) else Election.ONLINE

    def directory_online(self, state: PartitionState, broker_id: int) -> bool:
        """Tell whether a broker's replica is, as far as is known, on a disk that works."""
        broker = self.overlay.broker(broker_id)
        if broker is None:
            return False
        if not state.directories or broker_id not in state.replicas:
            return True
        directory = state.directories[state.replicas.index(broker_id)]
        if self.overlay.lost_directories and directory in self.overlay.lost_directories:
            return False
        return is_online(directory, broker.log_dirs)

    def lost_disk(self, state: PartitionState, broker: BrokerState) -> bool:
        """Tell whether a replica was on a disk that its broker does not have any more."""
        if not state.directories or broker.id not in state.replicas:
            return False
        directory = state.directories[state.replicas.index(broker.id)]
        return not is_reserved(directory) and not is_online(directory, broker.log_dirs)

    def _level(self) -> int:
        return self.overlay.feature(METADATA_VERSION)


def build_into(operation: Operation, change: PartitionChange) -> PartitionChangeRecord | None:
    """Add the record of a change, if there is one."""
    record = change.build()
    if record is not None:
        operation.add(record)
    return record
