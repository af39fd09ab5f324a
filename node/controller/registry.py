"""Registrations of controllers, and blocks of producer ids.

Source: Kafka's ClusterControlManager (KIP-919) and ProducerIdControlManager (KIP-730).
"""

from __future__ import annotations

from node.controller.broker_operations import (
    ControllerRegistrationRequest,
    Outcome,
    ProducerIdsReply,
)
from node.controller.context import Context
from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.metadata.features import controller_registration_supported
from node.metadata.schemas import ProducerIdsRecord, RegisterControllerRecord

PRODUCER_ID_BLOCK = 1000
_MAX_PRODUCER_ID = (1 << 63) - 1


def register_controller(
    ctx: Context, operation: Operation, request: ControllerRegistrationRequest
) -> Outcome:
    """Register a controller; raises OperationError(UNSUPPORTED_VERSION)."""
    if not controller_registration_supported(ctx.metadata_version):
        raise OperationError(
            ApiError.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    operation.add(
        RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=request.zk_migration_ready,
            end_points=request.listeners,
            features=request.features,
        )
    )
    return Outcome()


def allocate_producer_ids(
    ctx: Context, operation: Operation, broker_id: int, broker_epoch: int
) -> ProducerIdsReply:
    """Give a broker the next block of producer ids; raises OperationError."""
    ctx.broker_at(broker_id, broker_epoch)
    start = ctx.overlay.next_producer_id()
    if start > _MAX_PRODUCER_ID - PRODUCER_ID_BLOCK:
        raise OperationError(
            ApiError.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end "
            "would be beyond the range of a 64-bit number",
        )
    operation.add(
        ProducerIdsRecord(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            next_producer_id=start + PRODUCER_ID_BLOCK,
        )
    )
    return ProducerIdsReply(producer_id_start=start, producer_id_len=PRODUCER_ID_BLOCK)
