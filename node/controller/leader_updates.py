"""What a change of one broker does to the partitions it has to do with.

Source: Kafka's ReplicationControlManager (generateLeaderAndIsrUpdates and its callers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from node.controller.context import Context, build_into
from node.controller.operation import Operation
from node.controller.overlay import UNKNOWN_EPOCH
from node.controller.overlay_partitions import PartitionKey
from node.metadata.features import broker_change_version, directories_supported
from node.metadata.image import BrokerState
from node.metadata.schemas import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    UnregisterBrokerRecord,
)

FENCE, UNFENCE = 1, -1
NOBODY = -1


def fence(ctx: Context, operation: Operation, broker: BrokerState) -> None:
    """Take a broker out of all ISRs and leaderships, then fence it."""
    update(ctx, operation, ctx.overlay.partitions.with_isr(broker.id), remove=broker.id)
    _change(ctx, operation, broker, fenced=FENCE)


def unfence(ctx: Context, operation: Operation, broker: BrokerState) -> None:
    """Unfence a broker, then let it lead what nobody leads."""
    _change(ctx, operation, broker, fenced=UNFENCE)
    update(ctx, operation, ctx.overlay.partitions.leaderless())


def begin_shutdown(ctx: Context, operation: Operation, broker: BrokerState) -> None:
    """Mark a broker as shutting down, then move its leaderships away."""
    if not broker.in_controlled_shutdown:
        _change(ctx, operation, broker, in_controlled_shutdown=1)
    update(ctx, operation, ctx.overlay.partitions.with_isr(broker.id), remove=broker.id)


def unregister(ctx: Context, operation: Operation, broker: BrokerState) -> None:
    """Take a broker out of all ISRs and ELRs, then forget it."""
    partitions = ctx.overlay.partitions
    update(ctx, operation, partitions.with_isr(broker.id), remove=broker.id)
    update(ctx, operation, partitions.with_elr(broker.id), unclean=broker.id)
    add_about(
        operation,
        broker,
        lambda epoch: UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=epoch),
    )


def shut_down(ctx: Context, operation: Operation, broker_id: int, *, clean: bool) -> None:
    """An incarnation of a broker is no more; after an unclean stop it may have lost its log."""
    partitions = ctx.overlay.partitions
    if clean or not ctx.elr_enabled:
        update(ctx, operation, partitions.with_isr(broker_id), remove=broker_id)
        return
    update(ctx, operation, partitions.with_isr(broker_id), unclean=broker_id)
    update(ctx, operation, partitions.with_elr(broker_id), unclean=broker_id)


def directories_offline(
    ctx: Context, operation: Operation, broker: BrokerState, offline: Sequence[UUID]
) -> None:
    """Replicas in directories that have failed leave their ISRs and leaderships (KIP-858)."""
    lost = set(offline) & {d for d in broker.log_dirs if d is not None}
    if not lost or not directories_supported(ctx.metadata_version):
        return
    keys = [
        key
        for key in ctx.overlay.partitions.with_isr(broker.id)
        if directory_of(ctx, key, broker.id) in lost
    ]
    update(ctx, operation, keys, remove=broker.id)
    left = tuple([d for d in broker.log_dirs if d not in lost])
    _change(ctx, operation, broker, log_dirs=left)


def directory_of(ctx: Context, key: PartitionKey, broker_id: int) -> UUID | None:
    """The directory of a broker's replica; None when it was never told."""
    state = ctx.overlay.partitions.get(key)
    if state is None or not state.directories:
        return None
    return dict(zip(state.replicas, state.directories, strict=True)).get(broker_id)


def update(
    ctx: Context,
    operation: Operation,
    keys: Iterable[PartitionKey],
    *,
    remove: int = NOBODY,
    unclean: int = NOBODY,
) -> None:
    """Give partitions another ISR and leader where they need one.

    ``remove`` leaves the ISRs and may not lead; ``unclean`` leaves the ELRs too (KIP-966).
    """

    def acceptable(broker_id: int) -> bool:
        return broker_id not in (remove, unclean) and ctx.overlay.is_active(broker_id)

    for key in keys:
        state = ctx.overlay.partitions.get(key)
        topic = ctx.overlay.topic_name(key[0])
        assert state is not None, key  # noqa: S101 - the index has it
        assert topic is not None, key  # noqa: S101
        change = ctx.change(key, state, acceptable=acceptable, election=ctx.election_for(topic))
        if unclean != NOBODY:
            change.unclean_shutdown = unclean
        change.isr = tuple([b for b in state.isr if b not in (remove, unclean)])
        build_into(operation, change)


def add_about(
    operation: Operation, broker: BrokerState, make: Callable[[int], MetadataRecord]
) -> None:
    """Add a record that names a broker's epoch, which may get known only when it is appended."""
    if broker.epoch != UNKNOWN_EPOCH:
        operation.add(make(broker.epoch))
        return
    registration = operation.overlay.registration_of(broker.id)
    assert registration is not None, broker  # noqa: S101

    def resolve(_: MetadataRecord, __: int) -> MetadataRecord:
        assert registration.last_offset is not None, broker  # noqa: S101 - appended before
        return make(registration.last_offset)

    operation.add_at_offset(make(UNKNOWN_EPOCH), resolve)


def _change(
    ctx: Context,
    operation: Operation,
    broker: BrokerState,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: tuple[UUID | None, ...] = (),
) -> None:
    version = broker_change_version(ctx.metadata_version)
    add_about(
        operation,
        broker,
        lambda epoch: BrokerRegistrationChangeRecord(
            version=version,
            broker_id=broker.id,
            broker_epoch=epoch,
            fenced=fenced,
            in_controlled_shutdown=in_controlled_shutdown,
            log_dirs=log_dirs,
        ),
    )
