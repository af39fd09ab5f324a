"""Changes the partitions of a broker that comes, goes or stops.

With very many partitions it takes more than one operation (see ``sweeps``). Until it is done a
broker that leaves is told that it is fenced, is let go only then, and may neither lead nor be in
sync anew. Source: Kafka's ReplicationControlManager (generateLeaderAndIsrUpdates and its callers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from uuid import UUID

from node.controller.context import Context, build_into
from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.controller.operations import PendingWrite
from node.controller.overlay.partitions import PartitionKey
from node.controller.overlay.state import UNKNOWN_EPOCH
from node.controller.partition_change import PartitionChange, Rules
from node.controller.sweeps import NOBODY, Sweep, nothing
from node.metadata.features import (
    broker_change_version,
    cordons_supported,
    directories_supported,
)
from node.metadata.image import BrokerState
from node.metadata.schemas import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    UnregisterBrokerRecord,
)

FENCE, UNFENCE = 1, -1
# The walks by what they are for.
_FENCING, _STOPPING, _DIRECTORIES, _ELECTING = "fence", "shutdown", "directories", "elect"
_FORGETTING = "forget"
_LEAVING = (_FENCING, _FORGETTING)
_CLEARING = "The replicas of broker {} are still being taken out of the ISRs."


def is_leaving(ctx: Context, broker_id: int) -> bool:
    """Tell whether a broker in service is being fenced or forgotten."""
    return ctx.sweeps.is_about(broker_id, *_LEAVING)


def stay(ctx: Context, broker_id: int) -> None:
    """A broker that was taken out of all ISRs is in service after all."""
    ctx.sessions.heart(broker_id).cleared = False
    ctx.overlay.leaving.discard(broker_id)


def is_stopping(ctx: Context, broker_id: int) -> bool:
    """Tell whether the broker's partitions are being moved away for its controlled shutdown."""
    return ctx.sweeps.is_about(broker_id, _STOPPING)


def leaves_at_once(ctx: Context, broker_id: int) -> bool:
    """Tell whether a broker is in so few ISRs that one operation takes it out of them."""
    return _is_little(ctx, ctx.overlay.partitions.with_isr(broker_id))


def fence(
    ctx: Context,
    operation: Operation,
    broker: BrokerState,
    note: Callable[[Operation], None] = nothing,
) -> None:
    """Take a broker out of all ISRs and leaderships, then fence it and ``note`` that."""

    def change(slice_: Operation, keys: list[PartitionKey]) -> None:
        if _is_it(ctx, broker):
            update(ctx, slice_, keys, remove=broker.id)

    def end(last: Operation) -> None:
        ctx.overlay.leaving.discard(broker.id)
        if _is_it(ctx, broker):
            note(last)
            _change(ctx, last, broker, fenced=FENCE)

    ctx.sweeps.cancel(broker.id, _STOPPING, _FORGETTING)
    keys = ctx.overlay.partitions.with_isr(broker.id)
    if not ctx.sweeps.begin(operation, Sweep(_FENCING, broker.id, keys, change, end)):
        ctx.overlay.leaving.add(broker.id)


def unfence(ctx: Context, operation: Operation, broker: BrokerState) -> None:
    """Unfence a broker, then let it lead what nobody leads."""
    _change(ctx, operation, broker, fenced=UNFENCE)
    stay(ctx, broker.id)
    ctx.sweeps.begin(operation, _election(ctx, broker.id))


def look_for_leaders(ctx: Context) -> None:
    """Have leaders found for what nobody leads: a controller before may have been about to."""
    ctx.sweeps.add(_election(ctx, NOBODY))


def _election(ctx: Context, broker_id: int) -> Sweep:
    def change(operation: Operation, keys: list[PartitionKey]) -> None:
        update(ctx, operation, keys)

    return Sweep(_ELECTING, broker_id, ctx.overlay.partitions.leaderless(), change)


def begin_shutdown(
    ctx: Context,
    operation: Operation,
    broker: BrokerState,
    wrote: Callable[[PendingWrite], None],
) -> None:
    """Mark a broker as shutting down, then move its leaderships away; ``wrote`` of each write."""

    def change(slice_: Operation, keys: list[PartitionKey]) -> None:
        if _is_it(ctx, broker):
            update(ctx, slice_, keys, remove=broker.id)

    if not broker.in_controlled_shutdown:
        _change(ctx, operation, broker, in_controlled_shutdown=1)
    keys = ctx.overlay.partitions.with_isr(broker.id)
    ctx.sweeps.begin(operation, Sweep(_STOPPING, broker.id, keys, change, wrote=wrote))


def unregister(ctx: Context, operation: Operation, broker: BrokerState) -> None:
    """Take a broker out of all ISRs and ELRs, then forget it.

    Raises:
        OperationError: REQUEST_TIMED_OUT, as that takes more than one operation: ask again.
    """
    partitions = ctx.overlay.partitions
    if _needs_clearing(ctx, broker.id, clean=False):
        raise OperationError(ApiError.REQUEST_TIMED_OUT, _CLEARING.format(broker.id))
    if not ctx.sessions.heart(broker.id).cleared:
        update(ctx, operation, partitions.with_isr(broker.id), remove=broker.id)
        update(ctx, operation, partitions.with_elr(broker.id), unclean=broker.id)
    ctx.overlay.leaving.discard(broker.id)
    add_about(
        operation,
        broker,
        lambda epoch: UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=epoch),
    )


def shut_down(ctx: Context, operation: Operation, broker_id: int, *, clean: bool) -> None:
    """An incarnation of a broker is no more; after an unclean stop it may have lost its log.

    Raises:
        OperationError: DUPLICATE_BROKER_REGISTRATION, as that takes more than one operation.
    """
    if _needs_clearing(ctx, broker_id, clean=clean):
        raise OperationError(ApiError.DUPLICATE_BROKER_REGISTRATION, _CLEARING.format(broker_id))
    if not ctx.sessions.heart(broker_id).cleared:
        for keys in _all_traces(ctx, broker_id, clean=clean):
            _take_out(ctx, operation, keys, broker_id, clean=clean)
    ctx.overlay.leaving.discard(broker_id)


def directories_offline(
    ctx: Context, operation: Operation, broker: BrokerState, offline: Sequence[UUID]
) -> None:
    """Replicas in directories that have failed leave their ISRs and leaderships (KIP-858)."""
    lost = set(offline) & {d for d in broker.log_dirs if d is not None}
    if not lost or not directories_supported(ctx.metadata_version):
        return
    if ctx.sweeps.is_about(broker.id, _DIRECTORIES):
        return  # what has failed since is told again with each heartbeat

    def change(slice_: Operation, keys: list[PartitionKey]) -> None:
        there = [key for key in keys if directory_of(ctx, key, broker.id) in lost]
        if _is_it(ctx, broker):
            update(ctx, slice_, there, remove=broker.id)

    def end(last: Operation) -> None:
        ctx.overlay.lost_directories -= lost
        if _is_it(ctx, broker):
            left = tuple([d for d in broker.log_dirs if d not in lost])
            _change(ctx, last, broker, log_dirs=left)

    ctx.overlay.lost_directories |= lost
    keys = ctx.overlay.partitions.with_isr(broker.id)
    ctx.sweeps.begin(operation, Sweep(_DIRECTORIES, broker.id, keys, change, end))


def directories_cordoned(
    ctx: Context, operation: Operation, broker: BrokerState, cordoned: Sequence[UUID]
) -> None:
    """Note which directories get no new replicas, if they are others than before (KIP-1066)."""
    if not cordons_supported(ctx.metadata_version):
        return
    known = broker.cordoned_log_dirs
    if known is None or set(known) != set(cordoned):
        _change(ctx, operation, broker, cordoned_log_dirs=tuple(cordoned))


def _is_it(ctx: Context, broker: BrokerState) -> bool:
    """Tell whether the broker of that id is still the incarnation that a walk began with."""
    now = ctx.overlay.broker(broker.id)
    return now is not None and now.incarnation == broker.incarnation


def _all_traces(ctx: Context, broker_id: int, *, clean: bool) -> Iterator[Iterator[PartitionKey]]:
    """The partitions that a broker which is no more has to be taken out of."""
    yield ctx.overlay.partitions.with_isr(broker_id)
    if not clean and ctx.elr_enabled:
        yield ctx.overlay.partitions.with_elr(broker_id)


def _traces(ctx: Context, broker_id: int, *, clean: bool) -> Iterator[PartitionKey]:
    return chain.from_iterable(_all_traces(ctx, broker_id, clean=clean))


def _take_out(
    ctx: Context, operation: Operation, keys: Iterable[PartitionKey], broker_id: int, *, clean: bool
) -> None:
    if clean or not ctx.elr_enabled:
        update(ctx, operation, keys, remove=broker_id)
    else:
        update(ctx, operation, keys, unclean=broker_id)


def _needs_clearing(ctx: Context, broker_id: int, *, clean: bool) -> bool:
    """Begin to take a broker out of what it is in, if that takes more than one operation.

    The caller asks again until it is done. Meanwhile the broker joins no ISR.
    """
    heart = ctx.sessions.heart(broker_id)
    if is_leaving(ctx, broker_id):
        return True
    if heart.cleared and (clean or not heart.cleanly):
        return False
    heart.cleared = False
    if _is_little(ctx, _traces(ctx, broker_id, clean=clean)):
        return False

    def change(operation: Operation, keys: list[PartitionKey]) -> None:
        _take_out(ctx, operation, keys, broker_id, clean=clean)

    def end(_: Operation) -> None:
        heart.cleared, heart.cleanly = True, clean

    ctx.overlay.leaving.add(broker_id)
    keys = _traces(ctx, broker_id, clean=clean)
    ctx.sweeps.add(Sweep(_FORGETTING, broker_id, keys, change, end))
    return True


def _is_little(ctx: Context, keys: Iterable[PartitionKey]) -> bool:
    """Tell whether there are so few partitions that one operation can change them all."""
    return len(list(islice(keys, ctx.sweeps.size))) < ctx.sweeps.size


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
    alive: dict[int, bool] = {}  # nothing but partitions changes here
    rules: dict[UUID, Rules] = {}

    def acceptable(broker_id: int) -> bool:
        known = alive.get(broker_id)
        if known is None:
            known = broker_id not in (remove, unclean) and ctx.overlay.is_active(broker_id)
            alive[broker_id] = known
        return known

    topic_id, its = None, None
    for key in keys:
        state = ctx.overlay.partitions.get(key)
        assert state is not None, key  # noqa: S101 - the index has it
        if its is None or key[0] is not topic_id:
            topic_id = key[0]
            its = rules.get(topic_id)
            if its is None:
                its = rules[topic_id] = ctx.rules(topic_id, acceptable)
        change = PartitionChange(state, *key, its)
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
    cordoned_log_dirs: tuple[UUID | None, ...] | None = None,
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
            cordoned_log_dirs=cordoned_log_dirs,
        ),
    )
