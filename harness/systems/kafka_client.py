"""A Kafka admin client for the harness: registers and topics over the wire, outcomes told apart.

One client belongs to one node (its *home*). Writes and linearizable reads go to the active
controller, which the home is asked for; a refusal that says "nothing was written" is tried again
at the new controller until the op's time is up. Anything else that goes wrong after a request
left is indefinite.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from kio.schema.create_topics.v7.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from harness.protocols import Address, Outcome, TopicView
from harness.systems import kafka_errors
from node.core.types import Endpoint
from node.driver.admin import NOTHING_WRITTEN
from node.wire.connection import Connection
from node.wire.errors import (
    ConnectFailed,
    Disconnected,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
    WireError,
)

TOPIC_RESOURCE = 2
REGISTER_CONFIG = "retention.ms"
REQUEST_TIMEOUT_S = 1.5
CONNECT_TIMEOUT_S = 0.5
OP_TIMEOUT_S = 2.5  # for finding the controller, with all the tries that needs
RETRY_S = 0.05
CONTROLLERS = 2  # endpoint type in DescribeCluster (KIP-919)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the nodes are: address by name, and name by Kafka node id."""

    addresses: Mapping[str, Address]
    names: Mapping[int, str]
    source_host: str | None


@dataclass(slots=True)
class KafkaClient:
    """Implements ``RegisterClient`` and ``TopicClient`` of ``harness.protocols``."""

    cluster: Cluster
    home: str = ""
    _connections: dict[str, Connection] = field(default_factory=dict)
    _controller: str | None = None

    async def open(self, node: str) -> KafkaClient:
        """A client whose home is ``node``; connects when first used."""
        return KafkaClient(self.cluster, node)

    async def close(self) -> None:
        """Drop all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ------------------------------------------------------------------ registers

    async def read(self, key: str) -> int | None:
        """Linearizable read at the active controller, behind its barrier."""
        return await self._at_controller(lambda c: self._read_register(c, key))

    async def read_local(self, key: str) -> int | None:
        """What the home's own image says."""
        return await self._read_register(await self._connect(self.home), key)

    async def write(self, key: str, value: int) -> None:
        """SET the register's config; makes its topic when there is none."""
        request = IncrementalAlterConfigsRequest(
            resources=(
                AlterConfigsResource(
                    resource_type=i8(TOPIC_RESOURCE),
                    resource_name=register_topic(key),
                    configs=(
                        AlterableConfig(
                            name=REGISTER_CONFIG, config_operation=i8(0), value=str(value)
                        ),
                    ),
                ),
            ),
            validate_only=False,
        )

        async def attempt(connection: Connection) -> None:
            response = await self._request(connection, request)
            _check(response.responses[0])

        try:
            await self._at_controller(attempt)
        except Outcome as outcome:
            if outcome.error != "unknown-topic":
                raise
            await self._make_register(key)
            await self._at_controller(attempt)

    async def _make_register(self, key: str) -> None:
        """Create the topic behind a register; somebody else having done so is as good."""
        try:
            await self.create(register_topic(key), partitions=1, configs={})
        except Outcome as outcome:
            if outcome.error != "topic-already-exists":
                # the write itself was not tried yet
                raise Outcome(f"create-topic: {outcome.error}", definite=True) from outcome

    async def _read_register(self, connection: Connection, key: str) -> int | None:
        configs = await self._configs(connection, register_topic(key))
        text = None if configs is None else configs.get(REGISTER_CONFIG)
        return None if text is None else int(text)

    async def _configs(self, connection: Connection, topic: str) -> dict[str, str] | None:
        """The settings of a topic, None when there is no such topic."""
        response = await self._request(
            connection,
            DescribeConfigsRequest(
                resources=(
                    DescribeConfigsResource(
                        resource_type=i8(TOPIC_RESOURCE),
                        resource_name=topic,
                        configuration_keys=None,
                    ),
                ),
                include_synonyms=False,
                include_documentation=False,
            ),
        )
        result = response.results[0]
        if int(result.error_code) == kafka_errors.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        _check(result)
        # only what somebody set; a controller of Apache Kafka lists defaults too
        return {c.name: c.value for c in result.configs if c.config_source == 1}

    # ------------------------------------------------------------------ topics

    async def create(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> str:
        """CreateTopics of one topic; returns its id."""
        request = CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=TopicName(name),
                    num_partitions=i32(partitions),
                    replication_factor=i16(-1),
                    assignments=(),
                    configs=tuple(
                        CreatableTopicConfig(name=k, value=v) for k, v in sorted(configs.items())
                    ),
                ),
            ),
            timeout=_timeout(),
            validate_only=False,
        )

        async def attempt(connection: Connection) -> str:
            result = (await self._request(connection, request)).topics[0]
            _check(result)
            return "" if result.topic_id is None else result.topic_id.hex

        return await self._at_controller(attempt)

    async def delete(self, name: str) -> None:
        """DeleteTopics of one name."""
        request = DeleteTopicsRequest(
            topics=(DeleteTopicState(name=TopicName(name), topic_id=None),), timeout=_timeout()
        )

        async def attempt(connection: Connection) -> None:
            _check((await self._request(connection, request)).responses[0])

        await self._at_controller(attempt)

    async def describe(self, name: str) -> TopicView | None:
        """Id, partitions and settings of a topic as they were together at one moment.

        The settings take a second request, so the id is looked at again after it: a topic with
        the same id before and after was there in between, and ids are never used twice.
        """

        async def attempt(connection: Connection) -> TopicView | None:
            while True:
                before = await self._topic(connection, name)
                if before is None:
                    return None
                configs = await self._configs(connection, name)
                after = await self._topic(connection, name)
                if configs is not None and before == after:
                    return TopicView(before[0], before[1], configs)

        return await self._at_controller(attempt)

    async def _topic(self, connection: Connection, name: str) -> tuple[str, int] | None:
        """(id, partitions) of a topic."""
        response = await self._request(
            connection,
            MetadataRequest(
                topics=(MetadataRequestTopic(topic_id=None, name=TopicName(name)),),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ),
        )
        if not response.topics:
            raise Outcome(NOTHING_WRITTEN, definite=True)  # not the controller (any more)
        topic = response.topics[0]
        if int(topic.error_code) == kafka_errors.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        _check(topic)
        return ("" if topic.topic_id is None else topic.topic_id.hex, len(topic.partitions))

    # ------------------------------------------------------------------ finding the controller

    async def _at_controller(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """Do ``attempt`` at the active controller; again while nothing was done at all."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + OP_TIMEOUT_S
        while True:
            try:
                return await attempt(await self._connect(await self._find_controller()))
            except Outcome as outcome:
                retriable = outcome.definite and outcome.error in RETRIABLE
                if not retriable or loop.time() + RETRY_S >= deadline_s:
                    raise
                self._controller = None
            await asyncio.sleep(RETRY_S)

    async def _find_controller(self) -> str:
        if self._controller is None:
            response = await self._request(
                await self._connect(self.home),
                DescribeClusterRequest(
                    include_cluster_authorized_operations=False, endpoint_type=i8(CONTROLLERS)
                ),
                definite=True,
            )
            name = self.cluster.names.get(int(response.controller_id))
            if name is None:
                raise Outcome("no-controller", definite=True)
            self._controller = name
        return self._controller

    async def _connect(self, node: str) -> Connection:
        connection = self._connections.get(node)
        if connection is not None and connection.is_open:
            return connection
        connection = None
        address = self.cluster.addresses[node]
        try:
            connection = await Connection.open(
                Endpoint(address.host, address.port),
                source_host=self.cluster.source_host,
                connect_timeout_s=CONNECT_TIMEOUT_S,
            )
            # A relay accepts for a node that is down; only an answer proves that somebody is there.
            await connection.negotiate(CONNECT_TIMEOUT_S)
        except WireError as error:
            if connection is not None:
                connection.close()
            if node == self._controller:
                self._controller = None
            raise Outcome("connect-failed", definite=True) from error
        self._connections[node] = connection
        return connection

    async def _request(
        self, connection: Connection, request: Any, *, definite: bool = False
    ) -> Any:
        """One request; what the connection does wrong is an outcome, definite when told so."""
        try:
            return await connection.request(request, timeout_s=REQUEST_TIMEOUT_S)
        except WireError as error:
            self._controller = None
            label, nothing_sent = _LABELS.get(type(error), ("wire", False))
            raise Outcome(label, definite=definite or nothing_sent) from error


# What the error says, and whether the request surely did nothing.
_LABELS: Mapping[type[WireError], tuple[str, bool]] = {
    ConnectFailed: ("connect-failed", True),
    UnsupportedVersionError: ("unsupported-version", True),
    RequestTimedOut: ("timed-out", False),
    Disconnected: ("disconnected", False),
    RemoteProtocolError: ("bad-answer", False),
}
RETRIABLE = frozenset({"no-controller", "not-controller", "connect-failed", NOTHING_WRITTEN})


def register_topic(key: str) -> str:
    """The topic whose config holds the register ``key``."""
    return f"register-{key}"


def _timeout() -> i32Timedelta:
    return i32Timedelta.parse(timedelta(seconds=REQUEST_TIMEOUT_S))


def _check(row: Any) -> None:
    """Raise Outcome when a result row has an error."""
    code = int(row.error_code)
    if code == 0:
        return
    info = kafka_errors.describe(code)
    message = getattr(row, "error_message", None)
    definite = info.definite or message == NOTHING_WRITTEN
    raise Outcome(info.name, definite=definite)
