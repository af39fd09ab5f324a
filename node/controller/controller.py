"""The quorum controller: requests in, records and answers out; no I/O, no clock.

A write is worked out against the committed image *and* all writes before it that are not
committed yet (the overlay), so writes are pipelined without waiting for each other. Its answer
must be held back until ``ControllerResult.wait_for`` is committed; that holds for writes that
come to no record too, or they would give away what may yet be lost. Reads see committed state
only.

Duties of the driver: ``claim`` only after the image has everything below the epoch's first
commit, then ``activate``; propose the entries of each result in the order of the calls, in one
proposal, and turn their payloads into record values with ``payload_values`` when the base offset
of each is known; ``appended`` for each accepted proposal in that order; ``committed`` for each
committed data record in offset order; read a reply only when it is due; ``renounce`` as soon as
leadership is lost or a proposal is refused; call ``expire_sessions`` and the other periodic
operations while active. What may take long is there in slices, too, as ``long``: until one of
those has ended, or is closed, ask for no other write.

Source: Kafka's QuorumController (prepareAppend, deferred events); KIP-631.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar, TypeVar
from uuid import UUID

from node.controller import (
    brokers,
    configs,
    features,
    leader_elections,
    leader_updates,
    reassignments,
    registry,
    topics,
)
from node.controller.broker_operations import (
    BrokerHeartbeatReply,
    BrokerHeartbeatRequest,
    BrokerRegistrationReply,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    Outcome,
    ProducerIdsReply,
)
from node.controller.context import Context, ControllerConfig
from node.controller.errors import (
    ApiError,
    ControllerError,
    NotControllerError,
    OperationError,
)
from node.controller.feature_operations import (
    BootstrapMetadata,
    FeatureUpdate,
    FinalizedFeatures,
    UpdateFeaturesReply,
)
from node.controller.long_operations import LongOperations
from node.controller.operation import Operation
from node.controller.operations import (
    AlterResource,
    AlterResult,
    ConfigDescription,
    ControllerResult,
    CreateResult,
    DeleteResult,
    NewTopic,
    PendingWrite,
    ReplaceResource,
    TopicDescription,
    TopicRef,
)
from node.controller.overlay.state import Overlay
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
from node.controller.sessions import Sessions
from node.controller.slices import Slices, finish
from node.controller.sweeps import Sweeps
from node.metadata.fold import apply_record
from node.metadata.image import NO_LEADER, TOPIC, ConfigResource, MetadataImage
from node.metadata.schemas import MetadataRecord, NoOpRecord

T = TypeVar("T")
Refuse = Callable[[ApiError, str | None], T]

SESSION_CHECKS_PER_TIMEOUT = 8


class QuorumController:
    """Decides what goes into the metadata log.

    Each write is a ``ControllerResult``: entries to be proposed, and a reply to be encoded when
    they are committed, not before. Time is always ``now_ms``, on the driver's steady clock. All
    writes raise ``NotControllerError`` on an inactive controller.

    ``payload`` of the ``Records`` it returns is for ``payload_values``. With ``image`` it shares
    an image that somebody else applies committed records to; without, it keeps its own.
    ``broker_ids`` (the static ones), ``cluster_id`` and ``session_timeout_ms`` replace those of
    ``config``.
    """

    overlay_type: ClassVar[type[Overlay]] = Overlay
    long_type: ClassVar[type[LongOperations]] = LongOperations
    operation_type: ClassVar[type[Operation]] = Operation
    context_type: ClassVar[type[Context]] = Context

    def __init__(
        self,
        *,
        rng: Random,
        image: MetadataImage | None = None,
        config: ControllerConfig | None = None,
        broker_ids: Sequence[int] | None = None,
        cluster_id: str | None = None,
        session_timeout_ms: int | None = None,
    ) -> None:
        self.image = MetadataImage() if image is None else image
        self.epoch: int | None = None
        given = {
            "static_broker_ids": None if broker_ids is None else tuple(broker_ids),
            "cluster_id": cluster_id,
            "session_timeout_ms": session_timeout_ms,
        }
        self.config = replace(
            config or ControllerConfig(),
            **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type] # by name
        )
        self._sessions = Sessions(self.config.session_timeout_ms)
        self._overlay = self.overlay_type(self.image)
        self._sweeps = Sweeps(self.config.partitions_per_slice)
        self._ctx = self.context_type(self._overlay, self.config, self._sessions, rng, self._sweeps)
        self._collisions = topics.Collisions(self._overlay.topic_names)
        self._pending: deque[PendingWrite] = deque()
        self._unappended: deque[PendingWrite] = deque()
        self._balance = leader_elections.Round(self._overlay.partitions.imbalanced)
        self._unclean = leader_elections.Round(self._overlay.partitions.leaderless)
        self._busy = False  # with an operation in slices
        self.long = self.long_type(self._ctx, self._write_slices, self._collisions)

    # ------------------------------------------------------------------ leadership and commits

    @property
    def active(self) -> bool:
        """Tell whether this controller is the active one, which may write."""
        return self.epoch is not None

    @property
    def speculative(self) -> int:
        """The number of changes it goes by that are not committed; 0 unless it is active."""
        return len(self._overlay)

    @property
    def pending(self) -> int:
        """The number of writes that are not committed yet."""
        return len(self._pending)

    def claim(self, epoch: int, now_ms: int) -> None:
        """Become the active controller of ``epoch``; brokers in service get a fresh session."""
        if self.epoch is not None:
            raise ControllerError(f"claim of epoch {epoch} while active in epoch {self.epoch}")
        self.epoch = epoch
        self._collisions.forget()
        self._sessions.restart(self.image.brokers.values(), now_ms)
        if self.image.led_count(NO_LEADER):  # perhaps the one before was not done
            leader_updates.look_for_leaders(self._ctx)

    def activate(
        self, bootstrap: BootstrapMetadata, *, open_transaction: bool = False
    ) -> ControllerResult[str | None]:
        """The first write after ``claim``: begin an empty log, abort a transaction left open."""
        empty = self.image == MetadataImage()
        return self._write(
            lambda op: features.activate(
                self._ctx, op, bootstrap, empty=empty, open_transaction=open_transaction
            )
        )

    def renounce(self) -> None:
        """Stop being active: what is pending may or may not be committed by others. O(pending)."""
        self.epoch = None
        self._sweeps.clear()
        self._balance.clear()
        self._unclean.clear()
        self._overlay.clear()
        self._sessions.clear()
        self._collisions.forget()
        self._pending.clear()
        self._unappended.clear()

    def appended(self, base_offset: int, last_offset: int) -> None:
        """The records of the oldest write not yet in the log are there now."""
        if not self._unappended:
            raise ControllerError(f"records {base_offset}..{last_offset} are of no pending write")
        write = self._unappended.popleft()
        if last_offset - base_offset + 1 != write.records:
            raise ControllerError(
                f"{write.records} records were appended as {base_offset}..{last_offset}"
            )
        write.last_offset = last_offset
        self._overlay.appended(write)

    def committed(self, record: MetadataRecord, offset: int) -> None:
        """Apply a committed data record (unless the shared image has it) and settle its write."""
        if offset >= self.image.end_offset:
            apply_record(self.image, record, offset)
        while self._pending:
            last_offset = self._pending[0].last_offset
            if last_offset is None or last_offset > offset:
                return
            self._overlay.committed(self._pending.popleft())

    # ------------------------------------------------------------------ brokers and controllers

    def register_broker(
        self, request: BrokerRegistrationRequest, now_ms: int
    ) -> ControllerResult[BrokerRegistrationReply]:
        """BrokerRegistration (62)."""
        return self._ask(
            lambda op: brokers.register(self._ctx, op, request, now_ms), BrokerRegistrationReply
        )

    def contact(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Prolong a broker's session; call it when a heartbeat comes, before ``heartbeat``.

        Returns:
            Whether the broker is registered with that epoch, and the controller is active.
        """
        broker = self._overlay.broker(broker_id)
        if not self.active or broker is None or broker.epoch != broker_epoch:
            return False
        self._sessions.contact(broker_id, broker_epoch, now_ms)
        return True

    def heartbeat(self, request: BrokerHeartbeatRequest) -> ControllerResult[BrokerHeartbeatReply]:
        """BrokerHeartbeat (63)."""
        return self._ask(lambda op: brokers.heartbeat(self._ctx, op, request), BrokerHeartbeatReply)

    def unregister_broker(self, broker_id: int) -> ControllerResult[Outcome]:
        """UnregisterBroker (64)."""
        return self._ask(lambda op: brokers.unregister(self._ctx, op, broker_id), Outcome)

    @property
    def session_check_interval_ms(self) -> int:
        """The interval at which to call ``expire_sessions``: an eighth of the session timeout."""
        return max(1, self.config.session_timeout_ms // SESSION_CHECKS_PER_TIMEOUT)

    def expire_sessions(self, now_ms: int) -> ControllerResult[int | None]:
        """Fence the broker that was silent the longest, if for longer than a session; its id."""
        return self._write(lambda op: brokers.expire_one(self._ctx, op, now_ms), atomic=False)

    @property
    def sweeps(self) -> int:
        """The number of walks over partitions under way: call ``sweep`` while there are any."""
        return len(self._sweeps)

    def sweep(self) -> ControllerResult[None]:
        """Do the next slice of a walk over very many partitions."""
        return self._write(self._sweeps.advance, atomic=False)

    def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerResult[Outcome]:
        """ControllerRegistration (70)."""
        return self._ask(lambda op: registry.register_controller(self._ctx, op, request), Outcome)

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> ControllerResult[ProducerIdsReply]:
        """AllocateProducerIds (67)."""
        return self._ask(
            lambda op: registry.allocate_producer_ids(self._ctx, op, broker_id, broker_epoch),
            ProducerIdsReply,
        )

    # ------------------------------------------------------------------ topics and partitions

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> ControllerResult[tuple[CreateResult, ...]]:
        """CreateTopics (19): each topic with its settings and partitions, or nothing of it."""
        return finish(self.long.create_topics(wanted, validate_only=validate_only))

    def delete_topics(
        self, wanted: Sequence[TopicRef]
    ) -> ControllerResult[tuple[DeleteResult, ...]]:
        """DeleteTopics (20), by name or by id."""
        return finish(self.long.delete_topics(wanted))

    def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> ControllerResult[tuple[NewPartitionsResult, ...]]:
        """CreatePartitions (37): each topic all or nothing."""
        return finish(self.long.create_partitions(wanted, validate_only=validate_only))

    def alter_partition(
        self, request: AlterPartitionRequest
    ) -> ControllerResult[AlterPartitionReply]:
        """AlterPartition (56)."""
        return finish(self.long.alter_partition(request))

    def elect_leaders(
        self, election_type: int, partitions: Mapping[str, Sequence[int]] | None
    ) -> ControllerResult[ElectLeadersReply]:
        """ElectLeaders (43); None = all partitions."""
        return finish(self.long.elect_leaders(election_type, partitions))

    def balance_leaders(self) -> ControllerResult[int]:
        """Elect preferred leaders where possible (``auto.leader.rebalance.enable``); how many."""
        return self._write(
            lambda op: leader_elections.balance_leaders(self._ctx, op, self._balance), atomic=False
        )

    def elect_unclean(self) -> ControllerResult[int]:
        """Elect leaders where topics allow unclean ones and there is none; how many."""
        return self._write(
            lambda op: leader_elections.elect_unclean(self._ctx, op, self._unclean), atomic=False
        )

    @property
    def balancing(self) -> bool:
        """Tell whether ``balance_leaders`` has more to look at and should be called again."""
        return self._balance.under_way

    @property
    def electing_unclean(self) -> bool:
        """Tell whether ``elect_unclean`` has more to look at and should be called again."""
        return self._unclean.under_way

    def alter_partition_reassignments(
        self,
        wanted: Mapping[str, Sequence[Reassignment]],
        *,
        allow_replication_factor_change: bool = True,
    ) -> ControllerResult[ReassignmentsReply]:
        """AlterPartitionReassignments (45)."""
        return finish(
            self.long.alter_partition_reassignments(
                wanted, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    def list_partition_reassignments(
        self, wanted: Mapping[str, Sequence[int]] | None
    ) -> Mapping[str, Sequence[OngoingReassignment]]:
        """ListPartitionReassignments (46), as committed; None = all."""
        return reassignments.list_reassignments(self.image, wanted)

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> ControllerResult[AssignReplicasToDirsReply]:
        """AssignReplicasToDirs (73)."""
        return finish(self.long.assign_replicas_to_dirs(request))

    # ------------------------------------------------------------------ settings and features

    def alter_configs(
        self, resources: Sequence[AlterResource], *, validate_only: bool = False
    ) -> ControllerResult[tuple[AlterResult, ...]]:
        """IncrementalAlterConfigs (44): each resource all or nothing, all of them in one batch."""
        return finish(self.long.alter_configs(resources, validate_only=validate_only))

    def replace_configs(
        self, resources: Sequence[ReplaceResource], *, validate_only: bool = False
    ) -> ControllerResult[tuple[AlterResult, ...]]:
        """AlterConfigs (33): each resource all or nothing, all of them in one batch."""
        return finish(self.long.replace_configs(resources, validate_only=validate_only))

    def update_features(
        self,
        updates: Sequence[FeatureUpdate],
        *,
        validate_only: bool = False,
        kraft_version: int = 0,
    ) -> ControllerResult[UpdateFeaturesReply]:
        """UpdateFeatures (57); ``kraft_version`` is the level in force, only compared with."""
        return self._ask(
            lambda op: features.update_features(self._ctx, op, updates, kraft_version),
            UpdateFeaturesReply,
            atomic=True,
            validate_only=validate_only,
        )

    def no_op(self) -> ControllerResult[None]:
        """One NoOpRecord, for an idle quorum."""
        return self._write(lambda op: op.add(NoOpRecord()))

    # ------------------------------------------------------------------ reads of committed state

    def describe_configs(
        self, resource: ConfigResource, names: Sequence[str] | None = None
    ) -> ConfigDescription:
        """The settings of a resource as committed, or those of ``names`` that are set."""
        try:
            configs.check_resource(resource)
            if resource[0] == TOPIC and resource[1] not in self.image.topics:
                raise configs.unknown_topic(resource[1])
        except OperationError as refusal:
            return ConfigDescription(*resource, refusal.error, refusal.message)
        settings = self.image.config(resource)
        wanted = sorted(settings) if names is None else names
        return ConfigDescription(
            *resource, configs={name: settings[name] for name in wanted if name in settings}
        )

    def describe_topics(
        self, wanted: Sequence[TopicRef] | None = None
    ) -> tuple[TopicDescription, ...]:
        """Topics as committed, or all of them by name."""
        if wanted is None:
            wanted = [TopicRef(name=name) for name in sorted(self.image.topics)]
        return tuple([self._describe(topic) for topic in wanted])

    def finalized_features(self) -> FinalizedFeatures:
        """The finalised levels, for ApiVersions and brokers."""
        return FinalizedFeatures(dict(self.image.features), self.image.end_offset - 1)

    def topic_id(self, name: str) -> UUID | None:
        """The id of a topic as committed."""
        topic = self.image.topics.get(name)
        return None if topic is None else topic.id

    # ------------------------------------------------------------------ inside

    def _write(
        self,
        work: Callable[[Operation], T],
        *,
        atomic: bool = True,
        validate_only: bool = False,
    ) -> ControllerResult[T]:
        """Work out a write; what it changes is seen by the next one at once."""
        operation = self._begin(atomic=atomic)
        try:
            reply = work(operation)
        except BaseException:
            self._overlay.undo(operation.write)
            raise
        return self._result(operation, reply, validate_only=validate_only)

    def _write_slices(
        self,
        work: Callable[[Operation], Slices[T]],
        *,
        atomic: bool = True,
        validate_only: bool = False,
    ) -> Slices[ControllerResult[T]]:
        """Do as ``_write``, with the pauses of ``work``; meanwhile there is no other write."""
        operation = self._begin(atomic=atomic)
        self._busy = True
        try:
            reply = yield from work(operation)
            if validate_only:
                yield from self._overlay.undo_slices(operation.write, operation.pace)
        except BaseException:
            self._overlay.undo(operation.write)
            raise
        finally:
            self._busy = False
        return self._result(operation, reply, validate_only=validate_only)

    def _begin(self, *, atomic: bool) -> Operation:
        if self.epoch is None:
            raise NotControllerError("this controller is not the active one")
        if self._busy:
            raise ControllerError("a long operation has not ended, which nobody may build on")
        return self.operation_type(self._overlay, atomic=atomic)

    def _result(
        self, operation: Operation, reply: T, *, validate_only: bool
    ) -> ControllerResult[T]:
        if validate_only:
            self._overlay.undo(operation.write)
        elif operation.records:
            entries = operation.entries()
            self._pending.append(operation.write)
            self._unappended.append(operation.write)
            return ControllerResult(entries, reply, operation.write, tuple(operation.notes))
        seen = self._pending[-1] if self._pending else None
        return ControllerResult((), reply, seen, tuple(operation.notes))

    def _ask(
        self,
        work: Callable[[Operation], T],
        refused: Refuse[T],
        *,
        atomic: bool = False,
        validate_only: bool = False,
    ) -> ControllerResult[T]:
        """A write that is refused as a whole, if at all."""
        try:
            return self._write(work, atomic=atomic, validate_only=validate_only)
        except OperationError as refusal:
            reply = refused(refusal.error, refusal.message)
        return self._write(lambda _: reply)

    def _describe(self, ref: TopicRef) -> TopicDescription:
        try:
            name = topics.name_of(ref, self._committed_name)
            topic = self.image.topics.get(name)
            if topic is None:
                raise configs.unknown_topic(name)
        except OperationError as refusal:
            return TopicDescription(ref.name, ref.id, refusal.error, refusal.message)
        return TopicDescription(
            topic.name,
            topic.id,
            partitions=dict(topic.partitions),
            configs=dict(self.image.config((TOPIC, name))),
        )

    def _committed_name(self, topic_id: UUID) -> str | None:
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else topic.name
