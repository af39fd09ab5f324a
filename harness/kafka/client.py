"""A Kafka admin client for the harness: registers and topics over the wire, outcomes told apart.

One client belongs to one node (its *home*). Writes and linearizable reads go to the active
controller, which the home is asked for; a refusal that says "nothing was written" is tried again
at the new controller until the op's time is up. A read that failed changed nothing, whatever went
wrong; a write that failed after it left is indefinite, and is never sent a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from kio.schema.create_topics.v7.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from harness.contracts.clients import Outcome, TopicView
from harness.kafka import errors as kafka_errors
from harness.kafka.route import (
    REQUEST_TIMEOUT_S,
    Cluster,
    NotController,
    Route,
    deadline_s,
    request,
    the_row,
)
from node.wire.network import Caller

TOPIC_RESOURCE = 2
TOPIC_CONFIG = 1  # config source of what somebody set on the topic
SET = 0  # config operation
REGISTER_CONFIG = "retention.ms"
READ_TIMEOUT_S = 4.0  # of a whole read: below the interpreter's, so a slow read retires nobody


class KafkaClient:
    """Implements ``RegisterClient`` and ``TopicClient`` of ``harness.contracts``."""

    def __init__(self, cluster: Cluster, home: str = "") -> None:
        self._cluster = cluster
        self._route = Route(cluster, home)

    async def open(self, node: str) -> KafkaClient:
        """A client whose home is ``node``; connects when first used."""
        return KafkaClient(self._cluster, node)

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()

    # ------------------------------------------------------------------ registers

    async def read(self, key: str) -> int | None:
        """Linearizable read at the active controller, behind its barrier."""
        async with bounded():
            return await self._route.at_controller(
                lambda connection: _read_register(connection, self._register(key)), deadline_s()
            )

    async def read_local(self, key: str) -> int | None:
        """Tell what the home's own image says."""
        async with bounded():
            home = await self._route.connect(self._route.home)
            return await _read_register(home, self._register(key))

    async def write(self, key: str, value: int) -> None:
        """SET the register's config; makes its topic, once, when there is none."""
        by_s = deadline_s()
        change = _set_config(self._register(key), REGISTER_CONFIG, str(value))

        async def attempt(connection: Caller) -> None:
            the_row((await request(connection, change)).responses)

        try:
            await self._route.to_change(attempt, by_s)
        except Outcome as outcome:
            if outcome.error != UNKNOWN_TOPIC:
                raise
            await self._make_register(key, by_s)
            await self._route.to_change(attempt, by_s)

    def _register(self, key: str) -> str:
        """The topic of a register of this cluster's."""
        return self._cluster.prefix + register_topic(key)

    async def _make_register(self, key: str, by_s: float) -> None:
        """Create the topic behind a register; somebody else having done so is as good."""
        try:
            await self._create(self._register(key), 1, {}, by_s)
        except Outcome as outcome:
            if outcome.error != EXISTS:
                # the write itself was refused, and is not tried again
                raise Outcome(f"create-topic: {outcome.error}", definite=True) from outcome

    # ------------------------------------------------------------------ topics

    async def create(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> str:
        """CreateTopics of one topic; returns its id."""
        return await self._create(self._cluster.prefix + name, partitions, configs, deadline_s())

    async def _create(
        self, name: str, partitions: int, configs: Mapping[str, str], by_s: float
    ) -> str:
        wanted = CreateTopicsRequest(
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
            timeout=REQUEST_TIMEOUT,
            validate_only=False,
        )

        async def attempt(connection: Caller) -> str:
            row = the_row((await request(connection, wanted)).topics)
            if row.topic_id is None:
                raise Outcome("bad-answer: a created topic without an id", definite=False)
            return str(row.topic_id.hex)

        return await self._route.to_change(attempt, by_s)

    async def delete(self, name: str) -> None:
        """DeleteTopics of one name."""
        name = self._cluster.prefix + name
        unwanted = DeleteTopicsRequest(
            topics=(DeleteTopicState(name=TopicName(name), topic_id=None),),
            timeout=REQUEST_TIMEOUT,
        )

        async def attempt(connection: Caller) -> None:
            the_row((await request(connection, unwanted)).responses)

        await self._route.to_change(attempt, deadline_s())

    async def describe(self, name: str) -> TopicView | None:
        """Id, partitions and settings of a topic as they were together at one moment.

        Where controllers do not answer Metadata, by a lookout; true only when nothing is written.

        The settings take a second request, so the id is looked at again after it: a topic with
        the same id before and after was there in between, and ids are never used twice.
        """
        if self._cluster.lookouts:
            return (await self.describe_local(name))[1]
        async with bounded():
            return await self._route.at_controller(
                lambda connection: _describe(connection, self._cluster.prefix + name), deadline_s()
            )

    async def describe_local(self, name: str) -> tuple[str, TopicView | None]:
        """As ``describe``, at the home, or at a node that answers for it."""
        node = self._cluster.lookout(self._route.home)
        async with bounded():
            connection = await self._route.connect(node)
            return node, await _describe(connection, self._cluster.prefix + name)


async def _read_register(connection: Caller, topic: str) -> int | None:
    configs = await _configs(connection, topic, REGISTER_CONFIG)
    text = None if configs is None else configs.get(REGISTER_CONFIG)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise Outcome(f"bad-answer: a register holds {text!r}", definite=True) from None


async def _describe(connection: Caller, name: str) -> TopicView | None:
    while True:
        before = await _topic(connection, name)
        if before is None:
            return None
        configs = await _configs(connection, name)
        if configs is not None and before == await _topic(connection, name):
            return TopicView(before[0], before[1], configs)


async def _configs(connection: Caller, topic: str, *keys: str) -> dict[str, str] | None:
    """These settings of a topic, or all of them; None when there is no such topic."""
    asked = DescribeConfigsResource(
        resource_type=i8(TOPIC_RESOURCE), resource_name=topic, configuration_keys=keys or None
    )
    question = DescribeConfigsRequest(
        resources=(asked,), include_synonyms=False, include_documentation=False
    )
    try:
        row = the_row((await request(connection, question)).results)
    except Outcome as outcome:
        if outcome.error != UNKNOWN_TOPIC:
            raise
        return None
    # only what somebody set; a controller of Apache Kafka lists defaults too
    return {c.name: c.value for c in row.configs if int(c.config_source) == TOPIC_CONFIG}


async def _topic(connection: Caller, name: str) -> tuple[str, int] | None:
    """(id, partitions) of a topic, None when there is none of that name."""
    asked = MetadataRequestTopic(topic_id=None, name=TopicName(name))
    question = MetadataRequest(
        topics=(asked,),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    rows = (await request(connection, question)).topics
    if not rows:  # this version has no error of the whole answer: so a read is refused
        raise NotController
    try:
        row = the_row(rows)
    except Outcome as outcome:
        if outcome.error != UNKNOWN_TOPIC:
            raise
        return None
    if row.topic_id is None:
        raise Outcome("bad-answer: a topic without an id", definite=True)
    return str(row.topic_id.hex), len(row.partitions)


@asynccontextmanager
async def bounded() -> AsyncIterator[None]:
    """End a read that takes too long; its connection closes with it."""
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            yield
    except TimeoutError:
        raise Outcome("timed-out", definite=True) from None


def _set_config(topic: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=name, config_operation=i8(SET), value=value)
    resource = AlterConfigsResource(
        resource_type=i8(TOPIC_RESOURCE), resource_name=topic, configs=(change,)
    )
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def register_topic(key: str) -> str:
    """The topic whose config holds the register ``key``."""
    return f"register-{key}"


UNKNOWN_TOPIC = kafka_errors.describe(kafka_errors.UNKNOWN_TOPIC_OR_PARTITION).name
EXISTS = kafka_errors.describe(kafka_errors.TOPIC_ALREADY_EXISTS).name
REQUEST_TIMEOUT = i32Timedelta.parse(timedelta(seconds=REQUEST_TIMEOUT_S))
