"""AlterPartition: the ISR that a leader wants.

Source: Kafka's ReplicationControlManager; KIP-497, KIP-841 (no fenced member), KIP-903 (the broker
epochs of members).
"""

from __future__ import annotations

from uuid import UUID

from node.controller.context import Context, build_into
from node.controller.errors import ApiError
from node.controller.operation import Operation
from node.controller.partition_change import NO_LEADER_CHANGE, RECOVERED, RECOVERING
from node.controller.partition_operations import (
    AlterPartitionData,
    AlterPartitionReply,
    AlterPartitionRequest,
    AlterPartitionResult,
    IsrMember,
)
from node.controller.slices import Slices
from node.metadata.image import PartitionState

_STEPS = 4  # of one partition


def alter_partition(
    ctx: Context, operation: Operation, request: AlterPartitionRequest
) -> Slices[AlterPartitionReply]:
    """Give each partition the ISR that its leader wants, or say why not.

    Raises:
        OperationError: STALE_BROKER_EPOCH.
    """
    ctx.broker_at(request.broker_id, request.broker_epoch)
    topics: dict[UUID, list[AlterPartitionResult]] = {}
    for topic_id, rows in request.topics.items():
        its = topics[topic_id] = []
        for data in rows:
            its.append(_answer(ctx, operation, request, topic_id, data))
            if operation.pace.is_over(_STEPS):
                yield
    return AlterPartitionReply(topics=topics)


def _answer(
    ctx: Context,
    operation: Operation,
    request: AlterPartitionRequest,
    topic_id: UUID,
    data: AlterPartitionData,
) -> AlterPartitionResult:
    """Alter a partition, and trace what was asked and what the partition is then."""
    result = _alter(ctx, operation, request.broker_id, topic_id, data)
    now = ctx.overlay.partition(topic_id, data.partition_index)
    operation.note(
        "alter",
        broker=request.broker_id,
        b_ep=request.broker_epoch,
        tp=[topic_id.hex, data.partition_index],
        req_lep=data.leader_epoch,
        req_pep=data.partition_epoch,
        req_isr=[(member.broker_id, member.broker_epoch) for member in data.new_isr],
        err=int(result.error),
        lep=None if now is None else now.leader_epoch,
        pep=None if now is None else now.partition_epoch,
    )
    return result


def _alter(
    ctx: Context, operation: Operation, sender: int, topic_id: UUID, data: AlterPartitionData
) -> AlterPartitionResult:
    index = data.partition_index
    topic = ctx.overlay.topic_name(topic_id)
    if topic is None:
        return AlterPartitionResult(index, ApiError.UNKNOWN_TOPIC_ID)
    state = ctx.overlay.partition(topic_id, index)
    if state is None:
        return AlterPartitionResult(index, ApiError.UNKNOWN_TOPIC_OR_PARTITION)
    error = _check(ctx, sender, state, data)
    if error is not ApiError.NONE:
        return AlterPartitionResult(index, error)
    change = ctx.change((topic_id, index), state, election=ctx.election_for(topic))
    change.isr = tuple([member.broker_id for member in data.new_isr])
    change.recovery = data.leader_recovery_state
    record = build_into(operation, change)
    if record is not None and record.leader not in (NO_LEADER_CHANGE, sender):
        # The ISR was the last step of a reassignment that leaves the sender out: although it is
        # written, the sender must look at its metadata before it goes on.
        return AlterPartitionResult(index, ApiError.NEW_LEADER_ELECTED)
    now = ctx.overlay.partition(topic_id, index) or state
    return AlterPartitionResult(
        index,
        leader_id=now.leader,
        leader_epoch=now.leader_epoch,
        isr=now.isr,
        leader_recovery_state=now.recovery,
        partition_epoch=now.partition_epoch,
    )


def _check(ctx: Context, sender: int, state: PartitionState, data: AlterPartitionData) -> ApiError:
    """The checks, in Kafka's order: the first that fails is the answer."""
    if data.leader_epoch > state.leader_epoch or data.partition_epoch > state.partition_epoch:
        return ApiError.NOT_CONTROLLER  # who knows more than we do has a newer controller
    if data.leader_epoch < state.leader_epoch:
        return ApiError.FENCED_LEADER_EPOCH
    if sender != state.leader:
        return ApiError.INVALID_REQUEST
    if data.partition_epoch < state.partition_epoch:
        return ApiError.INVALID_UPDATE_VERSION
    isr = [member.broker_id for member in data.new_isr]
    if not _is_isr(isr, state) or data.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ApiError.INVALID_REQUEST
    if data.leader_recovery_state == RECOVERING and (len(isr) > 1 or state.recovery == RECOVERED):
        return ApiError.INVALID_REQUEST
    if not all(_is_eligible(ctx, member) for member in data.new_isr):
        return ApiError.INELIGIBLE_REPLICA
    return ApiError.NONE


def _is_isr(isr: list[int], state: PartitionState) -> bool:
    """Tell whether an ISR consists of different replicas, with the leader among them."""
    return len(set(isr)) == len(isr) and set(isr) <= set(state.replicas) and state.leader in isr


def _is_eligible(ctx: Context, member: IsrMember) -> bool:
    broker = ctx.overlay.broker(member.broker_id)
    return (
        broker is not None
        and ctx.overlay.is_active(member.broker_id)
        and member.broker_epoch in (-1, broker.epoch)
    )
