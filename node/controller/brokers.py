"""Registrations and heartbeats of brokers. Source: Kafka's ClusterControlManager; KIP-631."""

from __future__ import annotations

from enum import Enum
from functools import partial

import msgspec

from node.controller import leader_updates
from node.controller.broker_operations import (
    BrokerHeartbeatReply,
    BrokerHeartbeatRequest,
    BrokerRegistrationReply,
    BrokerRegistrationRequest,
    Outcome,
)
from node.controller.context import Context
from node.controller.errors import ApiError, OperationError
from node.controller.operation import Operation
from node.controller.operations import PendingWrite
from node.controller.overlay.state import UNKNOWN_EPOCH
from node.controller.partition_change import is_reserved
from node.metadata.features import (
    METADATA_VERSION,
    cordons_supported,
    directories_supported,
    register_broker_version,
)
from node.metadata.image import BrokerState
from node.metadata.schemas import MetadataRecord, RegisterBrokerRecord


class BrokerControlState(Enum):
    """The states of a broker as the controller sees it (KIP-631)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


# --------------------------------------------------------------------------- registration


def register(
    ctx: Context, operation: Operation, request: BrokerRegistrationRequest, now_ms: int
) -> BrokerRegistrationReply:
    """Register a broker, fenced; the same incarnation again keeps its epoch and its state.

    Raises:
        OperationError: It may not register.
    """
    existing = ctx.overlay.broker(request.broker_id)
    _check_registration(ctx, request, existing, now_ms)
    record = registration(ctx, request, existing)
    if existing is not None and existing.incarnation == request.incarnation_id:
        ctx.sessions.heart(existing.id).registered = operation.write
        return _amend(operation, existing, record)
    previous = request.previous_broker_epoch
    # Who was never here has not stopped; there may be topics on brokers to come.
    clean = existing is None or (existing.epoch == previous and previous >= 0)
    leader_updates.shut_down(ctx, operation, request.broker_id, clean=clean)
    operation.add_at_offset(record, epoch_is_offset)
    ctx.sessions.forget(request.broker_id)
    if existing is not None:
        ctx.sessions.end((existing.id, existing.epoch))
    return BrokerRegistrationReply(write=operation.write)


def _amend(
    operation: Operation, existing: BrokerState, record: RegisterBrokerRecord
) -> BrokerRegistrationReply:
    again = msgspec.structs.replace(
        record,
        fenced=existing.fenced,
        in_controlled_shutdown=existing.in_controlled_shutdown,
    )
    leader_updates.add_about(
        operation, existing, lambda epoch: msgspec.structs.replace(again, broker_epoch=epoch)
    )
    kept = operation.overlay.registration_of(existing.id)
    return BrokerRegistrationReply(kept_epoch=existing.epoch if kept is None else kept)


def epoch_is_offset(record: MetadataRecord, offset: int) -> MetadataRecord:
    """A registration whose broker epoch is its own offset."""
    return msgspec.structs.replace(record, broker_epoch=offset)


def _check_registration(
    ctx: Context,
    request: BrokerRegistrationRequest,
    existing: BrokerState | None,
    now_ms: int,
) -> None:
    if request.cluster_id != ctx.config.cluster_id:
        raise OperationError(
            ApiError.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {ctx.config.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if request.broker_id < 0:
        raise OperationError(
            ApiError.INVALID_REGISTRATION, f"Broker ID {request.broker_id} is negative"
        )
    if request.incarnation_id is None:
        raise OperationError(ApiError.INVALID_REGISTRATION, "No incarnation ID in request")
    if (
        existing is not None
        and existing.incarnation != request.incarnation_id
        and ctx.sessions.is_valid(existing.id, existing.epoch, now_ms)
    ):
        raise OperationError(
            ApiError.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id.",
        )
    if request.is_migrating_zk_broker:
        raise OperationError(
            ApiError.BROKER_ID_NOT_REGISTERED,
            "Controller does not support registering ZK brokers.",
        )
    if directories_supported(ctx.metadata_version):
        _check_directories(ctx, request)
    _check_features(ctx, request)


def _check_directories(ctx: Context, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    problem = None
    if not directories:
        problem = "No directories specified in request"
    elif any(map(is_reserved, directories)):
        problem = "Reserved directory ID in request"
    elif len(set(directories)) != len(directories):
        problem = "Duplicate directory ID in request"
    else:
        for broker in ctx.overlay.brokers():
            shared = set(broker.log_dirs) & set(directories)
            if broker.id != request.broker_id and shared:
                problem = f"Broker {broker.id} is already registered with directory {shared.pop()}"
    if problem is not None:
        raise OperationError(ApiError.INVALID_REGISTRATION, problem)


def _check_features(ctx: Context, request: BrokerRegistrationRequest) -> None:
    """Each finalised level must lie in the broker's range; a feature not named is 0 only."""
    ranges = {f.name: f for f in request.features}
    if METADATA_VERSION not in ranges:
        raise OperationError(
            ApiError.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_VERSION}'"
        )
    levels = {**ctx.overlay.feature_levels(), METADATA_VERSION: ctx.metadata_version}
    for name, level in sorted(levels.items()):
        known = ranges.get(name)
        lowest, highest = (
            (0, 0) if known is None else (known.min_supported_version, known.max_supported_version)
        )
        if not lowest <= level <= highest:
            raise OperationError(
                ApiError.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} "
                f"of {name}. The broker wants a version between {lowest} and {highest}, inclusive.",
            )
    for name, known in ranges.items():
        if name not in levels and known.min_supported_version > 0:
            raise OperationError(
                ApiError.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version 0 of "
                f"{name}. The broker wants a version between {known.min_supported_version} and "
                f"{known.max_supported_version}, inclusive.",
            )


def registration(
    ctx: Context, request: BrokerRegistrationRequest, existing: BrokerState | None = None
) -> RegisterBrokerRecord:
    """The record of a registration, fenced, its broker epoch not known yet.

    The record keeps the cordoned directories of the registration before, for a broker tells of
    them only with its heartbeats (KIP-1066). Apache Kafka forgets them (docs/findings.md).
    """
    level = ctx.metadata_version
    cordoned = None if existing is None else existing.cordoned_log_dirs
    return RegisterBrokerRecord(
        version=register_broker_version(level),
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=UNKNOWN_EPOCH,
        end_points=request.listeners,
        features=request.features,
        rack=request.rack,
        fenced=True,
        log_dirs=request.log_dirs if directories_supported(level) else (),
        cordoned_log_dirs=cordoned if cordons_supported(level) else None,
    )


# --------------------------------------------------------------------------- heartbeats


def heartbeat(
    ctx: Context, operation: Operation, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatReply:
    """Move a broker to its next state.

    Raises:
        OperationError: STALE_BROKER_EPOCH, from an incarnation that is not the registered one.
    """
    if ctx.overlay.broker(request.broker_id) is None:
        raise not_registered(request.broker_id)
    broker = ctx.broker_at(request.broker_id, request.broker_epoch)
    heart = ctx.sessions.heart(broker.id)
    if leader_updates.is_leaving(ctx, broker.id):
        heart.metadata_offset = request.current_metadata_offset
        return BrokerHeartbeatReply(is_caught_up=_is_caught_up(ctx, request, broker))
    if heart.cleared and not broker.fenced:
        leader_updates.stay(ctx, broker.id)
    current = _current_state(ctx, broker)
    following = _next_state(ctx, request, current, broker)
    if (
        following is BrokerControlState.SHUTDOWN_NOW
        and not broker.fenced
        and not leader_updates.leaves_at_once(ctx, broker.id)
    ):
        following = BrokerControlState.FENCED  # it is let go when that is done
    if following is BrokerControlState.SHUTDOWN_NOW:
        _note_end(ctx, operation, request, current, broker)
    if following is not current:
        if following is BrokerControlState.UNFENCED:
            leader_updates.unfence(ctx, operation, broker)
        elif following is BrokerControlState.CONTROLLED_SHUTDOWN:
            heart.shutdown = _done(ctx)
            leader_updates.begin_shutdown(ctx, operation, broker, heart.let_go_after)
        elif not broker.fenced:
            leader_updates.fence(ctx, operation, broker)
    fenced = following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)
    if fenced:
        heart.shutdown = None
    if following is BrokerControlState.SHUTDOWN_NOW:
        # Kafka 4.3 lets it run out, so that who restarts at once is turned away for that long.
        ctx.sessions.end((broker.id, broker.epoch))
    heart.metadata_offset = request.current_metadata_offset
    offline = request.offline_log_dirs
    if offline:
        now = ctx.overlay.broker(broker.id) or broker
        leader_updates.directories_offline(ctx, operation, now, offline)
    if request.cordoned_log_dirs is not None:
        leader_updates.directories_cordoned(ctx, operation, broker, request.cordoned_log_dirs)
    return BrokerHeartbeatReply(
        is_caught_up=_is_caught_up(ctx, request, broker),
        is_fenced=fenced,
        should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        in_controlled_shutdown=following is BrokerControlState.CONTROLLED_SHUTDOWN,
    )


def _is_caught_up(ctx: Context, request: BrokerHeartbeatRequest, broker: BrokerState) -> bool:
    """Tell whether a broker has read its registration; the first one's offset is its epoch."""
    again = ctx.sessions.heart(broker.id).registered
    if again is not None and (
        again.last_offset is None or request.current_metadata_offset < again.last_offset
    ):
        return False
    return request.current_metadata_offset >= broker.epoch


def _current_state(ctx: Context, broker: BrokerState) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    if ctx.sessions.is_shutting_down(broker.id):
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.UNFENCED


def _next_state(
    ctx: Context,
    request: BrokerHeartbeatRequest,
    current: BrokerControlState,
    broker: BrokerState,
) -> BrokerControlState:
    if current is BrokerControlState.FENCED:
        if request.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        if not request.want_fence and _is_caught_up(ctx, request, broker):
            return BrokerControlState.UNFENCED
        return current
    if current is BrokerControlState.UNFENCED:
        if request.want_fence:
            down = request.want_shut_down
            return BrokerControlState.SHUTDOWN_NOW if down else BrokerControlState.FENCED
        if not request.want_shut_down:
            return current
        if ctx.overlay.partitions.leads(broker.id):
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.SHUTDOWN_NOW
    return _end_of_shutdown(ctx, broker)


def _done(ctx: Context) -> PendingWrite:
    """Give a write without records, which is done when all that there is now is committed."""
    return PendingWrite(0, ctx.overlay.image.end_offset - 1)


def _end_of_shutdown(ctx: Context, broker: BrokerState) -> BrokerControlState:
    """A broker may stop when it leads nothing and all active brokers have heard of that."""
    shutdown = ctx.sessions.heart(broker.id).shutdown
    assert shutdown is not None, broker  # noqa: S101 - that is what the state says
    offset = shutdown.last_offset
    if offset is None or leader_updates.is_stopping(ctx, broker.id):
        return BrokerControlState.CONTROLLED_SHUTDOWN
    if ctx.overlay.partitions.leads(broker.id):
        return BrokerControlState.CONTROLLED_SHUTDOWN
    active = ctx.sessions.active_offsets(ctx.overlay.brokers())
    if all(known >= offset for known in active.values()):
        return BrokerControlState.SHUTDOWN_NOW
    return BrokerControlState.CONTROLLED_SHUTDOWN


def _note_end(
    ctx: Context,
    operation: Operation,
    request: BrokerHeartbeatRequest,
    was: BrokerControlState,
    broker: BrokerState,
) -> None:
    """Trace that a broker is told to stop, and what that was decided on."""
    shutdown = ctx.sessions.heart(broker.id).shutdown
    active = ctx.sessions.active_offsets(ctx.overlay.brokers())
    operation.note(
        "let_go",
        broker=broker.id,
        b_ep=broker.epoch,
        was=was.value,
        want_fence=request.want_fence,
        leads=ctx.overlay.partitions.leads(broker.id),
        need=None if shutdown is None else shutdown.last_offset,
        active=sorted(active.items()),
    )


def unregister(ctx: Context, operation: Operation, broker_id: int) -> Outcome:
    """Forget a broker; raises OperationError(BROKER_ID_NOT_REGISTERED)."""
    broker = ctx.overlay.broker(broker_id)
    if broker is None:
        raise not_registered(broker_id)
    leader_updates.unregister(ctx, operation, broker)
    ctx.sessions.forget(broker_id)
    ctx.sessions.end((broker_id, broker.epoch))
    return Outcome()


def not_registered(broker_id: int) -> OperationError:
    """The refusal of a broker id that nobody has registered."""
    return OperationError(
        ApiError.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
    )


def expire_one(ctx: Context, operation: Operation, now_ms: int) -> int | None:
    """Fence the broker in service that was silent the longest, if its session is over; its id.

    One at a time, so that each is dealt with in a cluster that knows of those before it.
    """
    for key in ctx.sessions.expired(now_ms):
        silent_ms = ctx.sessions.silent_ms(key, now_ms)
        ctx.sessions.end(key)
        broker = ctx.overlay.broker(key[0])
        if broker is None or broker.epoch != key[1] or leader_updates.is_leaving(ctx, broker.id):
            continue
        if not broker.fenced:
            note = partial(
                Operation.note,
                type_="expire",
                broker=broker.id,
                b_ep=broker.epoch,
                silent_ms=silent_ms,
                session_ms=ctx.sessions.timeout_ms,
            )
            leader_updates.fence(ctx, operation, broker, note)
            ctx.sessions.heart(broker.id).shutdown = None
            return broker.id
    return None
