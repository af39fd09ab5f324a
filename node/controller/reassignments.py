"""Moving replicas: AlterPartitionReassignments, its list, and AssignReplicasToDirs.

A reassignment adds the new replicas, waits until the ISR has all the target's, then drops the old
ones: ``PartitionChange`` ends it. Source: Kafka's ReplicationControlManager; KIP-455, KIP-858.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from node.controller import leader_updates
from node.controller.context import Context, build_into
from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.controller.overlay.partitions import PartitionKey
from node.controller.partition_change import is_online
from node.controller.partition_operations import (
    AssignReplicasToDirsReply,
    AssignReplicasToDirsRequest,
    OngoingReassignment,
    PartitionResult,
    Reassignment,
    ReassignmentsReply,
)
from node.controller.placement import check_assignment
from node.controller.slices import Slices
from node.metadata.features import directories_supported
from node.metadata.image import BrokerState, MetadataImage, PartitionState

_STEPS = 4  # of one reassignment


def alter_reassignments(
    ctx: Context,
    operation: Operation,
    topics: Mapping[str, Sequence[Reassignment]],
    *,
    allow_replication_factor_change: bool,
) -> Slices[ReassignmentsReply]:
    """Begin, change or cancel the reassignment of each partition."""

    def one(topic: str, target: Reassignment) -> PartitionResult:
        try:
            _alter(ctx, operation, topic, target, keep=not allow_replication_factor_change)
        except OperationError as refusal:
            if refusal.error is ApiError.POLICY_VIOLATION:
                raise  # the batch is full: all or nothing
            return PartitionResult(target.partition, refusal.error, refusal.message)
        return PartitionResult(target.partition)

    results: dict[str, list[PartitionResult]] = {}
    for topic, rows in topics.items():
        its = results[topic] = []
        for target in rows:
            its.append(one(topic, target))
            if operation.pace.is_over(_STEPS):
                yield
    return ReassignmentsReply(topics=results)


def list_reassignments(
    image: MetadataImage, topics: Mapping[str, Sequence[int]] | None
) -> dict[str, list[OngoingReassignment]]:
    """The reassignments under way as committed, by topic name."""
    if topics is None:
        keys = list(image.reassigning_partitions())
    else:
        keys = [
            (image.topics[name].id, index)
            for name, indexes in topics.items()
            if name in image.topics
            for index in indexes
        ]
    found: dict[str, list[OngoingReassignment]] = {}
    for topic_id, index in keys:
        topic, state = image.topic_by_id(topic_id), image.partition(topic_id, index)
        if topic is not None and state is not None and (state.adding or state.removing):
            found.setdefault(topic.name, []).append(
                OngoingReassignment(index, state.replicas, state.adding, state.removing)
            )
    return found


def _alter(
    ctx: Context, operation: Operation, topic: str, target: Reassignment, *, keep: bool
) -> None:
    topic_id = ctx.overlay.topic_id(topic)
    if topic_id is None:
        raise OperationError(
            ApiError.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}."
        )
    state = ctx.overlay.partition(topic_id, target.partition)
    if state is None:
        raise OperationError(
            ApiError.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {topic}:{target.partition}.",
        )
    key = (topic_id, target.partition)
    if target.replicas is None:
        _cancel(ctx, operation, topic, key, state)
    else:
        _begin(ctx, operation, key, state, target.replicas, keep=keep)


def _begin(
    ctx: Context,
    operation: Operation,
    key: PartitionKey,
    state: PartitionState,
    target: tuple[int, ...],
    *,
    keep: bool,
) -> None:
    original = [b for b in state.replicas if b not in state.removing]
    if keep and len(target) != len(original):
        raise OperationError(
            ApiError.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(original)} to {len(target)}",
        )
    check_assignment(ctx, target, there=state.replicas)
    change = ctx.change(key, state)
    removing = tuple(sorted(set(state.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(state.replicas)))
    change.replicas = (*target, *removing)
    # What a reassignment before this one wanted is over. Kafka lets it stay where this one wants
    # nothing of its own, so that a replica may be added and removed: docs/findings.md.
    change.removing = removing
    change.adding = adding or tuple([b for b in change.adding if b in target])
    build_into(operation, change)


def _cancel(
    ctx: Context, operation: Operation, topic: str, key: PartitionKey, state: PartitionState
) -> None:
    """Go back to the replicas from before.

    If nobody is in sync, eligible replicas stay eligible, and none is elected. Apache Kafka
    refuses this as an unclean election (docs/findings.md). Where there may be one, whoever is
    elected recovers; in Apache Kafka it counts as in sync.
    """
    if not state.adding and not state.removing:
        raise OperationError(
            ApiError.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        )
    replicas = tuple([b for b in state.replicas if b not in state.adding])
    isr = tuple([b for b in state.isr if b not in state.adding])
    if not replicas:
        raise OperationError(
            ApiError.INVALID_REPLICA_ASSIGNMENT,
            "Invalid replica assignment: addingReplicas contains all replicas.",
        )
    eligible = any(b in replicas for b in state.eligible_leaders)
    if not isr and not eligible:  # only new replicas have all the data
        alive = [b for b in replicas if ctx.overlay.is_active(b)]
        is_trusted = ctx.config.trusts_whom_it_goes_back_to
        if not ctx.allows_unclean(topic) or not (alive or is_trusted):
            raise OperationError(
                ApiError.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic}:{key[1]} because it would "
                "require an unclean leader election.",
            )
        if is_trusted:
            isr = (alive[0] if alive else replicas[0],)
    change = ctx.change(key, state, election=ctx.election_for(topic))
    change.isr, change.replicas = isr, replicas
    change.removing = change.adding = ()
    build_into(operation, change)


# --------------------------------------------------------------------------- directories


def assign_to_directories(
    ctx: Context, operation: Operation, request: AssignReplicasToDirsRequest
) -> Slices[AssignReplicasToDirsReply]:
    """Note in which directories a broker's replicas are (KIP-858).

    A replica whose disk the broker has no more is a new, empty one: it must catch up before it may
    be elected. Apache Kafka elects it (docs/findings.md).

    Raises:
        OperationError: Not supported yet, or not the registered incarnation.
    """
    if not directories_supported(ctx.metadata_version):
        raise OperationError(
            ApiError.UNSUPPORTED_VERSION, "Directory assignment is not supported yet."
        )
    broker = ctx.broker_at(request.broker_id, request.broker_epoch)
    offline: list[PartitionKey] = []
    directories: dict[UUID, dict[UUID, list[PartitionResult]]] = {}
    for directory, topics in request.directories.items():
        of_topics = directories[directory] = {}
        for topic_id, indexes in topics.items():
            its = of_topics[topic_id] = []
            for index in indexes:
                its.append(_assign(ctx, operation, broker, directory, (topic_id, index), offline))
                if operation.pace.is_over(_STEPS):
                    yield
    leader_updates.update(ctx, operation, dict.fromkeys(offline), remove=broker.id)
    return AssignReplicasToDirsReply(directories=directories)


def _assign(
    ctx: Context,
    operation: Operation,
    broker: BrokerState,
    directory: UUID,
    key: PartitionKey,
    offline: list[PartitionKey],
) -> PartitionResult:
    index = key[1]
    if ctx.overlay.topic_name(key[0]) is None:
        return PartitionResult(index, ApiError.UNKNOWN_TOPIC_ID)
    state = ctx.overlay.partitions.get(key)
    if state is None:
        return PartitionResult(index, ApiError.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.id not in state.replicas:
        return PartitionResult(index, ApiError.NOT_LEADER_OR_FOLLOWER)
    change = ctx.change(key, state)
    if ctx.lost_disk(state, broker) and is_online(directory, broker.log_dirs):
        if state.isr == (broker.id,) and not ctx.elr_enabled:
            return PartitionResult(index, ApiError.INELIGIBLE_REPLICA)  # so that it cannot lead
        change.begin_anew(broker.id)
    change.assign_directory(broker.id, directory)
    build_into(operation, change)
    if not is_online(directory, broker.log_dirs):
        offline.append(key)
    return PartitionResult(index)
