"""AlterConfigs, old and incremental: the records that the changes of one resource come to.

Source: KIP-339 and Kafka's ConfigurationControlManager; KIP-966 (min.insync.replicas).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from node.controller.config_schema import check_setting, is_list, list_default, split_list
from node.controller.context import MIN_ISR, Context
from node.controller.errors import ApiError, OperationError
from node.controller.names import check_name
from node.controller.operation import Operation
from node.controller.operations import AlterResource, ConfigChange, ConfigOp, ReplaceResource
from node.controller.overlay.partitions import PartitionKey
from node.metadata.features import partition_version
from node.metadata.image import BROKER, NO_LEADER, TOPIC, ConfigResource
from node.metadata.schemas import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)

MAX_VALUE_BYTES = 32767
KEPT_MAX = 5_000  # partitions in one batch, beside settings


def alter(ctx: Context, operation: Operation, request: AlterResource) -> None:
    """Change some settings of a resource.

    Raises:
        OperationError: The resource is refused as a whole.
    """
    resource = (request.resource_type, request.resource_name)
    asked: dict[str, str | None] = {}
    for change in request.changes:
        if change.name in asked:
            raise OperationError(ApiError.INVALID_REQUEST, "Error due to duplicate config keys")
        old = ctx.overlay.setting(resource, change.name)
        asked[change.name] = _new_value(request.resource_type, change, old)
    check_resource(resource)
    for name, new in asked.items():
        if new is not None:  # any setting may be removed, also one that there is not
            check_setting(request.resource_type, name, new)
    # A broker's setting is written even when it is not new: it may be how a broker is told to
    # read a changed file again (KAFKA-14136).
    settings = {
        name: new
        for name, new in asked.items()
        if new != ctx.overlay.setting(resource, name) or request.resource_type == BROKER
    }
    _check_min_isr(ctx, resource, settings)
    _check_exists(ctx, resource)
    _write(ctx, operation, resource, settings)


def replace(ctx: Context, operation: Operation, request: ReplaceResource) -> None:
    """Give a resource these settings, and no others.

    Raises:
        OperationError: The resource is refused as a whole.
    """
    resource = (request.resource_type, request.resource_name)
    check_resource(resource)
    old = ctx.overlay.settings(resource)
    settings: dict[str, str | None] = {}
    for name, value in request.configs.items():
        if value is None:
            raise OperationError(ApiError.INVALID_REQUEST, f"Null value not supported for : {name}")
        check_size(value)
        check_setting(request.resource_type, name, value)
        if value != old.get(name) or request.resource_type == BROKER:
            settings[name] = value
    settings |= dict.fromkeys(sorted(old.keys() - request.configs.keys()))
    _check_min_isr(ctx, resource, settings)
    _check_exists(ctx, resource)
    _write(ctx, operation, resource, settings)


def _write(
    ctx: Context,
    operation: Operation,
    resource: ConfigResource,
    settings: Mapping[str, str | None],
) -> None:
    type_, name = resource
    records: list[MetadataRecord] = [
        ConfigRecord(resource_type=type_, resource_name=name, name=key, value=value)
        for key, value in settings.items()
    ]
    if ctx.elr_enabled and MIN_ISR in settings:
        # who was eligible by the old minimum need not be so by the new one
        records.append(ClearElrRecord(topic_name=name if type_ == TOPIC else ""))
        records += kept_candidates(ctx, resource)
    operation.add(*records)


def kept_candidates(ctx: Context, resource: ConfigResource) -> list[MetadataRecord]:
    """Keep who may lead a partition that nobody leads: there no minimum has acknowledged anything.

    Kafka forgets them, so that nobody may lead such a partition any more: docs/findings.md.

    Raises:
        OperationError: POLICY_VIOLATION, as there are too many for one batch.
    """
    overlay, records = ctx.overlay, list[MetadataRecord]()
    for topic_id, index in _leaderless(ctx, resource):
        state = overlay.partition(topic_id, index)
        if state is None or not (state.eligible_leaders or state.last_known_leaders):
            continue
        if len(records) == KEPT_MAX:
            raise OperationError(
                ApiError.POLICY_VIOLATION,
                f"More than {KEPT_MAX} partitions have no leader: {MIN_ISR} can be set when their "
                "brokers are back.",
            )
        records.append(
            PartitionChangeRecord(
                version=partition_version(ctx.metadata_version),
                topic_id=topic_id,
                partition_id=index,
                eligible_leader_replicas=state.eligible_leaders,
                last_known_elr=state.last_known_leaders,
            )
        )
    return records


def _leaderless(ctx: Context, resource: ConfigResource) -> Iterable[PartitionKey]:
    """The partitions without a leader, of a topic or of the cluster."""
    overlay, partitions = ctx.overlay, ctx.overlay.partitions
    if resource[0] != TOPIC:
        return partitions.leaderless()
    topic_id = overlay.topic_id(resource[1])
    if topic_id is None:
        return ()
    pending = {index for topic, index in partitions.pending_leaderless() if topic == topic_id}
    found = sorted(pending.union(overlay.image.leaderless_in(topic_id)))
    keys = [(topic_id, index) for index in found]
    return [key for key in keys if (now := partitions.get(key)) and now.leader == NO_LEADER]


def _check_min_isr(
    ctx: Context, resource: ConfigResource, settings: Mapping[str, str | None]
) -> None:
    if not ctx.elr_enabled or MIN_ISR not in settings or resource[0] != BROKER:
        return
    if resource[1]:
        raise OperationError(
            ApiError.INVALID_CONFIG,
            f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
        )
    if settings[MIN_ISR] is None:
        raise OperationError(
            ApiError.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
        )


def _check_exists(ctx: Context, resource: ConfigResource) -> None:
    """Check that a resource is there, once all else about it is right, as Kafka does."""
    type_, name = resource
    if type_ == TOPIC and ctx.overlay.topic_id(name) is None:
        raise unknown_topic(name)
    if type_ == BROKER and name and not _is_node(ctx, int(name)):
        raise OperationError(ApiError.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")


def _is_node(ctx: Context, node_id: int) -> bool:
    """Tell whether there is such a broker or controller."""
    config, overlay = ctx.config, ctx.overlay
    if overlay.broker(node_id) is not None or node_id in config.voter_ids:
        return True
    if any(controller.id == node_id for controller in overlay.controllers()):
        return True
    return config.static_broker_ids is not None and not overlay.has_brokers()


def check_resource(resource: ConfigResource) -> None:
    """Check type and form of a resource; raises OperationError(INVALID_REQUEST)."""
    type_, name = resource
    if type_ == TOPIC:
        if not name:
            raise OperationError(
                ApiError.INVALID_REQUEST, "Default topic resources are not allowed."
            )
        check_name(name)
    elif type_ == BROKER:
        if name and not (name.isascii() and name.isdecimal()):
            raise OperationError(
                ApiError.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
            )
    else:
        raise OperationError(ApiError.INVALID_REQUEST, f"Unsupported resource type {type_}")


def unknown_topic(name: str) -> OperationError:
    """The refusal of a topic that does not exist."""
    return OperationError(
        ApiError.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
    )


def check_size(value: str) -> None:
    """Check the length of a value; raises OperationError(INVALID_CONFIG)."""
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise OperationError(
            ApiError.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size "
            f"of {MAX_VALUE_BYTES} bytes.",
        )


def _new_value(kind: int, change: ConfigChange, old: str | None) -> str | None:
    if change.op == ConfigOp.DELETE:
        return None
    if change.op not in (ConfigOp.SET, ConfigOp.APPEND, ConfigOp.SUBTRACT):
        raise OperationError(
            ApiError.INVALID_REQUEST, f"Unknown operation type {change.op} for {change.name}"
        )
    if change.op != ConfigOp.SET and not is_list(kind, change.name):
        verb = ConfigOp(change.op).name
        raise OperationError(
            ApiError.INVALID_CONFIG,
            f"Can't {verb} to key {change.name} because its type is not LIST.",
        )
    if change.value is None:
        raise OperationError(
            ApiError.INVALID_REQUEST, f"Null value not supported for : {change.name}"
        )
    new = change.value if change.op == ConfigOp.SET else _new_list(change, change.value, old)
    check_size(new)
    return new


def _new_list(change: ConfigChange, value: str, old: str | None) -> str:
    """The list after APPEND, which adds only what is not there yet, or SUBTRACT."""
    items = split_list(list_default(change.name) if old is None else old)
    if change.op == ConfigOp.SUBTRACT:
        removed = set(split_list(value))
        return ",".join([item for item in items if item not in removed])
    return ",".join(dict.fromkeys([*items, *split_list(value)]))
