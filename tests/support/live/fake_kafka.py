"""Kafka nodes on loopback that answer what a test scripted, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.contracts.environment import Address
from harness.kafka.route import Cluster
from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse, Error
from node.wire import codec
from node.wire.api import ALL_APIS, ApiKey, ApiTable
from node.wire.network import Sockets
from node.wire.payloads import api_schema
from node.wire.server import InboundRequest, Server
from node.wire.structs import NO_THROTTLE, build

Answer = Callable[[InboundRequest], None]
ALTER, CREATE, DELETE = (
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
)
CONFIGS, TOPICS, CLUSTER = ApiKey.DESCRIBE_CONFIGS, ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER


@dataclass
class FakeNode:
    """One node; ``script`` holds what it answers next, per API; the last answer stays."""

    id: int
    script: dict[ApiKey, deque[Answer]] = field(default_factory=dict)
    asked: list[ApiKey] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    server: Server | None = None
    apis: ApiTable = field(default_factory=lambda: ALL_APIS)

    def answers(self, api: ApiKey, *answers: Answer) -> None:
        self.script[api] = deque(answers)

    def count(self, api: ApiKey) -> int:
        return self.asked.count(api)

    @property
    def connections(self) -> int:
        return self.server.connections if self.server is not None else 0

    def handle(self, request: InboundRequest) -> None:
        api = ApiKey(request.api_key)
        self.asked.append(api)
        self.bodies.append(request.body)
        waiting = self.script.get(api)
        if not waiting:
            request.reject(f"the test has no answer to {api.name}")
            return
        (waiting.popleft() if len(waiting) > 1 else waiting[0])(request)


@contextlib.asynccontextmanager
async def fake_cluster(*nodes: FakeNode, down: int = 0) -> AsyncIterator[Cluster]:
    """Serve the nodes as n1, n2, ...; ``down`` more nodes have an address where nobody listens."""
    async with contextlib.AsyncExitStack() as stack:
        addresses: dict[str, Address] = {}
        for node in nodes:
            node.server = Server(
                "127.0.0.1", 0, node.handle, apis=node.apis, on_reject=lambda *_: None
            )
            await stack.enter_async_context(node.server)
            addresses[f"n{node.id}"] = Address("127.0.0.1", node.server.port)
        for number in range(len(nodes) + 1, len(nodes) + 1 + down):
            addresses[f"n{number}"] = Address("127.0.0.1", await _unused_port())
        yield Cluster(addresses, {int(name[1:]): name for name in addresses}, Sockets("127.0.0.1"))


async def _unused_port() -> int:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


# --------------------------------------------------------------------------- answers


def hang(_: InboundRequest) -> None:
    """Never answer."""


def drop(request: InboundRequest) -> None:
    """Close the connection instead of an answer."""
    request.reject("as the test wants")


def garbage(request: InboundRequest) -> None:
    """Bytes that are no answer."""
    request.reply(b"\xff" * 7)


def then(first: Callable[[], None], answer: Answer) -> Answer:
    """Do something, then answer."""

    def both(request: InboundRequest) -> None:
        first()
        answer(request)

    return both


def leads(node_id: int) -> Answer:
    """DescribeCluster: who the controller is; -1 = nobody."""

    def answer(request: InboundRequest) -> None:
        request.reply(
            _response(
                request,
                error_code=ErrorCode.none,
                error_message=None,
                endpoint_type=2,
                cluster_id="c",
                controller_id=node_id,
                brokers=(),
                cluster_authorized_operations=-(2**31),
            )
        )

    return answer


def registered(epoch: int) -> Answer:
    """BrokerRegistration: done."""

    def answer(request: InboundRequest) -> None:
        request.reply(_response(request, error_code=ErrorCode.none, broker_epoch=epoch))

    return answer


def lives(*, caught_up: bool) -> Answer:
    """BrokerHeartbeat: the broker is fenced until it has caught up."""

    def answer(request: InboundRequest) -> None:
        said = {"is_caught_up": caught_up, "is_fenced": not caught_up, "should_shut_down": False}
        request.reply(_response(request, error_code=ErrorCode.none, **said))

    return answer


def describes(high_watermark: int) -> Answer:
    """DescribeQuorum: node 1 leads, alone."""

    def answer(request: InboundRequest) -> None:
        quorum = DescribeQuorumResponse(Error.NONE, 1, 5, high_watermark)
        asked = DescribeQuorumRequest()
        request.reply(codec.answer(quorum, request.version, request=asked))

    return answer


def altered(code: int = 0, message: str | None = None) -> Answer:
    """IncrementalAlterConfigs: one row."""

    def answer(request: InboundRequest) -> None:
        asked = request.body.resources[0]
        row = _struct(
            request,
            "AlterConfigsResourceResponse",
            **_error(code, message),
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
        request.reply(_response(request, responses=(row,)))

    return answer


def no_rows(request: InboundRequest) -> None:
    """An answer that is about nothing."""
    request.reply(_response(request, responses=(), results=(), topics=()))


def created(code: int = 0, message: str | None = None, *, id: int | None = 7) -> Answer:  # noqa: A002
    """CreateTopics: one row."""

    def answer(request: InboundRequest) -> None:
        row = _struct(
            request,
            "CreatableTopicResult",
            **_error(code, message),
            name=request.body.topics[0].name,
            topic_id=None if id is None else UUID(int=id),
            configs=(),
        )
        request.reply(_response(request, topics=(row,)))

    return answer


def deleted(code: int = 0, message: str | None = None) -> Answer:
    """DeleteTopics: one row."""

    def answer(request: InboundRequest) -> None:
        name = request.body.topics[0].name
        row = _struct(
            request,
            "DeletableTopicResult",
            **_error(code, message),
            name=name,
            topic_id=None,
        )
        request.reply(_response(request, responses=(row,)))

    return answer


def configs(
    values: Mapping[str, str] | None = None, code: int = 0, message: str | None = None
) -> Answer:
    """DescribeConfigs: one resource with these settings, and a default that nobody set."""

    def answer(request: InboundRequest) -> None:
        asked = request.body.resources[0]
        set_ = [(name, value, 1) for name, value in (values or {}).items()]
        entries = [
            _struct(
                request,
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
            for name, value, source in [*set_, ("segment.bytes", "1048576", 5)]
        ]
        row = _struct(
            request,
            "DescribeConfigsResult",
            **_error(code, message),
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=tuple(entries) if code == 0 else (),
        )
        request.reply(_response(request, results=(row,)))

    return answer


def topic(id: int = 7, *, partitions: int = 1, code: int = 0) -> Answer:  # noqa: A002
    """Metadata: one topic."""

    def answer(request: InboundRequest) -> None:
        parts = tuple(
            _struct(
                request,
                "MetadataResponsePartition",
                error_code=ErrorCode.none,
                partition_index=number,
                leader_id=1,
                leader_epoch=0,
                replica_nodes=(1,),
                isr_nodes=(1,),
                offline_replicas=(),
            )
            for number in range(partitions)
        )
        row = _struct(
            request,
            "MetadataResponseTopic",
            error_code=ErrorCode(code),
            name=request.body.topics[0].name,
            topic_id=UUID(int=id),
            is_internal=False,
            partitions=parts,
            topic_authorized_operations=-(2**31),
        )
        request.reply(_metadata(request, row))

    return answer


def metadata_refused(request: InboundRequest) -> None:
    """Metadata: what a controller answers that is not the active one."""
    request.reply(_metadata(request))


def _metadata(request: InboundRequest, *rows: Any) -> Any:
    return _response(request, brokers=(), cluster_id="c", controller_id=1, topics=rows)


def _response(request: InboundRequest, **values: Any) -> Any:
    response = api_schema(request.api_key, request.version).response
    return build(response, throttle_time=NO_THROTTLE, **values)


def _struct(request: InboundRequest, struct: str, /, **values: Any) -> Any:
    return build(api_schema(request.api_key, request.version).response, struct, **values)


def _error(code: int, message: str | None) -> dict[str, Any]:
    return {"error_code": ErrorCode(code), "error_message": message}
