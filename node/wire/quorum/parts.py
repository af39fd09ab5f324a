"""The parts that all quorum messages share: the one partition, leaders, endpoints, errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from node.core.messages import Error
from node.core.types import Endpoint, Listener, ReplicaKey
from node.wire.errors import RemoteProtocolError, ValidationFailure
from node.wire.structs import build, knows

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0
LISTENER_NAME: Final = "CONTROLLER"  # where controller.listener.names says nothing else
PORT_MAX: Final = 2**16 - 1
UNKNOWN: Final = -1  # Kafka's "none" for ids, epochs, offsets and times
EPOCH_NOT_SAID: Final = -1  # of a response that carries nothing but a top-level error


def asked_partition(topics: Any) -> Any:
    """The metadata partition's data in a request.

    Raises:
        ValidationFailure: The request is about anything else, or more (Kafka error 42).
    """
    partition = _only_partition(topics)
    if partition is None:
        raise ValidationFailure(
            int(Error.INVALID_REQUEST),
            f"want exactly {METADATA_TOPIC}-{METADATA_PARTITION}, got {_names(topics)}",
        )
    return partition


def answered_partition(response: Any, topics: Any) -> Any | None:
    """The metadata partition's data in a response, None when only a top-level error came.

    Raises:
        RemoteProtocolError: It is about another partition, or says nothing at all.
    """
    partition = _only_partition(topics)
    if partition is None and (topics or response.error_code is ErrorCode.none):
        raise RemoteProtocolError(
            f"{type(response).__name__} is about {_names(topics)}, "
            f"not {METADATA_TOPIC}-{METADATA_PARTITION}"
        )
    return partition


def error_of(code: ErrorCode) -> Error:
    """The core's name of a Kafka error; one that the quorum does not speak is "unknown"."""
    try:
        return Error(code.value)
    except ValueError:
        return Error.UNKNOWN_SERVER_ERROR


def code_of(error: Error) -> ErrorCode:
    """Kio's name of a Kafka error."""
    return ErrorCode(int(error))


def is_top_level(error: Error) -> bool:
    """Tell whether Kafka reports this error for the whole request, without any partition."""
    return error is Error.INCONSISTENT_CLUSTER_ID


def known(value: int) -> int | None:
    """Return the value, or None for Kafka's -1."""
    return None if value == UNKNOWN else value


def or_unknown(value: int | None) -> int:
    """Kafka's -1 for None."""
    return UNKNOWN if value is None else value


def replica_key(replica_id: int, directory_id: UUID | None) -> ReplicaKey | None:
    """The key, None when the id is Kafka's -1."""
    return None if replica_id == UNKNOWN else ReplicaKey(replica_id, directory_id)


def node_endpoints(payload: type, leader_id: int | None, endpoint: Endpoint | None) -> Any:
    """The ``node_endpoints`` of a response: the leader's or none."""
    if leader_id is None or endpoint is None or not knows(payload, None, "node_endpoints"):
        return ()
    node = build(payload, "NodeEndpoint", node_id=leader_id, host=endpoint.host, port=endpoint.port)
    return (node,)


def leader_endpoint(response: Any, leader_id: int | None) -> Endpoint | None:
    """The leader's address in a response; None where there is none (or no such field).

    Raises:
        RemoteProtocolError: The port is none (in Fetch it is a signed 32-bit number).
    """
    for node in getattr(response, "node_endpoints", ()):
        if node.node_id == leader_id:
            if not 0 <= node.port <= PORT_MAX:
                raise RemoteProtocolError(f"leader {leader_id} is said to be at port {node.port}")
            return Endpoint(node.host, node.port)
    return None


def leader_endpoints(payload: type, endpoint: Endpoint | None, listener_name: str) -> Any:
    """The ``leader_endpoints`` of a request."""
    if endpoint is None or not knows(payload, None, "leader_endpoints"):
        return ()
    struct = build(
        payload, "LeaderEndpoint", name=listener_name, host=endpoint.host, port=endpoint.port
    )
    return (struct,)


def announced_endpoint(request: Any, listener_name: str) -> Endpoint | None:
    """The address in ``leader_endpoints``: that of the named listener, else the first."""
    found = None
    for leader in getattr(request, "leader_endpoints", ()):
        if found is None or leader.name == listener_name:
            found = Endpoint(leader.host, leader.port)
    return found


def listeners_to_wire(payload: type, listeners: Iterable[Listener]) -> Any:
    """The ``listeners`` of a voter."""
    return tuple(
        build(
            payload,
            "Listener",
            name=listener.name,
            host=listener.endpoint.host,
            port=listener.endpoint.port,
        )
        for listener in listeners
    )


def _only_partition(topics: Any) -> Any | None:
    if len(topics) != 1 or not _is_metadata(topics[0]) or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if _index(partition) == METADATA_PARTITION else None


def _is_metadata(topic: Any) -> bool:
    return _label(topic) in (METADATA_TOPIC, METADATA_TOPIC_ID)


def _label(topic: Any) -> Any:
    """A topic's name, or its id where the version has only that (None = zero)."""
    for field in ("topic_name", "topic", "name"):
        if hasattr(topic, field):
            return getattr(topic, field)
    return topic.topic_id


def _index(partition: Any) -> int:
    for field in ("partition_index", "index"):
        if hasattr(partition, field):
            return int(getattr(partition, field))
    return int(partition.partition)


def _names(topics: Any) -> str:
    if not topics:
        return "no topic"
    first = topics[0]
    return (
        f"{len(topics)} topics, the first {_label(first)} "
        f"with partitions {[_index(p) for p in first.partitions[:3]]}"
    )
