"""Kafka's admin requests on a node: what clients ask of the controller and of brokers.

A controller answers writes when it is the active one and its records are committed; reads behind
the read barrier when ``read.barrier`` is on, else from its own image. A broker answers reads from
its own image, which may be behind, and refuses writes. Source: KIP-919 (admin requests on
controllers), KIP-339, KIP-700. Metadata on a controller is an extension of ours, so that a topic
can be read linearizably.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from node.controller.controller import QuorumController
from node.controller.errors import ApiError
from node.controller.operations import (
    AlterResource,
    ConfigChange,
    ConfigDescription,
    ControllerResult,
    NewTopic,
    TopicDescription,
    TopicRef,
)
from node.driver.held import HeldRead, HeldWrite
from node.driver.node import Node
from node.metadata.image import BROKER
from node.wire.api import ApiKey
from node.wire.errors import LocalProtocolError
from node.wire.payloads import api_schema
from node.wire.server import InboundRequest
from node.wire.structs import build, knows

# A client may rely on these words: with them, NOT_CONTROLLER means that nothing was written.
NOTHING_WRITTEN = "not the active controller; nothing was written"
OUTCOME_UNKNOWN = "leadership was lost before the commit; the operation may still take effect"

NO_THROTTLE = i32Timedelta.parse(timedelta(0))
TOPIC_CONFIG_SOURCE = 1  # DYNAMIC_TOPIC_CONFIG
BROKER_CONFIG_SOURCE = 2  # DYNAMIC_BROKER_CONFIG
NO_ID = -1
AUTHORIZED_OPERATIONS_OMITTED = -(2**31)
MESSAGE_CHARS_MAX = 1000  # a refusal quotes what was asked, which may fill its own field

Refusal = tuple[ApiError, str]
Encode = Callable[[Refusal | None], Any]


class Admin:
    """Answers admin requests of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._image = node.machine.image
        # reads of committed state need no leadership, so brokers use the same code
        self._reader = node.controller or QuorumController(rng=node.rng, image=self._image)
        self._handlers: Mapping[int, Callable[[InboundRequest], None]] = {
            ApiKey.METADATA: self._metadata,
            ApiKey.CREATE_TOPICS: self._create_topics,
            ApiKey.DELETE_TOPICS: self._delete_topics,
            ApiKey.DESCRIBE_CONFIGS: self._describe_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_configs,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
        }

    def handles(self, api_key: int) -> bool:
        """Whether requests of that key are for us."""
        return api_key in self._handlers

    def handle(self, request: InboundRequest) -> None:
        """Answer a request, now or when what it waits for has happened."""
        self._handlers[request.api_key](request)

    # ------------------------------------------------------------------ writes

    def _alter_configs(self, request: InboundRequest) -> None:
        resources = [
            AlterResource(
                int(r.resource_type),
                r.resource_name,
                tuple(ConfigChange(c.name, int(c.config_operation), c.value) for c in r.configs),
            )
            for r in request.body.resources
        ]

        def encode(result: ControllerResult[Any] | None, refusal: Refusal | None) -> Any:
            response = api_schema(request.api_key, request.version).response
            rows = resources if result is None or refusal else result.reply
            return build(
                response,
                "IncrementalAlterConfigsResponse",
                throttle_time=NO_THROTTLE,
                responses=tuple(
                    build(
                        response,
                        "AlterConfigsResourceResponse",
                        resource_type=row.resource_type,
                        resource_name=row.resource_name,
                        **_error(row, refusal),
                    )
                    for row in rows
                ),
            )

        self._write(
            request,
            "IncrementalAlterConfigs",
            lambda c: c.alter_configs(resources, validate_only=request.body.validate_only),
            encode,
        )

    def _create_topics(self, request: InboundRequest) -> None:
        topics = [
            NewTopic(
                name=t.name,
                partitions=int(t.num_partitions),
                replication_factor=int(t.replication_factor),
                assignments={
                    int(a.partition_index): tuple(map(int, a.broker_ids)) for a in t.assignments
                },
                configs={c.name: c.value for c in t.configs},
            )
            for t in request.body.topics
        ]

        def encode(result: ControllerResult[Any] | None, refusal: Refusal | None) -> Any:
            response = api_schema(request.api_key, request.version).response
            if result is None or refusal:
                rows = [
                    build(
                        response,
                        "CreatableTopicResult",
                        name=t.name,
                        topic_id=None,
                        configs=None,
                        **_error(t, refusal),
                    )
                    for t in topics
                ]
            else:
                rows = [
                    build(
                        response,
                        "CreatableTopicResult",
                        name=row.name,
                        topic_id=row.topic_id,
                        num_partitions=row.partitions,
                        replication_factor=row.replication_factor,
                        configs=_created_configs(response, row.configs),
                        **_error(row, None),
                    )
                    for row in result.reply
                ]
            return build(
                response, "CreateTopicsResponse", throttle_time=NO_THROTTLE, topics=tuple(rows)
            )

        self._write(
            request,
            "CreateTopics",
            lambda c: c.create_topics(topics, validate_only=request.body.validate_only),
            encode,
        )

    def _delete_topics(self, request: InboundRequest) -> None:
        body = request.body
        if hasattr(body, "topics"):
            topics = [TopicRef(t.name, t.topic_id) for t in body.topics]
        else:
            topics = [TopicRef(name) for name in body.topic_names]

        def encode(result: ControllerResult[Any] | None, refusal: Refusal | None) -> Any:
            response = api_schema(request.api_key, request.version).response
            if result is None or refusal:
                rows = [(t.name, t.id, _error(t, refusal)) for t in topics]
            else:
                rows = [(r.name, r.topic_id, _error(r, None)) for r in result.reply]
            return build(
                response,
                "DeleteTopicsResponse",
                throttle_time=NO_THROTTLE,
                responses=tuple(
                    build(response, "DeletableTopicResult", name=name, topic_id=topic_id, **error)
                    for name, topic_id, error in rows
                ),
            )

        self._write(request, "DeleteTopics", lambda c: c.delete_topics(topics), encode)

    def _write(
        self,
        request: InboundRequest,
        api: str,
        operate: Callable[[QuorumController], ControllerResult[Any]],
        encode: Callable[[ControllerResult[Any] | None, Refusal | None], Any],
    ) -> None:
        def refused() -> None:
            _answer(request, encode(None, (ApiError.NOT_CONTROLLER, NOTHING_WRITTEN)))

        def abandoned() -> None:
            _answer(request, encode(None, (ApiError.NOT_CONTROLLER, OUTCOME_UNKNOWN)))

        controller = self._node.controller
        if controller is None or not controller.active:
            self._node.later(refused)
            return
        result = operate(controller)

        def done() -> None:
            _answer(request, encode(result, None))

        if result.entries:
            self._node.propose(result.entries, HeldWrite(api, done, refused, abandoned))
            return

        # With nothing to write the answer is a look at the state ("exists already"), which would
        # be stale at a leader that was replaced unawares: it is held to what reads are held to.
        def look() -> None:
            self._node.read(HeldRead(api, done, refused))

        settled = look if self._node.config.read_barrier else done
        self._node.propose((), HeldWrite(api, settled, refused, refused))

    # ------------------------------------------------------------------ reads

    def _describe_configs(self, request: InboundRequest) -> None:
        def encode(refusal: Refusal | None) -> Any:
            response = api_schema(request.api_key, request.version).response
            rows = []
            for resource in request.body.resources:
                key = (int(resource.resource_type), resource.resource_name)
                row = (
                    self._reader.describe_configs(key, resource.configuration_keys)
                    if refusal is None
                    else ConfigDescription(*key)
                )
                rows.append(
                    build(
                        response,
                        "DescribeConfigsResult",
                        resource_type=row.resource_type,
                        resource_name=row.resource_name,
                        configs=_configs(response, row),
                        **_error(row, refusal),
                    )
                )
            return build(
                response,
                "DescribeConfigsResponse",
                throttle_time=NO_THROTTLE,
                results=tuple(rows),
            )

        self._read(request, "DescribeConfigs", encode)

    def _metadata(self, request: InboundRequest) -> None:
        asked = request.body.topics
        # an empty list means "all topics" in version 0 and "none" since
        if asked is None or (request.version == 0 and not asked):
            refs = None
        else:
            # a version that has both fields sends the name, or a null name with the id
            refs = [_topic_ref(topic) for topic in asked]

        def encode(refusal: Refusal | None) -> Any:
            response = api_schema(request.api_key, request.version).response
            topics = self._reader.describe_topics(refs) if refusal is None else ()
            return build(
                response,
                "MetadataResponse",
                throttle_time=NO_THROTTLE,
                brokers=self._brokers(response, "MetadataResponseBroker", "node_id"),
                cluster_id=self._node.storage.cluster_id,
                controller_id=self._controller_id(),
                topics=tuple(_topic(response, topic) for topic in topics),
                cluster_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
                error_code=_code(refusal[0] if refusal else ApiError.NONE),
            )

        self._read(request, "Metadata", encode)

    def _describe_cluster(self, request: InboundRequest) -> None:
        response = api_schema(request.api_key, request.version).response
        entity = build(
            response,
            "DescribeClusterResponse",
            throttle_time=NO_THROTTLE,
            error_code=_code(ApiError.NONE),
            error_message=None,
            endpoint_type=getattr(request.body, "endpoint_type", 1),
            cluster_id=self._node.storage.cluster_id,
            controller_id=self._controller_id(),
            brokers=self._brokers(response, "DescribeClusterBroker", "broker_id"),
            cluster_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
        )
        self._node.later(lambda: _answer(request, entity))

    def _read(self, request: InboundRequest, api: str, encode: Encode) -> None:
        node = self._node

        def done() -> None:
            entity = encode(None)
            node.later(lambda: _answer(request, entity))

        def refused() -> None:
            _answer(request, encode((ApiError.NOT_CONTROLLER, NOTHING_WRITTEN)))

        if node.controller is not None and node.config.read_barrier:
            node.read(HeldRead(api=api, done=done, refused=refused))
            return
        node.trace("read", api=api, off=node.machine.applied)
        done()

    def _controller_id(self) -> int:
        leader = self._node.replica.leader_id
        return NO_ID if leader is None else leader

    def _brokers(self, response: Any, struct: str, id_field: str) -> tuple[Any, ...]:
        """The voters on a controller, else this node: brokers do not register (yet)."""
        config = self._node.config
        if config.is_controller:
            rows = [(v.key.id, v.endpoint) for v in config.voters]
        else:
            rows = [(config.node_id, config.advertised)]
        return tuple(
            build(
                response,
                struct,
                **{id_field: node_id},
                host=endpoint.host,
                port=endpoint.port,
                rack=None,
                is_fenced=False,
            )
            for node_id, endpoint in rows
        )


def _answer(request: InboundRequest, entity: Any) -> None:
    """Reply; a request so odd that its answer does not fit the protocol ends its connection."""
    try:
        request.reply(entity)
    except LocalProtocolError as error:
        request.reject(f"its answer cannot be encoded: {error}")


def _topic_ref(topic: Any) -> TopicRef:
    if topic.name is not None:
        return TopicRef(name=topic.name)
    return TopicRef(id=topic.topic_id)


def _code(error: ApiError) -> Any:
    return ErrorCode(int(error))


def _error(row: Any, refusal: Refusal | None) -> dict[str, Any]:
    """The error fields of a result row; a refusal of the whole request goes before its own."""
    error, message = refusal if refusal else (row.error, row.message)
    text = None if message is None else message[:MESSAGE_CHARS_MAX]
    return {"error_code": _code(error), "error_message": text}


def _created_configs(response: Any, configs: Mapping[str, str]) -> tuple[Any, ...] | None:
    if not knows(response, "CreatableTopicResult", "configs"):
        return None
    return tuple(
        build(
            response,
            "CreatableTopicConfigs",
            name=name,
            value=value,
            read_only=False,
            config_source=TOPIC_CONFIG_SOURCE,
            is_sensitive=False,
        )
        for name, value in sorted(configs.items())
    )


def _configs(response: Any, row: ConfigDescription) -> tuple[Any, ...]:
    source = BROKER_CONFIG_SOURCE if row.resource_type == BROKER else TOPIC_CONFIG_SOURCE
    return tuple(
        build(
            response,
            "DescribeConfigsResourceResult",
            name=name,
            value=value,
            read_only=False,
            config_source=source,
            is_sensitive=False,
            synonyms=(),
            config_type=0,
            documentation=None,
        )
        for name, value in sorted(row.configs.items())
    )


def _topic(response: Any, topic: TopicDescription) -> Any:
    return build(
        response,
        "MetadataResponseTopic",
        error_code=_code(topic.error),
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=False,
        partitions=tuple(
            build(
                response,
                "MetadataResponsePartition",
                error_code=_code(ApiError.NONE),
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                offline_replicas=(),
            )
            for index, state in sorted(topic.partitions.items())
        ),
        topic_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
    )
