"""The operations of the active controller, by Kafka's names: what the driver may call.

Each write is a ``ControllerResult``: entries to be proposed, and a reply to be encoded when
``wait_for`` is committed, not before. Time is always ``now_ms``, on the driver's steady clock.
All writes raise ``NotControllerError`` on an inactive controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from node.controller.broker_operations import (
    BrokerHeartbeatReply,
    BrokerHeartbeatRequest,
    BrokerRegistrationReply,
    BrokerRegistrationRequest,
    ClusterBroker,
    ControllerRegistrationRequest,
    Outcome,
    ProducerIdsReply,
)
from node.controller.feature_operations import (
    BootstrapMetadata,
    FeatureUpdate,
    FinalizedFeatures,
    UpdateFeaturesReply,
)
from node.controller.long_operations import LongOperations
from node.controller.operations import (
    AlterResource,
    AlterResult,
    ConfigDescription,
    ControllerResult,
    CreateResult,
    DeleteResult,
    NewTopic,
    ReplaceResource,
    TopicDescription,
    TopicRef,
)
from node.controller.partition_operations import (
    AlterPartitionReply,
    AlterPartitionRequest,
    AssignReplicasToDirsReply,
    AssignReplicasToDirsRequest,
    ElectLeadersReply,
    NewPartitions,
    NewPartitionsResult,
    OngoingReassignment,
    Reassignment,
    ReassignmentsReply,
)
from node.metadata.image import ConfigResource
from node.metadata.records import MetadataRecord


class Controller(Protocol):
    """See ``QuorumController`` for the duties of whoever drives it."""

    # ------------------------------------------------------------------ leadership and commits

    @property
    def active(self) -> bool:
        """Whether this controller may write."""
        ...

    @property
    def long(self) -> LongOperations:
        """What may take long, in slices."""
        ...

    @property
    def speculative(self) -> int:
        """How many changes it goes by that are not committed; none unless it is active."""
        ...

    def claim(self, epoch: int, now_ms: int) -> None:
        """Become the active controller of ``epoch``; brokers in service get a fresh session."""
        ...

    def activate(
        self, bootstrap: BootstrapMetadata, *, open_transaction: bool = False
    ) -> ControllerResult[str | None]:
        """The first write after ``claim``: begin an empty log, abort a transaction left open."""
        ...

    def renounce(self) -> None:
        """Stop being active and forget all that is pending."""
        ...

    def appended(self, base_offset: int, last_offset: int) -> None:
        """The records of the oldest write not yet in the log are there now."""
        ...

    def committed(self, record: MetadataRecord, offset: int) -> None:
        """A data record is committed."""
        ...

    # ------------------------------------------------------------------ brokers and controllers

    def register_broker(
        self, request: BrokerRegistrationRequest, now_ms: int
    ) -> ControllerResult[BrokerRegistrationReply]:
        """BrokerRegistration (62)."""
        ...

    def contact(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A heartbeat of that broker has arrived: its session goes on. Before ``heartbeat``."""
        ...

    def heartbeat(self, request: BrokerHeartbeatRequest) -> ControllerResult[BrokerHeartbeatReply]:
        """BrokerHeartbeat (63)."""
        ...

    def unregister_broker(self, broker_id: int) -> ControllerResult[Outcome]:
        """UnregisterBroker (64)."""
        ...

    @property
    def sweeps(self) -> int:
        """How many walks over partitions are under way: call ``sweep`` while there are any."""
        ...

    def sweep(self) -> ControllerResult[None]:
        """Do the next slice of a walk over very many partitions."""
        ...

    @property
    def session_check_interval_ms(self) -> int:
        """How often ``expire_sessions`` is to be called: an eighth of the session timeout."""
        ...

    def expire_sessions(self, now_ms: int) -> ControllerResult[int | None]:
        """Fence the broker that was silent the longest, if for longer than a session; its id."""
        ...

    def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerResult[Outcome]:
        """ControllerRegistration (70)."""
        ...

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> ControllerResult[ProducerIdsReply]:
        """AllocateProducerIds (67)."""
        ...

    # ------------------------------------------------------------------ topics and partitions

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> ControllerResult[tuple[CreateResult, ...]]:
        """CreateTopics (19)."""
        ...

    def delete_topics(
        self, wanted: Sequence[TopicRef]
    ) -> ControllerResult[tuple[DeleteResult, ...]]:
        """DeleteTopics (20)."""
        ...

    def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> ControllerResult[tuple[NewPartitionsResult, ...]]:
        """CreatePartitions (37)."""
        ...

    def alter_partition(
        self, request: AlterPartitionRequest
    ) -> ControllerResult[AlterPartitionReply]:
        """AlterPartition (56)."""
        ...

    def elect_leaders(
        self, election_type: int, partitions: Mapping[str, Sequence[int]] | None
    ) -> ControllerResult[ElectLeadersReply]:
        """ElectLeaders (43); None = all partitions."""
        ...

    def alter_partition_reassignments(
        self,
        wanted: Mapping[str, Sequence[Reassignment]],
        *,
        allow_replication_factor_change: bool = True,
    ) -> ControllerResult[ReassignmentsReply]:
        """AlterPartitionReassignments (45)."""
        ...

    def list_partition_reassignments(
        self, wanted: Mapping[str, Sequence[int]] | None
    ) -> Mapping[str, Sequence[OngoingReassignment]]:
        """ListPartitionReassignments (46), as committed; None = all."""
        ...

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> ControllerResult[AssignReplicasToDirsReply]:
        """AssignReplicasToDirs (73)."""
        ...

    def balance_leaders(self) -> ControllerResult[int]:
        """Elect preferred leaders where possible (``auto.leader.rebalance.enable``); how many."""
        ...

    def elect_unclean(self) -> ControllerResult[int]:
        """Elect leaders where topics allow unclean ones and there is none; how many."""
        ...

    # ------------------------------------------------------------------ settings and features

    def alter_configs(
        self, resources: Sequence[AlterResource], *, validate_only: bool = False
    ) -> ControllerResult[tuple[AlterResult, ...]]:
        """IncrementalAlterConfigs (44)."""
        ...

    def replace_configs(
        self, resources: Sequence[ReplaceResource], *, validate_only: bool = False
    ) -> ControllerResult[tuple[AlterResult, ...]]:
        """AlterConfigs (33)."""
        ...

    def update_features(
        self,
        updates: Sequence[FeatureUpdate],
        *,
        validate_only: bool = False,
        kraft_version: int = 0,
    ) -> ControllerResult[UpdateFeaturesReply]:
        """UpdateFeatures (57)."""
        ...

    def no_op(self) -> ControllerResult[None]:
        """One NoOpRecord, for an idle quorum."""
        ...

    # ------------------------------------------------------------------ reads of committed state

    def describe_configs(
        self, resource: ConfigResource, names: Sequence[str] | None = None
    ) -> ConfigDescription:
        """DescribeConfigs (32): the settings that somebody has set."""
        ...

    def describe_topics(
        self, wanted: Sequence[TopicRef] | None = None
    ) -> tuple[TopicDescription, ...]:
        """Topics as committed."""
        ...

    def describe_brokers(
        self, listener: str | None = None, *, include_fenced: bool = False
    ) -> tuple[ClusterBroker, ...]:
        """Registered brokers with their endpoint of that listener (None: their first)."""
        ...

    def describe_controllers(self, listener: str | None = None) -> tuple[ClusterBroker, ...]:
        """Registered controllers with their endpoint of that listener (None: their first)."""
        ...

    def finalized_features(self) -> FinalizedFeatures:
        """The finalised levels, for ApiVersions and brokers."""
        ...

    def topic_id(self, name: str) -> UUID | None:
        """The id of a topic as committed."""
        ...
