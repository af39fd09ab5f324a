"""IncrementalAlterConfigs: the records that the changes of one resource come to.

Source: KIP-339 and Kafka's ConfigurationControlManager.
"""

from __future__ import annotations

from node.controller.config_schema import check_setting, is_list, list_default, split_list
from node.controller.errors import ApiError, OperationError
from node.controller.operations import AlterResource, ConfigChange, ConfigOp
from node.controller.overlay import Overlay
from node.metadata.image import BROKER, TOPIC, ConfigResource

MAX_VALUE_BYTES = 32767

NewSettings = dict[str, str | None]


def alter_resource(overlay: Overlay, alter: AlterResource) -> NewSettings:
    """The settings to write, None = to remove; without those that stay as they are.

    Raises:
        OperationError: The resource is refused as a whole.
    """
    resource = (alter.resource_type, alter.resource_name)
    check_resource(resource)
    if alter.resource_type == TOPIC and overlay.topic_id(alter.resource_name) is None:
        raise unknown_topic(alter.resource_name)
    settings: NewSettings = {}
    seen: set[str] = set()
    for change in alter.changes:
        if change.name in seen:
            raise OperationError(ApiError.INVALID_REQUEST, "Error due to duplicate config keys")
        seen.add(change.name)
        old = overlay.setting(resource, change.name)
        new = _new_value(change, old)
        check_setting(alter.resource_type, change.name, new)
        # A broker's setting is written even when it is not new: it may be how a broker is told to
        # read a changed file again (KAFKA-14136).
        if new != old or alter.resource_type == BROKER:
            settings[change.name] = new
    return settings


def check_resource(resource: ConfigResource) -> None:
    """Check type and form of a resource; raises OperationError(INVALID_REQUEST)."""
    type_, name = resource
    if type_ == TOPIC:
        if not name:
            raise OperationError(
                ApiError.INVALID_REQUEST, "Default topic resources are not allowed."
            )
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


def _new_value(change: ConfigChange, old: str | None) -> str | None:
    if change.op == ConfigOp.DELETE:
        return None
    if change.op not in (ConfigOp.SET, ConfigOp.APPEND, ConfigOp.SUBTRACT):
        raise OperationError(
            ApiError.INVALID_REQUEST, f"Unknown operation type {change.op} for {change.name}"
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
    if not is_list(change.name):
        verb = ConfigOp(change.op).name
        raise OperationError(
            ApiError.INVALID_CONFIG,
            f"Can't {verb} to key {change.name} because its type is not LIST.",
        )
    items = split_list(list_default(change.name) if old is None else old)
    if change.op == ConfigOp.SUBTRACT:
        removed = set(split_list(value))
        return ",".join([item for item in items if item not in removed])
    return ",".join(dict.fromkeys([*items, *split_list(value)]))
