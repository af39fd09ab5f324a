"""Metadata (3): brokers, topics, their partitions, and who has them.

On a controller Metadata is an extension of ours, so that a topic can be read linearizably; it then
names the controllers, and tells partitions as they are in the log.

Source: KIP-516 (topic ids); Kafka's KRaftMetadataCache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from node.controller.broker_operations import ClusterBroker
from node.controller.errors import ApiError
from node.controller.operations import TopicDescription, TopicRef
from node.driver.apis.call import Call
from node.driver.apis.fields import (
    AUTHORIZED_OPERATIONS_OMITTED,
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    code,
)
from node.driver.apis.partition_view import INTERNAL_TOPICS, View
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.metadata.image import NO_LEADER, PartitionState
from node.wire.api import ApiKey

_NO_ERROR: Final = 0
_LEADER_NOT_AVAILABLE: Final = 5
_REPLICA_NOT_AVAILABLE: Final = 9
_LISTENER_NOT_FOUND: Final = 72
_FIRST_WITHOUT_REPLICA_ERRORS: Final = 1
_FIRST_WITH_LISTENER_ERRORS: Final = 6


@dataclass(frozen=True, slots=True)
class _Seen:
    """The result of one look at the image."""

    topics: Sequence[TopicDescription] = ()
    nodes: tuple[ClusterBroker, ...] = ()
    error: ApiError = ApiError.NONE


@serves(ApiKey.METADATA, Listener.CONTROLLER, only_if=lambda config: config.read_barrier)
@serves(ApiKey.METADATA, Listener.BROKER)
def metadata(serving: Serving, call: Call) -> None:
    """All topics or some, by name or by id."""
    asked = call.body.topics
    # an empty list means "all topics" in version 0 and "none" since
    if asked is None or (call.version == 0 and not asked):
        refs = None
    else:
        # a version that has both fields sends the name, or a null name with the id
        refs = [_ref(topic) for topic in asked]

    def look() -> _Seen:
        nodes = serving.controllers() if serving.is_controller else serving.brokers()
        return _Seen(serving.reader.describe_topics(refs), nodes)

    def refused(error: ApiError, _: str) -> _Seen:
        if call.knows(None, "error_code"):
            return _Seen(error=error)
        # Versions that cannot say so: each topic has the error, and that there are no brokers
        # tells clients to ask elsewhere.
        return _Seen([TopicDescription(ref.name, ref.id, error) for ref in refs or ()])

    serving.read(call, look, refused, lambda seen: _metadata(serving, call, seen))


def _ref(topic: Any) -> TopicRef:
    return TopicRef(id=topic.topic_id) if topic.name is None else TopicRef(name=topic.name)


def _metadata(serving: Serving, call: Call, seen: _Seen) -> Any:
    if serving.is_controller:
        controller_id = serving.controller_id
    else:
        controller_id = serving.some_broker([node.id for node in seen.nodes])
    wants_cluster = getattr(call.body, "include_cluster_authorized_operations", False)
    return call.struct(
        brokers=tuple(
            [
                call.struct(
                    "MetadataResponseBroker",
                    node_id=node.id,
                    host=node.host,
                    port=node.port,
                    rack=node.rack,
                )
                for node in seen.nodes
            ]
        ),
        cluster_id=serving.node.storage.cluster_id,
        controller_id=controller_id,
        topics=tuple([_topic(serving, call, topic) for topic in seen.topics]),
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if wants_cluster
        else AUTHORIZED_OPERATIONS_OMITTED,
        error_code=code(seen.error),
    )


def _topic(serving: Serving, call: Call, topic: TopicDescription) -> Any:
    wants = getattr(call.body, "include_topic_authorized_operations", False)
    return call.struct(
        "MetadataResponseTopic",
        error_code=code(topic.error),
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            [
                _partition(serving, call, index, state)
                for index, state in sorted(topic.partitions.items())
            ]
        ),
        topic_authorized_operations=TOPIC_OPERATIONS if wants else AUTHORIZED_OPERATIONS_OMITTED,
    )


def _partition(serving: Serving, call: Call, index: int, state: PartitionState) -> Any:
    view = View.of(serving, state)
    replicas, isr = state.replicas, state.isr
    if call.version < _FIRST_WITHOUT_REPLICA_ERRORS:
        replicas = tuple([id_ for id_ in replicas if id_ not in view.unreachable])
        isr = tuple([id_ for id_ in isr if id_ not in view.unreachable])
    if view.leader == NO_LEADER and view.cares:
        registered = state.leader in serving.node.machine.image.brokers
        named = registered and call.version >= _FIRST_WITH_LISTENER_ERRORS
        error = _LISTENER_NOT_FOUND if named else _LEADER_NOT_AVAILABLE
    elif (replicas, isr) != (state.replicas, state.isr):
        error = _REPLICA_NOT_AVAILABLE
    else:
        error = _NO_ERROR
    return call.struct(
        "MetadataResponsePartition",
        error_code=code(error),
        partition_index=index,
        leader_id=view.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline,
    )
